"""A real Label Studio for tests, what it and we sent each other, and a stand-in that sends the same again.

``python -m tests.label_studio`` records the exchange of ``play`` with the real one; ``scripts/setup_label_studio.sh`` installs it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from unittest import mock

import uvicorn
from starlette.testclient import TestClient

from observal.campaign import Campaign
from observal.exchange.label_studio_api import LabelStudioApi, send
from observal.server import desk as desk_module
from observal.server.desk import Desk
from observal.server.guard import Guard
from observal.server.routes import create_app
from observal.server.serving import listen
from observal.server.studio import Studio
from tests.page_server import make_loans
from tests.serving import InThread

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "tests" / "fixtures" / "label_studio.json"
OUR_ADDRESS, THEIR_ADDRESS = "http://127.0.0.1:8787", "http://127.0.0.1:8080"
KEY, TOKEN = "0123456789abcdef0123456789abcdef01234567", "a-token-for-tests"
_SECRET = {"token", "access_token", "basic_auth_pass", "hostname", "version", "unique_id", "unique_lock_id"}


def find_label_studio() -> str | None:
    """Return the program that starts Label Studio, if it is installed."""
    own = ROOT / ".venv" / "label-studio" / "bin" / "label-studio"
    return os.environ.get("LABEL_STUDIO") or (str(own) if own.exists() else None)


@contextlib.contextmanager
def running_label_studio(**settings):
    """Start Label Studio with a database of its own, yield its address, and end it."""
    program, folder = find_label_studio(), tempfile.mkdtemp(prefix="label-studio-")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = {
        "LABEL_STUDIO_BASE_DATA_DIR": folder,
        "LABEL_STUDIO_USERNAME": "ann@example.org",
        "LABEL_STUDIO_PASSWORD": secrets.token_hex(8),
        "LABEL_STUDIO_USER_TOKEN": KEY,
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "SSRF_PROTECTION_ENABLED": "false",
        "ML_BLOCK_LOCAL_IP": "false",
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        **settings,
    }
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | names
    command = [program, "start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    with open(Path(folder) / "log.txt", "w") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 600  # it makes a database first
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=2):
                break
            assert process.poll() is None, (Path(folder) / "log.txt").read_text()[-2000:]
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


class Answering:
    """Somebody who answers in Label Studio through its API, by the truth about the loans of ``make_loans``.

    Parameters
    ----------
    address : str
        Of Label Studio.
    transport : callable
        How requests are sent.
    """

    def __init__(self, address, transport=send, key=KEY):
        self.api = LabelStudioApi(address, key, transport)

    def result(self, label):
        value = {"value": {"choices": [label]}}
        return [{"id": "p1", "from_name": "label", "to_name": "row", "type": "choices", **value}]

    def answer(self, task, label):
        return self.api.call("POST", f"tasks/{task['id']}/annotations/", {"result": self.result(label)})["id"]

    def skip(self, task):
        return self.api.call("POST", f"tasks/{task['id']}/annotations/", {"result": [], "was_cancelled": True})["id"]

    def edit(self, annotation, label):
        self.api.call("PATCH", f"annotations/{annotation}/", {"result": self.result(label)})

    def delete(self, annotation):
        self.api.call("DELETE", f"annotations/{annotation}/")


def true_label(task):
    """Return what a loan's row says, if one can add."""
    cells = dict(line.split(": ", 1) for line in task["data"]["row"].splitlines())
    return "yes" if float(cells["income"]) + float(cells["debt"]) > 0 else "no"


# -- what was sent ------------------------------------------------------------------------------------------------


