"""From the root file system of a virtual machine to what an emulator boots: its disk, its kernel, the initial disk."""

from __future__ import annotations

import os
from pathlib import Path

from infrabench.core import ProvisionError
from infrabench.machines.lab.shell import remove_tree, sh

DISK, KERNEL, INITRD = "root.img", "vmlinuz", "initrd.img"
SPARE = 768 * 2**20  # room in the root file system beside what the image brings; the file is sparse
MAKE_S = 300.0


def make(root: Path, folder: Path) -> None:
    """Write disk (one ext4, no partitions), kernel and initial disk of `root` to `folder`, and remove `root`.

    What the image's own setup left as ``boot/vmlinuz`` and ``boot/initrd.img`` is booted.
    """
    for name in (KERNEL, INITRD):
        kept = root / "boot" / name
        if not kept.is_file():
            raise ProvisionError(f"{root} has no boot/{name}: nothing can be booted from it")
        os.replace(kept, folder / name)
    for file in (root / "boot").iterdir():  # versions, symbols and a second copy: the emulator is given the kernel
        file.unlink()
    used = int(sh("du", "-sB1", "--one-file-system", root, timeout_s=60).stdout.split()[0])
    size_mib = (used + used // 8 + SPARE) // 2**20
    disk = folder / DISK
    # No journal: every guest starts from the same disk and throws its changes away.
    options = ("-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=0", "-L", "guest")
    sh("mke2fs", *options, "-d", root, disk, f"{size_mib}M", timeout_s=MAKE_S)
    os.chmod(disk, 0o644)
    remove_tree(root)
