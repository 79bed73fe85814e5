"""The labelling page with many people at once: how long they wait, and whether every answer is stored once.

    python benchmarks/bench_page.py [--people 50] [--seconds 60] [--method newton] [--round 1000]

Each person behaves as the page does: holds up to 30 rows, answers two a second, and asks for more in the background when fewer than 8 are
left. Every seventh answer is sent twice, as after a lost reply. Afterwards all of them answer at one instant. The server is ``observal
serve`` in a process of its own; all people share another. A probe of the disk is measured in the same run: an answer cannot be
faster than one write that survives a power cut.

Wanted on two quiet cores: tell below 100 ms and ask below 500 ms in 99 of 100 requests, all answers of one instant within a second, none lost
or stored twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter, deque
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from commands import in_new_process

PAGE_ROWS, LOW = 30, 8  # as in the page: rows that it holds, and when it asks for more
EACH_SECOND = 2
SOON = 0.7  # seconds after which the page asks again while the next rows are being chosen
LONGEST_PAUSE = 3.0  # seconds; the server closes a connection that nothing came from for five
METHODS = ("newton", "auto")


def make_campaign(where: Path, rows: int, method: str, batch: int) -> None:
    """Make a campaign whose rounds have `batch` rows, from a pool of `rows`."""
    import observal as ob

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows + 1000, 3))
    y = np.array([label_of(row) for row in range(-1000, 0)], dtype=object)
    logged = ob.LoggedData(X[:1000], np.where(rng.random(1000) < 0.5, y, None), 0.5)
    chosen = ob.NewtonVC(batch=batch, stop_below=0.0) if method == "newton" else ob.AutoVC(batch=batch)
    ob.Campaign.create_from_arrays(where, logged, ob.Pool(X[1000:], 0.5), method=chosen, tolerance=None)


def label_of(row: int) -> str:
    """Return the label that everybody gives to a row: like a coin, so no method ever finds that it has asked enough."""
    return "yes" if zlib.crc32(str(row).encode()) % 2 else "no"


class Connection:
    """A connection that stays open, with no more than what a request needs: two cores serve the people, too."""

    def __init__(self, address: str, cookie: str = "") -> None:
        self.address, self.cookie = address, cookie
        self.host, self.port = address.removeprefix("http://").split(":")

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection(self.host, int(self.port))
        self.used = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def post(self, path: str, body: object) -> tuple[str, Any]:
        """Send a request and return the head and the content of its reply."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nCookie: {self.cookie}\r\nX-Observal: 1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        if time.monotonic() - self.used > LONGEST_PAUSE:
            self.writer.close()
            await self.__aenter__()
        self.writer.write(head.encode() + content)
        reply = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)content-length: *(\d+)", reply)
        said = await self.reader.readexactly(int(length[1])) if length else b""
        self.used = time.monotonic()
        if " 20" not in reply.split("\r\n")[0]:
            raise SystemExit(f"{path}: {reply.splitlines()[0]} {said.decode()}")
        return reply, json.loads(said or b"null")


@dataclass
class Log:
    """What all people saw: seconds of each request, seconds without rows, and the rows that they answered."""

    tell: list[float] = field(default_factory=list)
    ask: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    instant: list[float] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)


class Person:
    """Somebody at the page: one connection for answers, and a new one each time that rows are asked for in the background."""

    def __init__(self, name: str, telling: Connection, log: Log) -> None:
        self.name, self.telling, self.log = name, telling, log
        self.rows: deque[str] = deque()
        self.answered: set[str] = set()
        self.refill: asyncio.Task[None] | None = None
        self.number = 0

    async def ask(self) -> None:
        """Ask until there are rows, as the page does."""
        while True:
            start = time.perf_counter()
            async with Connection(self.telling.address, self.telling.cookie) as asking:
                _, reply = await asking.post("/api/v1/ask", {"n": PAGE_ROWS})
            self.log.ask.append(time.perf_counter() - start)
            held = [row["id"] for row in reply["rows"] if row["id"] not in self.answered]
            self.rows = deque(held)
            if reply["finished"]:
                raise SystemExit(f"nothing is left to ask: {reply['note']}")
            if held:
                return
            await asyncio.sleep(SOON)

    async def next_row(self) -> str:
        """Return a row to answer; more are asked for in the background."""
        if len(self.rows) < LOW and (self.refill is None or self.refill.done()):
            self.refill = asyncio.create_task(self.ask())
        start = time.perf_counter()
        while not self.rows:
            if self.refill is None or self.refill.done():
                self.refill = asyncio.create_task(self.ask())
            await self.refill
        self.log.idle.append(time.perf_counter() - start)
        row = self.rows.popleft()
        self.answered.add(row)
        return row

    async def tell(self, row: str, times: list[float]) -> None:
        """Answer a row; every seventh time the reply gets lost, and the page sends the answer again."""
        self.number += 1
        body = {"key": f"{self.name}-{self.number}", "answers": [{"id": row, "label": label_of(int(row))}]}
        for _ in range(1 + (self.number % 7 == 0)):
            start = time.perf_counter()
            _, reply = await self.telling.post("/api/v1/tell", body)
            times.append(time.perf_counter() - start)
            if reply["labels"] != 1:
                raise SystemExit(f"an answer was not stored as a label: {reply}")
        self.log.rows.append(row)

    async def work(self, seconds: float, offset: float) -> None:
        """Answer two rows a second; a person who had to wait does not catch up."""
        clock = asyncio.get_running_loop().time
        end, due = clock() + seconds, clock() + offset
        while due < end:
            row = await self.next_row()
            await asyncio.sleep(max(0.0, due - clock()))
            await self.tell(row, self.log.tell)
            due = max(due + 1 / EACH_SECOND, clock())


