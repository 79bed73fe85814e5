"""Files that are written completely or not at all, and that never replace a campaign.

Every file observal writes goes through ``writing``: the content is written to a temporary file in the same folder, flushed to
disk, and only then given its name. If anything goes wrong, an existing file is unchanged.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from observal.errors import InvalidInput

_DATABASE = b"SQLite format 3\x00"
_COMPANIONS = ("-wal", "-shm", "-journal")  # files that SQLite keeps beside a database
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.I)  # a Path writes :// as :/; a drive has one letter
_LONGEST = 200  # a longer name is shortened in the temporary name; file systems allow 255 bytes


def check_target(path: str | Path, force: bool = False) -> Path:
    """Return a path if it may be written to, or refuse it. Call it before a long computation; ``writing`` checks again.

    A database, such as a campaign, and its companion files are never replaced, even with `force`.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> check_target(folder / "report.html").name
    'report.html'
    >>> (folder / "report.html").touch()
    >>> check_target(folder / "report.html", force=True).name
    'report.html'
    """
    target = Path(path)
    if "\0" in str(target):
        raise InvalidInput(f"A file name cannot contain a zero byte, but {str(target)!r} does; choose another path.")
    if _ADDRESS.match(str(target)):
        raise InvalidInput(f"{target} is an address, but a file is needed; give a path on this machine.")
    if target.is_dir() or not target.name:
        raise InvalidInput(f"{target} is a folder, but a file is needed; name a file in it.")
    if is_database(target) or _is_companion(target):
        raise InvalidInput(f"{target} is a campaign or part of one, which is never replaced; choose another path.")
    if target.exists() and not target.is_file():
        raise InvalidInput(f"{target} is a device or a pipe, but a file is needed; choose another path.")
    if os.path.lexists(target) and not force:
        raise _exists(target)
    return target


@contextmanager
def writing(path: str | Path, force: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to write to; it gets its name when the block ends and the content is on disk.

    If the block raises, the disk is full or the process is interrupted, an existing file is unchanged and no other file is left.
    A temporary file of a killed process is removed by the next process that writes the same file.

    The folder must exist. `force` is as for ``check_target``.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with writing(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_text(), len(list(path.parent.iterdir()))
    ('whole', 1)
    """
    target = check_target(path, force)
    remove_stale(target)
    partial = target.with_name(f".{_hash_long_name(target.name)}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with _make(partial) as file:
            _hold(file.fileno())
            _copy_mode(target, file.fileno())
            yield file
            file.flush()
            os.fsync(file.fileno())
        check_target(target, force)  # a file may have been made there meanwhile
        if force:
            os.replace(partial, target)
        else:
            _name_new(partial, target)
        _sync_folder(target.parent)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(partial)):
            raise
        raise OSError(error.errno, error.strerror, str(target)) from error
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | Path, text: str, force: bool = False) -> None:
    """Write text in UTF-8 as ``writing`` does; a lone surrogate, which UTF-8 cannot encode, becomes a question mark."""
    with writing(path, force) as file:
        file.write(text.encode("utf-8", "replace"))


def remove_stale(path: str | Path) -> None:
    """Remove the temporary files that killed processes left beside `path`.

    A file is removed only if it belongs to this user, has a name that observal gives to temporary files
    (``.NAME.PID-RANDOM.part``, or ``NAME.PID.part`` for a new campaign), its process has ended, and no process has locked it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / ".note.txt.999999999-0123abcd.part").touch()
    >>> remove_stale(folder / "note.txt")
    >>> list(folder.iterdir())
    []
    """
    target = Path(path)
    name = re.escape(_hash_long_name(target.name))
    temporary = re.compile(rf"(?:\.{name}\.(\d+)-[0-9a-f]{{8}}|{name}\.(\d+))\.part(?:-wal|-shm|-journal)?")
    with suppress(OSError):  # if the folder is missing or cannot be read, the writer itself will report it
        for entry in list(os.scandir(target.parent)):
            if (match := temporary.fullmatch(entry.name)) and _is_abandoned(entry, int(match[1] or match[2])):
                with suppress(OSError):
                    os.unlink(entry)


def _is_abandoned(entry: os.DirEntry[str], process: int) -> bool:
    if not entry.is_file(follow_symlinks=False):
        return False
    if os.name != "posix":
        return True  # on Windows a file that is open cannot be removed
    if entry.stat(follow_symlinks=False).st_uid != os.geteuid():
        return False
    try:
        os.kill(process, 0)
        return False
    except (ProcessLookupError, OverflowError):
        pass
    except OSError:  # the process exists and belongs to another user
        return False
    import fcntl

    # Process numbers of another machine or container mean nothing here, but its process holds a lock, ours or SQLite's.
    try:
        with open(os.open(entry, os.O_RDWR | os.O_NOFOLLOW), "rb+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _make(partial: Path) -> BinaryIO:
    flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return open(partial, "w+b", opener=lambda path, _: os.open(path, flags, 0o666))  # the system applies the umask


def _hold(descriptor: int) -> None:
    """Lock a temporary file, so that no other process removes it as a leftover."""
    if os.name == "posix":
        import fcntl

        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _copy_mode(target: Path, descriptor: int) -> None:
    """Give a new file the permissions of the file it replaces, so a private file stays private."""
    if os.name == "posix":
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode) & 0o777)


def _name_new(partial: Path, target: Path) -> None:
    """Give a finished file its name unless the name is taken; of two writers, one succeeds and the other is refused."""
    try:
        if os.link in os.supports_follow_symlinks:
            os.link(partial, target, follow_symlinks=False)
        else:  # Windows
            os.link(partial, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL, errno.EACCES):
            raise
        try:  # a file system without hard links: take the name first
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            raise _exists(target) from None
        try:
            os.replace(partial, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    if os.name == "posix":
        with suppress(OSError):  # the file exists; some file systems cannot sync a folder
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _exists(target: Path) -> InvalidInput:
    return InvalidInput(f"{target} already exists; choose another path, or pass --force (force=True) to replace it.")


def is_database(path: Path) -> bool:
    """Return whether a file, or the file a link points to, is an SQLite database."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False


def _is_companion(path: Path) -> bool:
    """Return whether SQLite uses, or will use, a path for part of a database; links are followed."""
    for place in (path, Path(os.path.realpath(path))):
        for ending in _COMPANIONS:
            if place.name.casefold().endswith(ending) and len(place.name) > len(ending):
                return is_database(place.with_name(place.name[: -len(ending)]))
    return False


def _hash_long_name(name: str) -> str:
    if len(os.fsencode(name)) <= _LONGEST:
        return name
    import hashlib

    return hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
