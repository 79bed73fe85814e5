"""Checks of every request before it is handled: the right host, the right origin, a small body; and the headers of every reply."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

MOST_BYTES = 2**20  # of a request's body
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("127.0.0.2"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Refuses requests that a browser would not send to this page from this page.

    Parameters
    ----------
    app : ASGI application
        What handles the requests that pass.
    hosts : collection of str
        The host names that browsers may use for the server.
    any_address : bool
        Whether a bare IP address will do as well: no other site can make a browser send one for its own name.
    """

    def __init__(self, app: Any, hosts: Collection[str] = LOOPBACK, any_address: bool = False) -> None:
        self.app = app
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        sending = _with_headers(send)
        if refusal := self._refusal(scope["method"], scope["path"], headers):
            await _reply(sending, *refusal)
            return
        body = await _body(receive)
        if body is None:
            await _reply(sending, 413, f"A request may have at most {MOST_BYTES} bytes; send fewer answers at once.")
            return
        await self.app(scope, _again(body, receive), sending)

    def _refusal(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if not self._known(host):
            return 400, "This server does not answer to that host name; open the address that `observal serve` printed."
        if method not in ("GET", "HEAD", "POST"):
            return 405, "Only GET and POST are understood here."
        if method == "POST":
            origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
            elsewhere = origin is not None and _netloc(origin) != host.lower()
            if elsewhere or site != "same-origin" or headers.get("x-observal") != "1":
                return 403, "A change must come from the page itself: same origin, with the header X-Observal: 1."
            if path.startswith("/api/") and headers.get("content-type", "").split(";")[0].strip() != "application/json":
                return 415, "A request must be JSON; send it with the header Content-Type: application/json."
        if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > MOST_BYTES:
            return 413, f"A request may have at most {MOST_BYTES} bytes; send fewer answers at once."
        return None

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def _body(receive: Receive) -> bytes | None:
    """Return the whole body; None if it is too long, or if the other side has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > MOST_BYTES:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was already read, and then whatever else comes."""
    left = [body]

    async def read() -> Message:
        return {"type": "http.request", "body": left.pop(), "more_body": False} if left else await receive()

    return read


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            have = {name.lower() for name, _ in message["headers"]}
            ours = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in have]
            if b"cache-control" not in have:
                ours.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return sending


async def _reply(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
