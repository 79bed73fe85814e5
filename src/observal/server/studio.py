"""A campaign live in Label Studio: open rows become tasks, annotations become answers.

Label Studio calls us when somebody has answered, and does not try again if we were not there. So its tasks are also read from time to time, and
whatever differs from what is stored is stored. The network is used in a thread of its own; what is stored goes through the desk, as on the page.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any, TypeVar

from observal.errors import InvalidInput, LabelStudioUnavailable, ObservalError
from observal.exchange.label_studio_api import LabelStudioApi, is_ours
from observal.exchange.label_tools import (
    LABEL_STUDIO,
    label_studio_prediction,
    label_studio_tasks,
    model_version,
    read_label_studio_task,
)
from observal.server.desk import Desk
from observal.server.guard import TOOL

SECONDS = 5.0  # between two readings of all tasks
SOON = 0.1  # seconds until we look for a new round while one is being chosen
T = TypeVar("T")
Submit = Callable[[Callable[[], T], bool], Future[T]]


class Studio:
    """The Label Studio that a served campaign is labelled in.

    `project` is the one to use; by default the one that was made for this campaign, or a new one. `url` is our own address, as Label Studio
    reaches it. `say` is called with a sentence when something goes wrong that the user should know about.
    """

    def __init__(
        self, api: LabelStudioApi, desk: Desk, project: int | None, url: str, say: Callable[[str], None] = print
    ) -> None:
        self.api, self._desk, self._url, self._say = api, desk, url, say
        # A new one each time: Label Studio is told it, and nothing stores it here.
        self.token = secrets.token_urlsafe(32)
        self._tasks: set[str] | None = None  # rows that are tasks; None if they must be read first
        self._touched: set[str] = set()  # rows about which Label Studio called while its tasks were being read
        self._stale = True  # whether tasks must be read now
        self._read_at = 0.0
        self._said: set[str] = set()
        self.submit: Submit[Any]  # runs a function at the desk; the application sets it
        self._stopping, self._wake = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.project = self._open_project(project)

    @property
    def address(self) -> str:
        """The project's page."""
        return f"{self.api.address}/projects/{self.project}/data"

    def _open_project(self, project: int | None) -> int:
        """Find or make the project, and a tab in it with the rows in the order of rounds."""
        desk = self._desk
        settings = desk.engine.ledger.settings
        classes = [str(name) for name in settings.classes]
        if project is None:
            project = self.api.find_project(desk.id)
        if project is None:
            project = self.api.make_project(desk.id, desk.title, classes, settings.overlap)
        self.api.check_project(project, classes)
        self.api.make_tab(project, desk.id)
        return project

    # -- our side: rows out, answers in -------------------------------------------------------------------------

    def start(self) -> None:
        """Keep Label Studio and the campaign alike until ``stop``."""
        self._thread = threading.Thread(target=self._run, name="label-studio", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(10)

    def _run(self) -> None:
        connected, failure = False, ""
        while not self._stopping.is_set():
            try:
                connected = connected or self.connect()
                self.synchronise()
                self._said.discard(failure)
            except ObservalError as error:
                failure = str(error)
                self._tell_once(failure)
            self._wake.wait(SOON if self._desk.worker.fitting else SECONDS)
            self._wake.clear()

    def connect(self) -> bool:
        """Have Label Studio call us; without that, answers are read every few seconds."""
        try:
            self.api.connect_webhook(self.project, f"{self._url}{TOOL}", self.token)
            self.api.connect_model(self.project, f"{self._url}{TOOL}", self.token)
        except LabelStudioUnavailable as error:
            self._say(
                f"{error} Until Label Studio can call {self._url}, answers are read every {SECONDS:g} seconds; if it refuses local "
                "addresses, start it with SSRF_PROTECTION_ENABLED=false and ML_BLOCK_LOCAL_IP=false."
            )
        return True

    def synchronise(self) -> None:
        """Store answers that we were not told about, and make tasks of rows that have none."""
        if self._stale or self._tasks is None or monotonic() - self._read_at > SECONDS:
            self._read_tasks()
        assert self._tasks is not None
        wanted = self.submit(lambda: self._desk.rows_for_tool(LABEL_STUDIO), False).result()
        if set(wanted) <= self._tasks:
            return
        drawn = [row for row in self._desk.worker.draw(LABEL_STUDIO).result() if row.id not in self._tasks]
        known, self._tasks = self._tasks, None  # if the reply is lost, they are read before more are added
        self.api.add_tasks(self.project, self._desk.id, label_studio_tasks(sorted(drawn, key=lambda row: row.order)))
        self._tasks = known | {row.id for row in drawn}

    def _read_tasks(self) -> None:
        self._stale, self._touched = False, set()
        tasks: dict[str, dict[str, Any]] = {}
        for task in self.api.tasks(self.project, self._desk.id):
            row = tasks.setdefault(str(task["data"]["id"]), {"data": task["data"], "annotations": []})
            row["annotations"] += task["annotations"]  # a row may be two tasks, if a request was sent twice
        self.submit(lambda: self._store_tasks(tasks), True).result()
        self._tasks, self._read_at = set(tasks), monotonic()

    def _store_tasks(self, tasks: Mapping[str, dict[str, Any]]) -> None:
        """Store what people have answered, and take back answers whose annotation was deleted. At the desk."""
        for id_, task in tasks.items():
            if id_ in self._touched:  # what we were told is newer than what we read
                continue
            try:
                answers = {answer.annotator: answer for answer in read_label_studio_task(task)}
                stored = self._stored_answers(id_)
                if stored != {name: answer.label for name, answer in answers.items()}:
                    self._desk.store_from_tool(
                        answers.values(), [(name, id_) for name in stored.keys() - answers.keys()]
                    )
            except (ObservalError, KeyError, TypeError, ValueError, AttributeError) as error:
                self._tell_once(f"The annotations of row {id_!r} in Label Studio were not stored: {error}")

    def _stored_answers(self, id_: str) -> dict[str, str | None]:
        """Return the answers to a row that are stored under the names of Label Studio's annotators."""
        ledger = self._desk.engine.ledger
        position = ledger.find(id_)
        responses = {} if position is None else ledger.responses.get(position, {})
        classes = ledger.settings.classes
        return {
            name: None if code is None else str(classes[code])
            for name, code in responses.items()
            if name.startswith(f"{LABEL_STUDIO} ")
        }

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self._say(sentence)

    # -- Label Studio's side: what it asks and tells ------------------------------------------------------------

    @property
    def version(self) -> str:
        """The model that predicts now."""
        return model_version(self._desk.worker.model_round or 0)

    def set_up(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Say which model predicts; refuse another project, whose tasks we do not know."""
        project = str(body.get("project", "")).partition(".")[0]
        if project and project != str(self.project):
            raise InvalidInput(
                f"observal serves project {self.project}, but project {project} called; start observal with --project {project}."
            )
        return {"model_version": self.version}

    def row_ids(self, body: Mapping[str, Any]) -> list[str | None]:
        """Return the row of each task that a prediction is asked for; None for tasks that are not the campaign's."""
        tasks = body.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise InvalidInput("The request has no list of tasks; send what Label Studio sends.")
        return [str(task["data"]["id"]) if is_ours(task, self._desk.id) else None for task in tasks]

    def predict(self, ids: Sequence[str | None]) -> dict[str, Any]:
        """Return a prediction for each task, an empty one for those that are not the campaign's."""
        rows = self._desk.worker.predict([id_ for id_ in ids if id_ is not None]).result()
        predictions = {row.id: label_studio_prediction(row) for row in rows}
        nothing: dict[str, Any] = {"result": [], "score": None, "model_version": self.version}
        return {"results": [predictions.get(id_ or "", nothing) for id_ in ids]}

    def receive(self, body: Mapping[str, Any]) -> dict[str, int]:
        """Store the annotations that a webhook brings. At the desk, so that they are on disk when Label Studio gets its reply."""
        annotations, tasks = body.get("annotation"), body.get("task")
        if isinstance(annotations, dict) and isinstance(tasks, dict):
            annotations, tasks = [annotations], [tasks]
        if not isinstance(annotations, list) or not isinstance(tasks, list) or len(annotations) != len(tasks):
            self.look_again()  # something was deleted, and only Label Studio knows to which row it belonged
            return {"stored": 0}
        stored = 0
        for annotation, task in zip(annotations, tasks, strict=True):
            if not is_ours(task, self._desk.id) or task.get("project") != self.project:
                continue
            id_ = str(task["data"]["id"])
            try:
                answers = read_label_studio_task({**task, "annotations": [annotation]})
                stored += self._desk.store_from_tool(answers)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                if not isinstance(error, ObservalError):
                    error = InvalidInput(
                        f"The annotation of row {id_!r} is not one of Label Studio's; send what it sends."
                    )
                self._tell_once(str(error))
                raise error from None
            self._touched.add(id_)
            if not answers:  # an answer was cleared
                self.look_again()
        return {"stored": stored}

    def look_again(self) -> None:
        """Have Label Studio's tasks read as soon as possible."""
        self._stale = True
        self._wake.set()
