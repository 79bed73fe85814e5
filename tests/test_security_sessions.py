"""Session files as an attacker or a bad disk would make them: each is refused in one sentence, and nothing happens."""

from __future__ import annotations

import json
import sys
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pytest

import observal as ob
from observal.errors import InvalidInput, NotACampaign
from observal.journal.codec import ArraysBeside, decode, encode
from observal.problem.arrow_stream import Budget, pack_table
from observal.problem.column_groups import ColumnGroups
from observal.problem.interval import Interval
from observal.problem.plan import Plan
from observal.problem.result import Recorded
from tests.hostile import assert_cheaply_refused, comment_of, members_of, nothing_happens, npy, write_members, zip_bomb
from tests.test_session import session


@pytest.fixture
def saved(tmp_path):
    live, truth = session(label_budget=6)
    query = live.ask(3)
    live.tell(query.ids, [truth[i] for i in query.ids])
    live.save(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module that leaves a file behind when it is imported."""
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'touched')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert "planted" not in sys.modules
    assert not (tmp_path / "touched").exists()


def forged(path, change, to="forged"):
    """Write a copy of a session whose record was changed, with the digest that a forger would give it."""
    members = members_of(path)
    content = json.loads(members["record.json"])
    change(content["record"])
    content = json.loads(json.dumps(content))  # what was put in two places is two values from here on
    arrays = {}
    number_arrays(content["record"], members, arrays)
    return write_members(path.with_name(to), {"record.json": json.dumps(content).encode(), **arrays}, sealed=True)


def number_arrays(value, members, arrays):
    """Number the arrays of a record in the order in which they are read; one that is in two places is stored twice."""
    if isinstance(value, dict) and f"{value.get('array')}.npy" in members:
        content, value["array"] = members[f"{value['array']}.npy"], len(arrays)
        arrays[f"{value['array']}.npy"] = content
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        number_arrays(item, members, arrays)


def refused(path, match="."):
    with nothing_happens(), pytest.raises(InvalidInput, match=match) as error:
        ob.Session.load(path)
    assert "\n" not in str(error.value)


NAMES = [
    *("observal.__main__:x", "observal.nope:x", "observal.journal.session_file:os", "observal.cli:main", "os:system"),
    *(
        "builtins:eval",
        "planted:x",
        "subprocess:Popen",
        "observal.session:Session",
        "antigravity:x",
        "",
        7,
        None,
        ["Plan"],
    ),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("entry", ["logged", "pool", "method"])
def test_only_listed_classes_are_rebuilt(saved, planted, name, entry):
    refused(forged(saved, lambda record: record[entry].update(type=name)), "does not have")


@pytest.mark.parametrize("name", NAMES)
def test_journal_names_only_listed_classes_too(planted, name):
    from observal.journal.codec import ENTRIES, decode_entry

    for entry in ENTRIES:
        with nothing_happens(), pytest.raises(NotACampaign):
            decode_entry(entry, {"type": name, "fields": {"command": "true"}})


def deep(levels):
    value = 0
    for _ in range(levels):
        value = {"list": [value]}
    return value


def events_of(record):
    return record["events"]["list"]


def part_of(record, kind, name):
    """Return the pair of a payload, [name, value], that has a name; of the last event of a kind."""
    pairs = [event["tuple"][3]["list"] for event in events_of(record) if event["tuple"][2] == kind][-1]
    return next(pair["tuple"] for pair in pairs if pair["tuple"][0] == name)


def plan_of(record):
    return part_of(record, "round", "plan")[1]["fields"]


def answers_of(record):
    return part_of(record, "answered", "answers")[1]["list"]


def rounds_of(record):
    return [number for number, event in enumerate(events_of(record)) if event["tuple"][2] == "round"]


def drop_rounds(record):
    for number in reversed(rounds_of(record)):
        events_of(record).pop(number)


JSON_ATTACKS = [
    (lambda r: r.update(events=deep(200)), "nested too deeply"),
    (lambda r: r["logged"]["fields"].update(X={"array": 99}), "no member"),
    (lambda r: r["logged"]["fields"].update(X={"array": "../../etc/passwd"}), "number of an array"),
    (lambda r: r["logged"]["fields"].update(X={"array": -1}), "number of an array"),
    (lambda r: r["logged"]["fields"].update(propensity="all"), "propensities"),
    (lambda r: r["logged"]["fields"].update(classes=5), "two classes"),
    (lambda r: r["logged"]["fields"].pop("y"), "cannot be built"),
    (lambda r: r["pool"]["fields"].update(ids={"objects": [{"list": []}] * 60}), "cannot be built|distinct"),
    (lambda r: r["pool"]["fields"].update(X={"csr": {"data": 1}}), "cannot be read"),
    (lambda r: r["pool"]["fields"].update(ids={"text": ["eval", "1"]}), "cannot be read"),
    (lambda r: r["pool"]["fields"].update(ids={"date": ["date", "tomorrow"]}), "cannot be read"),
    (lambda r: r["method"]["fields"].update(confidence="high"), "must be of type float"),
    (lambda r: r["method"]["fields"].update(hypotheses=3), "must be of type"),
    (lambda r: r.update(method=3), "method must be"),
    (lambda r: r.update(logged=r["pool"]), "is not a session"),
    (lambda r: part_of(r, "round", "plan").__setitem__(1, r["pool"]), "is not a session"),
    (lambda r: r.update(events=None), "is not a session"),
    (lambda r: r.update(events={"list": [1]}), "is not a session"),
    (lambda r: events_of(r)[0]["tuple"].pop(), "is not a session"),
    (lambda r: events_of(r)[0]["tuple"].__setitem__(1, 7), "lacks its time, actor or kind"),
    (lambda r: events_of(r)[0]["tuple"].__setitem__(2, "levitated"), "not expected"),
    (lambda r: events_of(r)[0]["tuple"].__setitem__(2, "created"), "wrong place"),
    (lambda r: answers_of(r)[0]["tuple"].__setitem__(1, 2), "a class is unknown"),
    (lambda r: answers_of(r)[0]["tuple"].__setitem__(1, True), "a class is unknown"),
    (lambda r: answers_of(r)[0]["tuple"].__setitem__(1, "good"), "a class is unknown"),
    (lambda r: answers_of(r)[0]["tuple"].__setitem__(0, 60), "no pool row 60"),
    (lambda r: answers_of(r)[0]["tuple"].__setitem__(0, 59), "never asked about"),
    (drop_rounds, "never asked about"),
    (lambda r: r.update(random_state=-1), "random_state"),
    (lambda r: r.update(label_budget="7"), "label_budget"),
    (lambda r: r.pop("random_state"), "is not a session"),
    (lambda r: r.pop("logged"), "is not a session"),
    (lambda r: events_of(r).append(events_of(r)[rounds_of(r)[-1]]), "asked about before"),
    (lambda r: plan_of(r).update(reasons={"tuple": []}), "reason"),
    (lambda r: plan_of(r).update(reasons={"tuple": [1, 2, 3, 4]}), "must be of type"),
    (lambda r: plan_of(r).update(positions=r["logged"]["fields"]["ids"]), "one length|of each kind"),
    (lambda r: plan_of(r).update(shuffled="no"), "must be of type bool"),
]


@pytest.mark.parametrize(("change", "match"), JSON_ATTACKS)
def test_mismatched_record_is_refused(saved, change, match):
    refused(forged(saved, change), match)


ARRAYS = [
    (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"), "should have"),
    (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (40000000000, 2)}", bytes(64)), "should have"),
    (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -8)}", bytes(64)), "shape"),
    (npy("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)}"), "shape"),
    (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"\x80\x04cos\nsystem\n."), "type object"),
    (npy("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (1,)}", bytes(8)), "values of type"),
    (npy("{'descr': '|V8', 'fortran_order': False, 'shape': (8,)}", bytes(64)), "values of type"),
    (npy("{'descr': '<c16', 'fortran_order': False, 'shape': (4,)}", bytes(64)), "values of type"),
    (npy("{'descr': '|b1', 'fortran_order': False, 'shape': (64,)}", bytes([7] * 64)), "booleans"),
    (npy("{'descr': '<U1', 'fortran_order': False, 'shape': (16,)}", b"\xff" * 64), "characters"),
    (npy("__import__('os').system('true')"), "damaged"),
    (npy("(" * 2000), "damaged"),
    (b"\x93NUMPY\x09\x00", "damaged"),
    (b"", "damaged"),
]


@pytest.mark.parametrize(("array", "match"), ARRAYS)
def test_arrays_are_checked_before_they_take_memory(saved, array, match):
    members = members_of(saved) | {"0.npy": array}
    path = write_members(saved.with_name("forged"), members, sealed=True)
    tracemalloc.start()
    try:
        refused(path, match)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_array_that_is_referenced_often_is_refused(saved):
    members = members_of(saved)
    content = json.loads(members["record.json"])
    content["record"]["notes"] = {"tuple": [{"array": 999}] * 2500}
    members["record.json"] = json.dumps(content).encode()
    members["999.npy"] = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (500000,)}", bytes(4_000_000))
    path = write_members(saved.with_name("forged"), members, sealed=True)
    assert_cheaply_refused(path, "ob.Session.load(path)", "not in order")


def test_table_that_unpacks_to_gigabytes_is_refused(saved):
    zeros = pa.array(np.zeros(1 << 21))
    packed = pack_table(pa.table({str(k): zeros for k in range(300)}), "zstd")  # 5 GB
    assert len(packed) < 1 << 20
    members = members_of(saved)
    content = json.loads(members["record.json"])
    content["record"]["logged"]["fields"]["X"] = {"frame": {"array": 0}, "library": "pyarrow", "what": "x"}
    members["record.json"] = json.dumps(content).encode()
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(packed)},)}}"
    path = write_members(saved.with_name("forged"), members | {"0.npy": npy(header, packed)}, sealed=True)
    assert_cheaply_refused(path, "ob.Session.load(path)", "unpacks to more than")


def test_document_of_many_lists_is_refused(saved):
    members = members_of(saved)
    lists = (
        b'{"tuple": [' + b"[]," * 5_000_000 + b"[]]}"
    )  # 15 MB here, 360 MB in memory, and as much again once it is decoded
    members["record.json"] = members["record.json"].replace(b'"notes": {"tuple": []}', b'"notes": ' + lists)
    assert len(members["record.json"]) > len(lists)
    path = write_members(saved.with_name("forged"), members, sealed=True)
    assert_cheaply_refused(path, "ob.Session.load(path)", "more than 4,194,304 lists")


def test_many_tables_share_one_budget(saved):
    packed = pack_table(pa.table({"x": pa.array(np.zeros(1 << 23))}), "zstd")  # 67 MB, and so allowed alone
    members = members_of(saved)
    content = json.loads(members["record.json"])
    first = len(members) - 1
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(packed)},)}}"
    frames = [{"frame": {"array": first + k}, "library": "pyarrow", "what": "x"} for k in range(50)]
    content["record"]["notes"] = {"tuple": frames}
    members["record.json"] = json.dumps(content).encode()
    members |= {f"{first + k}.npy": npy(header, packed) for k in range(50)}
    path = write_members(saved.with_name("forged"), members, sealed=True)
    assert path.stat().st_size < 1 << 20
    assert_cheaply_refused(path, "ob.Session.load(path)", r"unpacks to more than 0\.1 GB, too much for its size")


@pytest.mark.parametrize("column", ["positions", "action", "inferred", "reason", "query_probability"])
@pytest.mark.parametrize("value", [-3, 100, 10**15])
def test_plans_that_lead_out_of_the_pool_are_refused(saved, column, value):
    members = members_of(saved)
    fields = plan_of(json.loads(members["record.json"])["record"])
    name = f"{fields[column]['array']}.npy"
    with zipfile.ZipFile(saved) as archive, archive.open(name) as member:
        array = np.lib.format.read_array(member)
    array = array.astype(np.float64 if column == "query_probability" else np.int64)
    array[0] = value
    with saved.with_name("a.npy").open("wb") as file:
        np.lib.format.write_array(file, array)
    members[name] = saved.with_name("a.npy").read_bytes()
    refused(write_members(saved.with_name("forged"), members, sealed=True), "plan needs|does not exist")


def test_zips_that_are_not_what_they_claim(saved, tmp_path):
    members = members_of(saved)
    path = tmp_path / "odd"
    refused(write_members(path, members, compression=zipfile.ZIP_DEFLATED), "compressed")
    path.write_bytes(zip_bomb("record.json", 200 << 20))
    assert path.stat().st_size < 1 << 20
    refused(path, "compressed")
    for name in ("../evil.npy", "/tmp/evil.npy", "a/b.npy", "record.exe", "CON", "x\n.npy"):
        refused(write_members(path, members | {name: b""}, sealed=True), "unexpected member")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("record.json", members["record.json"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("record.json", members["record.json"])
    refused(path, "the same name")
    whole = saved.read_bytes()
    for end in (0, 1, 100, len(whole) // 2, len(whole) - 1, len(whole) - 40):
        path.write_bytes(whole[:end])
        refused(path, "damaged")
    for text in ("[" * 100_000, '{"format": 4, "record": ' + "[" * 100_000, '{"format": "4", "record": {}}', "\xff"):
        write_members(path, {"record.json": text.encode("latin-1")}, sealed=True)
        refused(path)
    refused(tmp_path, "no file")
    refused(tmp_path / "nothing", "no file")


def test_changed_file_does_not_fit_its_digest(saved, tmp_path):
    members, comment = members_of(saved), comment_of(saved)
    content = json.loads(members["record.json"])
    answers_of(content["record"]).reverse()
    changed = members | {"record.json": json.dumps(content).encode()}
    refused(write_members(tmp_path / "a", changed, comment=comment), "digest")
    refused(write_members(tmp_path / "b", changed), "digest is missing")
    changed["record.json"] = json.dumps({**content, "format": 1}).encode()
    refused(write_members(tmp_path / "c", changed, comment=comment), "digest")
    refused(write_members(tmp_path / "d", members, comment=b"observal sha256 0"), "digest")
    write_members(tmp_path / "e", members, comment=comment)
    assert ob.Session.load(tmp_path / "e").labels == 2


def test_every_listed_class_survives_json():
    half = ob.FiniteClass([[1, -1, 1], [1, 1, -1]])
    methods = [ob.Active18(), ob.ActiveVC(epochs=(2, 4)), ob.NewtonVC(ridge=0.1), ob.Passive(passes=2)]
    methods += [ob.ExactDBAL(kind(), gamma=0.1) for kind in (ob.Stumps, ob.HalfPlanes, ob.Rectangles)]
    methods += [ob.AutoVC(batch=5, learners=("linear", "kernel"))]
    record = Recorded(2.0, 0.1, (("ridge", 0.5),), Interval(0.1, 0.05, 0.2, 0.95, "a guess"))
    groups = ColumnGroups(categories=((2, 3),), gaps=((0, 1),))
    for value in (*methods, record, groups):
        assert decode(json.loads(json.dumps(encode(value)))) == value
    copy = decode(json.loads(json.dumps(encode(ob.ExactDBAL(half, gamma=0.1)))))
    assert copy.hypotheses.predictions.packed.tolist() == half.predictions.packed.tolist()


INLINE = [
    {"array": "O", "values": [1]},
    {"array": "<M8[s]", "values": [1]},
    {"array": "V8", "values": [1]},
    {"array": "f8,f8", "values": [1]},
    {"array": "<i8", "values": [1.5]},
    {"array": "<i8", "values": ["1"]},
    {"array": "<i8", "values": [10**30]},
    {"array": "|i1", "values": [1000]},
    {"array": "<f8", "values": [[1], [1, 2]]},
    {"array": "<f8", "values": "123"},
    {"array": "<f8"},
    {"array": 0},
    {"float": "one"},
    {"tuple": "ab"},
    {"fields": {}},
    [1],
    deep(500),
]


@pytest.mark.parametrize("value", INLINE)
def test_values_within_a_journal_are_checked(value):
    with nothing_happens(), pytest.raises(InvalidInput) as error:
        decode(value)
    assert "\n" not in str(error.value)


def test_sparse_matrix_that_points_outside_is_refused():
    arrays = {0: np.ones(2), 1: np.array([0, 9]), 2: np.array([0, 1, 2])}
    recorded = {"data": {"array": 0}, "indices": {"array": 1}, "indptr": {"array": 2}}
    beside = ArraysBeside(arrays.__getitem__, Budget())
    good = decode({"csr": {**recorded, "shape": {"tuple": [2, 10]}}}, beside)
    assert good.shape == (2, 10)
    for shape in ([2, 5], [3, 10], [2, 1 << 40], [2], [2.0, 10], [2, -1]):
        with pytest.raises(InvalidInput):
            decode({"csr": {**recorded, "shape": {"tuple": shape}}}, beside)


def test_plan_is_checked_when_it_is_made():
    good = (np.arange(2), np.ones(2), np.zeros(2, np.int8), np.zeros(2, np.int64), np.zeros(2, np.int8), ("why",))
    assert Plan(*good).asked.tolist() == [0, 1]
    bad = {
        0: np.array([-1, 0]),
        1: np.array([0.5, np.nan]),
        2: np.array([0, 3]),
        3: np.array([0, -1]),
        4: np.array([0, 1]),
    }
    for k, column in bad.items():
        with pytest.raises(InvalidInput, match="A plan needs"):
            Plan(*good[:k], column, *good[k + 1 :])
        with pytest.raises(InvalidInput, match="of each kind"):
            Plan(*good[:k], column[:1], *good[k + 1 :])


def test_saving_leaves_nothing_behind_and_follows_no_link(tmp_path, monkeypatch):
    live, _ = session()
    (tmp_path / "other").write_text("mine")
    (tmp_path / "run.part").symlink_to(tmp_path / "other")
    live.save(tmp_path / "run")
    assert (tmp_path / "other").read_text() == "mine"
    before = (tmp_path / "run").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", full)
        with pytest.raises(OSError, match="No space"):
            live.save(tmp_path / "run")
    assert (tmp_path / "run").read_bytes() == before
    (tmp_path / ".run.999999999-0123abcd.part").write_text("of a process that was killed")
    live.save(tmp_path / "run")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "run", "run.part"]  # the link is somebody's own
    (tmp_path / "letter").write_text("not a session")
    with pytest.raises(InvalidInput, match="already exists"):
        live.save(tmp_path / "letter")
    with pytest.raises(InvalidInput, match="is a folder"):
        live.save(tmp_path)
