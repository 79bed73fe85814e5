"""What attackers and bad disks do to files, and a watch over what happens when such a file is opened."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import struct
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

from observal.journal.archive import seal

_STARTS = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "subprocess.Popen", "os.kill", "os.forkpty")
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate", "os.symlink", "os.link")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_watching: list[list[str]] = []


def _note(event, arguments):
    if not _watching:
        return
    if event in _STARTS or event in _CHANGES or event in ("exec_module", "pty.spawn"):
        _watching[-1].append(f"{event} {arguments!r:.200}")
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING:
        where = str(arguments[0])
        if "__pycache__" not in where and "numba" not in where:  # of Python's own, on a first import
            _watching[-1].append(f"open to write {where}")
    elif event == "import" and str(arguments[0]).partition(".")[0] in ("planted", "antigravity", "this"):
        _watching[-1].append(f"import {arguments[0]}")


@cache
def _watch():
    """Look at what happens from now on. A hook cannot be taken away again and slows all that follows, so only tests that need it have it."""
    sys.addaudithook(_note)


@contextlib.contextmanager
def nothing_happens():
    """Fail if a process is started, a file is written or removed, or a module that a file named is imported.

    Our own modules may be imported late, but are not stored in compiled form meanwhile.
    """
    _watch()
    seen: list[str] = []
    _watching.append(seen)
    keeps, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = keeps
        _watching.pop()
    assert not seen, seen


_MEASURE = """
import json, re, sys, time
import observal as ob
from observal.campaign import Campaign, load_model
import pyarrow, sqlalchemy, scipy.sparse, sklearn.utils
def memory(name):  # not ru_maxrss, which counts the process that forked this one
    return int(re.search(name + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
before, start, path, sentence = memory("VmRSS"), time.process_time(), sys.argv[1], ""
try:
    {call}
except ob.errors.ObservalError as error:
    sentence = str(error)
print(json.dumps([sentence, memory("VmHWM") - before, time.process_time() - start]))
"""


def assert_cheaply_refused(path, call, match):
    """Fail unless a call on a hostile file, in a process of its own, ends in a sentence within 500 MB and two seconds."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE.format(call=call), str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(
            resource.RLIMIT_AS, (6 << 30, 6 << 30)
        ),  # a failure must not fill the machine
    )
    sentence, growth, seconds = json.loads(done.stdout)
    assert re.search(match, sentence), sentence
    assert "\n" not in sentence
    assert growth < 500e6
    assert seconds < 2.0


def members_of(path):
    """Return the members of a zip by name, in order."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, sealed=False, comment=b"", compression=zipfile.ZIP_STORED):
    """Write a zip with these members; `sealed` gives it the digest that a forger would."""
    file = io.BytesIO()  # thousands are written, and on disk every member would be several writes
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        archive.comment = comment
    if sealed:
        seal(file)
    path.unlink(missing_ok=True)  # a file that is emptied and written again is put on the disk at once
    path.write_bytes(file.getvalue())
    return path


def comment_of(path):
    """Return a zip's comment."""
    with zipfile.ZipFile(path) as archive:
        return archive.comment