class Live:
    """Our application where Label Studio can reach it; notes each request to Label Studio with the calls that it made meanwhile."""

    def __init__(self, address):
        self.address, self.calls, self._callbacks = address, [], []
        self.offline = False
        self._listener = listen("127.0.0.1", 0)
        self.our_address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self, guarded):
        self._app = guarded
        config = uvicorn.Config(
            self._note_callback, interface="asgi3", log_level="warning", access_log=False, lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()

    def close(self):
        self._server.should_exit = True
        self._thread.join(15)

    def send(self, method, address, headers, body):
        status, reply = send(method, address, headers, body)
        path = address.removeprefix(f"{self.address}/api/")
        sent, got = (json.loads(content) if content else None for content in (body, reply))
        call = {"method": method, "path": path, "body": sent, "status": status, "reply": got}
        self.calls.append({**call, "callbacks": self._callbacks})
        self._callbacks = []
        return status, reply

    async def _note_callback(self, scope, receive, send_reply):
        message = await receive()
        body, sent, status = message["body"], [], []

        async def receive_again():
            return message

        async def note(reply):
            status.append(reply.get("status"))
            sent.append(reply.get("body", b""))
            await send_reply(reply)

        if self.offline:  # as if nobody listened
            await note({"type": "http.response.start", "status": 503, "headers": []})
            await note({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive_again, note)
        content = json.loads(body) if body else None
        if content and isinstance(content.get("project"), dict):
            content["project"] = {"id": content["project"]["id"]}  # all of its settings, which nobody reads
        callback = {"method": scope["method"], "path": scope["path"], "body": content}
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        callback["authorization"] = headers["authorization"].split()[0]
        self._callbacks.append({**callback, "status": status[0], "reply": json.loads(b"".join(sent))})


class Replayed:
    """Stands in for Label Studio: expects the recorded requests in their order, makes the recorded calls, gives the recorded replies."""

    address, our_address = THEIR_ADDRESS, OUR_ADDRESS

    def __init__(self, campaign):
        text = RECORDING.read_text()
        self._left = json.loads(text.replace("CAMPAIGN", campaign))
        self.offline = False

    def serve(self, guarded):
        self._client = TestClient(guarded, base_url=OUR_ADDRESS)

    def close(self):
        assert not self._left, f"{len(self._left)} recorded requests were not sent"

    def send(self, method, address, headers, body):
        call = self._left.pop(0)
        expected = (call["method"], call["path"])
        assert (method, address.removeprefix(f"{self.address}/api/")) == expected
        assert headers["Authorization"] == f"Token {KEY}"
        sent = json.loads(body) if body else None
        assert scrub(sent) == scrub(call["body"])
        for callback in call["callbacks"]:
            sign = {"Bearer": {"headers": {"Authorization": f"Bearer {TOKEN}"}}, "Basic": {"auth": ("observal", TOKEN)}}
            reply = self._client.request(
                callback["method"], callback["path"], json=callback["body"], **sign[callback["authorization"]]
            )
            assert (reply.status_code, scrub(reply.json())) == (callback["status"], scrub(callback["reply"]))
        return call["status"], json.dumps(call["reply"]).encode() if call["reply"] is not None else b""


def scrub(content):
    """Return a body without what differs between machines and runs: secrets, and the model's last digits."""
    if isinstance(content, dict):
        return {
            name: "…" if name in _SECRET else round(value, 6) if name == "score" and value else scrub(value)
            for name, value in content.items()
        }
    return [scrub(item) for item in content] if isinstance(content, list) else content


def clean(calls, campaign, live):
    """Return what was recorded without this machine's addresses and secrets."""
    calls = [{**call, "reply": _shorten(call["reply"])} for call in scrub(calls)]
    text = json.dumps(calls, separators=(",", ":"), ensure_ascii=False).replace('{"method"', '\n{"method"')
    for old, new in (
        (campaign, "CAMPAIGN"),
        (live.our_address, OUR_ADDRESS),
        (live.address, THEIR_ADDRESS),
    ):
        text = text.replace(old, new)
    assert not re.search(r"/tmp|/home|localhost:", text)
    return text


def _shorten(content):
    """Return replies without fields that are empty or repeat others, most of what Label Studio sends."""
    if isinstance(content, list):
        return [_shorten(item) for item in content]
    if not isinstance(content, dict):
        return content
    repeated = {"predictions", "annotations_results", "predictions_results", "parsed_label_config", "control_weights"}
    repeated |= {
        "predictions_model_versions",
        "created_by",
        "config_has_control_tags",
        "created_username",
        "created_ago",
    }
    return {
        name: _shorten(value) for name, value in content.items() if value not in (None, "") and name not in repeated
    }


# -- the scene ----------------------------------------------------------------------------------------------------


def play(folder: Path, exchange_of) -> tuple[Campaign, object]:
    """Label two rounds in Label Studio with everything that people do there; return the campaign and what was exchanged."""
    make_loans(folder / "c.db", labels=8, batch=4)
    with mock.patch.object(desk_module, "Worker", InThread):
        desk = Desk(str(folder / "c.db"))
    exchange = exchange_of(desk.id)
    with mock.patch("secrets.token_urlsafe", return_value=TOKEN):
        studio = Studio(LabelStudioApi(exchange.address, KEY, exchange.send), desk, None, exchange.our_address)
    try:
        exchange.serve(Guard(create_app(desk, studio), tool_token=TOKEN))
        studio.connect()
        _label(studio, desk, Answering(exchange.address, exchange.send), exchange)
        exchange.close()
    finally:
        desk.close()
    return Campaign.open(folder / "c.db"), exchange


def _label(studio, desk, ann, exchange):
    first = _tasks_of_round(studio, desk, ann, 4)
    data = {"id": first[0]["data"]["id"], "row": "income: 1\ndebt: 1", "reason": ""}
    ann.api.call("POST", f"projects/{studio.project}/import", [{"data": data}])  # the same id, but not ours
    foreign = next(t for t in _all_tasks(studio, ann) if "observal" not in t["data"])
    ann.answer(foreign, "no")
    ann.edit(ann.answer(first[3], "yes" if true_label(first[3]) == "no" else "no"), true_label(first[3]))
    ann.skip(first[1])
    deleted = ann.answer(first[0], true_label(first[0]))
    ann.delete(deleted)
    studio.synchronise()  # takes the answer back
    ann.answer(first[0], true_label(first[0]))
    exchange.offline = True
    ann.answer(first[2], true_label(first[2]))  # we do not hear of it
    exchange.offline = False
    second = _tasks_of_round(studio, desk, ann, 8)[4:]
    ids = {"id": "retrieve_tasks_predictions", "project": studio.project}
    ann.api.call("POST", "dm/actions/", {"selectedItems": {"all": True, "excluded": []}}, **ids)
    for task in reversed(second):
        ann.answer(task, true_label(task))
    _tasks_of_round(studio, desk, ann, 9)
    # The skip left one label to buy.
    last = _all_tasks(studio, ann)[-1]
    ann.answer(last, true_label(last))
    _wait(desk)


def _tasks_of_round(studio, desk, ann, tasks):
    """Have answers read and rows sent until there are so many tasks, and return ours in the order of the rounds."""
    studio._read_tasks()  # and only then more: how soon a round is chosen must not change what is sent
    _wait(desk)
    studio.look_again()
    studio.synchronise()
    found = [task for task in _all_tasks(studio, ann) if "observal" in task["data"]]
    assert [task["data"]["order"] for task in found] == list(range(1, tasks + 1))
    return found


def _all_tasks(studio, ann):
    return ann.api.call("GET", "tasks", project=studio.project, fields="all", page_size=100)["tasks"]


def _wait(desk):
    deadline = time.monotonic() + 60
    while desk.worker.fitting:
        assert time.monotonic() < deadline
        time.sleep(0.02)


if __name__ == "__main__":
    with running_label_studio() as found, tempfile.TemporaryDirectory() as place:
        made, live = play(Path(place), lambda _: Live(found))
        RECORDING.write_text(clean(live.calls, made.engine.read().first_digest[:12], live) + "\n")
        print(f"{len(live.calls)} requests: {RECORDING}")
