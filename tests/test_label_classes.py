"""Which text means which class: words that mean a missing value, spellings, classes that are the same number, and a positive class."""

import numpy as np
import pandas as pd
import pytest

import observal as ob
from observal.errors import InvalidInput, InvalidLabel
from observal.problem.labels import refuse_alike
from observal.tables import TableRoles, load_problem
from observal.tables.spreadsheets import write_workbook
from tests.command import observal

ROLES = TableRoles("effect", "q", "id")
GIVEN = {"label": "effect", "propensity": "q", "id": "id", "label_budget": 4}
N = 60


def make_frames(labels):
    """Return a log with these labels, repeated, and a pool."""
    log = pd.DataFrame({"id": np.arange(N) + 100, "x": np.arange(N) / 7 % 1, "effect": np.resize(labels, N), "q": 0.5})
    return log, pd.DataFrame({"id": np.arange(20), "x": np.linspace(0, 1, 20), "q": 0.5})


def write_tables(folder, labels, suffix=".csv"):
    log, pool = make_frames(np.array(labels, dtype=object))
    paths = folder / f"log{suffix}", folder / f"pool{suffix}"
    for path, frame in zip(paths, (log, pool), strict=True):
        if suffix == ".csv":
            frame.to_csv(path, index=False)
        elif suffix == ".parquet":
            frame.to_parquet(path)
        else:
            with path.open("wb") as file:
                rows = [[None if cell == "" else cell for cell in row] for row in frame.to_numpy().tolist()]
                write_workbook(file, list(frame.columns), rows, [])
    return paths


def load(folder, labels, suffix=".csv", **given):
    return load_problem(*write_tables(folder, labels, suffix), ROLES, **given)


def counts(loaded):
    return pd.Series(loaded.logged.y[loaded.logged.revealed]).value_counts().to_dict()


MIXED = ["None", "", "Other", "None", "", ""]  # a class None, and labels that are not known


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
@pytest.mark.parametrize("word", ["None", "NA", "null", "NaN"])
def test_frequent_word_beside_empty_cells_is_a_class(tmp_path, word, suffix):
    loaded = load(tmp_path, [word if label == "None" else label for label in MIXED], suffix)
    assert counts(loaded) == {word: 20, "Other": 10}
    notes = [note for note in loaded.notes if "was read as a class" in note]
    assert len(notes) == 1
    assert notes[0].startswith("Warning: ")
    assert f"--missing {word}" in notes[0]


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_named_word_is_a_class_even_without_empty_cells(tmp_path, suffix):
    loaded = load(tmp_path, ["None", "Other", "None"], suffix, classes=["None", "Other"])
    assert counts(loaded) == {"None": 40, "Other": 20}
    assert not any("'None'" in note for note in loaded.notes)


def test_only_named_words_are_classes(tmp_path):
    assert counts(load(tmp_path, [*MIXED[:5], "NA"], classes=["Other", "none"])) == {"none": 20, "Other": 10}


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_word_that_marks_all_unknown_labels_is_missing(tmp_path, suffix):
    loaded = load(tmp_path, ["NA", 0, 1], suffix)
    assert loaded.logged.classes.tolist() == [0, 1]
    assert loaded.logged.revealed.sum() == 40
    assert [note for note in loaded.notes if "'NA'" in note] == [
        "'NA' in the label column 'effect' was read as not known; if it is a class, name all (--classes, classes=)."
    ]


def test_rare_word_beside_empty_cells_is_missing(tmp_path):
    loaded = load(tmp_path, ["yes", "no", ""] * 19 + ["yes", "no", "NA"])
    assert loaded.logged.classes.tolist() == ["no", "yes"]
    assert any("was read as not known" in note for note in loaded.notes)


def test_word_is_a_class_in_all_logs_if_it_is_in_one(tmp_path):
    (tmp_path / "second").mkdir()
    log, pool = write_tables(tmp_path, MIXED)
    other, _ = write_tables(tmp_path / "second", ["None", "Other", "Other"])
    text = other.read_text().splitlines()
    other.write_text("\n".join([text[0], *(f"9{line}" for line in text[1:])]) + "\n")
    assert counts(load_problem([log, other], pool, ROLES, propensity=0.5)) == {"None": 40, "Other": 50}


@pytest.mark.parametrize("in_place", [False, True])
def test_word_in_a_table_with_missing_values_of_its_own_is_a_class(tmp_path, in_place):
    labels = [label or None for label in MIXED]
    log, pool = write_tables(tmp_path, labels, ".parquet")
    options = ob.TableOptions(in_place=in_place)
    campaign = ob.Campaign.create(tmp_path / "c.db", log, pool, **GIVEN, tables=options)
    assert set(campaign.settings.classes) == {"None", "Other"}
    assert counts(load_problem(*make_frames(np.array(labels, dtype=object)), ROLES)) == {"None": 20, "Other": 10}


