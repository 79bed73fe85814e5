"""Model files: every kind of model comes back with the same predictions, and a forged file does nothing but get refused."""

from __future__ import annotations

import json
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import observal as ob
from observal.campaign import load_model
from observal.errors import InvalidInput
from observal.exchange.model_file import save_model
from observal.methods.committee import ConstantClassifier
from observal.tables import TableEncoder
from tests.campaigns import small_data
from tests.hostile import assert_cheaply_refused, comment_of, members_of, nothing_happens, write_members, zip_bomb


@pytest.fixture(scope="module")
def rows():
    return small_data()[1].X[:, :2]


def fit(method, budget=8, **goals):
    """Return what a method returns after a few labels."""
    logged, pool = small_data()
    answers = np.where(pool.X @ [1.0, -0.5] > 0.3, "good", "bad")
    return ob.run(logged, pool, lambda ids: answers[ids], method, label_budget=budget, **goals).estimator


def fit_plane(method, n_features=2):
    X = np.random.default_rng(0).uniform(size=(40, n_features))
    answers = np.where(X[:, 0] > 0.4, "good", "bad")
    logged = ob.LoggedData(X[:20], answers[:20], 0.5)
    return ob.run(logged, ob.Pool(X[20:], 0.5), lambda ids: answers[20:][ids], method).estimator


PLAIN = {
    **{f"newton {f}": lambda f=f: fit(ob.NewtonVC(features=f, batch=8)) for f in ("linear", "splines", "fourier")},
    "newton objective": lambda: fit(ob.NewtonVC(batch=8), objective="recall=0.9"),
    "auto": lambda: fit(ob.AutoVC()),
    **{f"auto {n}": lambda n=n: fit(ob.AutoVC(learners=(n,))) for n in ob.AutoVC().learners},
    "auto objective": lambda: fit(ob.AutoVC(), objective={"good": 5}),
    "stream": lambda: fit(ob.NewtonVC(order="stream", batch=8)),
    "active": lambda: fit(ob.ActiveVC(passes=1)),
    "active 18": lambda: fit(ob.Active18()),
    "passive": lambda: fit(ob.Passive(passes=1)),
    "thresholds": lambda: fit_plane(ob.ExactDBAL(ob.Thresholds(), gamma=0.1), 1),
    "stumps": lambda: fit_plane(ob.ExactDBAL(ob.Stumps(), gamma=0.1)),
    "half-planes": lambda: fit_plane(ob.ExactDBAL(ob.HalfPlanes(), gamma=0.1)),
    "rectangles": lambda: fit_plane(ob.ExactDBAL(ob.Rectangles(), gamma=0.1)),
    "constant": lambda: ConstantClassifier(np.array(["bad", "good"]), "good"),
}


def check_same(model, classifier, X):
    assert model.predict(X).tolist() == classifier.predict(X).tolist()
    for scores in ("predict_proba", "decision_function"):
        assert hasattr(model, scores) == hasattr(classifier, scores)
        if hasattr(classifier, scores):
            assert np.array_equal(getattr(model, scores)(X), getattr(classifier, scores)(X))


@pytest.mark.parametrize("name", PLAIN)
def test_model_predicts_the_same_after_loading(name, tmp_path, rows):
    classifier = PLAIN[name]()
    save_model(tmp_path / "m.model", classifier, None)
    with nothing_happens():
        model = load_model(tmp_path / "m.model")
    check_same(model, classifier, rows[:, :1] if name == "thresholds" else rows)


def test_loading_a_model_imports_neither_skops_nor_numba(tmp_path):
    import subprocess

    save_model(tmp_path / "m.model", fit(ob.AutoVC()), None)
    code = "import sys, observal as ob; ob.load_model(sys.argv[1]); print([m for m in ('skops', 'numba', 'lightgbm') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.model"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "labels", [["a", "b", "c"], [0, 1, 2], [0.5, 1.5, 2.5]], ids=["text", "whole numbers", "fractions"]
)
def test_classes_keep_their_type(tmp_path, labels):
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.array(labels)[np.digitize(X[:, 0], [-0.5, 0.5])]
    logged, pool = ob.LoggedData(X[:60], y[:60], 0.5), ob.Pool(X[60:], 0.5)
    classifier = ob.run(logged, pool, lambda ids: y[60:][ids], ob.AutoVC(), label_budget=6).estimator
    save_model(tmp_path / "m.model", classifier, None)
    model = load_model(tmp_path / "m.model")
    assert model.classes_.dtype == classifier.classes_.dtype
    check_same(model, classifier, X)


