"""The labelling page's server for tests: in this process with a browser's manners, or as a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time

from starlette.testclient import TestClient

from observal.journal.sql import people
from observal.journal.sql.store import open_store
from observal.server import desk as desk_module
from observal.server.desk import Desk
from observal.server.guard import Guard
from observal.server.routes import create_app
from observal.server.worker import Worker, work

ADDRESS = "http://127.0.0.1:8787"
_keys = itertools.count()


class InThread(Worker):
    """The same worker in a thread: starting a process takes seconds, and one test of it is enough.

    How long a round takes is what a test says (`seconds`): measured, rounds would depend on how busy the machine is.
    """

    def _end_look(self, number, opened, failure=""):
        super()._end_look(number, opened=False, failure=failure)

    def _start(self, context, theirs):
        thread = threading.Thread(target=work, args=(self._where, theirs), daemon=True)
        thread.terminate = lambda: None
        thread.start()
        return thread


class Browser:
    """Somebody's browser: sends what the page sends."""

    def __init__(self, client):
        self.client = client

    def get(self, path, **options):
        return self.client.get(f"/api/v1/{path}", **options)

    def post(self, path, /, **body):
        headers = {"X-Observal": "1", "Origin": ADDRESS, "Content-Type": "application/json"}
        return self.client.post(f"/api/v1/{path}", content=json.dumps(body), headers=headers)  # escapes lone surrogates

    def ask(self, n=10):
        """Return the rows, waiting for the next round as the page does."""
        deadline = time.monotonic() + 60
        while True:
            reply = self.post("ask", n=n)
            assert reply.status_code == 200, reply.text
            if reply.json()["rows"] or not reply.json()["fitting"]:
                return reply.json()
            assert time.monotonic() < deadline, reply.text
            time.sleep(0.02)

    def tell(self, answers, key=None):
        return self.post("tell", key=key or new_key(), answers=[{"id": i, "label": label} for i, label in answers])


def new_key():
    return f"key-{next(_keys)}"


class Site:
    """A served campaign, and browsers of people who have signed in."""

    def __init__(self, where, **options):
        self.where = str(where)
        self.desk = Desk(self.where, **options)
        self.app = create_app(self.desk)
        self.guarded = Guard(self.app)

    def visitor(self):
        """Return the browser of somebody who is not signed in."""
        client = TestClient(self.guarded, base_url=ADDRESS, raise_server_exceptions=False, follow_redirects=False)
        return Browser(client)

    def link(self, name, role="annotator"):
        with open_store(self.where).writing() as transaction:
            return people.add_person(transaction, name, role)

    def browser(self, name, role="annotator"):
        found = self.visitor()
        assert self.sign_in(found, self.link(name, role)).status_code == 204
        return found

    def sign_in(self, browser, token):
        """Press the button on a link's page."""
        headers = {"X-Observal": "1", "Origin": ADDRESS}
        return browser.client.post("/login", json={"token": token}, headers=headers)


@contextlib.contextmanager
def site(monkeypatch, where, **options):
    monkeypatch.setattr(desk_module, "Worker", InThread)
    found = Site(where, **options)
    try:
        yield found
    finally:
        found.desk.close()


class Server:
    """``observal serve`` as a process of its own."""

    def __init__(self, where, *options):
        command = [sys.executable, "-m", "observal", "serve", str(where), *map(str, options)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert "http://" in line, (line, self.process.stderr.read() if self.process.poll() is not None else "")
        self.link = line.split(": ", 1)[1].strip()
        self.address = self.link.split("/login")[0]

    def kill(self):
        self.process.kill()
        self.process.wait(30)

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        return self.process.stderr.read()