def init(folder, labels, *options):
    log, pool = write_tables(folder, labels)
    names = ("--label", "effect", "--propensity", "q", "--id", "id", "--budget", 4)
    made = observal("init", folder / "c.db", "--logged", log, "--pool", pool, *names, *options)
    return made.returncode, made.stdout + made.stderr


def test_class_none_goes_all_the_way_from_init_to_answers(tmp_path):
    code, output = init(tmp_path, MIXED)
    assert code == 0
    assert "--missing None" in output
    campaign = ob.Campaign.open(tmp_path / "c.db")
    assert set(campaign.settings.classes) == {"None", "Other"}
    assert campaign.problem.logged.revealed.sum() == 30
    ids = campaign.ask(4).ids
    lines = [f"{id_},{label}\n" for id_, label in zip(ids, ["None", "none", "Other", ""], strict=True)]
    receipt = campaign.tell_file("answers.csv", text="id,effect\n" + "".join(lines))
    assert (receipt.labels, receipt.blank) == (3, 1)


@pytest.mark.parametrize(
    ("options", "classes", "known"),
    [(("--classes", "None,Other"), {"None", "Other"}, 40), (("--missing", "None"), {"Bad", "Other"}, 20)],
)
def test_options_decide_what_a_word_means(tmp_path, options, classes, known):
    code, output = init(tmp_path, ["None", "", "Other", "None", "", "Other" if "None" in classes else "Bad"], *options)
    assert code == 0
    assert "was read as" not in output
    campaign = ob.Campaign.open(tmp_path / "c.db")
    assert set(campaign.settings.classes) == classes
    assert campaign.problem.logged.revealed.sum() == known


def test_class_nan_can_be_named_on_the_command_line(tmp_path):
    code, output = init(tmp_path, ["NaN", "Other", ""], "--classes", "NaN,Other")
    assert code == 0, output
    assert ob.Campaign.open(tmp_path / "c.db").settings.classes == ("NaN", "Other")


YES_NO = ["Yes", "yes", "No", "no", "yes ", None]


@pytest.mark.parametrize("door", ["frame", ".csv", ".xlsx", ".parquet", "in place"])
def test_spellings_that_differ_in_case_or_spaces_are_one_class(tmp_path, door):
    if door == "frame":
        loaded = load_problem(*make_frames(np.array(YES_NO, dtype=object)), ROLES)
        assert counts(loaded) == {"yes": 30, "No": 20}
        classes, notes = loaded.logged.classes.tolist(), loaded.notes
    else:
        suffix = ".parquet" if door == "in place" else door
        tables = write_tables(
            tmp_path, ["" if label is None and suffix == ".xlsx" else label for label in YES_NO], suffix
        )
        options = ob.TableOptions(in_place=door == "in place")
        campaign = ob.Campaign.create(tmp_path / "c.db", *tables, **GIVEN, tables=options)
        classes, notes = list(campaign.settings.classes), campaign.settings.notes
        assert np.bincount(campaign.problem.logged.codes[campaign.problem.logged.revealed]).tolist() == [20, 30]
    assert classes == ["No", "yes"]
    assert [note for note in notes if "was read as" in note] == [
        f"{text!r} in the label column 'effect' was read as {kept!r}; if they differ, name all classes (--classes, classes=)."
        for text, kept in (("Yes", "yes"), ("no", "No"))
    ]


def test_named_spellings_stay_apart():
    labels = np.array(["m", "M", "k", None], dtype=object)
    loaded = load_problem(*make_frames(labels), ROLES, classes=["M", "m", "k"])
    assert loaded.logged.classes.tolist() == ["M", "m", "k"]
    assert counts(loaded) == {"m": 15, "M": 15, "k": 15}


def test_repeated_spaces_do_not_make_a_class():
    loaded = load_problem(*make_frames(np.array(["k  l", "k l", "k l", "m", None], dtype=object)), ROLES)
    assert counts(loaded) == {"k l": 36, "m": 12}


def test_arrays_stay_as_given():
    logged = ob.LoggedData(np.zeros((4, 1)), ["Yes", "yes", "No", "None"], 0.5)
    assert logged.classes.tolist() == ["No", "None", "Yes", "yes"]