def test_classes_that_are_dates_are_refused_when_saving(tmp_path):
    dates = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]")
    with pytest.raises(InvalidInput, match="text or numbers"):
        save_model(tmp_path / "m.model", ConstantClassifier(dates, dates[0]), None)
    assert not (tmp_path / "m.model").exists()


# -- estimators of other libraries -------------------------------------------------------------------------------


class Homemade(GaussianNB):
    """A classifier of the user's own."""


OTHERS = {
    "forest": lambda: fit(ob.CommitteeVC(RandomForestClassifier(n_estimators=3), members=2, batch=4)),
    "pipeline": lambda: fit(ob.CommitteeVC(make_pipeline(StandardScaler(), LogisticRegression()), members=2, batch=4)),
    "homemade": lambda: fit(ob.CommitteeVC(Homemade(), members=2, batch=4)),
    "in a blend": lambda: fit(ob.AutoVC(learners=("kernel", ("bayes", GaussianNB())))),
}


@pytest.mark.parametrize("name", OTHERS)
def test_estimator_of_another_library_needs_trust(name, tmp_path, rows):
    import skops.io

    classifier = OTHERS[name]()
    path = tmp_path / "m.skops"
    save_model(path, classifier, None)
    with pytest.raises(InvalidInput, match=r"opened by skops, which loads only types .* trusted=\[…\]"):
        load_model(path)
    with pytest.raises(InvalidInput, match="put it in a list"):
        load_model(path, trusted="sklearn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = load_model(path, trusted=skops.io.get_untrusted_types(file=path))
    check_same(model, classifier, rows)


def test_type_that_was_not_named_is_refused(tmp_path):
    save_model(tmp_path / "m.skops", OTHERS["homemade"](), None)
    with pytest.raises(InvalidInput, match="Homemade"):
        load_model(tmp_path / "m.skops", trusted=["my_package.Other"])


# -- forged files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Models with an encoder, with trees, and linear ones."""
    folder = tmp_path_factory.mktemp("models")
    encoder = TableEncoder.learn([pd.DataFrame({"x": [1.0, 2.0, 3.0], "c": ["a", "b", "a"]})])
    newton = fit(ob.NewtonVC(features="splines", batch=8, ridge=0.1, tempering=0.5))
    save_model(folder / "newton.model", newton, None)
    save_model(folder / "table.model", newton, encoder)
    save_model(folder / "active.model", fit(ob.ActiveVC(passes=1)), None)
    for name in ("forest", "additive", "kernel"):
        save_model(folder / f"{name}.model", fit(ob.AutoVC(learners=(name,))), None)
    return folder


def refused(path, match="."):
    with nothing_happens(), pytest.raises(InvalidInput, match=match) as error:
        load_model(path)
    assert "\n" not in str(error.value)


def forge(path, to, change):
    """Write a copy of a model with its document changed, and a digest that fits."""
    members = members_of(path)
    document = json.loads(members["model.json"])
    change(document)
    return write_members(to, members | {"model.json": json.dumps(document).encode()}, sealed=True)


def find(document, kind):
    """Return the first record of a kind in a document."""
    if isinstance(document, dict):
        if document.get("record") == kind:
            return document
        document = list(document.values())
    for value in document if isinstance(document, list) else ():
        if (record := find(value, kind)) is not None:
            return record
    return None


def replace_array(exported, tmp_path, kind, name, values):
    """Forge a model of trees with another array."""
    source = exported / "forest.model"
    members = members_of(source)
    number = find(json.loads(members["model.json"]), kind)[name]["array"]
    content = np.frombuffer(members[f"{number}.bin"], "<i4").copy()
    content[0] = values
    return write_members(tmp_path / "evil.model", members | {f"{number}.bin": content.tobytes()}, sealed=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("column", 2**31 - 1),
        ("column", -1),
        ("roots", 2**31 - 1),
        ("roots", -1),
        ("left", 2**31 - 1),
        ("left", -(2**31)),
        ("right", 0),
        ("feature", 2**31 - 1),
    ],
)
def test_trees_that_lead_out_of_memory_are_refused(exported, tmp_path, name, value):
    refused(replace_array(exported, tmp_path, "TreeChances", name, value), "do not match")


