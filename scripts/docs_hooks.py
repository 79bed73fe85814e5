"""A hook of mkdocs: docstrings name things as Sphinx does, ``:class:`~observal.problem.types.Pool```; show that as code."""

from __future__ import annotations

import re
from typing import Any

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):<code>(~?)([\w.]+)</code>")


def on_page_content(html: str, **_: Any) -> str:
    """Replace every role by the name that it points to; only its last part where the role says so by ``~``."""
    return ROLE.sub(lambda m: f"<code>{m[2].rpartition('.')[2] if m[1] else m[2]}</code>", html)
