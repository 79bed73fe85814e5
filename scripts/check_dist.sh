#!/bin/sh
# Build wheel and source distribution, check them, install the wheel into an empty environment and run the tutorial with it.
# usage: check_dist.sh PYTHON
set -eu
rm -rf dist .venv/dist
"$1" -m pip install --quiet --disable-pip-version-check build twine
"$1" -m build --outdir dist . >/dev/null
"$1" -m twine check --strict dist/*
"$1" -m venv .venv/dist
wheel=$(ls "$PWD"/dist/*.whl)
.venv/dist/bin/python -m pip install --quiet --disable-pip-version-check "$wheel" pytest
# Not from the source tree: only the tests are taken from there.
PYTHONPATH= .venv/dist/bin/python -m pytest -q --noconftest -p no:cacheprovider tests/test_docs.py -k 'test_snippets and tutorial'
.venv/dist/bin/python -c 'import observal, pathlib; assert "site-packages" in observal.__file__; print(observal.__version__)'
