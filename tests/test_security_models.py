"""Model files: every kind of model comes back with the same predictions, and no crafted one does anything."""

from __future__ import annotations

import json
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import observal as ob
from observal.campaign import load_model
from observal.errors import InvalidInput
from observal.exchange.model_files.files import make_model, save_model
from observal.tables import TableEncoder
from tests.campaigns import small_data
from tests.hostile import comment_of, members_of, nothing_happens, npy, write_members, zip_bomb


class Homemade(GaussianNB):
    """A classifier of the user's own."""


@pytest.fixture(scope="module")
def rows():
    return small_data()[1].X[:, :2]


def fitted(method, budget=8):
    """Return what a method returns after a few labels."""
    logged, pool = small_data()
    answers = np.where(pool.X @ [1.0, -0.5] > 0.3, "good", "bad")
    return ob.run(logged, pool, lambda ids: answers[ids], method, label_budget=budget).estimator


def one_feature(method):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(40, 1))
    logged = ob.LoggedData(X[:20], np.where(X[:20, 0] > 0.4, "good", "bad"), 0.5)
    return ob.run(
        logged, ob.Pool(X[20:], 0.5), lambda ids: np.where(X[20:][ids, 0] > 0.4, "good", "bad"), method
    ).estimator


def plane(method):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(24, 2))
    answers = np.where(X[:, 0] > 0.4, "good", "bad")
    logged = ob.LoggedData(X[:14], answers[:14], 0.5)
    return ob.run(logged, ob.Pool(X[14:], 0.5), lambda ids: answers[14:][ids], method).estimator


def committee(estimator):
    return ob.CommitteeVC(estimator, members=2, batch=4)


