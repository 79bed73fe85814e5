"""What requests and replies look like; the OpenAPI document is made from these."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Key = Annotated[str, StringConstraints(pattern=r"^[\x21-\x7e]{1,64}$")]
Id = Annotated[str, StringConstraints(max_length=10_000)]
Label = Annotated[str, StringConstraints(max_length=10_000)]


class Body(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


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


class Decision(Body):
    """An owner's label for a row; null skips it."""

    key: Key
    id: Id
    label: Label | None


class Problem(BaseModel):
    """Why a request was refused."""

    error: str


class About(BaseModel):
    """What the campaign is about."""

    id: str
    title: str
    label: str
    classes: list[str]
    positive: str | None
    label_budget: int | None
    overlap: int
    columns: list[str]
    image_column: str | None


class Me(BaseModel):
    """Who is signed in."""

    name: str
    role: Literal["owner", "annotator"]
    campaign: About


class Progress(BaseModel):
    """How far the campaign is."""

    labels: int
    label_budget: int | None
    open_rows: int
    round: int
    round_rows: int
    your_answers: int
    labels_per_hour: float | None
    model_round: int | None
    fitting: bool


class Cell(BaseModel):
    """One cell of a row."""

    name: str
    kind: Literal["number", "text", "category", "date", "flag", "image", "pixels", "missing"]
    value: Any = None
    standing: float | None
    image: str | None
    pixels: list[list[float]] | None


class Row(BaseModel):
    """A row to label, why it was chosen, and by the model of which round."""

    id: str
    round: int
    model_round: int
    reason: str
    query_probability: float
    fields: list[Cell]


class Rows(BaseModel):
    """The rows that somebody holds."""

    round: int
    finished: bool
    fitting: bool
    note: str
    rows: list[Row]
    progress: Progress


class Told(BaseModel):
    """What was stored."""

    labels: int
    skips: int
    corrected: int
    unchanged: int
    progress: Progress


class TakenBack(BaseModel):
    """The answer that was undone; null if there was none."""

    id: str
    label: str | None


class Undone(BaseModel):
    """What was undone, and the row to answer again."""

    undone: TakenBack | None
    row: Row | None
    progress: Progress


class Annotator(BaseModel):
    """What somebody did."""

    name: str
    answers: int
    held: int


class Agreement(BaseModel):
    """How well people agree."""

    rows: int
    share: float
    kappa: float | None
    kind: str


class Status(BaseModel):
    """Progress, people and notes."""

    progress: Progress
    stopped: str
    annotators: list[Annotator]
    agreement: Agreement | None
    notes: list[str]


class Interval(BaseModel):
    """An estimate with its interval."""

    estimate: float
    low: float
    high: float
    confidence: float


class Round(BaseModel):
    """The error after a round; null while it is being computed."""

    round: int
    labels: int
    error: Interval | None


class Stopping(BaseModel):
    """What the stopping rule says."""

    to_gain: float | None
    tolerance: float | None
    sentence: str


class Rounds(BaseModel):
    """All closed rounds."""

    rounds: list[Round]
    stopping: Stopping


class GivenAnswer(BaseModel):
    """Who answered what, and when."""

    annotator: str
    label: str | None
    time: str


class Reviewed(BaseModel):
    """An answered row."""

    id: str
    fields: list[Cell]
    answers: list[GivenAnswer]
    decided: str | None


class Review(BaseModel):
    """Answered rows, and how many there are in all."""

    rows: list[Reviewed]
    total: int


class Decided(BaseModel):
    """What an owner decided."""

    id: str
    decided: str | None
    progress: Progress


class Entry(BaseModel):
    """One entry of the journal."""

    sequence: int
    time: str
    actor: str
    kind: str
    text: str


class History(BaseModel):
    """The journal in words."""

    entries: list[Entry]
