"""Checks of every request before it is handled: the right host, the right origin, a small body; and the headers of every reply."""

from __future__ import annotations

import asyncio
import base64
import hmac
import ipaddress
import json
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 2**20  # of a request's body
BODY_SECONDS = 15.0  # in which the whole body must have come
TOOL = "/label-studio"  # the requests of Label Studio, which has a token instead of a cookie
MOST_TOOL_BYTES = 64 * 2**20  # it sends all tasks of a project at once
_TOO_LONG = f"A request may have at most {MOST_BYTES} bytes; send fewer answers at once."

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "cache-control": "no-store",
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

    `hosts` are the names that browsers may use for the server. With `any_address` a bare IP address is accepted as well: no other site can
    make a browser send one for its own name. With `tool_token` Label Studio may call; without one it may not.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str] = LOOPBACK, any_address: bool = False, tool_token: str | None = None
    ) -> None:
        self.app = app
        self._tool_token = tool_token
        self._hosts = {host.lower() for host in hosts}
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        send = _add_headers(send)
        is_tool = self._tool_token is not None and scope["path"].startswith(f"{TOOL}/")
        most = MOST_TOOL_BYTES if is_tool else MOST_BYTES
        refusal = self._refuse_tool(headers) if is_tool else self._refuse(scope["method"], scope["scheme"], headers)
        length = headers.get("content-length", "0")
        if refusal is None and length.isdecimal() and int(length) > most:
            refusal = 413, _TOO_LONG
        if refusal:
            await _reply(send, *refusal)
            return
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(receive, most)
        except TimeoutError:
            await _reply(send, 408, f"The request did not arrive within {BODY_SECONDS:g} seconds; send it again.")
            return
        if body is None:
            await _reply(send, 413, _TOO_LONG)
            return
        await self.app(scope, _repeat_body(body, receive), send)

    def _refuse(self, method: str, scheme: str, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return the status and the sentence with which a request is refused; None if it may pass."""
        host = headers.get("host", "")
        if not self._is_allowed(host):
            return 400, "This server does not answer to that host name; open the address that `observal serve` printed."
        if method not in ("GET", "HEAD", "POST"):
            return 405, "This server accepts only GET and POST."
        if method == "POST":
            origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
            elsewhere = origin is not None and origin.lower() != f"{scheme}://{host.lower()}"
            if elsewhere or site != "same-origin" or headers.get("x-observal") != "1":
                return 403, (
                    "A change must come from the page itself: same origin, with the header X-Observal: 1; "
                    "a proxy with TLS must send X-Forwarded-Proto: https."
                )
            if headers.get("content-type", "").split(";")[0].strip() != "application/json":
                return 415, "A request must be JSON; send it with the header Content-Type: application/json."
        return None

    def _refuse_tool(self, headers: dict[str, str]) -> tuple[int, str] | None:
        """Return why Label Studio may not call; no browser sends this token by itself, so it stands for host and origin."""
        kind, _, secret = headers.get("authorization", "").partition(" ")
        if kind.lower() == "basic":
            try:
                secret = base64.b64decode(secret).decode(errors="replace").partition(":")[2]
            except ValueError:
                secret = ""
        assert self._tool_token is not None
        if hmac.compare_digest(secret.encode(), self._tool_token.encode()):
            return None
        return (
            401,
            "The token is wrong; start `observal serve --label-studio` again, which gives Label Studio a new one.",
        )

    def _is_allowed(self, host: str) -> bool:
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


async def _read_body(receive: Receive, most: int) -> bytes | None:
    """Return the whole body; None if it is too long, or if the browser has disconnected."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _repeat_body(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was already read, and then everything that follows it."""
    unread = [body]

    async def read() -> Message:
        return {"type": "http.request", "body": unread.pop(), "more_body": False} if unread else await receive()

    return read


def _add_headers(send: Send) -> Send:
    """Return a function that sends a reply with our headers added, unless it has them."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message["headers"]}
            extra = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in names]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return send_with_headers


async def _reply(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers.append((b"connection", b"close"))  # the rest of the request's body would be taken for the next request
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