async def sign_in(address: str, token: str) -> str:
    async with Connection(address) as connection:
        head, _ = await connection.post("/login", {"token": token})
    cookie = re.search(r"(?i)set-cookie: *([^;]+)", head)
    assert cookie is not None
    return cookie[1]


async def everybody(address: str, tokens: list[str], seconds: float) -> Log:
    """Let all people work, and then answer at one instant."""
    log = Log()
    cookies = [await sign_in(address, token) for token in tokens]
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(Connection(address, cookie)) for cookie in cookies]
        people = [Person(f"p{k}", connection, log) for k, connection in enumerate(connections)]
        await people[0].ask()  # waits for the first fit
        shift = 1 / EACH_SECOND / len(people)  # people do not press keys all at the same time
        await asyncio.gather(*(person.work(seconds, k * shift) for k, person in enumerate(people)))
        rows = await asyncio.gather(*(person.next_row() for person in people))
        await asyncio.gather(*(person.refill for person in people if person.refill is not None))
        await asyncio.gather(*(person.tell(row, log.instant) for person, row in zip(people, rows, strict=True)))
    return log


def work_as_client(address: str, tokens: list[str], seconds: float, out: Path) -> None:
    """Run all people in this process and write what they saw."""
    log = asyncio.run(everybody(address, tokens, seconds))
    out.write_text(json.dumps(vars(log)))


def start_server(where: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "observal", "serve", str(where), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    said = ""
    while "token=" not in said:
        line = server.stdout.readline()
        if not line:
            raise SystemExit(f"the server ended: {said}")
        said += line.strip()
    address = re.search(r"http://[^/]+", said)
    assert address is not None
    return server, address[0]


def add_people(where: Path, number: int) -> list[str]:
    from observal.journal.sql.people import add_person
    from observal.journal.sql.store import open_store

    with open_store(where).writing() as transaction:
        return [add_person(transaction, f"p{k}") for k in range(number)]


def probe_disk(folder: Path, writes: int = 200) -> list[float]:
    """Return the seconds of each write that survives a power cut."""
    times = []
    with open(folder / "probe", "wb") as file:
        for _ in range(writes):
            start = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return times


def count_stored(where: Path) -> Counter[str]:
    """Return how often each row was answered, by the journal."""
    import observal as ob

    campaign = ob.Campaign.open(where)
    campaign.check()
    answered = (entry for entry in campaign.history() if entry.kind == "answered")
    return Counter(str(answer["id"]) for entry in answered for answer in entry.details["answers"])


def line(name: str, times: list[float], wanted: str = "") -> str:
    middle, high = np.quantile(times, (0.5, 0.99))
    return f"| {name} | {len(times)} | {1e3 * middle:.1f} | {1e3 * high:.1f} | {1e3 * max(times):.0f} | {wanted} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--method", choices=METHODS, default="newton")
    parser.add_argument("--round", type=int, default=1000, help="rows of a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        where = folder / "campaign.db"
        total = int(options.people * EACH_SECOND * options.seconds)
        in_new_process(make_campaign, where, 3 * total + 5000, options.method, options.round)
        tokens = add_people(where, options.people)
        disk = probe_disk(folder)
        server, address = start_server(where)
        try:
            in_new_process(work_as_client, address, tokens, options.seconds, folder / "log.json")
        finally:
            server.terminate()
            server.wait(30)
        log = Log(**json.loads((folder / "log.json").read_text()))
        stored = count_stored(where)
    print(
        f"{options.people} people, {EACH_SECOND} answers a second each, {options.seconds:g} s, rounds of {options.round} by {options.method}\n"
    )
    print("| | requests | median ms | 99 % below, ms | longest ms | wanted |\n| --- | --- | --- | --- | --- | --- |")
    print(line("tell", log.tell, "99 % below 100"))
    print(line("ask", log.ask, "99 % below 500"))
    print(line("all at one instant", log.instant, "below 1000"))
    print(line("without a row to answer", log.idle))
    print(line("one write to the disk", disk))
    lost = Counter(log.rows) - stored
    twice = stored - Counter(log.rows)
    print(f"\n{len(log.rows)} answers, {lost.total()} lost, {twice.total()} stored twice or by nobody.")
    if lost or twice:
        raise SystemExit("answers were lost or stored twice")


if __name__ == "__main__":
    main()
