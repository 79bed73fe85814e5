"""The label view in a notebook: Jupyter, VS Code, Colab and marimo. It needs the extra ``notebook``."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from observal.campaign import Campaign
from observal.errors import InvalidInput, ObservalError
from observal.journal.engine import Engine
from observal.journal.settings import ANYONE, Settings
from observal.journal.status import CHOOSING
from observal.parquet import Parts
from observal.problem.frames import Frame
from observal.server.images import load_image
from observal.server.pool_view import PoolView
from observal.session import Session

if TYPE_CHECKING:
    from observal.server.bodies import Cell

try:
    import anywidget
    import traitlets
except ModuleNotFoundError as error:
    raise ImportError(
        "observal.notebook needs anywidget; install it with `pip install 'observal[notebook]'`."
    ) from error

STATIC = Path(__file__).parent / "server" / "static"
QUEUE = 20  # rows that are in the widget at a time
LOW = 5  # of them, before more are asked for


class Labeller(anywidget.AnyWidget):
    """Label rows in a cell: one key answers, saves and shows the next row.

    Keys work once you have clicked the widget. Each answer is told to the session or campaign at once. When a round is
    complete, the method fits again and chooses the next rows, which takes a moment.

    Parameters
    ----------
    source : Session or Campaign
        What is asked and told.
    annotator : str
        Who answers; needed where several people label each row.
    title : str
        The question that people answer; by default it names the label.
    rows : table, optional
        What people see of each row of the pool, in the pool's order: a file, or a pandas, polars or pyarrow frame. By default a
        campaign's raw rows, or a session's features.
    pixels : (int, int), optional
        Height and width of a picture whose pixels are columns of numbers, such as ``x0`` to ``x63``.

    Examples
    --------
    >>> import numpy as np, observal as ob
    >>> from observal.notebook import Labeller
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> logged = ob.LoggedData(X, np.where(X[:, 0] > 0, "yes", "no"), propensity=0.5)
    >>> session = ob.Session(logged, ob.Pool(X + 0.01, propensity=0.1), label_budget=10)
    >>> labeller = Labeller(session, title="Is it warm?")  # the last line of a cell shows it
    >>> len(labeller.rows), session.labels
    (10, 0)
    """

    _esm = STATIC / "labeller.js"
    _css = STATIC / "labeller.css"
    campaign = traitlets.Dict().tag(sync=True)
    rows: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)
    note = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        source: Session | Campaign,
        annotator: str = ANYONE,
        *,
        title: str = "",
        rows: object = None,
        pixels: tuple[int, int] | None = None,
    ) -> None:
        super().__init__()
        self._source, self._annotator = source, annotator
        self._engine: Engine[Any] = source.engine
        self._given, self._pixels = rows, pixels
        settings = self._settings()
        self._folder = settings.display.folder
        self._rows = _rows_of(source, rows, settings)
        self._seen: set[str] = set()
        self.campaign = {
            "title": title,
            "label": settings.label,
            "classes": [str(value) for value in settings.classes],
            "label_budget": settings.label_budget,
        }
        self._refill()
        self.on_msg(lambda _, content, __: self._heard(content))

    def _settings(self) -> Settings:
        """Return the settings of the session or campaign, with the pixels that were given here."""
        settings = self._source.settings
        if self._pixels is None:
            return settings
        return replace(settings, display=replace(settings.display, pixels=self._pixels))

    def _heard(self, content: dict[str, Any]) -> None:
        """Do what the label view asks for; a message that came twice is done once."""
        key = content.get("key")
        if key in self._seen:
            return
        if content["type"] == "tell":
            self._tell(content["answers"])
        elif content["type"] == "undo":
            self._undo(content["key"])
        elif content["type"] == "flag":
            self._source.flag(content["id"], content["text"], self._annotator)
        if key is not None:
            self._seen.add(key)

    def _tell(self, answers: list[dict[str, Any]]) -> None:
        ids = [answer["id"] for answer in answers]
        try:
            self._source.tell(ids, [answer["label"] for answer in answers], self._annotator)
        except ObservalError as error:
            self.send({"type": "refused", "ids": ids, "error": str(error)})
            self._refill()
            return
        self.rows = [row for row in self.rows if row["id"] not in ids]
        if len(self.rows) < LOW:
            self._refill()
        else:
            self._show_progress()

    def _undo(self, key: str) -> None:
        undone = self._source.undo(self._annotator)
        self._refill()
        id_ = None if undone is None else str(undone.id)
        row = next((row for row in self.rows if row["id"] == id_), None)
        self.send({"type": "undone", "key": key, "id": id_, "row": row})

    def _refill(self) -> None:
        """Ask for rows; where a round is complete, say so before the next one is chosen."""
        if not self._engine.read().open_rows and not self._source.stopped:
            self.rows, self.note = [], CHOOSING
        with self._engine.writing() as transaction:
            assignment = self._engine.ask(transaction, QUEUE, self._annotator)
        if len(self._rows) != self._source.settings.pool_rows:  # rows were added to the pool
            self._rows = _rows_of(self._source, self._given, self._settings())
        self.note = assignment.note
        rows = self._rows.describe(assignment)
        self.rows = [{**row, "fields": [self._embed_picture(cell) for cell in row["fields"]]} for row in rows]
        self._show_progress()

    def _embed_picture(self, cell: Cell) -> Cell:
        """Put an image into the cell itself: a notebook has no server to fetch it from."""
        if cell["image"] is None:
            return cell
        position, number = cell["image"].split("/")[-2:]
        loaded = load_image(self._folder, str(self._rows.cell(int(position), int(number))))
        if loaded is None:
            return {**cell, "kind": "text", "image": None}
        content, kind = loaded
        return {**cell, "image": f"data:{kind};base64,{base64.b64encode(content).decode()}"}

    def _show_progress(self) -> None:
        status = self._source.status()
        self.progress = {"labels": status.labels, "label_budget": status.label_budget, "round": status.round}


def _rows_of(source: Session | Campaign, rows: object, settings: Settings) -> PoolView:
    """Return the pool as people see it."""
    if rows is None and isinstance(source, Campaign):
        with source.engine.reading() as transaction:
            return PoolView.of(transaction.connection, settings)
    pool = source.problem.pool.rows
    if rows is None and isinstance(pool, Parts):
        return PoolView.in_parts(pool, settings, pool.columns)
    return PoolView(_raw_rows(source, rows), settings)


def _raw_rows(source: Session | Campaign, rows: object) -> Any:
    """Return the pool as people see it, as an Arrow table."""
    import pyarrow as pa

    from observal.tables import read_table

    if rows is not None:
        table = read_table(rows, None)
        expected = source.settings.pool_rows
        if len(table) != expected:
            raise InvalidInput(
                f"The rows to show must be those of the pool, {expected} of them, but there are {len(table)}; give one for each."
            )
        return table
    pool = source.problem.pool.rows
    if isinstance(pool, Frame):
        return read_table(pool.native, None)
    if pool.is_sparse:
        raise InvalidInput("People cannot read sparse features; give the rows to show (rows=).")
    return pa.table(dict(zip(source.settings.features, pool.to_matrix().T, strict=True)))
