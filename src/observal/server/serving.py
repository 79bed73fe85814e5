"""Starting the server: a free port, which hosts are accepted, a link for the owner."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from observal.errors import InvalidInput, hide_secrets
from observal.journal.sql import people
from observal.journal.sql.store import Store, open_store
from observal.server.guard import LOOPBACK, Guard, is_loopback

if TYPE_CHECKING:
    from observal.exchange.label_studio_api import LabelStudioApi

OWNER = "owner"
_MISSING = (
    "The labelling page needs the package {}, which is not installed; install it with `pip install 'observal[server]'`."
)


class LogFormatter(logging.Formatter):
    """Writes what the server logs, without the secrets of addresses."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines for a record, with its traceback."""
        return hide_secrets(super().format(record))


LOGGING: dict[str, object] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"lines": {"()": LogFormatter, "fmt": "%(levelname)s: %(message)s"}},
    "handlers": {"terminal": {"class": "logging.StreamHandler", "formatter": "lines"}},
    "loggers": {"uvicorn": {"handlers": ["terminal"], "level": "WARNING"}},
}


def serve(
    where: str,
    host: str = "127.0.0.1",
    port: int = 8787,
    *,
    title: str = "",
    lease: float = 15.0,
    images: Path | None = None,
    instructions: Path | None = None,
    columns_help: Path | None = None,
    names: Sequence[str] = (),
    label_studio: LabelStudioApi | None = None,
    project: int | None = None,
    url: str = "",
    ready: Callable[[str, str], None],
    warn: Callable[[str], None] = print,
) -> None:
    """Serve a campaign until interrupted.

    Other machines are let in only if people were added. Port 0 takes a free one, and `names` are other host names that browsers may use.
    `title`, `lease`, `images`, `instructions` and `columns_help` are as for ``Desk``; the title is the campaign's name by default.
    `label_studio` is where the campaign is labelled as well, with `project` and `url` as for ``Studio``; by default it reaches us where we
    listen. `ready` is called once the server listens, with the owner's link and the address of the project in Label Studio if there is one;
    `warn` with a sentence when Label Studio cannot be reached.
    """
    try:
        import uvicorn

        from observal.server.desk import Desk
        from observal.server.routes import create_app
        from observal.server.studio import Studio
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING.format(error.name)) from None
    store = open_store(where)
    check_host(store, host)
    with listen(host, port) as listener:
        desk = Desk(where, title or store.title, lease, images, instructions, columns_help)
        own_port = listener.getsockname()[1]
        studio, token, place = None, None, ""
        if label_studio is not None:
            try:
                studio = Studio(label_studio, desk, project, url or address(host, own_port), warn)
            except BaseException:
                desk.close()
                raise
            token, place = studio.token, studio.address
        app = create_app(desk, studio)
        guard = Guard(app, allowed_hosts(host, names), any_address=not is_loopback(host), tool_token=token)
        # No access log: it would contain the tokens of links.
        config = uvicorn.Config(guard, log_config=LOGGING, access_log=False, server_header=False, lifespan="on")
        ready(owner_link(store, host, own_port), place)
        with suppress(KeyboardInterrupt):  # Ctrl+C is how it is stopped; the server has ended properly by then
            uvicorn.Server(config).run(sockets=[listener])


def check_host(store: Store, host: str) -> None:
    """Refuse to let other machines in before people were added."""
    with store.reading() as transaction:
        members = [person for person in people.list_people(transaction) if not person.revoked]
    if not is_loopback(host) and not members:
        raise InvalidInput(
            f"--host {host} lets other machines in, but no people were added to the campaign; "
            "add people first with `observal annotator add CAMPAIGN NAME`."
        )


def owner_link(store: Store, host: str, port: int) -> str:
    """Return a link that signs the first owner in once; an owner is added if there is none."""
    with store.writing() as transaction:
        owners = [p.name for p in people.list_people(transaction) if p.role == "owner" and not p.revoked]
        token = people.add_person(transaction, owners[0] if owners else OWNER, "owner")
    return link(token, host, port)


def link(token: str, host: str, port: int) -> str:
    """Return the address at which a token signs in.

    Examples
    --------
    >>> link("t0", "0.0.0.0", 8787)
    'http://127.0.0.1:8787/login?token=t0'
    """
    return f"{address(host, port)}/login?token={token}"


def address(host: str, port: int) -> str:
    """Return the address at which this machine reaches the server."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"


def allowed_hosts(host: str, names: Sequence[str] = ()) -> set[str]:
    """Return the host names that browsers may use for the server."""
    ours = {socket.gethostname(), socket.getfqdn()} if not is_loopback(host) else set()
    return {*LOOPBACK, host, *names, *ours}


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise an error that says why there is none."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol is named because asyncio sends replies at once (TCP_NODELAY) only then; else each may wait 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        raise InvalidInput(
            f"The server cannot listen on {host}, port {port} ({error.strerror or error}); give another --port or --host."
        ) from None
    return listener
