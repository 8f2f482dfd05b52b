"""What a pod image is made of: a set of files, as one layer of a docker archive that depends on nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import ProvisionError
from infrabench.machines.lab.shell import sh

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Where a library is looked for; the first that has it counts. Debian's libraries are below the folder of the machine.
LIBRARY_FOLDERS = ("lib64", "lib", "lib/*-linux-gnu", "usr/lib", "usr/lib/*-linux-gnu")
EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """One path of a layer: a file, a link when `link` is set, or a folder when neither is. Root owns it."""

    mode: int
    data: bytes | None = None
    link: str | None = None


def architecture() -> str:
    """Return the name that images give to this machine's architecture."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def closure(tree: Path, wanted: Iterable[str]) -> dict[str, LayerEntry]:
    """Return the wanted files of a root file system and all libraries that they are linked to.

    A name that ends in ``/`` is a folder and all in it; one without any ``/`` is a library. `ProvisionError` when one
    is not there.
    """
    entries: dict[str, LayerEntry] = {}
    for name in wanted:
        if name.endswith("/"):
            inside = [path for path in sorted((tree / name).rglob("*")) if path.is_file()]
            if not inside:
                raise ProvisionError(f"the packages hold nothing in {name}")
            entries |= {str(path.relative_to(tree)): _file(path) for path in inside}
        else:
            _add(tree, tree / name if "/" in name else _library(tree, name), entries)
    return entries


def archive(entries: Mapping[str, LayerEntry], tag: str, settings: Mapping[str, object]) -> bytes:
    """Return a docker archive of one layer that loads as `tag` and runs with `settings` (User, Env, Entrypoint, ...).

    It depends on nothing but its arguments: files are sorted and of the epoch.
    """
    layer = _tar(_with_folders(entries))
    config = {
        "architecture": architecture(),
        "os": "linux",
        "created": EPOCH,
        "config": dict(settings),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": EPOCH, "created_by": "infrabench"}],
    }
    text = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
    files = {name: text, "layer.tar": layer, "manifest.json": manifest}
    return _tar({each: LayerEntry(0o644, data) for each, data in files.items()})


def _add(tree: Path, path: Path, entries: dict[str, LayerEntry]) -> None:
    """Add a file, what it links to, and its libraries, unless they are there."""
    name = str(path.relative_to(tree))
    if name in entries:
        return
    if path.is_symlink():
        entries[name] = LayerEntry(0o777, link=str(path.readlink()))
        _add(tree, _resolve_link(tree, path), entries)
        return
    if not path.is_file():
        raise ProvisionError(f"the packages hold no {name}")
    entries[name] = _file(path)
    for needed in _needs(path):
        _add(tree, tree / needed.lstrip("/") if needed.startswith("/") else _library(tree, needed), entries)


def _resolve_link(tree: Path, link: Path) -> Path:
    to = link.readlink()
    path = tree / str(to).lstrip("/") if to.is_absolute() else link.parent / to
    return Path(re.sub(r"[^/]+/\.\./", "", str(path)))


def _library(tree: Path, name: str) -> Path:
    for where in LIBRARY_FOLDERS:
        for path in sorted(tree.glob(f"{where}/{name}")):
            return path
    raise ProvisionError(f"the packages hold no library {name}")


def _needs(path: Path) -> Iterator[str]:
    """Yield the libraries and the loader that a program or library names itself."""
    if path.read_bytes()[:4] != b"\x7fELF":
        return
    said = sh("readelf", "--wide", "--program-headers", "--dynamic", path).stdout.decode("utf-8", "replace")
    yield from re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", said)
    yield from re.findall(r"Requesting program interpreter: (.+?)\]", said)


def _file(path: Path) -> LayerEntry:
    return LayerEntry(path.stat().st_mode & 0o755, path.read_bytes())


def _with_folders(entries: Mapping[str, LayerEntry]) -> dict[str, LayerEntry]:
    parents = {str(parent) for name in entries for parent in Path(name).parents} - {"."}
    return {name: LayerEntry(0o755) for name in parents} | dict(entries)


def _tar(entries: Mapping[str, LayerEntry]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as packed:
        for name, entry in sorted(entries.items()):
            info = tarfile.TarInfo(name)
            info.mode = entry.mode
            if entry.data is not None:
                info.size = len(entry.data)
            elif entry.link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, entry.link
            else:
                info.type = tarfile.DIRTYPE
            packed.addfile(info, io.BytesIO(entry.data) if entry.data is not None else None)
    return out.getvalue()
