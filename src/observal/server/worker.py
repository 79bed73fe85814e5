"""Fitting in another process, so that no page waits for it: opens rounds, measures them, predicts, writes the model.

The process keeps what it has fitted. It ends when the server does, because the pipe between them closes.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext, SpawnProcess
from time import monotonic
from typing import Any, Literal, NamedTuple, Self

from observal.campaign import Campaign
from observal.errors import CampaignUnavailable, ObservalError, one_line
from observal.exchange.label_tools import DrawnRow
from observal.problem.interval import Interval
from observal.report.verdict import contradiction_sentence, error_words, is_known, shows_estimate
from observal.server import bodies


class Wanted(NamedTuple):
    """What the other process is to choose besides a round where none is open.

    Rows ahead for an annotator who waits; or rounds ahead until there are so many, the last one with at most so many rows.
    """

    waiting: str | None = None
    rounds: int = 0
    most: int | None = None

    def together_with(self, other: Self) -> Self:
        """Return what is wanted if both are; a whole round rather than a few rows."""
        later = max(self, other, key=lambda wanted: (wanted.rounds, wanted.most is None))
        waiting = self.waiting or other.waiting
        return self._replace(waiting=waiting, rounds=later.rounds, most=None if waiting else later.most)


NOTHING_MORE = Wanted()


class Worker:
    """The server's side: asks the other process to look at the campaign, and keeps what it last said."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._lock = threading.Lock()
        self._pipe: Connection | None = None
        self._process: SpawnProcess | None = None
        self._looks = self._seen = self._numbers = 0
        self._results: dict[int, Future[Any]] = {}  # those that the other process is working on
        self._since: float | None = None  # when the oldest look that is not done yet was asked for
        self.seconds: float | None = None  # from asking for a round to having it, the last time
        self.model_round: int | None = None
        self.rounds: list[bodies.Round] = []
        self.failure = ""

    @property
    def fitting(self) -> bool:
        """Whether the other process is still choosing rows or fitting the last closed round."""
        return self._seen < self._looks

    @property
    def seconds_left(self) -> float | None:
        """About how long the other process will still choose rows, by how long it took the last time; None if that is unknown."""
        if self._since is None or self.seconds is None:
            return None
        return max(0.0, self.seconds - (monotonic() - self._since))

    def look(self, wanted: Wanted = NOTHING_MORE) -> None:
        """Have the other process open a round if none is open or more are wanted, and measure what is closed; this returns at once."""
        with self._lock:
            self._looks += 1
            self._since = monotonic() if self._since is None else self._since
            self._send(("look", (self._looks, wanted)))

    def write(self, kind: Literal["model", "report"], path: str, title: str = "") -> Future[None]:
        """Have the other process write the model or the report to a new file."""
        return self._request("write", kind, path, title)

    def draw(self, tool: str) -> Future[list[DrawnRow]]:
        """Have the other process hand the open rows to another labelling tool, and say what the model thinks of them."""
        return self._request("drawn", tool)

    def predict(self, ids: list[str]) -> Future[list[DrawnRow]]:
        """Have the other process say what the model thinks of rows that were asked about."""
        return self._request("predicted", ids)

    def _request(self, verb: str, *arguments: object) -> Future[Any]:
        with self._lock:
            self._numbers += 1
            future = self._results[self._numbers] = Future()
            self._send(("request", (self._numbers, verb, arguments)))
        return future

    def stop(self) -> None:
        """End the other process, in the middle of a fit if need be: only whole rounds are stored."""
        with self._lock:
            pipe, process, self._pipe = self._pipe, self._process, None
            if pipe is None or process is None:
                return
            with suppress(OSError):
                pipe.send(("stop", None))
        process.terminate()
        process.join(10)
        self._listener.join(10)
        pipe.close()

    def _send(self, message: tuple[str, Any]) -> None:
        if self._process is None or not self._process.is_alive():
            context = get_context("spawn")  # a fork of a process with threads may never wake up
            self._pipe, theirs = context.Pipe()
            self._process = self._start(context, theirs)
            self._listener = threading.Thread(target=self._listen, args=(self._pipe,), daemon=True)
            self._listener.start()
        with suppress(OSError):  # it died just now; the listener notices
            assert self._pipe is not None
            self._pipe.send(message)

    def _start(self, context: SpawnContext, theirs: Connection) -> SpawnProcess:
        process = context.Process(target=work, args=(self._where, theirs), daemon=True)
        process.start()
        theirs.close()
        return process

    def _listen(self, pipe: Connection) -> None:
        while True:
            try:
                kind, content = pipe.recv()
            except (EOFError, OSError):
                break
            if kind == "looked":
                self._end_look(*content)
            elif kind == "failed":
                number, failure = content
                self._end_look(number, opened=False, failure=failure)
            elif kind == "rounds":
                self.rounds, self.model_round = content, content[-1]["round"]
            else:
                number, result, refusal = content
                future = self._results.pop(number)
                future.set_exception(refusal) if refusal else future.set_result(result)
        with self._lock:
            if pipe is self._pipe:
                self._seen, self._since = self._looks, None
                self.failure = self.failure or "the process that fits the model ended unexpectedly"
            for future in self._results.values():
                future.set_exception(
                    CampaignUnavailable("There is no model, because the process that fits it stopped; try again.")
                )
            self._results.clear()

    def _end_look(self, number: int, opened: bool, failure: str = "") -> None:
        """Note that a look is done, and how long it took if it opened a round."""
        with self._lock:
            if opened and self._since is not None:
                self.seconds = monotonic() - self._since
            self._seen, self.failure = number, failure
            self._since = monotonic() if self.fitting else None


