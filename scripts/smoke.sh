#!/bin/sh
# Try whether observal works with another Python: install it into an environment of its own and label a few rows.
# usage: smoke.sh PYTHON
set -eu
version=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || exit 0  # a shim without a Python behind it
place=.venv/smoke-$version
if ! [ -x "$place/ready" ] || [ pyproject.toml -nt "$place/ready" ]; then
    echo "Installing observal for Python $version …"
    if ! { "$1" -m venv "$place" && "$place/bin/python" -m pip install --quiet --disable-pip-version-check --editable .; }; then
        echo "observal could not be installed for Python $version, so it was not tried there." >&2
        exit 0
    fi
    install -m 755 /dev/null "$place/ready"
fi
"$place/bin/python" - <<'PYTHON'
import re
from pathlib import Path

code = re.search(r"```python\n(.*?)```", Path("README.md").read_text(encoding="utf-8"), re.DOTALL)
exec(code[1])
PYTHON
"$place/bin/observal" --version
echo "observal works with Python $version."
