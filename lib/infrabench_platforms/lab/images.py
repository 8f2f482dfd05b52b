"""Images made on this machine by mmdebstrap, cached by the hash of everything that went into them.

`guest` is the image of the systems under test, one tar file for all of them. `node` is a root file system for lab
nodes: the same packages and more, so that `native` runs the same binaries as the guests; `node12` is the same of
the release of Debian before, whose engines are of other versions. `cluster` is one for the nodes
of a Kubernetes cluster, `storage` one for a node that carries a storage system, `slurm` one for a node of a Slurm
cluster, whose jobs measure the node itself.

Packages are those of the release as it is on the day when an image is made. The environment variable
``INFRABENCH_DEBIAN`` names another archive to take all of them from, such as the state that an archive of snapshots
keeps of one day: images of it are others, and two machines months apart make the same ones.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import ProvisionError, digest
from infrabench_platforms.lab import shell
from infrabench_platforms.lab.shell import Say, sh, state_dir

SUITE = "trixie"
SUITES = {"node12": "bookworm"}  # of kinds that are of another release
# Kinds whose nodes run this machine's Python, and which releases they can be.
AS_HERE = {"slurm": ("bookworm", "trixie")}
ARCHIVE = "INFRABENCH_DEBIAN"
OF_A_DAY = '--aptopt=Acquire::Check-Valid-Until "false"'  # what an archive keeps of a day says that it has expired
COMPONENTS = "main contrib non-free"
# Parts are folders beside this file, each with packages.txt and, where needed, overlay/ and setup.sh, applied in order.
KINDS = {
    "guest": ("guest",),
    "node": ("guest", "boot", "node", "node13"),
    "node12": ("guest", "boot", "node"),
    "cluster": ("boot", "cluster"),
    "storage": ("boot", "storage"),
    "slurm": ("guest", "boot", "node", "slurm"),
}
LOCK = "images.lock"
ON_DEMAND = ("slurm", "node12")  # kinds that nobody makes ahead unless they are named
# What makes an image boot and answer, whatever it carries besides.
BOOT = ("systemd-sysv", "dbus", "iproute2", "python3-minimal", "util-linux")
FORMAT = 1  # raise it when this file makes images differently
BUILD_TIMEOUT_S = 1200.0
DPKG_STATUS = "var/lib/dpkg/status"
KEEP = 3
NEEDED_BYTES = 4 * 2**30

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Image:
    """An image on disk. `rootfs` is a folder; `tar` the same as one file (guest only)."""

    kind: str
    hash: str
    folder: Path

    @property
    def rootfs(self) -> Path:
        return self.folder / "rootfs"

    @property
    def tar(self) -> Path:
        return self.folder / "rootfs.tar"


def suite(kind: str) -> str:
    """Return the release of Debian that an image kind is made from."""
    try:
        here = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        here = ""
    return here if here in AS_HERE.get(kind, ()) else SUITES.get(kind, SUITE)


def parts(kind: str) -> list[Path]:
    """Return the folders that make up an image kind."""
    return [Path(__file__).parent / part for part in KINDS[kind]]


def packages(kind: str) -> list[str]:
    """Return the Debian packages of an image kind, in the order of their files."""
    lines = [line for part in parts(kind) for line in (part / "packages.txt").read_text().splitlines()]
    return list(dict.fromkeys((*BOOT, *filter(None, (line.split("#")[0].strip() for line in lines)))))


def archive() -> list[str]:
    """Return the address of the archive that packages are to be taken from, or nothing: those that apt has here.

    Raises `ProvisionError` where ``INFRABENCH_DEBIAN`` is no address of one.
    """
    address = os.environ.get(ARCHIVE, "")
    if address and not re.fullmatch(r"(https?://|file:/)[^\s]+", address):
        raise ProvisionError(f"{ARCHIVE} must be an archive's address (https://..., file:/...), not {address!r}")
    return [address] if address else []


def mmdebstrap(variant: str, wanted: Iterable[str], suite: str, target: Path, *hooks: str) -> tuple[str | Path, ...]:
    """Return the command that makes a root file system of the packages `wanted`, from the `archive` of the images."""
    # mode auto: as root in a plain chroot, as an ordinary user in a user namespace.
    return (
        "mmdebstrap", "--mode=auto", f"--variant={variant}", f"--components={COMPONENTS}",
        f"--include={','.join(wanted)}", *([OF_A_DAY] if archive() else []), *hooks, suite, target, *archive(),
    )  # fmt: skip


def content_hash(kind: str) -> str:
    """Return the hash that names an image: its suite, packages, their archive, and the bytes and modes of its files."""
    files = {
        f"{part.name}/{path.relative_to(part)}": [
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mode & 0o111,
        ]
        for part in parts(kind)
        for path in sorted(part.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    return digest([FORMAT, kind, suite(kind), COMPONENTS, packages(kind), files, *archive()])


def cached(kind: str) -> Image | None:
    """Return the finished image of this kind, or None when it has to be made."""
    image = _image(kind)
    return image if image.folder.exists() else None


def make(kind: str, say: Say = log.info) -> Image:
    """Return the image of this kind, making it first if its content hash is not in the cache (about a minute).

    One process makes one at a time: a maker removes what others have half done.
    """
    if image := cached(kind):
        return image
    with shell.locked(LOCK, say=say):
        if image := cached(kind):
            return image
        image = _image(kind)
        if reason := shell.explain_full_disk(NEEDED_BYTES, "an image needs"):
            raise ProvisionError(reason)
        say(f"Making the {kind} image {image.hash} from Debian packages (about a minute; once)")
        with shell.fill_folder(image.folder, KEEP) as part:
            _fill(kind, part)
        return image


def purge() -> None:
    """Remove all images, those for pods too, and the data of nodes that were made from them."""
    with ExitStack() as stack:
        for name in (LOCK, "pods.lock"):
            stack.enter_context(shell.locked(name, wait_s=0.0))
        for name in ("images", "data"):
            shell.remove_tree(state_dir() / name)


def _image(kind: str) -> Image:
    fingerprint = content_hash(kind)
    return Image(kind, fingerprint, state_dir() / "images" / f"{kind}-{fingerprint}")


def _fill(kind: str, folder: Path) -> None:
    """Make the root file system of an image in a folder, with a list of its packages."""
    root = folder / ("rootfs.tar" if kind == "guest" else "rootfs")
    hooks = [f"--customize-hook={hook}" for part in parts(kind) for hook in _hooks(part)]
    command = mmdebstrap("minbase", packages(kind), suite(kind), root, *hooks)
    sh(*shell.contained(folder), *command, timeout_s=BUILD_TIMEOUT_S)
    packed = sh("tar", "-xOf", root, f"./{DPKG_STATUS}").stdout if kind == "guest" else None
    (folder / "packages.txt").write_text(_installed((packed or (root / DPKG_STATUS).read_bytes()).decode()))


def _hooks(part: Path) -> list[str]:
    # mmdebstrap runs a hook as: sh -c HOOK exec ROOT. Overlay files take root's ownership, not the checkout's.
    if {*str(part)} & {*'"$`\\'}:
        raise ProvisionError(f"{part}: a shell would read this path in another way; move the checkout elsewhere")
    return [
        f'mkdir -p "$1/tmp/part" && cp -r "{part}/." "$1/tmp/part/"',
        'if [ -d "$1/tmp/part/overlay" ]; then chown -R 0:0 "$1/tmp/part" && chmod -R go-w,a+rX "$1/tmp/part/overlay"'
        ' && cp -r --preserve=mode "$1/tmp/part/overlay/." "$1/"; fi',
        'if [ -e "$1/tmp/part/setup.sh" ]; then chroot "$1" sh /tmp/part/setup.sh /tmp/part/src; fi'
        ' && rm -rf "$1/tmp/part"',
    ]


def _installed(status: str) -> str:
    """Return `name version` lines of the installed packages in a dpkg status file."""
    lines = []
    for stanza in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line and not line.startswith(" "))
        if "installed" in fields.get("Status", "").split():
            lines.append(f"{fields['Package']} {fields['Version']}")
    return "\n".join(sorted(lines)) + "\n"
