"""The suite's own files of a guest: helpers and settings of servers that `native` needs too, out of the guest image.

They are taken from the image that every guest is made from, so that the host runs the very same.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infrabench.core import InfrabenchError
from infrabench.machines.sites.prepare.plan import File

OURS = re.compile(r"usr/local/bin/ib-[a-z-]+|(?:etc|srv)/infrabench/[A-Za-z0-9_./-]+")
FOLDERS = re.compile(r"srv/infrabench/[a-z]+|var/log/infrabench")  # that its servers write to or read from
LARGEST = 2**24  # bytes of a file


@dataclass(frozen=True, slots=True)
class GuestFiles:
    """Files and folders of ours; none where the image cannot be made here, and `reason` says why."""

    files: tuple[File, ...] = ()
    folders: tuple[str, ...] = ()
    reason: str = ""


def read_files(tar: Path) -> GuestFiles:
    """Return what is ours in the guest image's archive."""
    found, folders = {}, set()
    with tarfile.open(tar) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isdir() and FOLDERS.fullmatch(name):
                folders.add(f"/{name}")
            if not member.isfile() or not OURS.fullmatch(name) or ".." in name or member.size > LARGEST:
                continue
            content = archive.extractfile(member)
            assert content is not None
            found[name] = File(f"/{name}", member.mode & 0o777, content.read())
    return GuestFiles(tuple(found[name] for name in sorted(found)), tuple(sorted(folders)))


def load_files(say: Callable[[str], None]) -> GuestFiles:
    """Return what is ours, with the image made first where it is not there yet."""
    from infrabench.machines.lab import images  # needs the tools of the lab

    try:
        return read_files(images.make("guest", say).tar)
    except (InfrabenchError, tarfile.TarError, OSError) as error:
        return GuestFiles(reason=f"it cannot be made here: {str(error).strip().splitlines()[-1]}")
