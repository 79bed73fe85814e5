"""``observal serve`` as a process: killed and started again, and with many people at once."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np

import observal as ob
from observal.campaign import Campaign
from observal.journal.sql import people
from observal.journal.sql.store import open_store
from tests.campaigns import make_campaign, truth_of
from tests.serving import Server, new_key

PEOPLE, EACH_SECOND = 50, 2


class Person:
    """Somebody's browser at a real server; a request that got no reply is sent again with the same key, as the page does."""

    def __init__(self, address, link):
        self.client = httpx.Client(base_url=address, timeout=30)
        reply = self.client.post("/login", json={"token": link.split("token=")[1]}, headers={"X-Observal": "1"})
        assert reply.status_code == 204

    def post(self, path, **body):
        deadline = time.monotonic() + 60
        while True:
            try:
                reply = self.client.post(f"/api/v1/{path}", json=body, headers={"X-Observal": "1"})
                assert reply.status_code == 200, reply.text
                return reply.json()
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def ask(self, n):
        while (reply := self.post("ask", n=n))["fitting"]:
            time.sleep(0.05)
        return reply["rows"]

    def tell(self, row, key):
        return self.post("tell", key=key, answers=[{"id": row["id"], "label": truth_of(int(row["id"]))}])


def test_killed_and_restarted_server_loses_and_repeats_no_answer(tmp_path):
    make_campaign(tmp_path / "c.db")
    server = Server(tmp_path / "c.db", "--port", 0)
    try:
        ann = Person(server.address, server.link)
        rows = ann.ask(8)
        key = new_key()
        first = ann.tell(rows[0], key)
        server.kill()
        killed = threading.Thread(target=ann.tell, args=(rows[1], new_key()))  # waits until the server is back
        killed.start()
        server = Server(tmp_path / "c.db", "--port", server.address.rsplit(":", 1)[1])
        killed.join(60)
        assert ann.tell(rows[0], key) == first  # the reply got lost, so it is sent again
        assert [row["id"] for row in ann.ask(8)] == [row["id"] for row in rows[2:]]  # and the cookie still works
        for row in rows[2:]:
            ann.tell(row, new_key())
        assert {row["round"] for row in ann.ask(8)} == {2}  # the other process works after a restart, too
        assert Campaign.open(tmp_path / "c.db").status().labels == 8
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
        assert "Traceback" not in server.process.stderr.read()
    finally:
        server.kill()
    assert Campaign.open(tmp_path / "c.db").check().labels == 8


def large_campaign(where, rounds):
    """Make a campaign with as many rows as people answer, in several rounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 3))
    y = np.where(X[:, 0] > 0, "yes", "no").astype(object)
    logged = ob.LoggedData(X[:1000], y[:1000], 0.5)
    method = ob.NewtonVC(batch=rounds, ridge=0.01, tempering=0.5)
    Campaign.create_from_arrays(where, logged, ob.Pool(X[1000:], 0.5), method=method, tolerance=None)


class Connection:
    """A connection that stays open, with no more than what a request needs: two cores serve the people, too."""

    def __init__(self, address, cookie):
        self.host, self.port = address.removeprefix("http://").split(":")
        self.cookie = cookie

    async def __aenter__(self):
        self.reader, self.writer = await asyncio.open_connection(self.host, int(self.port))
        return self

    async def __aexit__(self, *_):
        self.writer.close()

    async def post(self, path, body):
        content = json.dumps(body).encode()
        head = (
            f"POST /api/v1/{path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nCookie: {self.cookie}\r\nX-Observal: 1\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self.writer.write(head.encode() + content)
        said = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(said.split("content-length:")[1].split("\r\n")[0])
        reply = json.loads(await self.reader.readexactly(length))
        assert " 200 " in said.split("\r\n")[0], reply
        return reply


async def one_person(address, cookie, name, seconds, offset, told):
    """Answer two rows a second, with the next rows already there."""
    rows = []
    async with Connection(address, cookie) as page:
        begin = asyncio.get_running_loop().time() + offset  # people do not press keys all at the same time
        total = seconds * EACH_SECOND
        for number in range(total):
            while not rows:
                reply = await page.post("ask", {"n": min(10, total - number)})  # none is left behind when they go
                rows = reply["rows"]
                if not rows:
                    await asyncio.sleep(0.2)
            row = rows.pop(0)
            await asyncio.sleep(max(0.0, begin + number / EACH_SECOND - asyncio.get_running_loop().time()))
            body = {"key": f"{name}-{number}", "answers": [{"id": row["id"], "label": "yes"}]}
            assert (await page.post("tell", body))["labels"] == 1
            told.append(row["id"])
            if number % 7 == 0:  # a reply that got lost
                assert (await page.post("tell", body))["labels"] == 1


def load(where, seconds):
    """Have people answer for some seconds, and check that no answer was lost or counted twice."""
    large_campaign(where, rounds=PEOPLE * EACH_SECOND * max(seconds // 3, 2))
    server = Server(where, "--port", 0)
    told = []
    try:
        cookies = []
        for k in range(PEOPLE):
            with open_store(where).writing() as transaction:
                token = people.add_person(transaction, f"p{k}")
            reply = httpx.post(f"{server.address}/login", json={"token": token}, headers={"X-Observal": "1"})
            cookies.append("; ".join(f"{name}={value}" for name, value in reply.cookies.items()))

        async def everybody():
            await asyncio.gather(
                *(
                    one_person(server.address, cookie, f"p{k}", seconds, k / PEOPLE / EACH_SECOND, told)
                    for k, cookie in enumerate(cookies)
                )
            )

        with ThreadPoolExecutor(1) as apart:  # a browser of another test may have a loop running in this thread
            apart.submit(asyncio.run, asyncio.wait_for(everybody(), 60 + 3 * seconds)).result()
    finally:
        server.kill()
    campaign = Campaign.open(where)
    assert len(told) == len(set(told)) == PEOPLE * EACH_SECOND * seconds == campaign.status().labels
    answered = Counter(
        str(answer["id"])
        for entry in campaign.history()
        if entry.kind == "answered"
        for answer in entry.details["answers"]
    )
    assert answered == Counter(told)
    campaign.check()


def test_fifty_people_lose_and_repeat_no_answer(tmp_path):
    """How long they wait is measured by benchmarks/bench_page.py."""
    load(tmp_path / "c.db", 4)