MODELS = {
    **{
        f"newton {f}": lambda f=f: fitted(ob.NewtonVC(features=f, batch=8))
        for f in ("linear", "splines", "fourier", "auto")
    },
    "auto": lambda: fitted(ob.AutoVC()),
    **{f"auto {n}": lambda n=n: fitted(ob.AutoVC(learners=(n,))) for n in ob.AutoVC().learners},
    "auto with another": lambda: fitted(ob.AutoVC(learners=("kernel", ("bayes", GaussianNB())))),
    "stream": lambda: fitted(ob.NewtonVC(order="stream", batch=8)),
    "active": lambda: fitted(ob.ActiveVC(passes=1)),
    "active 18": lambda: fitted(ob.Active18()),
    "passive": lambda: fitted(ob.Passive(passes=1)),
    "thresholds": lambda: one_feature(ob.ExactDBAL(ob.Thresholds(), gamma=0.1)),
    "stumps": lambda: plane(ob.ExactDBAL(ob.Stumps(), gamma=0.1)),
    "half-planes": lambda: plane(ob.ExactDBAL(ob.HalfPlanes(), gamma=0.1)),
    "rectangles": lambda: plane(ob.ExactDBAL(ob.Rectangles(), gamma=0.1)),
    **{
        f"committee {type(e).__name__}": lambda e=e: fitted(committee(e))
        for e in (
            RandomForestClassifier(n_estimators=5),
            ExtraTreesClassifier(n_estimators=5),
            HistGradientBoostingClassifier(max_iter=5),
            GradientBoostingClassifier(n_estimators=5),
            AdaBoostClassifier(n_estimators=3),
            DecisionTreeClassifier(max_leaf_nodes=5),
            LogisticRegression(),
            SGDClassifier(loss="modified_huber"),
            SGDClassifier(),
            GaussianNB(),
            CalibratedClassifierCV(DecisionTreeClassifier(max_depth=3), cv=2, method="isotonic"),
        )
    },
    "committee pipeline": lambda: fitted(
        committee(
            make_pipeline(
                FunctionTransformer(np.tanh),
                StandardScaler(),
                PolynomialFeatures(2),
                RandomForestClassifier(n_estimators=3),
            )
        )
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_comes_back_with_the_same_predictions(name, tmp_path, rows):
    classifier = MODELS[name]()
    X = rows[:, :1] if name == "thresholds" else rows
    save_model(tmp_path / "m.skops", classifier, None)
    with nothing_happens():
        model = load_model(tmp_path / "m.skops")
    assert model.predict(X).tolist() == classifier.predict(X).tolist()
    for chances in ("predict_proba", "decision_function"):
        assert hasattr(model, chances) == hasattr(classifier, chances)
        if hasattr(classifier, chances):
            assert np.array_equal(getattr(model, chances)(X), getattr(classifier, chances)(X))
    about = json.loads(members_of(tmp_path / "m.skops")["observal.json"])
    assert f"{type(classifier).__module__}.{type(classifier).__name__}" in about["classes"]
    assert "sklearn.pipeline.Pipeline" in about["classes"]


def test_three_classes_and_a_constant_come_back(tmp_path, rows):
    y = np.digitize(rows[:, 0], [-0.5, 0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator in (
            GradientBoostingClassifier(n_estimators=3),
            HistGradientBoostingClassifier(max_iter=3),
            LogisticRegression(),
        ):
            save_model(tmp_path / "m.skops", estimator.fit(rows, y), None, force=True)
            assert load_model(tmp_path / "m.skops").predict(rows).tolist() == estimator.predict(rows).tolist()
    from observal.methods.committee import ConstantClassifier

    save_model(tmp_path / "m.skops", ConstantClassifier(np.array(["bad", "good"]), "good"), None, force=True)
    assert load_model(tmp_path / "m.skops").predict(rows).tolist() == ["good"] * len(rows)


def test_a_class_that_is_not_listed_needs_its_exact_name(tmp_path, rows):
    y = np.where(rows[:, 0] > 0, "a", "b")
    for estimator, name in ((SVC(), "sklearn.svm._classes.SVC"), (Homemade(), f"{__name__}.Homemade")):
        save_model(tmp_path / "m.skops", estimator.fit(rows, y), None, force=True)
        for trusted in ((), ["observal.*"], ["sklearn"], [name.upper()], [name.rpartition(".")[0]]):
            with pytest.raises(InvalidInput, match=r"not one of those that a model may contain.*trusted="):
                load_model(tmp_path / "m.skops", trusted=trusted)
        assert (
            load_model(tmp_path / "m.skops", trusted=[name]).predict(rows).tolist() == estimator.predict(rows).tolist()
        )
    with pytest.raises(InvalidInput, match="put it in a list"):
        load_model(tmp_path / "m.skops", trusted=name)


# -- attacks ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model with an encoder, and one with trees."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("models")
    encoder = TableEncoder.learn([pd.DataFrame({"x": [1.0, 2.0, 3.0], "c": ["a", "b", "a"]})]).to_dict()
    newton = fitted(ob.NewtonVC(features="splines", batch=8, ridge=0.1, tempering=0.5))
    save_model(folder / "newton.skops", newton, None)
    save_model(folder / "table.skops", newton, encoder)
    save_model(folder / "forest.skops", fitted(committee(RandomForestClassifier(n_estimators=2, max_depth=3))), None)
    save_model(folder / "boosted.skops", fitted(committee(HistGradientBoostingClassifier(max_iter=2))), None)
    return folder


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module that leaves a file behind when it is imported."""
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'touched')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert "planted" not in sys.modules
    assert not (tmp_path / "touched").exists()


def refused(path, match="."):
    with nothing_happens(), pytest.raises(InvalidInput, match=match) as error:
        load_model(path)
    assert "\n" not in str(error.value)


def node(loader, module, name, **more):
    return {"__loader__": loader, "__module__": module, "__class__": name, "__id__": 1, **more}


def text(value):
    return node("JsonNode", "builtins", "str", content=json.dumps(value), is_json=True)


def items(*nodes):
    return node("ListNode", "builtins", "list", content=list(nodes))


def arguments(*nodes):
    return node("TupleNode", "builtins", "tuple", content=list(nodes))


def mapping(**nodes):
    kinds = items(*(node("TypeNode", "builtins", "str") for _ in nodes))
    return node("DictNode", "builtins", "dict", content=nodes, key_types=kinds)


RUN = text("touch touched")
OBJECT = {"content": mapping(a=RUN)}
NAMED = [
    ("observal.journal.session_file", "os"),
    ("observal.journal.session_file.os", "system"),
    ("observal.exchange.model_files.reader", "importlib"),
    ("observal.cli", "main"),
    ("observal.__main__", "x"),
    ("observal.nope", "x"),
    ("observal.journal.archive", "replacing"),
    ("observal.session", "Session"),
    ("os", "system"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("builtins", "open"),
    ("subprocess", "Popen"),
    ("planted", "Thing"),
    ("antigravity", "x"),
    ("numpy", "memmap"),
    ("numpy", "load"),
    ("numpy.f2py", "compile"),
    ("sklearn.utils", "all_estimators"),
    ("sklearn.datasets", "load_svmlight_file"),
    ("sklearn.svm._classes", "SVC"),
    ("pathlib", "Path"),
    ("tempfile", "TemporaryDirectory"),
    ("sys", "exit"),
    ("", ""),
    (None, None),
]
LOADERS = [
    lambda m, c: node("ObjectNode", m, c, **OBJECT),
    lambda m, c: node("ObjectNode", m, c),
    lambda m, c: node("FunctionNode", m, c),
    lambda m, c: node("TypeNode", m, c),
    lambda m, c: node("ConstructorFromReduceNode", m, c, content=arguments(RUN)),
    lambda m, c: node("MethodNode", m, c, content={"func": "system", "obj": node("ObjectNode", m, c)}),
    lambda m, c: node("PartialNode", m, c, content={"func": node("FunctionNode", m, c), "args": arguments(RUN)}),
    lambda m, c: node("OperatorFuncNode", "operator", "methodcaller", attrs=arguments(text("system"), RUN)),
    lambda m, c: node("LossNode", m, c, __reduce__={"args": arguments(RUN)}, content=mapping()),
    lambda m, c: node("TreeNode", m, c, __reduce__={"args": arguments(RUN)}, content=mapping()),
    lambda m, c: node("DictNode", m, c, content={"a": RUN}, key_types=items(node("TypeNode", "builtins", "str"))),
    lambda m, c: node("DictNode", "builtins", "dict", content={"true": RUN}, key_types=items(node("TypeNode", m, c))),
    lambda m, c: node("ListNode", m, c, content=[RUN]),
    lambda m, c: node("SetNode", m, c, content=[RUN]),
    lambda m, c: node("TupleNode", m, c, content=[RUN]),
    lambda m, c: node("NdArrayNode", m, c, type="numpy", file="1.npy"),
    lambda m, c: node("DefaultDictNode", m, c, content={"main": mapping(), "default_factory": node("TypeNode", m, c)}),
    lambda m, c: node("QuantileForestNode", m, c, __reduce__={"args": arguments()}, content=mapping()),
    lambda m, c: node("BytesNode", m, c, file="schema.json"),
    lambda m, c: node("SparseMatrixNode", m, c, type="scipy", file="1.npz"),
    lambda m, c: node("CachedNode", m, c),
]


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_no_name_in_a_file_is_imported_or_called(named, tmp_path, planted, exported, monkeypatch):
    monkeypatch.chdir(tmp_path)
    members = members_of(exported / "newton.skops")
    schema = json.loads(members["schema.json"])
    for protocol in (0, 1, 2):
        for loader in LOADERS:
            evil = loader(*named)
            inside = json.loads(members["schema.json"])
            inside["content"]["content"]["steps"]["content"].insert(0, arguments(text("evil"), evil))
            alone = {**evil, "protocol": protocol, "_skops_version": schema["_skops_version"]}
            for crafted in (alone, {**inside, "protocol": protocol}):
                changed = members | {"schema.json": json.dumps(crafted).encode()}
                refused(write_members(tmp_path / "evil.skops", changed, sealed=True))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evil.skops", "planted.py"]


def test_a_random_generator_or_a_void_calls_nothing(tmp_path, exported):
    evil = node("RandomGeneratorNode", "os", "system", content={"bit_generator": mapping(bit_generator=text("seed"))})
    big = node("NdArrayNode", "numpy", "void", type="numpy", file="1.npy")
    one = npy("{'descr': '<i8', 'fortran_order': False, 'shape': ()}", (1 << 40).to_bytes(8, "little"))
    for crafted in (evil, big):
        schema = json.dumps({**crafted, "protocol": 2}).encode()
        refused(write_members(tmp_path / "evil.skops", {"schema.json": schema, "1.npy": one}))


def changed(path, to, change, name="schema.json"):
    """Write a forger's copy of a model with its schema changed."""
    members = members_of(path)
    schema = json.loads(members[name])
    change(schema)
    return write_members(to, members | {name: json.dumps(schema).encode()}, sealed=True)


def deep(schema):
    for _ in range(150):
        schema["content"] = items(schema["content"])
    return schema


def steps(schema):
    return schema["content"]["content"]["steps"]["content"]


def classifier(schema):
    return steps(schema)[-1]["content"][1]["content"]["content"]["classifier"]


def attributes(schema):
    return classifier(schema)["content"]["content"]


SHAPES = [
    (deep, "damaged"),
    (lambda s: s.update(protocol=99), "newer skops"),
    (lambda s: s.pop("protocol"), "damaged"),
    (lambda s: s.update(content=s["content"]["content"]["steps"]), "damaged"),
    (lambda s: s.update(__class__="FeatureUnion"), "not contain a campaign's classifier"),
    (lambda s: steps(s).clear(), "damaged"),
    (lambda s: steps(s).reverse() or steps(s).insert(0, arguments(text("a"), text("b"))), "step that observal"),
    (lambda s: classifier(s).update(text(5)), "damaged"),
    (lambda s: attributes(s).update(classes_=text("good")), "must be of type"),
    (lambda s: attributes(s).update(coef_=text(1.0)), "must be of type"),
    (lambda s: attributes(s).update(coef_=attributes(s)["intercept_"]), "damaged"),
    (lambda s: attributes(s).pop("coef_"), "damaged"),
    (lambda s: attributes(s).update(feature_map=text(None)), "damaged"),
    (lambda s: attributes(s)["feature_map"]["content"]["content"].update(mean=text("x")), "must be of type"),
    (
        lambda s: attributes(s)["feature_map"]["content"]["content"]["transformers"]["content"].append(text("x")),
        "features come from",
    ),
]


@pytest.mark.parametrize(("change", "match"), SHAPES)
def test_what_is_no_model_is_refused(exported, tmp_path, change, match):
    refused(changed(exported / "newton.skops", tmp_path / "evil.skops", change), match)


def test_a_model_that_claims_much_memory_is_refused(exported, tmp_path):
    members = members_of(exported / "newton.skops")
    first = next(name for name in members if name.endswith(".npy"))
    huge = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}")
    objects = npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"\x80\x04cos\nsystem\n.")

    def wide(schema):
        made = attributes(schema)["feature_map"]["content"]["content"]["transformers"]["content"][0]
        made["content"]["content"]["n_features_out_"] = text(10**9)

    tracemalloc.start()
    try:
        refused(write_members(tmp_path / "a.skops", members | {first: huge}, sealed=True), "should have")
        refused(write_members(tmp_path / "a.skops", members | {first: objects}, sealed=True), "type object")
        refused(changed(exported / "newton.skops", tmp_path / "a.skops", wide), "do not match")
        (tmp_path / "a.skops").write_bytes(zip_bomb("schema.json", 100 << 20))
        refused(tmp_path / "a.skops", "compressed")
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()
    refused(write_members(tmp_path / "a.skops", members, compression=zipfile.ZIP_DEFLATED), "compressed")
    refused(write_members(tmp_path / "a.skops", members | {"../x.npy": b""}, sealed=True), "unexpected member")
    refused(write_members(tmp_path / "a.skops", {"schema.json": "[" * 100_000}), "damaged")
    refused(tmp_path / "none.skops", "no file")


def test_nodes_that_claim_to_be_each_other_are_read_as_they_stand(exported, tmp_path, rows):
    def same(schema, number=7):
        for value in schema.values() if isinstance(schema, dict) else schema:
            if isinstance(value, dict | list):
                same(value)
        if isinstance(schema, dict) and "__id__" in schema:
            schema["__id__"] = number

    crafted = changed(exported / "newton.skops", tmp_path / "same.skops", same)
    with nothing_happens():
        assert (
            load_model(crafted).predict(rows).tolist() == load_model(exported / "newton.skops").predict(rows).tolist()
        )


TREES = {
    "forest": (
        "left_child",
        [("left_child", 10**9), ("right_child", -7), ("left_child", 0), ("feature", 99), ("feature", -5)],
    ),
    "boosted": ("left", [("left", 10**9), ("right", 10**6), ("left", 0), ("feature_idx", 99), ("feature_idx", -5)]),
}


@pytest.mark.parametrize("kind", TREES)
def test_trees_that_lead_out_of_memory_are_refused(exported, tmp_path, kind):
    members = members_of(exported / f"{kind}.skops")
    field, attacks = TREES[kind]
    with zipfile.ZipFile(exported / f"{kind}.skops") as archive:
        arrays = {n: np.lib.format.read_array(archive.open(n)) for n in members if n.endswith(".npy")}
    trees = {n: a for n, a in arrays.items() if a.dtype.names and field in a.dtype.names and len(a) > 1}
    assert trees
    name, nodes = next(iter(trees.items()))
    for column, value in attacks:
        bad = nodes.copy()
        bad[column][0] = np.array(value).astype(bad[column].dtype)
        with (tmp_path / "a.npy").open("wb") as file:
            np.lib.format.write_array(file, bad)
        forged = members | {name: (tmp_path / "a.npy").read_bytes()}
        refused(write_members(tmp_path / "evil.skops", forged, sealed=True), "a tree (has|reads)|parts of a tree")


def test_a_tree_without_its_width_is_refused(exported, tmp_path):
    def narrow(schema):
        if isinstance(schema, dict):
            if schema.get("__class__") == "DecisionTreeClassifier" and "tree_" in schema["content"]["content"]:
                content = schema["content"]
                del content["content"]["n_features_in_"]
                content["key_types"]["content"].pop()
            schema = list(schema.values())
        for value in schema if isinstance(schema, list) else ():
            narrow(value)

    refused(changed(exported / "forest.skops", tmp_path / "evil.skops", narrow), "do not match")


def test_model_that_does_not_match_its_digest_is_refused(exported, tmp_path):
    members, comment = members_of(exported / "table.skops"), comment_of(exported / "table.skops")
    array = next(name for name in members if name.endswith(".npy"))
    other = members | {array: members[array][:-1] + b"\x01"}
    refused(write_members(tmp_path / "a.skops", other, comment=comment), "digest")
    refused(write_members(tmp_path / "a.skops", members), "digest is missing")


def test_saving_a_model_leaves_nothing_behind(tmp_path, monkeypatch):
    (tmp_path / "other").write_text("mine")
    (tmp_path / "m.skops.part").symlink_to(tmp_path / "other")
    save_model(tmp_path / "m.skops", GaussianNB().fit([[0.0], [1.0]], [0, 1]), None)
    monkeypatch.setattr("observal.exchange.model_files.files.seal", lambda file: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save_model(tmp_path / "m.skops", GaussianNB().fit([[0.0], [1.0]], [1, 0]), None, force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "m.skops",
        "m.skops.part",
        "other",
    ]  # the link is somebody's own
    assert (tmp_path / "other").read_text() == "mine"
    assert load_model(tmp_path / "m.skops").predict([[0.0]]).tolist() == [0]
    assert make_model(GaussianNB(), None).steps[0][0] == "classifier"
