"""Machines as others have them: Debian 13 with its own kernel, systemd, AppArmor and cgroup v2, emulated by QEMU.

They boot from one disk and throw their changes away. Nothing of the lab is in them; they have no way out, so
what they may install is a repository of Debian's own packages on their disk. An emulated processor is ten to twenty
times slower than this machine's: what they say of speed says nothing.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from infrabench.core import ProvisionError, digest
from infrabench_platforms.lab import images, shell
from infrabench_platforms.lab.shell import sh, state_dir
from tests.support.debian import publish

EMULATOR, EMULATOR_PACKAGE = "qemu-system-x86_64", "qemu-system-x86"
BRIDGE, NETWORK, PREFIX = "ibstock0", "198.18.77", 24
USER = "admin"
CPUS, MEMORY_MIB, SPARE_BYTES = 2, 7168, 24 * 2**30
MAKE_S, BOOT_S, STOP_S, POLL_S = 1800.0, 600.0, 30.0, 0.5
KEEP = 1
FORMAT = 1  # raise it when this file makes the disk differently
# What Debian's image for clouds has, and no more: who installs the rest is what is tested.
PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "initramfs-tools", "linux-image-cloud-amd64", "apparmor", "apt", "sudo",
    "openssh-server", "iproute2", "iputils-ping", "nftables", "procps", "python3", "systemd-timesyncd",
    "less", "locales",
)  # fmt: skip
# In the root file system, after its packages: logins, addresses by the number in a card's address, no lists of apt.
SETUP = r"""
set -eu
echo stock >/etc/hostname
echo '127.0.0.1 localhost stock' >/etc/hosts
echo 'LABEL=guest / ext4 defaults 0 1' >/etc/fstab
for number in 1 2; do
  printf '[Match]\nMACAddress=02:49:42:77:00:0%s\n[Network]\nAddress=%s.1%s/%s\nLinkLocalAddressing=no\n' \
    $number "$1" $number "$2" >/etc/systemd/network/10-guest$number.network
done
systemctl -q enable systemd-networkd.service ssh.service
useradd --create-home --shell /bin/bash --password '*' "$3"
echo "$3 ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/admin
for home in /root /home/$3; do
  mkdir -p $home/.ssh
  chmod 700 $home/.ssh
  cp /login.pub $home/.ssh/authorized_keys
done
chown -R "$3" /home/$3/.ssh
rm -f /login.pub
kernel=$(ls /lib/modules)
cp "/boot/vmlinuz-$kernel" /boot/vmlinuz
cp "/boot/initrd.img-$kernel" /boot/initrd.img
: >/etc/machine-id
"""
# Outside of it, as mmdebstrap itself calls apt: what may be installed, with all that it depends on.
FETCH = r"""
set -eu
root=$1; shift
mkdir -p "$root/srv/repository/partial"
APT_CONFIG=$MMDEBSTRAP_APT_CONFIG apt-get -qq -y --download-only --no-install-recommends \
  -o Dir::Cache::archives="$root/srv/repository/" install "$@"
