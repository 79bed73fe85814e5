"""A real browser for tests: ``browser`` is Debian's Chromium, driven by Playwright, without a network.

``open_page`` opens a page in a new profile of its own. A page that reports an error in its console, such as a breach of the content
security policy, fails its test when it ends.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

STATIC = Path(__file__).parents[1] / "src" / "observal" / "server" / "static"
AXE = Path(__file__).parent / "fixtures" / "axe" / "axe.min.js"
DESKTOP, PHONE = {"width": 1200, "height": 900}, {"width": 390, "height": 844}
TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed; scripts/setup_system.sh installs it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


class Windows:
    """Pages of a browser. Whatever a page reports as an error, and was not expected to, is collected."""

    def __init__(self, browser: Any) -> None:
        self._browser, self._contexts = browser, []
        self.errors: list[str] = []

    def open(
        self, url: str | None = None, *, expected: tuple[str, ...] = (), static: bool = False, **options: Any
    ) -> Any:
        """Open a page in a profile of its own; `expected` are parts of error messages that the test provokes."""
        context = self._browser.new_context(**{"viewport": DESKTOP, "reduced_motion": "reduce", **options})
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # other tests run at the same time

        def note(text: str) -> None:
            if not any(part in text for part in expected):
                self.errors.append(text)

        page.on("pageerror", lambda error: note(str(error)))
        page.on("console", lambda message: note(message.text) if message.type == "error" else None)
        if static:
            context.route("http://observal.test/**", _serve_static)
        if url:
            page.goto(url)
        if url and "/login?" in url:
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(lambda address: "/login" not in address)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Yield a function that opens a page for one test."""
    windows = Windows(browser)
    yield windows.open
    windows.close()
    assert not windows.errors, windows.errors


def _serve_static(route: Any) -> None:
    """Answer with a file of the front end, under the policy of the real server."""
    path = route.request.url.removeprefix("http://observal.test").removeprefix("/static")
    headers = {"Content-Security-Policy": POLICY}
    if path == "/":
        links = "".join(f'<link rel="stylesheet" href="/static/{name}.css">' for name in ("labeller", "style"))
        page = f'<!doctype html><html lang="en"><title>Label</title>{links}<main id="view"></main>'
        route.fulfill(body=page, content_type="text/html", headers=headers)
        return
    file = STATIC / path.lstrip("/")
    if not file.is_file():
        route.fulfill(status=204)
        return
    route.fulfill(body=file.read_bytes(), content_type=TYPES[file.suffix], headers=headers)


def until(page: Any, condition: str, seconds: float = 60.0) -> None:
    """Wait until a JavaScript expression is true; Playwright's own way of waiting is forbidden by the page's policy."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, f"still not so after {seconds:.0f} s: {condition}"
        page.wait_for_timeout(20)


def violations(page: Any) -> list[str]:
    """Return what axe-core finds wrong for people who use a screen reader or a keyboard, or need contrast."""
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{one['id']}: {one['help']}: {[node['html'] for node in one['nodes']][:3]}" for one in found]