def reshape(kind, name, shape):
    def change(document):
        find(document, kind)[name]["shape"] = shape

    return change


def put(kind, name, value):
    def change(document):
        find(document, kind)[name] = value

    return change


def rules(document):
    return document["encoder"]["fields"]["rules"]["tuple"]


def first_rule(document):
    return rules(document)[0]["fields"]


FORGERIES = [
    ("active", reshape("LinearClassifier", "coef_", [0, 10**9]), "an array has"),
    ("active", reshape("LinearClassifier", "coef_", [1, 10**9]), "an array has"),
    ("active", reshape("LinearClassifier", "coef_", [1, -1]), "an array has"),
    ("active", reshape("LinearClassifier", "coef_", [1, True]), "an array has"),
    ("active", reshape("LinearClassifier", "coef_", [1, 2**64]), "an array has"),
    ("active", reshape("LinearClassifier", "intercept_", []), "an array has"),
    ("active", put("LinearClassifier", "coef_", {"array": 1, "shape": [1, 2]}), "not in order"),
    ("active", put("LinearClassifier", "intercept_", {"array": 0, "shape": [1]}), "not in order"),
    ("active", put("LinearClassifier", "coef_", "x"), "instead of a dict"),
    ("active", put("LinearClassifier", "classes_", {"dtype": "U", "values": ["a"]}), "classes"),
    ("active", put("LinearClassifier", "classes_", {"dtype": "U", "values": ["a", "a"]}), "distinct"),
    ("active", put("LinearClassifier", "classes_", {"dtype": "U", "values": ["a", 3]}), "text or numbers"),
    ("active", put("LinearClassifier", "classes_", {"dtype": "O", "values": [None, []]}), "text or numbers"),
    ("active", put("LinearClassifier", "classes_", {"dtype": "V9", "values": [1, 2]}), "text or numbers"),
    ("active", put("LinearClassifier", "classes_", {"dtype": "U", "values": ["a", "b" * 600_000]}), "too long"),
    ("active", put("LinearClassifier", "record", "os.system"), "unexpected record type"),
    ("active", put("LinearClassifier", "record", "TableEncoder"), "unexpected record type"),
    ("active", put("LinearClassifier", "predict", "x"), "missing or unknown fields"),
    ("active", lambda document: find(document, "LinearClassifier").pop("coef_"), "missing or unknown fields"),
    ("active", lambda document: document.update(format=2), "format"),
    ("active", lambda document: document.update(classifier=[]), "instead of a record"),
    ("active", lambda document: document.pop("encoder"), "damaged"),
    ("newton", put("NewtonClassifier", "intercept_", {"array": 6, "shape": [2]}), "an array has"),
    ("newton", reshape("Spline", "knots", [10, 1]), "an array has"),
    ("newton", lambda document: find(document, "FeatureMap").update(transformers=[]), "not in order|do not match"),
    ("forest", put("TreeChances", "n_features", 10**9), "do not match"),
    ("forest", put("TreeChances", "n_features", -1), "not a count"),
    ("forest", put("TreeChances", "sharpness", "nan"), "do not match"),
    ("forest", put("TreeChances", "as_log_odds", 1), "not a flag"),
    ("kernel", put("KernelChances", "gamma", [1]), "not a number"),
    ("kernel", put("Blend", "names", ["a", 5]), "not a text"),
    ("kernel", put("Blend", "members", []), "not in order|do not fit|members"),
    ("table", lambda document: first_rule(document).update(kind="code"), "must be of type"),
    ("table", lambda document: first_rule(document).update(categories="abc"), "must be of type"),
    ("table", lambda document: rules(document).append(rules(document)[0]), "two rules"),
    ("table", lambda document: document.update(encoder={"type": "Thresholds", "fields": {}}), "not a table encoder"),
    ("table", lambda document: document.update(encoder={"type": "os.system", "fields": {}}), "names the class"),
]


