"""Parquet files and their row groups: which there are, how they are opened, and whether their bytes are still the same."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from observal.errors import InvalidInput, PartsChanged, one_line
from observal.problem.words import listed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

PARQUET = (".parquet", ".pq")
_AT_ONCE = 1 << 22  # bytes that are read at once for a checksum
_BUFFER = 1 << 16  # bytes of each column that are read ahead; with hundreds of columns they add up
_REMOTE_BUFFER = 1 << 20  # the same for remote files, where each read is a message
_VERSION_KEYS = (
    "etag",
    "md5hash",
    "contentmd5",
    "generation",
    "mtime",
    "lastmodified",
    "modified",
    "updated",
    "created",
)
_unchanged: set[tuple[Any, ...]] = set()  # parts whose bytes this process has compared with their checksum


@dataclass(frozen=True)
class Part:
    """A row group of a Parquet file."""

    path: str  # a path or a URL
    group: int  # which row group of the file
    rows: int  # how many rows it has
    first: int  # where its bytes are
    size: int
    checksum: str = ""  # SHA-256 of these bytes; empty if it was not computed


Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
"""Where Parquet is: a file, a folder, a glob, a URL, or several of them."""


def find_parts(source: Source) -> tuple[Part, ...]:
    """Return the row groups of a Parquet file, a folder, a glob or a URL; files in the order of their names.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> path = tempfile.mkdtemp() + "/rows.parquet"
    >>> pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), path, row_group_size=2)
    >>> [part.rows for part in find_parts(path)]
    [2, 1]
    """
    parts = [part for path in find_files(source) for part in _parts_of(path)]
    if not parts:
        raise InvalidInput(f"{source} has no rows; give Parquet with rows.")
    return tuple(parts)


def find_files(source: Source) -> list[str]:
    """Return the Parquet files that a path, folder, glob, URL or several of them stand for, in the order of their names."""
    if isinstance(source, list | tuple):
        return [path for item in source for path in find_files(item)]
    name = name_of(source)
    if "://" in name:
        return _remote_paths(name)
    if os.path.isdir(name):
        paths = sorted(str(path) for path in Path(name).rglob("*") if path.name.lower().endswith(PARQUET))
    elif os.path.exists(name):
        paths = [name]
    else:
        paths = sorted(glob.glob(name, recursive=True))
    if not paths:
        raise InvalidInput(
            f"There is no Parquet file at {name!r}; give a file, a folder or a pattern such as 'log/*.parquet'."
        )
    return paths


def name_of(source: object) -> str:
    """Return a path or URL as text; refuse anything else, such as a frame.

    Examples
    --------
    >>> name_of(Path("log.parquet"))
    'log.parquet'
    """
    if not isinstance(source, str | os.PathLike):
        raise InvalidInput(
            f"Rows that stay in Parquet must be given as a path, a pattern or a URL, but got {type(source).__name__}; write the table to a "
            "Parquet file first."
        )
    return str(os.fspath(source))


def _remote_paths(url: str) -> list[str]:
    system, path = _file_system(url)
    try:
        if any(sign in path for sign in "*?["):
            paths = sorted(system.glob(path))
        elif system.isdir(path):
            paths = sorted(name for name in system.find(path) if name.lower().endswith(PARQUET))
        else:
            paths = [path] if system.exists(path) else []
    except Exception as error:  # each file system has its own errors
        raise InvalidInput(f"{url!r} cannot be read ({one_line(error)}); check the address and your access.") from None
    if not paths:
        raise InvalidInput(f"There is no Parquet file at {url!r}; check the address.")
    return [system.unstrip_protocol(name) for name in paths]


def _file_system(url: str) -> tuple[Any, str]:
    try:
        import fsspec  # only URLs need it
    except ImportError:
        raise InvalidInput(
            f"{url!r} is a URL, which needs the package fsspec; install it with pip install 'observal[dask]'."
        ) from None
    try:
        return fsspec.core.url_to_fs(url)  # type: ignore[no-any-return]
    except Exception as error:  # each file system has its own errors, and some connect here
        raise InvalidInput(f"{url!r} cannot be read ({one_line(error)}); check the address.") from None


@contextmanager
def open_file(path: str) -> Iterator[BinaryIO]:
    """Yield a file, local or remote, for reading."""
    try:
        if "://" in path:
            system, name = _file_system(path)
            stream = system.open(name, "rb")
        else:
            stream = open(path, "rb")  # noqa: SIM115
    except OSError as error:
        reason = error.strerror or f"{type(error).__name__}: {one_line(error)}"
        raise InvalidInput(f"{path!r} cannot be read ({reason}); put the file back, or check your access.") from None
    with stream as file:
        yield file


def stamp(path: str) -> tuple[Any, ...]:
    """Return what changes when a file is written again; empty if the file system does not show it."""
    if "://" in path:
        return _remote_stamp(path)
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_size, status.st_mtime_ns


def _remote_stamp(url: str) -> tuple[Any, ...]:
    system, name = _file_system(url)
    try:
        system.invalidate_cache(name)
        info = {str(key).lower().replace("_", "").replace("-", ""): value for key, value in system.info(name).items()}
    except Exception:  # each file system has its own errors; opening the file will report what is wrong
        return ()
    versions = tuple(str(info[key]) for key in _VERSION_KEYS if info.get(key) is not None)
    return (info.get("size"), *versions) if versions else ()


@contextmanager
def open_parquet(path: str) -> Iterator[pq.ParquetFile]:
    """Yield a ``pyarrow.parquet.ParquetFile``; its footer is read once for each version of the file."""
    import pyarrow.parquet as pq

    ahead = _REMOTE_BUFFER if "://" in path else _BUFFER
    with open_file(path) as file:
        yield pq.ParquetFile(file, metadata=_metadata(path), pre_buffer=False, buffer_size=ahead)


def read_batches(file: pq.ParquetFile, part: Part, rows: int, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield a part's rows from its open file, as Arrow batches."""
    import pyarrow as pa

    try:
        for batch in file.iter_batches(rows, row_groups=[part.group], columns=columns, use_threads=False):
            check_values(batch, repr(part.path))
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise _damage_error(part.path, error) from None