def work(where: str, pipe: Connection) -> None:
    """Do what the server asks until it ends; looks at rounds come before measuring earlier ones."""
    with suppress(AttributeError):  # Windows has no priorities
        os.nice(5)  # answers go first
    with suppress(EOFError, OSError, KeyboardInterrupt), pipe:
        _Process(where, pipe).run()


class _Process:
    def __init__(self, where: str, pipe: Connection) -> None:
        self._campaign = Campaign.open(where)
        self._pipe = pipe

    def run(self) -> None:
        number, wanted = 0, NOTHING_MORE  # of the looks that are not done yet
        while True:
            kind, content = self._pipe.recv()
            if kind == "stop":
                return
            if kind == "request":
                self._reply(*content)
            else:
                number, wanted = content[0], wanted.together_with(content[1])
            # Several looks are one, and what somebody waits for comes first, even if rounds are being measured.
            if number and not self._pipe.poll() and self._look(number, wanted):
                number, wanted = 0, NOTHING_MORE

    def _reply(self, number: int, verb: str, arguments: tuple[Any, ...]) -> None:
        result, refusal = None, None
        try:
            if verb == "write":
                self._write(*arguments)
            else:
                result = getattr(self._campaign, verb)(*arguments)
        except ObservalError as error:
            refusal = error
        self._pipe.send(("done", (number, result, refusal)))

    def _write(self, kind: str, path: str, title: str) -> None:
        if kind == "model":
            self._campaign.export(path, force=True)
            return
        from observal.report.campaign_report import write_campaign_report  # what it imports would delay the first rows

        write_campaign_report(self._campaign, path, title)

    def _look(self, number: int, wanted: Wanted) -> bool:
        """Open a round if none is open, and measure what is closed; return whether all of that is done."""
        engine = self._campaign.engine
        try:
            before = len(engine.read().plans)
            engine.open_round(*wanted)
            # A few rows chosen ahead say nothing about how long a round takes: their model was there.
            opened = len(engine.ledger.plans) > before and wanted.most is None
            self._pipe.send(("looked", (number, opened)))
            return self._measure()
        except ObservalError as error:
            self._pipe.send(("failed", (number, str(error))))
        except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:  # a method that cannot go on
            self._pipe.send(("failed", (number, f"{type(error).__name__}: {one_line(error, 200)}")))
        return True

    def _measure(self) -> bool:
        """Send the error of each closed round, the latest first; break off when the server asks for something else."""
        engine = self._campaign.engine
        with engine.reading() as transaction:
            replay = engine.replay(transaction)
            engine.error_after(replay, replay.closed)  # in here, so that it is stored
        rounds = {k: _describe_round(k, replay.bought(k), None) for k in range(replay.closed + 1)}
        for k in reversed(range(replay.closed + 1)):
            intervals = replay.intervals(k) if k == replay.closed else {}
            said = contradiction_sentence(intervals, replay.problem.logged.classes.tolist())
            rounds[k] = _describe_round(k, replay.bought(k), engine.error_after(replay, k), said)
            self._pipe.send(("rounds", list(rounds.values())))
            if k and self._pipe.poll():
                return False
        return True


def _describe_round(k: int, labels: int, error: Interval | None, warning: str = "") -> bodies.Round:
    if error is None:
        return {"round": k, "labels": labels, "error": None, "warning": warning}
    interval: bodies.Interval = {
        "estimate": float(error.estimate) if shows_estimate(error) else None,
        "low": float(error.low),
        "high": float(error.high),
        "confidence": float(error.confidence),
        "known": is_known(error),
        "words": error_words(error),
    }
    return {"round": k, "labels": labels, "error": interval, "warning": warning}
