"""Two images for pods, made on this machine and cached by what they are made from: docker archives, one layer each.

`pause` holds a pod's namespaces: one static program of our own. `tools` is the root file system of a pod under test:
busybox and the programs of `pod/packages.txt` with the libraries that they are linked to, and nothing else.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import platform
import re
import shutil
import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import ProvisionError, digest
from infrabench_platforms.lab import images, shell
from infrabench_platforms.lab.images import COMPONENTS
from infrabench_platforms.lab.shell import Say, sh, state_dir

KINDS = ("pause", "tools")
NODES = "cluster"  # the image of the nodes, whose own tools are the baseline of those in pods: one release for both
FORMAT = 1  # raise it when this file makes images differently
KEEP = 2
BUILD_TIMEOUT_S = 600.0
NEEDED_BYTES = 2**30
POD = Path(__file__).parent / "pod"
STREAM = Path(__file__).parent / "guest" / "src" / "stream.c"
# Program -> the Debian package it is in.
PROGRAMS = {"mmdebstrap": "mmdebstrap", "gcc": "gcc libc6-dev", "readelf": "binutils"}
# As guest images compile it: see guest/setup.sh.
STREAM_FLAGS = ("-O3", "-fopenmp", "-fno-tree-loop-distribute-patterns", "-ffp-contract=off", "-static", "-s")
PAUSE_FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Os", "-static", "-s")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# Where a library is looked for; the first that has it counts. Debian's libraries are below the folder of the machine.
MERGED = ("bin", "sbin", "lib", "lib64")  # of a Debian that is installed: links to the same below usr
LIBRARY_FOLDERS = ("lib64", "lib", "lib/*-linux-gnu", "usr/lib", "usr/lib/*-linux-gnu")
EPOCH = "1970-01-01T00:00:00Z"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodImage:
    """An image on disk: `tar` is a docker archive that loads as `tag`."""

    kind: str
    hash: str
    tag: str
    tar: Path


def content_hash(kind: str) -> str:
    """Return the hash that names an image: its sources, packages, compiler and how they are put together."""
    contents = {
        "pause": [(POD / "pause.c").read_text(), PAUSE_FLAGS],
        "tools": [
            (POD / "packages.txt").read_text(), images.suite(NODES), COMPONENTS, STREAM.read_text(), STREAM_FLAGS,
            TEXTS,
            {path.name: path.read_text() for path in sorted((POD / "pods").glob("*.[ch]"))}, PAUSE_FLAGS,
        ],
    }  # fmt: skip
    return digest([FORMAT, kind, contents[kind], architecture(), compiler(), *images.archive()])


def compiler() -> str:
    """Return the name of this machine's gcc with its version, as Debian has it: ``x86_64-linux-gnu-gcc-12``.

    What is measured in pods is compiled and linked static here: by another gcc it is another program.
    """
    return Path(shutil.which("gcc") or "gcc").resolve().name


def cached(kind: str) -> PodImage | None:
    """Return the finished image of this kind, or None when it has to be made."""
    image = _image(kind)
    return image if image.tar.exists() else None


def missing() -> str | None:
    """Return what these images need and is not installed here, or None."""
    packages = shell.missing_packages(PROGRAMS)
    return f"images for pods need Debian packages that are not installed: {' '.join(packages)}" if packages else None


def make(kind: str, say: Say = log.info) -> PodImage:
    """Return the image of this kind, making it first if its content hash is not in the cache (seconds).

    Raises `ProvisionError` when something is missing, or does not hold what it should.
    """
    if image := cached(kind):
        return image
    with shell.locked("pods.lock", say=say):
        if image := cached(kind):
            return image
        image = _image(kind)
        if reason := missing() or shell.explain_full_disk(NEEDED_BYTES, "a pod image needs"):
            raise ProvisionError(reason)
        say(f"Making the pod image {kind} {image.hash} (once)")
        with shell.fill_folder(image.tar.parent, KEEP) as part:
            entries, settings = _pause() if kind == "pause" else _tools()
            (part / image.tar.name).write_bytes(archive(entries, image.tag, settings))
            (part / "files.txt").write_text("".join(f"{name}\n" for name in sorted(entries)))
        return image


def programs() -> dict[str, list[str]]:
    """Return package -> what of it goes into a pod, from `pod/packages.txt`."""
    rows = [line.split("#")[0].split() for line in (POD / "packages.txt").read_text().splitlines()]
    return {package: wanted for package, *wanted in filter(None, rows)}


def _image(kind: str) -> PodImage:
    fingerprint = content_hash(kind)
    folder = state_dir() / "images" / f"{kind}-{fingerprint}"
    return PodImage(kind, fingerprint, f"localhost/infrabench/{kind}:{fingerprint}", folder / "image.tar")


def _compiled(flags: tuple[str, ...], *sources: Path | str) -> LayerEntry:
    """Return the program that gcc makes of `sources` and of the libraries (``-lm``) among them."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        sh("gcc", *flags, "-o", program, *sources, timeout_s=120)
        return LayerEntry(0o755, program.read_bytes())