def check_names(names: Sequence[str], what: str) -> None:
    """Refuse columns of the same name, all of them at once; `what` is the table in the message."""
    repeated = [repr(name) for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise InvalidInput(f"{what} has more than one column named {listed(repeated)}; rename or drop the duplicates.")


def check_values(table: pa.Table | pa.RecordBatch, what: str) -> None:
    """Refuse text that is not UTF-8, and lists that reach beyond their values: Arrow reads both as they are."""
    import pyarrow as pa

    for name, column in zip(table.schema.names, table.columns, strict=True):
        if pa.types.is_primitive(column.type) or pa.types.is_decimal(column.type):
            continue
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"{what} has damaged values in column {name!r} ({one_line(error)}); write them again, text as UTF-8."
            ) from None


def _damage_error(path: str, error: BaseException) -> InvalidInput:
    return InvalidInput(f"{path!r} cannot be read as Parquet ({one_line(error)}); give an undamaged Parquet file.")


def _metadata(path: str) -> pq.FileMetaData:
    """Return a file's footer; it is read again if the file system does not show whether the file was written meanwhile."""
    version = stamp(path)
    return _cached_metadata(path, version) if version else _read_metadata(path)


@lru_cache(maxsize=4096)
def _cached_metadata(path: str, version: tuple[Any, ...]) -> pq.FileMetaData:
    return _read_metadata(path)


def _read_metadata(path: str) -> pq.FileMetaData:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_file(path) as file:
        try:
            metadata = pq.read_metadata(file)
            _ = metadata.schema.to_arrow_schema().names  # raises if they are not text
            return metadata
        except (pa.ArrowException, OSError, ValueError) as error:
            raise _damage_error(path, error) from None


def schema_of(part: Part) -> pa.Schema:
    """Return the Arrow schema of a part's file."""
    return _metadata(part.path).schema.to_arrow_schema()


def _parts_of(path: str) -> Iterator[Part]:
    metadata = _metadata(path)
    check_names(metadata.schema.to_arrow_schema().names, repr(path))
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        columns = [row_group.column(k) for k in range(row_group.num_columns)]
        begins = [
            min(place for place in (c.dictionary_page_offset, c.data_page_offset) if place is not None) for c in columns
        ]
        ends = [begin + c.total_compressed_size for begin, c in zip(begins, columns, strict=True)]
        if row_group.num_rows:
            yield Part(path, group, row_group.num_rows, min(begins), max(ends) - min(begins))


def checksum(part: Part) -> str:
    """Return SHA-256 of the part's number of rows and of its bytes."""
    digest, remaining = hashlib.sha256(f"{part.rows}\n".encode()), part.size
    with open_file(part.path) as file:
        file.seek(part.first)
        while remaining > 0 and (content := file.read(min(remaining, _AT_ONCE))):
            digest.update(content)
            remaining -= len(content)
    return digest.hexdigest()


def with_checksum(part: Part) -> Part:
    """Return the part with its checksum."""
    return replace(part, checksum=checksum(part))


def require_unchanged(part: Part, again: bool = False) -> None:
    """Raise PartsChanged if a part's bytes are not those of its checksum.

    A file whose size and time are the same is read once, and with `again` each time.
    """
    if not part.checksum:
        return
    version = stamp(part.path)
    key = (part.path, part.group, part.checksum, version)
    if version and key in _unchanged and not again:
        return
    if checksum(part) != part.checksum:
        raise PartsChanged(
            f"Row group {part.group} of {part.path!r} has changed since the campaign was made; put the old file back, or make "
            "a new campaign."
        )
    _unchanged.add(key)