def npy(header: str, data: bytes = b"") -> bytes:
    """Return an npy member with a header of our choice."""
    text = header.encode("latin-1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def _spots(value, spots):
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            spots.append((value, key))
            _spots(value[key], spots)
    return spots


NAMES = [
    *(
        "os:system",
        "observal.__main__:x",
        "observal.nope:x",
        "builtins:eval",
        "observal.problem.types:Pool",
        "Plan",
        "Pool",
    ),
    *(
        "NewtonVC",
        "ExactDBAL",
        "observal.journal.session_file:os",
        "builtins",
        "os",
        "system",
        "numpy",
        "ndarray",
        "list",
        "Tree",
    ),
]
EDGES = [-1, 0, 1, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**30]
VALUES = [None, 2, 0.5, -1e308, True, "", "x", "nan", "1.npy", [], {}, [[]], {"array": 0}, "auto", *EDGES]
FLOATS = [float("nan"), float("inf"), -float("inf"), -0.0, 5e-324, 3e38]
DTYPES = ["<f8", ">f8", "<f4", "<f2", "<i8", "<i4", "|i1", "<u8", "|b1", "<U4", "|S8", "|O", "<c16", "<M8[s]", "|V8"]


def _nest(rng, value):
    """Return a value within many lists."""
    for _ in range(int(rng.choice([1, 39, 41, 200]))):
        value = {"tuple": [value]} if rng.integers(2) else [value]
    return value


def _mutate_typed(rng, spots) -> None:
    """Change a whole number, a shape, a reference to an array, or how deeply a value is nested."""

    def pick(matches):
        chosen = [(holder, key) for holder, key in spots if matches(holder, key)]
        return chosen[int(rng.integers(len(chosen)))] if chosen else None

    kind = rng.integers(4)
    if kind == 0 and (spot := pick(lambda holder, key: type(holder[key]) is int)):
        spot[0][spot[1]] = EDGES[int(rng.integers(len(EDGES)))]
    elif kind == 1 and (spot := pick(lambda _, key: key == "shape")):
        sizes = spot[0][spot[1]]
        if isinstance(sizes, list) and sizes:
            sizes[int(rng.integers(len(sizes)))] = int(rng.choice([0, 1, 10**9, 2**31, 2**62, -1]))
    elif kind == 2 and (spot := pick(lambda _, key: key == "array")):
        other = pick(lambda _, key: key == "array")
        spot[0][spot[1]] = other[0][other[1]]
    elif spots:
        holder, key = spots[int(rng.integers(len(spots)))]
        holder[key] = _nest(rng, holder[key])


def mutated_json(rng, text: bytes) -> bytes:
    """Return JSON with values replaced, dropped, swapped, nested or at the edge of their type, references shared, or names exchanged."""
    content = json.loads(text)
    for _ in range(int(rng.integers(1, 4))):
        spots = _spots(content, [])
        if not spots:
            break
        (holder, key), (other, its) = (spots[int(i)] for i in rng.integers(0, len(spots), 2))
        kind = rng.integers(6)
        if kind > 3:
            _mutate_typed(rng, spots)
        elif kind == 0:
            holder[key] = VALUES[int(rng.integers(len(VALUES)))]
        elif kind == 1:
            holder[key] = json.loads(json.dumps(other[its]))
        elif kind == 2:
            del holder[key]
        else:
            named = [s for s in spots if isinstance(s[1], str) and s[1] in ("type", "record")]
            holder, key = named[int(rng.integers(len(named)))] if named else (holder, key)
            holder[key] = NAMES[int(rng.integers(len(NAMES)))]
    return json.dumps(content).encode()


def mutated_bytes(rng, content: bytes) -> bytes:
    """Return bytes with some flipped, cut off, or a piece of them copied elsewhere."""
    out = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        del out[int(rng.integers(len(out))) :]
    elif kind == 1:
        begin, to, n = rng.integers(0, len(out), 3)
        out[int(to) : int(to + n % 64)] = out[int(begin) : int(begin + n % 64)]
    else:
        for where in rng.integers(0, len(out), int(rng.integers(1, 5))):
            out[int(where)] ^= 1 << int(rng.integers(8))
    return bytes(out)


def mutated_array(rng, content: bytes) -> bytes:
    """Return an array, with its header or without, of another type or shape, with extreme values, cut off or too long."""
    start = 10 + int.from_bytes(content[8:10], "little") if content.startswith(b"\x93NUMPY\x01") else 0
    header, data = content[10:start].decode("latin-1"), bytearray(content[start:])
    kind = rng.integers(5)
    if kind == 0 and header:
        header = re.sub(r"'descr': '[^']*'", f"'descr': '{rng.choice(DTYPES)}'", header)
    elif kind == 1 and header:
        sizes = re.search(r"'shape': \(([^)]*)\)", header)[1].replace(",", " ").split() or ["1"]
        sizes[int(rng.integers(len(sizes)))] = str(rng.choice([0, 1, 10**9, 2**31, 2**62, -1]))
        header = re.sub(r"'shape': \([^)]*\)", f"'shape': ({', '.join(sizes)},)", header)
    elif kind == 2:
        del data[int(rng.integers(len(data) + 1)) :]
    elif kind == 3:
        data += bytes(int(rng.choice([1, 8, 4096])))
    elif len(data) >= 8:
        width = int(rng.choice([4, 8]))
        at = int(rng.integers(len(data) // width)) * width
        edge = EDGES[int(rng.integers(len(EDGES)))] % (1 << 8 * width)
        extremes = [
            edge.to_bytes(width, "little"),
            struct.pack("<d" if width == 8 else "<f", float(rng.choice(FLOATS))),
        ]
        data[at : at + width] = extremes[int(rng.integers(2))]
    return npy(header.strip(), bytes(data)) if header else bytes(data)


@contextlib.contextmanager
def little_memory(most=500e6):
    """Fail if this process grows by more than so many bytes within the block."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    yield
    assert _status("VmHWM") - before < most


def _status(name):
    return int(re.search(name + r":\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


def mutations(rng, path, number, to):
    """Write `number` mutations of a file to `to`, and yield for each whether it was given a digest that fits."""
    whole, members, comment = path.read_bytes(), members_of(path), comment_of(path)
    for k in range(number):
        changed = dict(members)
        name = list(members)[int(rng.integers(len(members)))]
        if k % 3 == 0:
            to.write_bytes(mutated_bytes(rng, whole))
            yield False
            continue
        if k % 3 == 1 or rng.integers(2):
            name = next(n for n in ("record.json", "model.json") if n in members)
            changed[name] = mutated_json(rng, members[name])
        elif rng.integers(3) and not name.endswith(".json"):
            changed[name] = mutated_array(rng, members[name])
        else:
            changed[name] = mutated_bytes(rng, members[name])
        sealed = bool(rng.integers(2))
        write_members(to, changed, sealed, b"" if sealed else comment)
        yield sealed


def zip_bomb(inner: str, size: int) -> bytes:
    """Return a zip whose one member is small here and `size` bytes when read."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(inner, "w", force_zip64=True) as file:
        for _ in range(size >> 20):
            file.write(bytes(1 << 20))
    return out.getvalue()
