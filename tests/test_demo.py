"""The demo: it writes what it promises, and what it shows is so."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from observal.campaign import Campaign
from observal.datasets import load_shipped
from observal.errors import CampaignExists
from tests.command import observal


@pytest.fixture
def module(monkeypatch):
    """The demo's module, with fewer labels to buy; the slow test below buys all."""
    from observal.experiments import demo

    monkeypatch.setattr(demo, "LABELS", 20)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # other processes would buy all, and have their own tests
    return demo


def test_demo_writes_figure_campaign_and_report_says_where_and_takes_the_place_of_an_earlier_one(tmp_path, module):
    done = observal("demo", "--trials", 2, "--out", "out/demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    out = tmp_path / "out" / "demo"
    assert (out / "demo.png").stat().st_size > 10_000
    for name in ("demo.png", "demo.db", "report.html"):
        assert f"out/demo/{name}" in done.stdout
    assert done.stdout.rstrip().endswith("report.html")  # where the report is comes last
    assert "the log alone" in done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    assert any(name in page for name in load_shipped("breast_cancer").feature_names)
    for said in ("malignant", "20 more labels were bought", "observal demo --out out/demo"):
        assert said in page
    assert str(tmp_path) not in page
    status = Campaign.open(out / "demo.db").status()
    assert (status.labels, status.stopped) == (20, "the label budget of 20 is spent")
    assert status.random_state == 0
    assert "--seed 0" in page

    module.LABELS = 10
    path, report = module.run_campaign(out, 1)
    assert (path, report) == (out / "demo.db", out / "report.html")
    status = Campaign.open(path).status()
    assert (status.labels, status.random_state) == (10, 1)
    assert "--seed 1" in report.read_text(encoding="utf-8")


def test_trials_can_be_sent_to_other_processes():
    from observal.experiments.demo import run_trial

    assert pickle.loads(pickle.dumps(run_trial)) is run_trial


def test_both_forms_of_a_split_reveal_the_same_labels():
    from observal.experiments.demo import make_trial

    scaled, raw = make_trial(3), make_trial(3, scaled=False)
    assert scaled.pool.ids.tolist() == raw.pool.ids.tolist()
    np.testing.assert_allclose(scaled.pool.propensity, raw.pool.propensity, rtol=1e-6)
    assert scaled.logged.y.tolist() == raw.logged.y.tolist()


@pytest.mark.slow
def test_bought_labels_help_and_chosen_ones_help_more():
    """Sixteen paired splits with fixed seeds: 60 labels lower the error by more than 3 standard errors, and over 0 to 60 labels
    the mean error of the linear fit on chosen rows is lower than that of the same fit on random rows by more than 2.

    Were there no difference, a t of above 3 with 15 degrees of freedom had probability 0.005, and one above 2 had 0.03.
    """
    from observal.experiments.curves import Curve, Estimate
    from observal.experiments.demo import LABELS, run_trial
    from observal.experiments.trials import run_all

    curves = [[Curve(*curve) for curve in found[0]] for found in run_all(run_trial, [(seed,) for seed in range(16)])]
    auto, chosen, at_random, _ = zip(*curves, strict=True)
    for method in (auto, chosen):
        ends = np.array([curve.at([0, LABELS]) for curve in method])
        gain = Estimate.of(ends[:, 0] - ends[:, 1])
        assert gain.mean > 3 * gain.se, gain
    areas = np.array([[curve.area(LABELS) for curve in method] for method in (chosen, at_random)])
    lead = Estimate.of(areas[1] - areas[0])
    assert lead.mean > 2 * lead.se, lead


def test_the_digits_are_made_once_and_shown_as_pictures(tmp_path):
    from observal.experiments.digits import make_digits_campaign
    from observal.server.rows import Rows

    path = make_digits_campaign(tmp_path / "demo")
    campaign = Campaign.open(path)
    status = campaign.status()
    assert (status.classes, status.label_budget, status.pool_rows) == (("no", "yes"), 60, 719)
    assert status.revealed < 50  # the old classifier was timid
    batch = campaign.ask(10)
    (field,) = Rows(batch.rows, campaign.settings).fields(0)
    assert (field["kind"], len(field["pixels"]), len(field["pixels"][0])) == ("pixels", 8, 8)
    campaign.tell(batch.ids[:3], ["yes", "no", "no"])
    assert Campaign.open(make_digits_campaign(tmp_path / "demo")).labels == 3  # a second start goes on with it
    (tmp_path / "digits.db").write_text("mine")
    with pytest.raises(CampaignExists):
        make_digits_campaign(tmp_path)
