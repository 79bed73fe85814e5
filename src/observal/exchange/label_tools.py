"""Rows and answers in the files of Label Studio: tasks and annotations.

Nothing of it is imported: its files are JSON. Rows are shown as text, one cell per line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from observal.errors import InvalidInput
from observal.journal.answers import WrittenAnswer

QUESTION, SHOWN = "label", "row"
AGENT = "observal"
LABEL_STUDIO = "label-studio"
"""Who holds rows that are in Label Studio; its annotators are this and their number."""


@dataclass(frozen=True)
class DrawnRow:
    """A row to label elsewhere: how it was drawn, what to show, and what the model of a round thinks of it.

    `order` counts all rows in the order in which they were asked about.
    """

    id: str
    order: int
    round: int
    query_probability: float
    reason: str
    cells: Mapping[str, Any]
    prediction: str
    score: float
    model_round: int

    @property
    def text(self) -> str:
        """The cells, one per line."""
        return "\n".join(f"{name}: {'' if value is None else value}" for name, value in self.cells.items())

    @property
    def draw_details(self) -> dict[str, Any]:
        """How the row was drawn."""
        return {
            "order": self.order,
            "round": self.round,
            "query_probability": self.query_probability,
            "reason": self.reason,
        }


def label_studio_tasks(rows: Sequence[DrawnRow]) -> list[dict[str, Any]]:
    """Return rows as tasks of Label Studio, each with a prediction.

    Examples
    --------
    >>> row = DrawnRow("r7", 1, 1, 0.5, "uncertain", {"age": 31}, "yes", 0.8, 0)
    >>> task, = label_studio_tasks([row])
    >>> task["data"]["row"], task["predictions"][0]["result"][0]["value"]
    ('age: 31', {'choices': ['yes']})
    """
    return [
        {"data": {"id": row.id, SHOWN: row.text, **row.draw_details}, "predictions": [label_studio_prediction(row)]}
        for row in rows
    ]


def label_studio_prediction(row: DrawnRow) -> dict[str, Any]:
    """Return the class that the model predicts as Label Studio has it, with its chance and why the row was asked about."""
    choice = {"id": "p1", "from_name": QUESTION, "to_name": SHOWN, "type": "choices"}
    value = {"value": {"choices": [row.prediction]}, "meta": {"text": [row.reason]}}
    return {"model_version": model_version(row.model_round), "score": row.score, "result": [{**choice, **value}]}


def model_version(round_: int) -> str:
    """Return the name that other tools know the model of a round by."""
    return f"{AGENT} round {round_}"


def label_studio_config(classes: Sequence[str]) -> str:
    """Return the labelling config for these tasks: one choice, with a key for each of the first nine classes.

    Examples
    --------
    >>> print(label_studio_config(["no", "yes"]))
    <View>
      <Text name="row" value="$row"/>
      <Header size="6" value="$reason"/>
      <Choices name="label" toName="row" choice="single" required="true">
        <Choice value="no" hotkey="1"/>
        <Choice value="yes" hotkey="2"/>
      </Choices>
    </View>
    """
    keys = [f' hotkey="{k}"' if k <= 9 else "" for k in range(1, len(classes) + 1)]
    choices = [f"    <Choice value={quoteattr(name)}{key}/>" for name, key in zip(classes, keys, strict=True)]
    return "\n".join(
        [
            "<View>",
            f'  <Text name="{SHOWN}" value="${SHOWN}"/>',
            '  <Header size="6" value="$reason"/>',
            f'  <Choices name="{QUESTION}" toName="{SHOWN}" choice="single" required="true">',
            *choices,
            "  </Choices>",
            "</View>",
        ]
    )


def read_annotations(source: str | Path, text: str | bytes | None = None) -> dict[str, list[WrittenAnswer]] | None:
    """Return the answers of each annotator in a file of Label Studio; None for any other file.

    `text` is the content, if it has already been read.
    """
    if not str(source).endswith(".json"):
        return None
    try:
        tasks = json.loads(Path(source).read_bytes() if text is None else text)
    except (ValueError, RecursionError):
        return None  # the reader of plain files says what is wrong
    if not isinstance(tasks, list) or not tasks or not all(isinstance(task, dict) for task in tasks):
        return None
    if not all("annotations" in task and isinstance(task.get("data"), dict) for task in tasks):
        return None
    by_annotator: dict[str, dict[str, WrittenAnswer]] = {}
    for number, task in enumerate(tasks, start=1):
        where = f"{source}, object {number}"
        try:
            for annotator, id_, label in read_label_studio_task(task):
                # A later answer replaces an earlier one.
                by_annotator.setdefault(annotator, {})[id_] = WrittenAnswer(id_, label, where)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            raise InvalidInput(
                f"{where} is not what Label Studio exports, so nothing was stored; export the annotations again as JSON."
            ) from None
    return {annotator: list(answers.values()) for annotator, answers in by_annotator.items()}


class NamedAnswer(NamedTuple):
    """An annotator's answer to a row; None skips it."""

    annotator: str
    id: str
    label: str | None


def read_label_studio_task(task: Mapping[str, Any]) -> list[NamedAnswer]:
    """Return the answers to a task of Label Studio, the latest last; a cancelled annotation is a skip, an empty one is not yet an answer."""
    answers = []
    for annotation in sorted(task["annotations"], key=lambda annotation: annotation.get("updated_at") or ""):
        user = annotation.get("completed_by")
        if isinstance(user, dict):
            user = next((user[name] for name in ("email", "username", "id") if user.get(name)), None)
        annotator = f"{LABEL_STUDIO} {user}" if isinstance(user, int) else str(user or LABEL_STUDIO)
        choices = [r["value"]["choices"] for r in annotation["result"] if r.get("from_name", QUESTION) == QUESTION]
        if annotation.get("was_cancelled"):
            answers.append(NamedAnswer(annotator, str(task["data"]["id"]), None))
        elif choices:
            (label,) = choices[-1]
            answers.append(NamedAnswer(annotator, str(task["data"]["id"]), str(label)))
    return answers
