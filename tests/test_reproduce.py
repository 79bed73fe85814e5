"""The paper's figure at tiny sizes: resuming, processes, files, JSON; and, slow, its claims at full size."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from observal.errors import InvalidInput
from observal_research import reproduce as module
from observal_research.curves import Curve
from observal_research.reproduce import ABLATIONS, Specification, reproduce

TINY = Specification(
    trials=2, clip_constants=(0.04, 0.64), learning_rates=(0.01, 1.0), max_labels=60, n_rows=600, n_features=4
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    seen = []
    outcome = reproduce(TINY, folder, jobs=1, progress=lambda done, total: seen.append((done, total)))
    return outcome, folder, seen


def facts(outcome):
    found = outcome.details()
    del found["seconds"]
    return found


def test_grid_is_the_papers():
    spec = Specification()
    assert spec.clip_constants == pytest.approx([0.01, 0.04, 0.16, 0.64, 2.56, 10.24])
    assert spec.learning_rates == pytest.approx([1e-4, 4e-4, 16e-4, 64e-4, 256e-4, 1024e-4, 4096e-4, 1.0])
    assert [len(spec.settings(name)) for name in spec.variants] == [8, 48, 48]
    assert len(spec.units) == 16 * 2 * 3


def test_json_has_the_promised_keys(tiny):
    outcome, _, _ = tiny
    found = json.loads(json.dumps(outcome.to_dict()))
    assert set(found) == {"policies", "seconds"}
    assert list(found["policies"]) == ["certainty", "uncertainty"]
    for methods in found["policies"].values():
        assert list(methods) == ["passive", "active18", "activevc"]
        for name, best in methods.items():
            assert set(best) == {"auc", "auc_se", "params", "curve"}
            assert set(best["params"]) == {"learning_rate"} | ({"clip_constant"} if name != "passive" else set())
            labels, errors = zip(*best["curve"], strict=True)
            assert best["auc"] == pytest.approx(Curve(labels, errors).area(TINY.max_labels))


def test_each_method_is_shown_at_its_best_setting(tiny):
    for found in tiny[0].best.values():
        for best in found.values():
            assert best.areas.mean() == pytest.approx(min(area for _, area in best.grid))
            assert (best.params, pytest.approx(best.areas.mean())) in best.grid


def test_trials_are_paired_and_new():
    first, seed = module._course(TINY, "certainty", 0)
    other, same_seed = module._course(TINY, "uncertainty", 0)
    second, _ = module._course(TINY, "certainty", 1)
    assert seed == same_seed
    assert np.array_equal(first.world.pool.X, other.world.pool.X)
    assert not np.array_equal(first.world.logged.propensity, other.world.logged.propensity)
    assert not np.array_equal(first.world.pool.X, second.world.pool.X)


def test_comparisons_are_paired_over_trials(tiny):
    outcome, _, _ = tiny
    for policy, best in outcome.best.items():
        found = outcome.comparisons(policy)
        difference = best["activevc"].areas - best["passive"].areas
        assert found["auc: activevc − passive"] == pytest.approx((difference.mean(), difference.std()))
        assert set(outcome.order_holds[policy]) == {
            "activevc below active18",
            "activevc below passive",
            "lead over passive grows",
        }


def test_files_are_written(tiny):
    outcome, folder, _ = tiny
    assert {path.name for path in folder.iterdir()} == {
        "results.json", "curves.csv", "figure.png", "figure.svg", "partial.jsonl"
    }  # fmt: skip
    assert (folder / "figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    drawn = " ".join((folder / "figure.svg").read_text(encoding="utf-8").split())
    for word in ("Certainty policy", "Uncertainty policy", "Passive", "Active18", "ActiveVC", "labels bought"):
        assert word in drawn
    assert "Each method is shown at its best setting on test error, as in the paper." in outcome.caption
    stored = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(outcome.details()))
    assert stored["specification"]["trials"] == 2
    with (folder / "curves.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["policy", "method", "labels", "error", "error_se"]
    assert len(rows) == 2 * 3 * (TINY.max_labels + 1)
    best = outcome.best["uncertainty"]["activevc"]
    assert [float(row["error"]) for row in rows[-61:]] == pytest.approx(best.mean.tolist())


def test_table_has_a_row_per_policy_and_method(tiny):
    outcome, _, _ = tiny
    rows = outcome.rows()
    assert len(rows) == 6
    assert all(len(row) == len(outcome.header) for row in rows)
    assert rows[0][:2] == ("certainty", "Passive")


def test_progress_counts_to_the_end(tiny):
    assert tiny[2] == [(done, 12) for done in range(13)]


def test_two_processes_give_the_same(tiny):
    assert facts(reproduce(TINY, jobs=2)) == facts(tiny[0])


def test_interrupted_run_resumes_to_the_same_result(tiny, tmp_path, monkeypatch):
    def interrupt(done, total):
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(TINY, tmp_path, jobs=1, progress=interrupt)
    assert not (tmp_path / "results.json").exists()
    partial = tmp_path / "partial.jsonl"
    assert len(partial.read_text().splitlines()) == 1 + 5
    partial.write_text(partial.read_text()[:-20])  # the power failed while the fifth was being written
    ran = []
    original = module.run_unit
    monkeypatch.setattr(module, "run_unit", lambda *unit: ran.append(unit) or original(*unit))
    resumed = reproduce(TINY, tmp_path, jobs=1, resume=True)
    assert len(ran) == 12 - 4
    assert facts(resumed) == facts(tiny[0])
    assert (tmp_path / "figure.svg").read_bytes() == (tiny[1] / "figure.svg").read_bytes()
    ran.clear()
    assert facts(reproduce(TINY, tmp_path, jobs=1, resume=True)) == facts(tiny[0])
    assert not ran


def test_resume_without_anything_to_resume_starts_afresh(tmp_path, tiny):
    (tmp_path / "partial.jsonl").write_text('{"specifica')
    spec = replace(TINY, methods=("passive",))
    outcome = reproduce(spec, tmp_path, jobs=1, resume=True)
    assert outcome.best["certainty"]["passive"].areas == pytest.approx(tiny[0].best["certainty"]["passive"].areas)


def test_resume_refuses_another_specification(tiny):
    with pytest.raises(InvalidInput, match=r"other options \(seed, trials\)"):
        reproduce(replace(TINY, random_state=1, trials=3), tiny[1], jobs=1, resume=True)


def test_resume_refuses_a_file_that_is_not_its_own(tmp_path):
    (tmp_path / "partial.jsonl").write_text("shopping list\n")
    with pytest.raises(InvalidInput, match="not a file of finished parts"):
        reproduce(TINY, tmp_path, jobs=1, resume=True)


def test_ablations_are_added(tmp_path):
    spec = replace(TINY, methods=("activevc",), ablate=True, policies=("certainty",), clip_constants=(0.04,))
    outcome = reproduce(spec, tmp_path, jobs=1)
    assert list(outcome.to_dict()["policies"]["certainty"]) == ["activevc", *ABLATIONS]
    assert set(outcome.comparisons("certainty")) == {f"auc: activevc − {name}" for name in ABLATIONS}


@pytest.mark.parametrize(
    "change", [{"trials": 1}, {"max_labels": 0}, {"methods": ("magic",)}, {"methods": ()}, {"learning_rates": ()}]
)
def test_specification_that_cannot_be_run_is_refused(change):
    with pytest.raises(InvalidInput):
        replace(TINY, **change)


@pytest.mark.slow
def test_papers_order_holds_at_full_size():
    outcome = reproduce(Specification())
    for policy, claims in outcome.order_holds.items():
        assert all(claims.values()), (policy, claims, outcome.comparisons(policy))
        assert len(claims) == 3
