"""Which class is the positive one: named, obvious, asked for, or the rarer one with a note."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import observal as ob
from observal.cli import start
from observal.errors import InvalidLabel
from observal.tables.classes import obvious_positive, order_classes
from tests.command import observal


@pytest.mark.parametrize(
    ("classes", "positive"),
    [
        ([0, 1], 1),
        ([1.0, 0.0], 1.0),
        (["Yes", "No"], "Yes"),
        ([True, False], True),
        (["fraud", "not_fraud"], "fraud"),
        (["non-default", "default"], "default"),
        (["benign", "malignant"], "malignant"),
        (["bad", "good"], None),
        (["paid", "default"], None),
        (["nothing", "thing"], None),
        ([1, 2], None),
        (["a", "b", "c"], None),
    ],
)
def test_obvious_positive_class_is_recognised(classes, positive):
    assert obvious_positive(classes) == positive
    assert obvious_positive(classes[::-1]) == positive


@given(st.lists(st.sampled_from(["paid", "default"]), min_size=1))
def test_rarer_class_is_positive_with_a_note(labels):
    classes, notes = order_classes(["default", "paid"], Counter(labels))
    assert labels.count(classes[1]) <= labels.count(classes[0])
    assert repr(classes[1]) in notes[0]


def test_class_named_like_the_label_is_positive():
    assert order_classes(["Late", "on time"], {"Late": 9, "on time": 1}, label="late") == (["on time", "Late"], [])
    assert order_classes(["a", "b"], {"a": 9, "b": 1}, label="late")[0] == ["a", "b"]
    assert order_classes(["late", "on time"], {"late": 1}, "on time", "late")[0] == ["late", "on time"]


def test_named_positive_class_wins_and_unknown_one_raises():
    assert order_classes([0, 1], {0: 1, 1: 1}, 0) == ([1, 0], [])
    assert order_classes([0, 1], {0: 1, 1: 1}, "0") == ([1, 0], [])
    with pytest.raises(InvalidLabel, match=r"must be one of 0, 1, but is 'x'; name one of them"):
        order_classes([0, 1], {0: 1, 1: 1}, "x")


def tables(tmp_path, classes=("paid", "default")):
    log = pd.DataFrame({"age": range(40), "y": [classes[i % 4 == 0] for i in range(40)], "q": 0.5})
    log.to_csv(tmp_path / "log.csv", index=False)
    log.drop(columns="y").to_csv(tmp_path / "pool.csv", index=False)
    names = ["--logged", tmp_path / "log.csv", "--pool", tmp_path / "pool.csv", "--label", "y", "--propensity", "q"]
    return ["init", tmp_path / "c.db", *names]


@pytest.mark.parametrize(
    ("options", "last", "noted"),
    [([], "default", True), (["--positive", "paid"], "paid", False), (["--classes", "default,paid"], "paid", False)],
)
def test_init_notes_the_positive_class(tmp_path, options, last, noted):
    out = observal(*tables(tmp_path), *options, "--notes").stdout
    assert ob.Campaign.open(tmp_path / "c.db").settings.classes[-1] == last
    assert ("Precision and recall are about 'default', the rarer class in the log" in out) == noted


def test_named_class_of_three_is_last():
    assert order_classes(["cat", "cow", "dog"], {}, "cat") == (["cow", "dog", "cat"], [])
    assert order_classes(["cat", "cow", "dog"], {}) == (["cat", "cow", "dog"], [])
    with pytest.raises(InvalidLabel, match="must be one of 'cat', 'cow', 'dog'"):
        order_classes(["cat", "cow", "dog"], {}, "pig")


def test_init_on_a_terminal_asks_until_it_gets_a_class(monkeypatch, capsys):
    given_answers = iter(["maybe", " paid "])
    monkeypatch.setattr(start.typer, "prompt", lambda *args, **kwargs: next(given_answers))
    assert start.ask_positive(None, ["default", "paid"]) == "paid"
    assert "'maybe' is not one of the classes" in capsys.readouterr().err
