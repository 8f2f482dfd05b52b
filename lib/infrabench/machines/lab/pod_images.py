"""Two images for pods, made on this machine and cached by what they are made from: docker archives, one layer each.

`pause` holds a pod's namespaces: one static program of our own. `tools` is the root file system of a pod under test:
busybox and the programs of `pod/packages.txt` with the libraries that they are linked to, and nothing else.
"""

from __future__ import annotations

import logging
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import ProvisionError, digest
from infrabench.machines.lab import pod_layer
from infrabench.machines.lab.images import COMPONENTS, SUITE
from infrabench.machines.lab.pod_layer import LayerEntry
from infrabench.machines.lab.shell import contained, locked, remove_tree, sh, state_dir

KINDS = ("pause", "tools")
FORMAT = 1  # raise it when this file or `pod_layer` makes images differently
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
PODS_FLAGS = PAUSE_FLAGS
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodImage:
    """An image on disk: `tar` is a docker archive that loads as `tag`."""

    kind: str
    hash: str
    tag: str
    tar: Path


def content_hash(kind: str) -> str:
    """Return the hash that names an image: its sources, packages and how they are put together."""
    made = {
        "pause": [(POD / "pause.c").read_text(), PAUSE_FLAGS],
        "tools": [
            (POD / "packages.txt").read_text(), SUITE, COMPONENTS, STREAM.read_text(), STREAM_FLAGS, TEXTS,
            {path.name: path.read_text() for path in sorted((POD / "pods").glob("*.[ch]"))}, PODS_FLAGS,
        ],
    }  # fmt: skip
    return digest([FORMAT, kind, made[kind], pod_layer.architecture()])


def cached(kind: str) -> PodImage | None:
    """Return the finished image of this kind, or None when it has to be made."""
    image = _image(kind)
    return image if image.tar.exists() else None


def missing() -> str | None:
    """Return what these images need and is not installed here, or None."""
    packages = [package for program, package in PROGRAMS.items() if not shutil.which(program)]
    return f"images for pods need Debian packages that are not installed: {' '.join(packages)}" if packages else None


def make(kind: str, say: Callable[[str], None] = log.info) -> PodImage:
    """Return the image of this kind, making it first if its content hash is not in the cache (seconds).

    Raises `ProvisionError` when something is missing, or does not hold what it should.
    """
    image = cached(kind)
    if image:
        return image
    with locked("pods.lock", say=say):
        image = cached(kind)
        if image:
            return image
        image = _image(kind)
        _require(image.tar.parent.parent)
        say(f"Making the pod image {kind} {image.hash} (once)")
        folder = image.tar.parent
        part = folder.with_name(f"{folder.name}.part")
        for leftover in folder.parent.glob(f"{kind}-*.part"):
            remove_tree(leftover)
        part.mkdir(parents=True)
        entries, settings = _pause() if kind == "pause" else _tools()
        (part / image.tar.name).write_bytes(pod_layer.archive(entries, image.tag, settings))
        (part / "files.txt").write_text("".join(f"{name}\n" for name in sorted(entries)))
        os.sync()
        part.rename(folder)
        _prune(kind)
    return image


def programs() -> dict[str, list[str]]:
    """Return package -> what of it goes into a pod, from `pod/packages.txt`."""
    rows = [line.split("#")[0].split() for line in (POD / "packages.txt").read_text().splitlines()]
    return {package: wanted for package, *wanted in filter(None, rows)}


def _image(kind: str) -> PodImage:
    fingerprint = content_hash(kind)
    folder = state_dir() / "images" / f"{kind}-{fingerprint}"
    return PodImage(kind, fingerprint, f"localhost/infrabench/{kind}:{fingerprint}", folder / "image.tar")


def _require(folder: Path) -> None:
    reason = missing()
    if reason:
        raise ProvisionError(reason)
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < NEEDED_BYTES:
        raise ProvisionError(f"{folder}: {free / 2**30:.1f} GiB free, a pod image needs {NEEDED_BYTES / 2**30:.0f}")


def _compiled(flags: tuple[str, ...], *sources: Path | str) -> LayerEntry:
    """Return the program that gcc makes of `sources` and of the libraries (``-lm``) among them."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        sh("gcc", *flags, "-o", program, *sources, timeout_s=120)
        return LayerEntry(0o755, program.read_bytes())


def pods() -> LayerEntry:
    """Return `ib-pods`, which waits in a pod and starts tools in many of them at one instant: see `pod/pods/pods.c`."""
    return _compiled(PODS_FLAGS, *sorted((POD / "pods").glob("*.c")))


def _pause() -> tuple[dict[str, LayerEntry], dict[str, object]]:
    entries = {"pause": _compiled(PAUSE_FLAGS, POD / "pause.c")}
    return entries, {"Entrypoint": ["/pause"], "User": "65535:65535", "WorkingDir": "/"}


def _tools() -> tuple[dict[str, LayerEntry], dict[str, object]]:
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _unpack(tree)
        wanted = [name for names in programs().values() for name in names]
        entries = pod_layer.closure(tree, wanted)
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
    sh(
        *contained(tree), "mmdebstrap", "--mode=auto", "--variant=extract", f"--components={COMPONENTS}",
        f"--include={','.join(programs())}", SUITE, file, timeout_s=BUILD_TIMEOUT_S,
    )  # fmt: skip
    with tarfile.open(file) as packed:
        plain = [each for each in packed if each.isfile() or each.isdir() or each.issym() or each.islnk()]
        for each in plain:
            each.mode &= 0o755  # no setuid, and none but its owner writes
        # All Pythons do the same so; those before 3.11.4 have no filters, and know no argument for one.
        packed.extraction_filter = lambda member, _: member
        packed.extractall(tree, plain)
    file.unlink()


def _prune(kind: str) -> None:
    made = sorted((state_dir() / "images").glob(f"{kind}-*/image.tar"), key=lambda path: path.stat().st_mtime)
    for old in made[:-KEEP]:
        remove_tree(old.parent)
