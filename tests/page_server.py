"""``observal serve`` for tests in a browser: as a process of its own, which can be killed and started again, or in a thread."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import uvicorn

from observal.campaign import Campaign
from observal.journal.sql.people import add_person
from observal.journal.sql.store import open_store
from observal.methods import NewtonVC
from observal.server import desk
from observal.server.guard import Guard
from observal.server.routes import create_app
from observal.server.serving import listen, owner_link
from tests.serving import InThread


class Server:
    """A served campaign.

    Parameters
    ----------
    campaign : Path
        The campaign.
    arguments : str
        Further arguments of ``observal serve``.
    """

    def __init__(self, campaign: Path, *arguments: str) -> None:
        self.campaign, self._arguments = campaign, arguments
        self.port = 0
        self.start()

    def start(self) -> None:
        """Start the server, after the first time on the same port, and note its link."""
        command = [sys.executable, "-m", "observal", "serve", str(self.campaign), "--port", str(self.port)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*command, *self._arguments], stdout=pipe, text=True, env=os.environ)
        assert self._process.stdout is not None
        said = ""
        while "token=" not in said:
            line = self._process.stdout.readline()
            assert line, f"the server ended: {said}"
            said += line.strip()  # the terminal may break a long line
        self.link = re.search(r"http://\S+token=\S+", said)[0]  # type: ignore[index]
        self.port = int(re.search(r":(\d+)/", self.link)[1])  # type: ignore[index]
        self.address = f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End the server as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=30)

    def stop(self) -> None:
        """End the server as Ctrl+C would."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self.kill()

    def add(self, name: str) -> str:
        """Add an annotator and return their link."""
        with open_store(self.campaign).writing() as transaction:
            return f"{self.address}/login?token={add_person(transaction, name, 'annotator')}"


class ThreadServer(Server):
    """The same server in a thread, and its fitting in another: two processes would take seconds to start. It cannot be killed."""

    def start(self) -> None:
        """Start the server and note its link."""
        listening = listen("127.0.0.1", self.port)
        self.port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        with mock.patch.object(desk, "Worker", InThread):
            app = Guard(create_app(desk.Desk(str(self.campaign), *self._arguments)))
        config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on")
        config.load()
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([listening],), daemon=True)
        self.link = owner_link(open_store(self.campaign), "127.0.0.1", self.port)
        self._thread.start()

    def stop(self) -> None:
        """End the server."""
        self._server.should_exit = True
        self._thread.join(15)


def make_loans(path: Path, labels: int = 40, batch: int = 40, overlap: int = 1, **more: Any) -> Campaign:
    """Make a small campaign whose rounds are quick to fit."""
    import pyarrow as pa

    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3)).round(2)
    repaid = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    chance = np.where(X[:, 0] > 0, 0.7, 0.2)
    shown = rng.random(200) < chance[:200]
    purpose = rng.choice(["car", "house", "<b>holiday</b>"], 900)

    def table(rows: slice) -> Any:
        names = {"income": X[rows, 0], "debt": X[rows, 1], "age": X[rows, 2], "purpose": purpose[rows]}
        return pa.table({"loan": [f"L{n}" for n in range(900)[rows]], **names, "q0": chance[rows]})

    log, pool = slice(0, 200), slice(200, 900)
    answers = pa.array(np.where(shown, repaid[log], None).tolist(), pa.string())
    settings = {"label": "repaid", "propensity": "q0", "id": "loan", "label_budget": labels, "overlap": overlap}
    method = NewtonVC(batch=batch)
    return Campaign.create(
        path, table(log).append_column("repaid", answers), table(pool), method=method, **settings, **more
    )
