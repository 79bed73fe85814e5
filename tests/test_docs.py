"""Every snippet in README and docs runs, every docstring example is right, every example script works."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import sklearn.ensemble  # noqa: F401  (only libraries that are loaded can be limited)
from threadpoolctl import threadpool_limits

import observal
import observal_research
from tests import command

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
RUN_BY_OTHERS = ("__main__",)  # by Python's -m: importing it does something
MODULES = [
    module.name
    for package in (observal, observal_research)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not module.name.endswith(RUN_BY_OTHERS)
]


WALKED = {
    "given-labels.md",
    "tutorial.md",
    "campaigns.md",
    "production.md",
    "rare.md",
}  # their shell commands are run too; others build, or take minutes
BLOCK = re.compile(r"^```(python|sh|text)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shell(commands: str) -> str:
    """Run commands as a reader would, and return what they say; observal itself without a new process."""
    said = ""
    for line in commands.splitlines():
        if line.startswith("observal "):
            words = shlex.split(line, comments=True)
            may_fail = words[-2:] == ["||", "true"]
            done = command.observal(*(words[1:-2] if may_fail else words[1:]))
        else:
            done, may_fail = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False), False
        assert (done.returncode != 0) is may_fail, f"{line}\n{done.stdout}{done.stderr}"
        said += done.stdout + done.stderr
    return said


def tokens(text: str) -> list[str]:
    """Return the words, signs and numbers of a text; times are all alike, and the rules of tables do not count."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text.replace("─", " "))
    return re.findall(r"\d[\d,]*(?:\.\d+)?|[^\d\s]+", text)


def same(shown: str, said: str) -> bool:
    """Whether two tokens agree: exactly, but for the last digit of a decimal fraction, which may be off by one.

    Such a digit depends on how a machine rounds. Counts, row names and words do not, so for these there is no tolerance.
    """
    if shown == said:
        return True
    digits = len(shown.partition(".")[2])
    if digits == 0 or digits != len(said.partition(".")[2]):
        return False
    ones = [round(float(number.replace(",", "")) * 10**digits) for number in (shown, said)]
    return abs(ones[0] - ones[1]) <= 1


def shows(part: str, said: str) -> bool:
    """Whether a text is part of what was said."""
    wanted, found = tokens(part), tokens(said)
    starts = range(len(found) - len(wanted) + 1)
    return any(all(map(same, wanted, found[start : start + len(wanted)])) for start in starts)


def test_number_that_drifted_is_noticed():
    said = "error between 4.3% and 47.7%, 120 of 120 labels of T426 at 2026-01-01 10:00:00"
    assert shows("error between 4.3% and 47.6%, 120 of 120 labels of T426 at 2025-12-31 23:59:59", said)
    for drifted in ("between 4.5% and", "119 of 120", "T425", "4% and", "error between 4.3% and 147.7%", "labels at"):
        assert not shows(drifted, said)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_snippets_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    """Snippets of one page share their names and their folder, as a reader who types them in would have it.

    A text block shows what the block before it printed; an ellipsis stands for what is left out.
    """
    monkeypatch.chdir(tmp_path)
    module = ModuleType("snippet")  # a dataclass looks its module up
    monkeypatch.setitem(sys.modules, "snippet", module)
    names = vars(module)
    said = ""
    for number, (kind, code) in enumerate(BLOCK.findall(page.read_text())):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as printed, threadpool_limits(1):
                exec(compile(code, f"{page.name}, block {number + 1}", "exec"), names)
            said = printed.getvalue()
        elif kind == "sh":
            said = shell(code) if page.name in WALKED else ""
        elif said:
            for part in code.split("…\n"):
                assert shows(part, said), f"{page.name} shows\n{part}\nbut it is now\n{said}"
            said = ""


def test_readme_begins_as_the_tutorial_does():
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    commands = re.findall(r"^observal .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(commands) >= 5
    for line in commands:
        assert f"\n{line}\n" in tutorial, f"the tutorial does not have: {line}"


def test_architecture_lists_every_room_in_import_order():
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Rooms")[2].partition("## ")[0]
    rooms = [set(re.findall(r"`(\w+)`", line.split("|")[1])) for line in table.splitlines() if line.startswith("| `")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert rooms == [set(layer.split(" : ")) for layer in contracts[0]["layers"]]


def test_public_names_agree_in_all_three_lists():
    tree = ast.parse((ROOT / "src/observal/__init__.py").read_text(encoding="utf-8"))
    (checked,) = (node for node in tree.body if isinstance(node, ast.If))
    for_type_checkers = {alias.name for node in checked.body for alias in node.names}
    errors = {"ObservalError", "ObservalWarning"}
    assert for_type_checkers == set(observal.__all__) - errors
    later = {name for homes in (observal._HOMES, observal._MODULES) for names in homes.values() for name in names}
    assert later | {"campaign", "tables"} == for_type_checkers


def test_names_that_are_imported_later_are_there():
    for name in observal.__all__:
        assert getattr(observal, name) is not None
        assert name in dir(observal)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = observal.nothing


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
def test_examples_in_docstrings(module):
    outcome = doctest.testmod(importlib.import_module(module), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert outcome.failed == 0


def test_exact_example_saves_labels_at_the_same_error(tmp_path, monkeypatch):
    """Four paired trials: γ = 0.1 must buy under a quarter of the labels and end within one point of asking for all."""
    example = runpy.run_path(str(ROOT / "examples" / "exact_fewer_labels.py"))
    means = example["main"](4, tmp_path / "figure.png")
    labels, error = means["Algorithm 1, γ = 0.1"]
    all_labels, all_error = means["ask about everything"]
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert labels < all_labels / 4
    assert error < all_error + 0.01


def test_importing_observal_is_light():
    heavy = ["numba", "scipy", "sklearn", "matplotlib", "rich", "typer", "narwhals", "joblib", "pyarrow", "sqlalchemy"]
    code = f"import sys, observal; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"