def pods() -> LayerEntry:
    """Return `ib-pods`, which waits in a pod and starts tools in many of them at one instant: see `pod/pods/pods.c`."""
    return _compiled(PAUSE_FLAGS, *sorted((POD / "pods").glob("*.c")))


def _pause() -> tuple[dict[str, LayerEntry], dict[str, object]]:
    entries = {"pause": _compiled(PAUSE_FLAGS, POD / "pause.c")}
    return entries, {"Entrypoint": ["/pause"], "User": "65535:65535", "WorkingDir": "/"}


def _tools() -> tuple[dict[str, LayerEntry], dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _unpack(tree)
        wanted = [name for names in programs().values() for name in names]
        entries = closure(tree, wanted)
        listed = sh(tree / "bin/busybox", "--list-full").stdout.decode().split()
    for applet in listed:  # a real program of the same name stays
        if not any(f"{where}/{Path(applet).name}" in entries for where in ("bin", "sbin", "usr/bin", "usr/sbin")):
            entries[applet] = LayerEntry(0o777, link="/bin/busybox")
    entries["usr/local/bin/ib-stream"] = _compiled(STREAM_FLAGS, STREAM, "-lm")
    entries["usr/local/bin/ib-pods"] = pods()
    entries |= {name: LayerEntry(0o644, text.encode()) for name, text in TEXTS.items()}
    for name, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("root", 0o700), ("proc", 0o555), ("sys", 0o555),
                       ("dev", 0o755), ("run", 0o755)):  # fmt: skip
        entries[name] = LayerEntry(mode)
    return entries, {"Env": [f"PATH={PATH}"], "Cmd": ["/bin/sh"], "WorkingDir": "/"}


def _unpack(tree: Path) -> None:
    """Unpack the packages and all that they depend on, as they are: none is configured, no program of them runs."""
    file = tree / "packages.tar"
    command = images.mmdebstrap("extract", programs(), images.suite(NODES), file)
    sh(*shell.contained(tree), *command, timeout_s=BUILD_TIMEOUT_S)
    for name in MERGED:  # what packages lie below usr in one release, and beside it in another
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    with tarfile.open(file) as packed:
        plain = [each for each in packed if each.isfile() or each.isdir() or each.issym() or each.islnk()]
        for each in plain:
            each.mode &= 0o755  # no setuid, and none but its owner writes
        # All Pythons do the same so; those before 3.11.4 have no filters, and know no argument for one.
        packed.extraction_filter = lambda member, _: member
        packed.extractall(tree, plain)
    file.unlink()


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
    parents = {str(parent) for name in entries for parent in Path(name).parents} - {"."}
    layer = _tar({name: LayerEntry(0o755) for name in parents} | dict(entries))
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
    """Add a file, what it links to, and its libraries and loader, unless they are there."""
    name = str(path.relative_to(tree))
    if name in entries:
        return
    if path.is_symlink():
        to = path.readlink()
        entries[name] = LayerEntry(0o777, link=str(to))
        there = tree / str(to).lstrip("/") if to.is_absolute() else path.parent / to
        _add(tree, Path(re.sub(r"[^/]+/\.\./", "", str(there))), entries)
        return
    if not path.is_file():
        raise ProvisionError(f"the packages hold no {name}")
    entries[name] = _file(path)
    if (entries[name].data or b"").startswith(b"\x7fELF"):
        headers = sh("readelf", "--wide", "--program-headers", "--dynamic", path).stdout.decode("utf-8", "replace")
        wanted = r"(?:\(NEEDED\)\s+Shared library: \[|Requesting program interpreter: )(.+?)\]"
        for needed in re.findall(wanted, headers):
            _add(tree, tree / needed.lstrip("/") if needed.startswith("/") else _library(tree, needed), entries)


def _library(tree: Path, name: str) -> Path:
    for where in LIBRARY_FOLDERS:
        for path in sorted(tree.glob(f"{where}/{name}")):
            return path
    raise ProvisionError(f"the packages hold no library {name}")


def _file(path: Path) -> LayerEntry:
    return LayerEntry(path.stat().st_mode & 0o755, path.read_bytes())


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
