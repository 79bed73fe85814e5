"""What other systems lack is taken away here: the parts of observal that use it must have an alternative."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import observal
from observal import files
from observal.errors import InvalidInput
from observal.server import images, worker

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class WithoutPosix:
    """The module os as it is on Windows, as far as files are concerned."""

    name = "nt"
    supports_dir_fd = frozenset()
    supports_follow_symlinks = frozenset()
    _MISSING = frozenset({"geteuid", "fchmod", "nice", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "kill"})

    def __getattr__(self, name):
        if name in self._MISSING:
            raise AttributeError(name)
        return getattr(os, name)

    def link(self, source, target, **options):
        if options:
            raise NotImplementedError("link: follow_symlinks unavailable on this platform")
        os.link(source, target)


@pytest.fixture
def windows(monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    for module in (files, images, worker):
        monkeypatch.setattr(module, "os", WithoutPosix())


def test_files_appear_whole_without_posix(windows, tmp_path):
    target = tmp_path / "a.txt"
    files.write_text(target, "one")
    with pytest.raises(InvalidInput, match="already exists"):
        files.write_text(target, "two")
    files.write_text(target, "two", force=True)
    (tmp_path / ".a.txt.999999999-0123abcd.part").touch()
    files.remove_stale(target)
    assert (target.read_text(), len(list(tmp_path.iterdir()))) == ("two", 1)


def test_images_are_read_without_opening_folders(windows, tmp_path):
    folder = tmp_path / "images"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.png").write_bytes(PNG)
    (tmp_path / "secret.png").write_bytes(PNG)
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "away").symlink_to(tmp_path)
    assert images.read_image(folder, "deep/a.png") == PNG
    assert images.read_image(folder, str(folder / "deep" / "a.png")) == PNG
    for cell in (
        "link.png",
        "away/secret.png",
        "../secret.png",
        "deep",
        "none.png",
        "C:/secret.png",
        "deep/a.png:stream",
    ):
        assert images.read_image(folder, cell) is None


def test_fitting_process_runs_without_nice(windows):
    class Closed:
        def __enter__(self):
            raise EOFError

        def __exit__(self, *_):
            return None

    worker.work("nowhere.db", Closed())


def test_posix_modules_are_imported_only_where_they_are_used():
    """At the top of a file they would keep observal from being imported on Windows."""
    source = {file: file.read_text(encoding="utf-8") for file in Path(observal.__file__).parent.rglob("*.py")}
    assert len(source) > 100
    for module in ("fcntl", "resource", "pwd", "grp", "termios"):
        assert [file.name for file, text in source.items() if f"\nimport {module}" in text] == []
