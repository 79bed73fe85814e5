"""Every snippet in README and docs runs, every docstring example is right, every example script works."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import pytest

import observal

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
MODULES = [m.name for m in pkgutil.walk_packages(observal.__path__, "observal.") if not m.name.endswith("__main__")]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_snippets_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    """Snippets of one page share their names, as a reader who types them in would have it."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "snippet"}
    for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)):
        exec(compile(code, f"{page.name}, snippet {number + 1}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_and_pictures_of_a_page_exist(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_that_a_page_names_exist(page):
    from typer.main import get_command

    from observal.cli import app

    known = set(get_command(app).commands)
    named = set(re.findall(r"\bobserval ([a-z]+)\b", "\n".join(re.findall(r"`([^`\n]+)`", page.read_text()))))
    assert named <= known, f"{page.name} names commands that do not exist: {named - known}"


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_docstrings(module):
    outcome = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


def test_the_exact_example_saves_labels_at_the_same_error(tmp_path, monkeypatch):
    """Four paired trials: γ = 0.1 must buy under a quarter of the labels and end within one point of asking for all."""
    example = runpy.run_path(str(ROOT / "examples" / "exact_fewer_labels.py"))
    means = example["main"](4, tmp_path / "figure.png")
    labels, error = means["Algorithm 1, γ = 0.1"]
    all_labels, all_error = means["ask about everything"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert labels < all_labels / 4
    assert error < all_error + 0.01


def test_importing_observal_is_light():
    import subprocess

    heavy = ["numba", "scipy", "sklearn", "matplotlib", "rich", "typer", "narwhals", "joblib"]
    code = f"import sys, observal; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
