"""A real PostgreSQL server on loopback for tests: ``postgres`` is a fixture that makes a new, empty schema at each call."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Yield a function that returns an address with a new, empty schema: a whole database each would take ten times as long."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL's server is not installed; scripts/setup_system.sh installs it")
    with _server(binaries) as address:
        numbers = count(1)

        def new_address() -> str:
            name = f"campaign_{next(numbers)}"
            _execute(f"{address}/postgres", f"CREATE SCHEMA {name}")
            return f"{address}/postgres?options=-csearch_path%3D{name}"

        yield new_address


def _binaries() -> Path | None:
    """Return the folder of initdb and postgres, the newest that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    if found:
        return found[-1].parent
    installed = shutil.which("initdb")
    return Path(installed).parent if installed else None


@contextmanager
def _server(binaries: Path) -> Iterator[str]:
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="observal-postgres-"))
    try:
        if user:
            shutil.chown(folder, user)
        options = {"user": user, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        data = folder / "data"
        initdb = [binaries / "initdb", "-D", data, "-U", "observal", "--auth=trust", "--no-sync", "--encoding=UTF8"]
        subprocess.run([*initdb, "--locale=C"], check=True, **options)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": ""}
        settings |= dict.fromkeys(
            ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"), "off"
        )  # only quick
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        server = subprocess.Popen([binaries / "postgres", "-D", data, *flags], **options)
        try:
            address = f"postgresql://observal@127.0.0.1:{port}"
            _wait_for(f"{address}/postgres", server)
            yield address
        finally:
            server.send_signal(signal.SIGQUIT)  # at once, and nothing more is written: its data are thrown away
            server.wait(timeout=60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            _execute(address, "SELECT 1")
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _execute(address: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True, connect_timeout=10) as connection:
        connection.execute(statement)  # type: ignore[arg-type]