rm -rf "$root"/etc/apt/sources.list.d/* "$root/srv/repository/partial" "$root/srv/repository/lock"
echo 'deb [trusted=yes] file:/srv/repository ./' >"$root/etc/apt/sources.list"
"""


def without_emulator() -> str | None:
    """Return what this machine lacks to emulate others; None where it can."""
    return None if shutil.which(EMULATOR) else f"not installed here: apt-get install {EMULATOR_PACKAGE}"


def make_disk(installable: Sequence[str]) -> Path:
    """Return the folder with disk, kernel and keys of a stock guest; it is made where it is not there (five minutes).

    `installable` are the packages that it is to have in its repository, with all that they depend on.
    """
    fingerprint = digest([FORMAT, NETWORK, PACKAGES, SETUP, FETCH, sorted(installable), images.SUITE])
    folder = state_dir() / "images" / f"stock-{fingerprint}"
    if folder.exists():
        return folder
    with shell.locked(images.LOCK), shell.fill_folder(folder, KEEP) as part:
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "stock", "-f", part / "login")
        for name, text in (("setup.sh", SETUP), ("fetch.sh", FETCH)):
            (part / name).write_text(text)
        hooks = (
            f"--customize-hook=copy-in {part}/login.pub {part}/setup.sh /",
            f'--customize-hook=chroot "$1" sh /setup.sh {NETWORK} {PREFIX} {USER} && rm "$1/setup.sh"',
            f'--customize-hook=sh {part}/fetch.sh "$1" {" ".join(sorted(installable))}',
        )
        root = part / "rootfs"
        command = images.mmdebstrap("minbase", PACKAGES, images.SUITE, root, *hooks)
        sh(*shell.contained(part), *command, timeout_s=MAKE_S)
        repository = root / "srv/repository"
        publish(sorted(repository.glob("*.deb")), repository)
        kind, key = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
        (part / "host-key").write_text(f"{kind} {key}\n")
        images.make_disk(root, part, SPARE_BYTES)
    return folder


def address(number: int) -> str:
    """Return the address of a guest, from 1 on."""
    return f"{NETWORK}.1{number}"


def describe_host(number: int, key: Path, user: str = "root") -> dict[str, Any]:
    """Return what an inventory says of a guest; another login than root's has sudo."""
    return {"address": address(number), "user": user, "sudo": user != "root", "key": str(key)}


@contextmanager
def boot(folder: Path, count: int) -> Iterator[Path]:
    """Boot `count` guests and yield the file with their hosts' keys; all of them are gone at the end."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stock-", dir=state_dir())))
        sh("ip", "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        stack.callback(sh, "ip", "link", "del", BRIDGE)
        sh("ip", "addr", "add", f"{NETWORK}.1/{PREFIX}", "dev", BRIDGE)
        sh("ip", "link", "set", BRIDGE, "up")
        for number in range(1, count + 1):
            stack.enter_context(_emulate(folder, home, number))
        for number in range(1, count + 1):
            _wait_for_login(number, home)
        key = (folder / "host-key").read_text().strip()
        known = home / "known_hosts"
        known.write_text("".join(f"{address(number)} {key}\n" for number in range(1, count + 1)))
        yield known


@contextmanager
def _emulate(folder: Path, home: Path, number: int) -> Iterator[None]:
    """Run the emulator of a guest; what it changes on its disk goes with it."""
    tap = _tap(number)
    sh("ip", "tuntap", "add", "dev", tap, "mode", "tap")
    try:
        sh("ip", "link", "set", tap, "master", BRIDGE, "up")
        command = (
            EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35",
            "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(CPUS), "-m", f"{MEMORY_MIB}M",
            "-kernel", folder / images.KERNEL, "-initrd", folder / images.INITRD,
            "-append", "root=LABEL=guest rw console=ttyS0 net.ifnames=0",
            "-serial", f"file:{_console(home, number)}",
            "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
            "-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=net,romfile=,mac=02:49:42:77:00:0{number}",
            "-drive", f"file={folder / images.DISK},format=raw,if=none,id=root,snapshot=on,cache=unsafe",
            "-device", "virtio-blk-pci,drive=root",
        )  # fmt: skip
        with subprocess.Popen(command, env={"TMPDIR": str(home), "PATH": "/usr/bin:/bin"}) as child:
            try:
                yield
            finally:
                child.terminate()
                try:
                    child.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    child.kill()
    finally:
        sh("ip", "link", "del", tap)


def _tap(number: int) -> str:
    return f"ibstock{number}"


def _console(home: Path, number: int) -> Path:
    return home / f"console{number}.log"


def _wait_for_login(number: int, home: Path) -> None:
    deadline = time.monotonic() + BOOT_S
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((address(number), 22), timeout=5.0) as probe:
                if probe.recv(4) == b"SSH-":
                    return
        except OSError:
            time.sleep(POLL_S)
    console = _console(home, number)
    raise ProvisionError(f"guest {number} does not answer: {console.read_text(errors='replace')[-2000:]}")
