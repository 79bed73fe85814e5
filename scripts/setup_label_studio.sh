#!/bin/sh
# Install Label Studio into an environment of its own, because it wants older versions of some packages than we do.
# Does nothing if it is there. `make verify` calls it; the tests find it by its place.
set -eu
place=${1:-.venv/label-studio}
python=${PYTHON:-python3.11}
if [ -x "$place/bin/label-studio" ]; then
    exit 0
fi
echo "Installing Label Studio into $place for the tests …"
if "$python" -m venv "$place" && "$place/bin/python" -m pip install --quiet --disable-pip-version-check label-studio; then
    exit 0
fi
rm -rf "$place"
echo "Label Studio could not be installed; tests that need it are skipped." >&2
