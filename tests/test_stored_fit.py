"""What was fitted is stored, and gives to the last bit what a new fit gives; nobody depends on it."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
import sqlalchemy as sa

import observal as ob
from observal.campaign import Campaign
from observal.errors import CampaignUnavailable
from observal.journal import stored_fit
from observal.journal.archive import seal
from observal.journal.sql.schema import fit as fit_table
from observal.journal.stored_fit import LARGEST_FIT, pack_fit, unpack_fit
from observal.methods import auto, newton
from observal.server.worker import _Process
from tests.postgres import postgres  # noqa: F401  a fixture

RNG = np.random.default_rng(5)
X = RNG.normal(size=(420, 4))
CLASSES = np.array(["bad", "good", "great"])
SIDE = X[:, 0] + 0.6 * X[:, 1] * X[:, 2] + 0.3 * RNG.normal(size=420)
CHANCE = np.where(X[:, 0] > 0.0, 0.5, 0.1)
SHOWN = RNG.random(220) < CHANCE[:220]
RUNS = {
    "AutoVC": ({"method": ob.AutoVC(batch=12)}, 2),
    "AutoVC, recall": ({"method": ob.AutoVC(batch=12), "objective": "recall=0.8"}, 2),
    "AutoVC, three classes": ({"method": ob.AutoVC(batch=12)}, 3),
    "AutoVC, a stream": ({"method": ob.AutoVC(batch=12, order="stream")}, 2),
    "NewtonVC": ({"method": ob.NewtonVC(batch=12, features="auto", stop_below=0.0)}, 2),
    "NewtonVC, balanced": ({"method": ob.NewtonVC(batch=12, stop_below=0.0), "objective": "balanced error"}, 2),
    "CommitteeVC": ({"method": "committee"}, 2),
}


def truth(n_classes):
    return CLASSES[np.digitize(SIDE, [0.0, 0.9])] if n_classes == 3 else CLASSES[(SIDE > 0.0).astype(int)]


def make(where, name, **more):
    settings, n_classes = RUNS[name]
    if settings["method"] == "committee":
        from sklearn.tree import DecisionTreeClassifier

        settings = {"method": ob.CommitteeVC(DecisionTreeClassifier(max_depth=3), batch=12)}
    y = truth(n_classes)
    logged = ob.LoggedData(X[:220], np.where(SHOWN, y[:220], None), CHANCE[:220])
    pool = ob.Pool(X[220:], CHANCE[220:])
    Campaign.create_from_arrays(where, logged, pool, label_budget=150, tolerance=None, **(settings | more))
    return y[220:]


def execute(where, statement, values=None):
    """Run a statement on the database of a campaign, whatever the campaign thinks of it."""
    engine = Campaign.open(where).engine.journal._store._engine
    with engine.connect() as connection, connection.execution_options(observal_writing=True).begin():
        result = connection.execute(statement, values) if values else connection.execute(statement)
        return result.fetchall() if result.returns_rows else None


def stored(where):
    """Return the stored fits: of the log alone, and the latest."""
    return execute(where, sa.select(fit_table).order_by(fit_table.c.round))


def replace_latest(where, content):
    execute(where, sa.update(fit_table).where(fit_table.c.round > 0).values(content=content))


def answer(where, y, rounds):
    for _ in range(rounds):
        ids = Campaign.open(where).ask().ids
        Campaign.open(where).tell(ids, y[list(ids)])


def readings(where, with_judged=True):
    """Return all that a campaign tells people, each from a campaign of its own, as commands do."""
    opened = [Campaign.open(where) for _ in range(6)]
    judged = opened[2].judged() if with_judged else None
    return {
        "intervals": opened[0].intervals(),
        "chances": opened[1].estimator.predict_proba(X).tolist(),
        "classes": opened[1].estimator.predict(X).tolist(),
        "judged": judged and [part.tolist() for part in judged[:4]],
        "gain": opened[3].may_gain(50),
        "round": describe_last(opened[4]),
        "returned": opened[5].returned_round,
    }


def describe_last(labelling):
    with labelling._replaying() as replay:
        round_ = replay.round(replay.closed)
        return round_.labels, round_.clip, round_.disagreement, dict(round_.details)


def plan_of(where):
    campaign = Campaign.open(where)
    campaign.open_round()
    plan = campaign.plans[-1]
    return {
        name: getattr(plan, name)
        for name in ("positions", "action", "query_probability", "reason", "inferred", "doubt", "near", "near_gaps")
    }


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) if isinstance(one[name], np.ndarray) else one[name] == other[name]
        for name in one
    )


def refuse_fits(monkeypatch):
    def refuse(*_):
        raise AssertionError("it was fitted again")

    for fitter in (auto.AutoFitter, newton.NewtonFitter):
        monkeypatch.setattr(fitter, "__call__", refuse)
    monkeypatch.setattr(auto.AutoFitter, "refit", refuse)
    monkeypatch.setattr(newton, "fit_logistic", refuse)
    monkeypatch.setattr(newton, "tune", refuse)


@pytest.mark.parametrize("name", RUNS)
def test_stored_fit_gives_what_a_new_fit_gives(tmp_path, name):
    kept, fresh = tmp_path / "kept.db", tmp_path / "fresh.db"
    y = make(kept, name)
    make(fresh, name)
    for _ in range(3):
        for _ in range(2):  # the second time all of it is stored
            expected = readings(kept)
        execute(fresh, sa.delete(fit_table))
        found = Campaign.open(fresh)
        assert expected["intervals"] == found.intervals()
        assert expected["chances"] == found.estimator.predict_proba(X).tolist()
        assert expected["round"] == describe_last(found)
        execute(fresh, sa.delete(fit_table))
        assert same(plan_of(kept), plan_of(fresh))
        for where in (kept, fresh):
            answer(where, y, 1)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, "sqlite") for name in RUNS if "Committee" not in name),
        ("AutoVC", "postgresql"),
        ("NewtonVC", "postgresql"),
    ],
)
def test_no_command_fits_what_is_stored(tmp_path, monkeypatch, request, name, place):
    where = tmp_path / "c.db" if place == "sqlite" else request.getfixturevalue("postgres")()
    y = make(where, name)
    answer(where, y, 3)
    # Judging rows one by one, for the report, asks models of earlier rounds unless their plans say which rows were near.
    judges = name.startswith("AutoVC") and "stream" not in name
    expected = readings(where, judges)
    refuse_fits(monkeypatch)
    assert readings(where, judges) == expected
    plan_of(where)
    Campaign.open(where).export(tmp_path / "one.model")
    assert ob.load_model(tmp_path / "one.model").predict_proba(X).tolist() == expected["chances"]


def test_next_round_keeps_choices_without_fitting_the_round_that_made_them(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    y = make(where, "AutoVC")
    answer(where, y, 5)
    fitted = []
    fit = auto.AutoFitter.__call__
    monkeypatch.setattr(
        auto.AutoFitter, "__call__", lambda self, state: fitted.append(state.rounds) or fit(self, state)
    )
    plan_of(where)
    assert fitted == [5]
    Campaign.open(where).may_gain(50)
    assert fitted == [5]


def test_people_are_told_of_a_fit_and_of_no_stored_one(tmp_path):
    where = tmp_path / "c.db"
    answer(where, make(where, "NewtonVC"), 1)
    told = []
    for _ in range(2):
        campaign = Campaign.open(where)
        campaign.engine.on_fit = told.append
        campaign.intervals()
    assert told == [int(SHOWN.sum()) + 12]


def test_page_measures_stored_rounds_without_a_fit(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    answer(where, make(where, "AutoVC"), 2)
    expected = [Campaign.open(where).intervals(k)["error"].high for k in range(3)]
    refuse_fits(monkeypatch)
    sent = []

    class Pipe:
        def send(self, message):
            sent.append(message)

        def poll(self):
            return False

    assert _Process(str(where), Pipe())._measure()
    assert [round_["error"]["high"] for round_ in sent[-1][1]] == expected


def test_forecast_needs_no_earlier_fit(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    y = make(where, "AutoVC")
    answer(where, y, 9)
    expected = Campaign.open(where).may_gain(20)
    session = Campaign.open(where).session()
    assert expected == session.may_gain(20) > 0.0
    refuse_fits(monkeypatch)
    assert Campaign.open(where).may_gain(20) == expected


def test_corrected_label_is_fitted_again_and_the_same_label_is_not(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    y = make(where, "NewtonVC")
    answer(where, y, 3)
    before = readings(where)
    campaign = Campaign.open(where)
    row = campaign.result().queries["id"][0]
    other = "bad" if y[row] == "good" else "good"
    campaign.tell([row], [other], correct=True)
    corrected = readings(where)
    assert corrected["intervals"] != before["intervals"]
    assert corrected["intervals"] == Campaign.open(where).session().intervals()
    Campaign.open(where).tell([row], [y[row]], correct=True)
    assert readings(where) == before
    undone = Campaign.open(where)
    assert undone.undo().id is not None
    assert undone.intervals() == undone.session().intervals() != before["intervals"]


def test_extended_campaign_is_fitted_again(tmp_path):
    where = tmp_path / "c.db"
    y = make(where, "AutoVC")
    answer(where, y, 2)
    readings(where)
    more = ob.Pool(X[:40] + 0.1, CHANCE[:40], ids=np.arange(200, 240))
    Campaign.open(where).extend(pool=more)
    found = Campaign.open(where)
    assert found.intervals() == found.session().intervals()


@pytest.mark.parametrize("package", ["observal", "numpy", "scipy", "scikit-learn", "lightgbm", "numba", "python"])
def test_fit_by_other_versions_is_not_used(tmp_path, monkeypatch, package):
    where = tmp_path / "c.db"
    answer(where, make(where, "NewtonVC"), 1)
    readings(where)
    others = stored_fit.versions() | {package: "0.0.0"}
    monkeypatch.setattr(stored_fit, "versions", lambda: others)
    refuse_fits(monkeypatch)
    with pytest.raises(AssertionError, match="fitted again"):
        Campaign.open(where).estimator  # noqa: B018


def test_campaign_that_cannot_be_written_is_still_read(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    answer(where, make(where, "NewtonVC"), 1)
    execute(where, sa.delete(fit_table))
    campaign = Campaign.open(where)
    campaign.engine.journal._store._read_only = True
    with pytest.raises(CampaignUnavailable):
        campaign.tell([], [])
    assert campaign.intervals() == Campaign.open(where).session().intervals()
    assert stored(where) == []


def test_interrupted_store_loses_nothing(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    y = make(where, "NewtonVC")
    answer(where, y, 1)
    with monkeypatch.context() as patch:
        patch.setattr("observal.journal.engine.pack_fit", lambda fit: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Campaign.open(where).ask()
    campaign = Campaign.open(where)
    assert len(campaign.plans) == 1  # the next ask opens the round
    assert campaign.status().labels == 12
    campaign.check()
    assert len(campaign.ask().ids) == 12
    assert campaign.intervals() == campaign.session().intervals()


# -- what others may have written ------------------------------------------------------------------------------------


def forge(where, change):
    """Change the JSON document and the arrays of the latest stored fit, and seal it again."""
    content = stored(where)[-1].content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["fit.json"])
    change(document, members)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in (
            {"fit.json": json.dumps(document).encode()} | {n: p for n, p in members.items() if n != "fit.json"}
        ).items():
            archive.writestr(name, part)
    seal(file)
    assert file.getvalue() != content
    replace_latest(where, file.getvalue())


def set_numbers(path, number):
    """Return a change that sets all numbers of an array of the document."""

    def change(document, members):
        part = document
        for name in path:
            part = part[name]
        name = f"{part['array']}.bin"
        members[name] = np.full(len(members[name]) // 8, number, "<f8").tobytes()

    return change


def set_value(path, value):
    def change(document, members):
        part = document
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value

    return change


REFUSED = {
    "chances out of fold beyond 1": set_numbers(["model", "left_out"], 7.0),
    "chances out of fold that are no numbers": set_numbers(["model", "left_out"], np.nan),
    "weights that are no numbers": set_numbers(["model", "blend", "theta"], np.nan),
    "negative weights": set_numbers(["model", "blend", "theta"], -1.0),
    "other classes": set_value(["model", "blend", "classes_", "values"], ["x", "y"]),
    "a ridge that was never a choice": set_value(["model", "choices", "tuned", "linear"], [1e300]),
    "a kernel that does not exist": set_value(["model", "choices", "tuned", "kernel"], [99.0, 0.1]),
    "settings of nobody": set_value(["model", "choices", "tuned"], {}),
    "chances of intervals beyond 1": set_numbers(["model", "refitted"], 2.0),
    "an interval without end": set_value(["intervals", 0, "interval", "high"], "inf"),
    "an interval of nothing": set_value(["intervals", 0, "interval", "most"], 0.0),
    "no interval for the error": set_value(["intervals", 0, "name"], "mistakes"),
    "another round": set_value(["round"], 1),
    "a model of another kind": set_value(["model"], {"record": "Blend"}),
    "a shape beyond its bytes": set_value(["model", "left_out", "shape"], [1 << 40, 2]),
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    where = tmp_path_factory.mktemp("honest") / "c.db"
    y = make(where, "AutoVC")
    answer(where, y, 2)
    return where, readings(where)


@pytest.mark.parametrize("what", REFUSED)
def test_forged_fit_is_made_again(tmp_path, honest, what):
    where = tmp_path / "c.db"
    where.write_bytes(honest[0].read_bytes())
    forge(where, REFUSED[what])
    assert readings(where) == honest[1]


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 1e308, 0.0])
def test_learners_of_any_numbers_can_be_asked(tmp_path, honest, number):
    where = tmp_path / "c.db"
    where.write_bytes(honest[0].read_bytes())

    def change(document, members):
        model = document["model"]["blend"]
        parts = [
            array
            for member in model["members"]
            for array in member.values()
            if isinstance(array, dict) and "array" in array
        ]
        for part in parts:
            name, size = f"{part['array']}.bin", int(np.prod(part["shape"]))
            if size and len(members[name]) == 8 * size and part is not model["members"][0].get("features"):
                members[name] = np.full(size, number).tobytes()

    forge(where, change)
    with np.errstate(all="ignore"):
        chances = Campaign.open(where).estimator.predict_proba(X)
        assert np.isfinite(chances).all()
        plan = plan_of(where)
    assert np.isfinite(plan["query_probability"]).all()


def newton_changes():
    return {
        "hessian of zeros": set_numbers(["model", "query", "hessian"], 0.0),
        "hessian without numbers": set_numbers(["model", "query", "hessian"], np.nan),
        "coefficients without numbers": set_numbers(["model", "output", "coef"], np.nan),
        "negative weights": set_numbers(["model", "output_weights"], -1.0),
        "a ridge that was never a choice": set_value(["model", "choices", "ridge"], -5.0),
        "features that do not exist": set_value(["model", "choices", "features"], "magic"),
        "a tempering that was never a choice": set_value(["model", "choices", "tempering"], 1e9),
    }


@pytest.mark.parametrize("what", newton_changes())
def test_forged_newton_fit_is_made_again(tmp_path, what):
    where = tmp_path / "c.db"
    answer(where, make(where, "NewtonVC"), 2)
    expected = readings(where)
    forge(where, newton_changes()[what])
    assert readings(where) == expected


def test_damaged_fit_is_made_again(tmp_path, honest):
    where = tmp_path / "c.db"
    where.write_bytes(honest[0].read_bytes())
    content = stored(where)[-1].content
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        at = int(rng.integers(len(damaged)))
        damaged[at] ^= 1 << int(rng.integers(8))
        assert unpack_fit(bytes(damaged[: int(rng.integers(len(damaged)))])) is None
        fit = unpack_fit(bytes(damaged))
        assert fit is None or pack_fit(fit) == content  # some bytes of a zip say nothing
    replace_latest(where, content[:1000])
    assert readings(where) == honest[1]


def test_fit_that_is_too_large_is_neither_read_nor_stored(tmp_path, honest, monkeypatch):
    where = tmp_path / "c.db"
    where.write_bytes(honest[0].read_bytes())
    assert len(stored(where)[0].content) < 1 << 20 < LARGEST_FIT
    monkeypatch.setattr("observal.journal.sql.journal.LARGEST_FIT", 1000)
    monkeypatch.setattr("observal.journal.engine.LARGEST_FIT", 1000)
    before = stored(where)
    assert readings(where) == honest[1]
    assert stored(where) == before


def test_table_with_several_fits_is_not_read(tmp_path, honest):
    where = tmp_path / "c.db"
    where.write_bytes(honest[0].read_bytes())
    assert [row.round for row in stored(where)] == [0, 2]
    for round_ in (7, 8):
        execute(where, sa.insert(fit_table), {"round": round_, "key": "x", "content": b""})
    assert readings(where) == honest[1]


def test_report_compares_with_the_log_alone_without_fitting_it_again(tmp_path, monkeypatch):
    where = tmp_path / "c.db"
    answer(where, make(where, "AutoVC"), 3)
    expected = Campaign.open(where).session().judged_by_first_model().tolist()
    readings(where)
    refuse_fits(monkeypatch)
    assert Campaign.open(where).judged_by_first_model().tolist() == expected


def test_fit_of_the_log_alone_is_stored_once_more_if_it_is_lost(tmp_path):
    where = tmp_path / "c.db"
    answer(where, make(where, "AutoVC"), 2)
    first = stored(where)[0]
    execute(where, sa.delete(fit_table))
    Campaign.open(where).judged_by_first_model()
    assert [row.round for row in stored(where)] == [0, 2]
    before, after = unpack_fit(first.content).model, unpack_fit(stored(where)[0].content).model
    assert after.refitted.tolist() == before.refitted.tolist()
    assert after.blend.theta.tolist() == before.blend.theta.tolist()