@pytest.mark.parametrize(("name", "change", "match"), FORGERIES)
def test_forged_document_is_refused(exported, tmp_path, name, change, match):
    refused(forge(exported / f"{name}.model", tmp_path / "evil.model", change), match)


def test_files_that_claim_much_memory_are_refused(exported, tmp_path):
    members = members_of(exported / "active.model")
    many = members | {"model.json": b'{"format": 1, "classifier": [' + b"[]," * 3_000_000 + b"0]}"}

    def share(document):
        blend = document["classifier"]
        blend["members"] = blend["members"] * 400

    tracemalloc.start()
    try:
        refused(write_members(tmp_path / "a.model", many, sealed=True), "more than")
        refused(forge(exported / "kernel.model", tmp_path / "a.model", share), "not in order")
        (tmp_path / "a.model").write_bytes(zip_bomb("model.json", 100 << 20))
        refused(tmp_path / "a.model", "compressed")
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


def share_all(document):
    document["classifier"]["members"] *= 400


LARGE = {
    "no rows of a billion columns": ("active", reshape("LinearClassifier", "coef_", [0, 10**9]), "an array has"),
    "400 learners that share their arrays": ("kernel", share_all, "not in order"),
}


@pytest.mark.parametrize("what", LARGE)
def test_small_model_that_asks_for_gigabytes_is_refused_cheaply(exported, tmp_path, what):
    name, change, match = LARGE[what]
    path = forge(exported / f"{name}.model", tmp_path / "large.model", change)
    assert_cheaply_refused(path, "load_model(path)", match)


def test_model_that_leads_out_of_memory_is_refused_cheaply(exported, tmp_path):
    path = replace_array(exported, tmp_path, "TreeChances", "column", 2**31 - 1)
    assert_cheaply_refused(path, "load_model(path)", "do not match")


def test_file_that_is_not_a_model_is_refused(exported, tmp_path):
    members, comment = members_of(exported / "table.model"), comment_of(exported / "table.model")
    evil = tmp_path / "a.model"
    refused(write_members(evil, members, compression=zipfile.ZIP_DEFLATED), "compressed")
    refused(write_members(evil, members | {"../x.bin": b""}, sealed=True), "unexpected member")
    refused(write_members(evil, members | {"99.bin": b"x"}, sealed=True), "more members")
    refused(write_members(evil, {"model.json": "[" * 100_000}, sealed=True), "damaged")
    refused(write_members(evil, members | {"0.bin": members["0.bin"][:-1]}, sealed=True), "should have")
    refused(write_members(evil, members | {"0.bin": members["0.bin"] + b"x"}, sealed=True), "should have")
    refused(write_members(evil, members | {"0.bin": members["0.bin"][:-1] + b"\x01"}, comment=comment), "digest")
    refused(write_members(evil, members), "digest is missing")
    refused(tmp_path / "none.model", "no file")
    evil.write_text("not a zip")
    refused(evil, "not a model")


def test_saving_a_model_leaves_nothing_behind(tmp_path, monkeypatch):
    first, second = (ConstantClassifier(np.array([0, 1]), label) for label in (0, 1))
    (tmp_path / "other").write_text("mine")
    (tmp_path / "m.model.part").symlink_to(tmp_path / "other")
    save_model(tmp_path / "m.model", first, None)
    monkeypatch.setattr("observal.journal.records.seal", lambda file: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save_model(tmp_path / "m.model", second, None, force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.model", "m.model.part", "other"]
    assert (tmp_path / "other").read_text() == "mine"
    assert load_model(tmp_path / "m.model").predict([[0.0]]).tolist() == [0]
