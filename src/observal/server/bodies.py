"""What requests and replies contain: the desk returns these replies, and the OpenAPI document is made from them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

Key = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,64}$")]
Id = Annotated[str, StringConstraints(max_length=10_000)]
Label = Annotated[str, StringConstraints(max_length=10_000)]
Only = Literal["all", "disagreement", "flagged", "skipped"]
Kind = Literal["number", "text", "category", "date", "flag", "image", "pixels", "missing"]

# -- requests -----------------------------------------------------------------------------------------------------------


class Body(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SignIn(Body):
    """The token of a link."""

    token: Annotated[str, StringConstraints(max_length=1000)]


class Ask(Body):
    """How many rows to hand out at most."""

    n: Annotated[int, Field(ge=1, le=100)] = 10


class Answer(Body):
    """A row and its label; null skips it."""

    id: Id
    label: Label | None


class Tell(Body):
    """Answers, all of which are stored or none."""

    key: Key
    answers: Annotated[list[Answer], Field(min_length=1, max_length=1000)]


class Skip(Body):
    """A row to skip."""

    key: Key
    id: Id


class Undo(Body):
    """Takes back the latest answer or skip."""

    key: Key


class Flag(Body):
    """A row that others should look at, with a comment or without."""

    key: Key
    id: Id
    text: Annotated[str, StringConstraints(max_length=10_000)] = ""


class Decision(Body):
    """An owner's label for a row; null skips it."""

    key: Key
    id: Id
    label: Label | None


# -- replies ------------------------------------------------------------------------------------------------------------


class Problem(TypedDict):
    """Why a request was refused."""

    error: str


class About(TypedDict):
    """What the campaign is about."""

    id: str
    name: str
    title: str
    label: str
    classes: list[str]
    positive: str | None
    label_budget: int | None
    overlap: int
    columns: list[str]
    image_column: str | None
    instructions: str
    column_help: dict[str, str]


class Me(TypedDict):
    """Who is signed in."""

    name: str
    role: Literal["owner", "annotator"]
    campaign: About


class Progress(TypedDict):
    """How far the campaign is."""

    labels: int
    label_budget: int | None
    open_rows: int
    round: int
    round_rows: int
    your_answers: int
    to_decide: int
    labels_per_hour: float | None
    model_round: int | None
    fitting: bool


class Cell(TypedDict):
    """One cell of a row."""

    name: str
    kind: Kind
    value: bool | int | float | str | None
    standing: float | None
    image: str | None
    pixels: list[list[float]] | None


class Row(TypedDict):
    """A row to label, why it was chosen, and by the model of which round."""

    id: str
    round: int
    model_round: int
    reason: str
    query_probability: float
    fields: list[Cell]


class Rows(TypedDict):
    """The rows that a person holds."""

    round: int
    finished: bool
    fitting: bool
    seconds_left: float | None
    note: str
    rows: list[Row]
    progress: Progress


class Told(TypedDict):
    """What was stored."""

    labels: int
    skips: int
    corrected: int
    unchanged: int
    progress: Progress


class UndoneAnswer(TypedDict):
    """The answer that was undone."""

    id: str
    label: str | None


class Undone(TypedDict):
    """What was undone, if anything, and the row to answer again."""

    undone: UndoneAnswer | None
    row: Row | None
    progress: Progress


class Annotator(TypedDict):
    """What a person did."""

    name: str
    answers: int
    held: int


class Agreement(TypedDict):
    """How well people agree."""

    rows: int
    share: float
    kappa: float | None
    kind: str


class Status(TypedDict):
    """Progress, people and notes."""

    progress: Progress
    stopped: str
    annotators: list[Annotator]
    agreement: Agreement | None
    notes: list[str]


class Interval(TypedDict):
    """An interval, the estimate if the interval is narrow enough for one, and both in words; `known` is false if it says nothing."""

    estimate: float | None
    low: float
    high: float
    confidence: float
    known: bool
    words: str


class Round(TypedDict):
    """The error after a round, null while it is being computed; and for the last round whether the log is contradicted, in words."""

    round: int
    labels: int
    error: Interval | None
    warning: str


class Stopping(TypedDict):
    """What the stopping rule says."""

    to_gain: float | None
    tolerance: float | None
    sentence: str


class Rounds(TypedDict):
    """All closed rounds."""

    rounds: list[Round]
    stopping: Stopping
    stopped: str
    waiting: str
    fitting: bool


class GivenAnswer(TypedDict):
    """Who answered what, and when."""

    annotator: str
    label: str | None
    time: str


class RaisedFlag(TypedDict):
    """Who flagged a row, when, and with which comment."""

    annotator: str
    text: str
    time: str


class Flagged(TypedDict):
    """The row that was flagged."""

    id: str
    progress: Progress


class Reviewed(TypedDict):
    """An answered or flagged row."""

    id: str
    fields: list[Cell]
    answers: list[GivenAnswer]
    flags: list[RaisedFlag]
    decided: str | None
    open: bool


class Review(TypedDict):
    """Answered rows, and how many there are in all."""

    rows: list[Reviewed]
    total: int


class Decided(TypedDict):
    """What an owner decided."""

    id: str
    decided: str | None
    progress: Progress


class Entry(TypedDict):
    """One entry of the journal."""

    sequence: int
    time: str
    actor: str
    kind: str
    text: str


class History(TypedDict):
    """The journal in words."""

    entries: list[Entry]