def create_alike(path, labels, door, classes):
    if door == "arrays":
        logged = ob.LoggedData(np.zeros((len(labels), 1)), labels, 0.5)
        ob.Campaign.create_from_arrays(path, logged, ob.Pool(np.zeros((3, 1)), 0.5), label_budget=2)
    elif door == "in place":
        tables = write_tables(path.parent, labels, ".parquet")
        ob.Campaign.create(path, *tables, **GIVEN, tables=ob.TableOptions(in_place=True))
    elif door == "create":
        ob.Campaign.create(path, *make_frames(labels), **GIVEN)
    else:
        load_problem(*make_frames(labels), ROLES, classes=classes if door == "named" else None)


@pytest.mark.parametrize("classes", [["1", "01"], ["1.1", "1.10"], ["1", "1,0", "x"]])
@pytest.mark.parametrize("door", ["load_problem", "named", "create", "in place", "arrays"])
def test_classes_that_a_spreadsheet_confuses_are_refused(tmp_path, classes, door):
    labels = np.array([*classes, None], dtype=object)
    message = f"cannot tell the classes ('{classes[0]}' and '{classes[1]}'|'{classes[1]}' and '{classes[0]}') apart"
    with pytest.raises(InvalidLabel, match=message):
        create_alike(tmp_path / "c.db", labels, door, classes)
    assert not (tmp_path / "c.db").exists()


def test_refuse_alike_tells_long_whole_numbers_apart():
    refuse_alike([2**60, 2**60 + 1, True, "Type 1", "type 1"])
    for classes in ([1, "1"], [True, "True"], [0.5, "0,50"]):
        with pytest.raises(InvalidLabel, match="apart"):
            refuse_alike(classes)


def test_init_refuses_classes_that_a_spreadsheet_confuses(tmp_path):
    code, output = init(tmp_path, ["1", "01", ""], "--classes", "1,01")
    assert code != 0
    assert "call them something else, such as 'type 1' and 'type 01'." in output


def make_three(**given):
    y = np.array(["c", "a", "b"] * 20, dtype=object)
    return ob.LoggedData(np.linspace(0, 1, 60)[:, None], y, 0.5, **given), ob.Pool(np.linspace(0, 1, 20)[:, None], 0.5)


def begin_with_three(folder, door, objective):
    given = {"label_budget": 2, "objective": objective}
    if door == "run":
        ob.run(*make_three(), lambda ids: ["a"] * len(ids), **given)
    elif door == "Session":
        ob.Session(*make_three(), **given)
    elif door == "Campaign":
        ob.Campaign.create_from_arrays(folder / "c.db", *make_three(), **given)
    elif door == "load_problem":
        loaded = load_problem(*make_frames(["a", "b", "c"]), ROLES)
        ob.Session(loaded.logged, loaded.pool, **given)
    else:
        log, pool = write_tables(folder, ["a", "b", "c"], ".parquet")
        logged = ob.LoggedData.from_parquet(log, label="effect", propensity="q", id="id")
        ob.Session(logged, ob.Pool.from_parquet(pool, propensity="q", id="id"), **given)


@pytest.mark.parametrize("objective", ["recall=0.8", "recall>=0.8", "precision=0.5", "flag=5%"])
@pytest.mark.parametrize("door", ["run", "Session", "Campaign", "load_problem", "parquet"])
def test_objective_about_one_of_three_classes_needs_its_name(tmp_path, door, objective):
    message = r"about one class, but there are 3 \(a, b, c\); name it with --positive .*classes="
    with pytest.raises(InvalidInput, match=message):
        begin_with_three(tmp_path, door, objective)


def test_objective_about_one_of_three_classes_takes_its_name():
    session = ob.Session(*make_three(classes=["b", "c", "a"]), label_budget=2, objective="recall=0.8")
    assert session.engine.ledger.settings.classes == ("b", "c", "a")
    for given in ({"positive": "a"}, {"classes": ["b", "c", "a"]}):
        loaded = load_problem(*make_frames(["a", "b", "c"]), ROLES, **given)
        settings = ob.Session(loaded.logged, loaded.pool, label_budget=2, objective="recall=0.8").engine.ledger.settings
        assert settings.classes == ("b", "c", "a")


def test_session_with_a_named_class_can_be_loaded(tmp_path):
    session = ob.Session(*make_three(classes=["b", "c", "a"]), label_budget=2, objective="recall=0.8")
    session.save(tmp_path / "session.zip")
    assert ob.Session.load(tmp_path / "session.zip").engine.ledger.settings.goals.objective == "recall=0.8"


def test_init_asks_for_the_name_of_the_class(tmp_path):
    code, output = init(tmp_path, ["a", "b", "c", ""], "--target", "recall=0.8")
    assert code != 0
    assert "name it with --positive" in output
    assert init(tmp_path, ["a", "b", "c", ""], "--target", "recall=0.8", "--positive", "b")[0] == 0
