"""The documentation site has every page, every link leads somewhere, and the reference has every public name."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

import observal

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
NAV = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2], re.M)
DOCUMENTED = [
    name for page in DOCS.glob("reference/*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
]


def anchors(page: Path) -> set[str]:
    """Return what the headings of a page are called in its addresses."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.M), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_every_page_is_in_the_navigation_once():
    pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert sorted(NAV) == pages


@pytest.mark.parametrize("page", NAV)
def test_links_within_the_site_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", (DOCS / page).read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        found = ((DOCS / page).parent / file if file else DOCS / page).resolve()
        assert found.exists(), f"{page} points to {target}"
        assert DOCS in found.parents, f"{page} points to {target}, which is not part of the site"
        if anchor:
            assert anchor in anchors(found), f"{page} points to {target}, but {found.name} has no such heading"


def resolve(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_names_in_the_reference_exist(name):
    assert resolve(name).__doc__


def test_reference_has_every_public_name():
    modules = {name for name in observal.__all__ if type(getattr(observal, name)).__name__ == "module"}
    parts = {
        f"{getattr(observal, module).__name__}.{name}"
        for module in modules
        for name in getattr(getattr(observal, module), "__all__", ())
    }
    shown = {id(resolve(name)) for name in DOCUMENTED}
    errors = {"observal.ObservalError", "observal.ObservalWarning"}  # shown with all others of observal.errors
    wanted = {f"observal.{name}" for name in observal.__all__ if name not in modules} | parts
    missing = {name for name in wanted - errors if id(resolve(name)) not in shown and callable(resolve(name))}
    assert missing == set()


def test_version_is_written_in_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/observal/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", observal.__version__)


@pytest.mark.parametrize("package", ["observal", "observal_research"])
def test_docstrings_have_no_markup_that_the_site_would_show(package):
    """The site shows docstrings as Markdown, whatever builds it: a role of Sphinx would show through."""
    role = re.compile(r":(?:class|func|meth|mod|attr|data|exc|ref|doc|term):`|^\s*\.\. \w+::", re.M)
    files = sorted((ROOT / "src" / package).rglob("*.py"))
    assert files
    assert [str(file.relative_to(ROOT)) for file in files if role.search(file.read_text())] == []
