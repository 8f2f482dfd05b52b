"""Sessions and archives as a stranger may have made them: each differs from a sound one in one hostile way."""

from __future__ import annotations

import io
import json
import lzma
import os
import random
import socket
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from infrabench.ledger.files import TMP

SECRET = b"-----BEGIN OPENSSH PRIVATE KEY-----"
# ------------------------------------------------------------------------------------------------- folders


def clear(place: Path, outside: Path) -> Path:
    """Move what is at a place of a session to `outside`, and return the place."""
    os.rename(place, moved(place, outside))
    return place


def moved(place: Path, outside: Path) -> Path:
    return outside / f"moved-{place.name}"


def listen(place: Path) -> None:
    here = os.getcwd()
    os.chdir(place.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(place.name)
    finally:
        os.chdir(here)


def grow(place: Path, outside: Path) -> None:
    there = moved(clear(place, outside), outside)
    place.write_bytes(there.read_bytes() if there.is_file() else b"")
    os.truncate(place, 2**40)  # a hole: it takes no room


def beside(place: Path, name: str) -> Path:
    path = (place if place.is_dir() else place.parent) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


FOLDERS: Mapping[str, Callable[[Path, Path], object]] = {
    "a link": lambda place, outside: clear(place, outside).symlink_to(moved(place, outside)),  # no sum shows it
    "a link to a secret": lambda place, outside: clear(place, outside).symlink_to(outside / "secret"),
    "a link to zeros": lambda place, outside: clear(place, outside).symlink_to("/dev/zero"),
    "a pipe": lambda place, outside: os.mkfifo(clear(place, outside)),
    "a listener": lambda place, outside: listen(clear(place, outside)),
    "a giant": grow,
    "a loop": lambda place, outside: clear(place, outside).symlink_to(place.name),
    "one file more": lambda place, _: beside(place, ".hidden").write_bytes(b"payload"),
    "one link more": lambda place, outside: beside(place, "more.json").symlink_to(outside / "secret"),
    "folders more": lambda place, _: beside(place, "a/b/c/d/payload").write_bytes(b"payload"),
}


# ------------------------------------------------------------------------------------------------- archives

Member = tuple[tarfile.TarInfo, bytes]


def sound_members(folder: Path) -> list[Member]:
    return [plain(f"s/{path.relative_to(folder)}", path.read_bytes()) for path in sorted(folder.rglob("*")) if
            path.is_file()]  # fmt: skip


def plain(name: str, data: bytes = b"x", kind: bytes = tarfile.REGTYPE, target: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(data) if kind == tarfile.REGTYPE else 0, kind, target
    return info, data if kind == tarfile.REGTYPE else b""


def raw_archive(members: list[Member], at: int = 0, inserted: bytes = b"") -> bytes:
    """Return a packed archive with `inserted`, as it is, before its member number `at`."""
    out = io.BytesIO()
    for number, (info, data) in enumerate(members):
        out.write(inserted if number == at else b"")
        out.write(info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % 512))
    out.write(bytes(1024))
    return lzma.compress(out.getvalue(), preset=0)


def header(name: str, size: int, kind: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def negative(name: str) -> bytes:
    """Return a header that says its file has less than no bytes, so that the next one would be an earlier one."""
    whole = bytearray(header(name, 0, tarfile.REGTYPE))
    whole[124:136] = b"\xff" * 10 + b"\xfc\x00"  # -1024, in base 256
    whole[148:156] = b" " * 8
    whole[148:156] = b"%06o\0 " % sum(whole)
    return bytes(whole)


def pax(pairs: dict[str, str]) -> bytes:
    record = b"".join(_pax_line(name, value) for name, value in pairs.items())
    return header("pax", len(record), tarfile.XHDTYPE) + record + bytes(-len(record) % 512)


def _pax_line(name: str, value: str) -> bytes:
    rest = f" {name}={value}\n".encode()
    length = len(rest) + 1
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode() + rest


def bad_archives(folder: Path, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield what is wrong with an archive of the session `folder`, and the archive."""
    good = sound_members(folder)
    at = rng.randrange(len(good))
    zeros = bytes(8 * 2**20)
    names = (
        "../evil", "/tmp/evil", "s/../evil", "evil", "s/trials/x/y/z", "t/session.json", f"s/{TMP}x",
        f"s/trials/{TMP}x/y", "s/notes.txt", "s/provenance/../../evil", "-rf/session.json", ".s/session.json",
        "s/trials/x\ny/z", "s/provenance/a/b",
    )  # fmt: skip
    for name in names:
        yield f"the name {name!r}", raw_archive([*good[:at], plain(name), *good[at:]])
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE)
    for kind in kinds:
        each = plain("s/provenance/more.json", kind=kind, target="../../../secret")
        yield f"a member of kind {kind!r}", raw_archive([*good[:at], each, *good[at:]])
    yield "a file that no sum lists", raw_archive([*good, plain("s/provenance/more.json", b"{}")])
    yield "a trial's file that no sum lists", raw_archive([*good, plain(f"s/trials/{0:016x}/more", b"{}")])
    other = rng.choice([number for number, (info, _) in enumerate(good) if not info.name.endswith("SHA256SUMS")])
    yield "another content", raw_archive([*good[:other], plain(good[other][0].name, b"{}"), *good[other + 1 :]])
    yield "a file twice", raw_archive([*good, good[at]])
    yield "a member that claims gigabytes", raw_archive(good, at, header("s/plan.jsonl", 2**33, tarfile.REGTYPE))
    yield "a member that leads back", raw_archive(good, at + 1, negative("s/blocks/0"))
    yield "a size that leads back", raw_archive(good, at + 1, pax({"size": "-2048"}))
    yield "a size that is none", raw_archive(good, at, pax({"size": "many"}))
    yield "a sparse file", raw_archive(good, at, pax({"GNU.sparse.size": str(2**40), "GNU.sparse.map": "0,1"}))
    yield "a name of megabytes", raw_archive(good, at, header("x", len(zeros), tarfile.GNUTYPE_LONGNAME) + zeros)
    yield "a header of megabytes", raw_archive(good, at, header("x", len(zeros), tarfile.XHDTYPE) + zeros)
    yield "headers of headers", raw_archive(good, at, pax({"comment": "x"}) * 3000)
    yield "global headers", raw_archive(good, at, header("x", 0, tarfile.XGLTYPE))
    yield "zeros", raw_archive([*good, plain("s/blocks/zeros", zeros)])
    yield "folders without end", raw_archive([*good, *(plain(f"s/trials/{n}/a", b"") for n in range(3000))])
    whole = raw_archive(good)
    yield "cut off", whole[: rng.randrange(len(whole) - 8)]
    flipped = bytearray(whole)
    flipped[rng.randrange(40, len(whole) - 40)] ^= 1 << rng.randrange(8)
    yield "a flipped bit", bytes(flipped)
    yield "no archive", rng.randbytes(4096)
    yield "nothing", b""


# ------------------------------------------------------------------------------------------------- fields

HOSTILE = (
    "../out", "/etc/cron.d/x", "..", "", ".hidden", "-rf", "a\nb", "a\x00b", "\x1b[2J", "=cmd|' /C calc'!A0",
    "@SUM(1)", "x" * 5000, "\ud800", "\u202egnp", "a/../../b", "~root", "\\input{/etc/passwd}", None, 7, True, [], {},
    [[]], {"": []}, 10**30, float("nan"), [None], ["../x"], {"../x": "../y"},
)  # fmt: skip


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value inside of parsed JSON."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*path, key)
        yield from fields(part, (*path, key))


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    """Return parsed JSON with another value at `path`."""
    made = json.loads(json.dumps(data))
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return made
