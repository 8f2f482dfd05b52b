"""Machines as others have them: Debian 13 with its own kernel, systemd, AppArmor and cgroup v2, emulated by QEMU.

They boot from one disk and throw their changes away. Nothing of the lab is in them; they have no way out, so
what they may install is a repository of Debian's own packages on their disk. An emulated processor is ten to twenty
times slower than this machine's: what they say of speed says nothing.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from infrabench.core import ProvisionError, digest
from infrabench.machines.sites.inventory import Inventory, open_hosts
from infrabench.machines.sites.prepare.plan import APART
from infrabench.machines.sites.prepare.requirements import collect_needs
from infrabench.machines.sites.site import read_file
from infrabench_platforms.lab import images, shell
from infrabench_platforms.lab.shell import sh, state_dir
from tests.support.debian import publish

EMULATOR, EMULATOR_PACKAGE = "qemu-system-x86_64", "qemu-system-x86"
# Of the addresses of examples (RFC 5737), which no lab has: one of them may be made on such a machine.
BRIDGE, NETWORK, PREFIX = "ibstock0", "198.51.100", 24
USER = "admin"
CPUS, SPARE_BYTES = 2, 24 * 2**30
CPU = "max,avx=off,avx2=off,fma=off,f16c=off"  # with QEMU 7.2's AVX, sorting by NumPy ends in a protection fault
MEMORY_MIB = 14336  # of all of them
MAKE_S, DISK_S, BOOT_S, STOP_S, POLL_S = 1800.0, 300.0, 600.0, 30.0, 0.5
DISK, KERNEL, INITRD = "root.img", "vmlinuz", "initrd.img"  # what the emulator is given
KEEP = 1
FORMAT = 2  # raise it when this file makes the disk differently
# What Debian's image for clouds has, and no more: who installs the rest is what is tested.
PACKAGES = (
    "systemd-sysv", "dbus", "udev", "kmod", "initramfs-tools", "linux-image-cloud-amd64", "apparmor", "apt", "sudo",
    "openssh-server", "iproute2", "iputils-ping", "nftables", "procps", "python3", "systemd-timesyncd",
    "less", "locales",
)  # fmt: skip
README = ("git", "make", "python3-venv")  # what the README asks for
SYSTEMS = ("native", "docker", "lxc", "incus")
# Study -> systems and workloads of it.
TRIED: tuple[tuple[str, tuple[Sequence[str], Sequence[str] | None]], ...] = (
    ("containers", (SYSTEMS, None)),
    ("storage", (("ceph",), ("fio-4k",))),
    ("runtimes", (("containerd-runc", "crio-runc"), None)),
    ("cnis", (("flannel",), None)),
)
# Settings that are counters or those of connection tracking, which the kernel loads and keeps; groups that come and go.
COUNTERS = (
    r"fs\.(dentry|file-nr|inode|aio-nr|quota)|kernel\.(random|ns_last_pid|pty|sched)|net\.ipv4\.tcp_fastopen_key"
    r"|net\.netfilter\.nf_|net\.nf_conntrack_max"
)
PASSING = "user|session|systemd-|run-|apt|man-db|logrotate|dpkg"
# All that a session might leave on a host: links, routes, filters, settings, mounts, groups, users, units, instances
# and images.
STATE = f"""
exec 2>/dev/null
ip -br link | awk '{{print "link", $1}}'; ip -o -4 address | awk '{{print "address", $2, $4}}'
ip route show table all | sed 's/ expires .*//; s/^/route /'; ip rule | sed 's/^/rule /'
nft --stateless list ruleset | sed 's/^/filter /'
sysctl -a | grep -vE '^({COUNTERS})' | sed 's/^/setting /'
awk '{{print "mount", $5, $9}}' /proc/self/mountinfo | grep -v '^mount /run/user' | sort
find /sys/fs/cgroup -type d | grep -vE '/({PASSING})' | sed 's/^/group /' | sort
getent passwd; getent group
systemctl list-unit-files --plain --no-legend | awk '{{print "unit", $1, $2}}'
systemctl list-units --state=running --plain --no-legend | awk '{{print "runs", $1}}' | grep -vE '^runs (session-|user)'
docker ps -aq | sed 's/^/docker /'; docker network ls -q | sed 's/^/docker network /'; docker volume ls -q
docker images -aq | sed 's/^/docker image /'; incus image list -f csv | sed 's/^/incus image /'
lxc-ls -1 | sed 's/^/lxc /'; incus list -f csv; incus profile list -f csv; incus network list -f csv
incus storage list -f csv; true
"""
# In the root file system, after its packages: logins, addresses by the number in a card's address, no lists of apt.
SETUP = r"""
set -eu
echo stock >/etc/hostname
echo '127.0.0.1 localhost stock' >/etc/hosts
echo 'LABEL=guest / ext4 defaults 0 1' >/etc/fstab
for number in 1 2 3; do
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


def describe_hosts(key: Path, known_hosts: Path, count: int) -> dict[str, Any]:
    """Return an inventory of a server that is reached by sudo and a client beside it; of three, with clusters too."""
    first, second, third = (_describe_host(number, key) for number in (1, 2, 3))
    pair = {"control": first, "worker1": second}
    clusters = {"containerd-runc": pair, "crio-runc": pair, "flannel": {**pair, "worker2": third}}
    return {
        "name": "stock", "known_hosts": str(known_hosts),
        "hosts": {"server": first, "client": second} if count > 1 else {"server": first},
        "clusters": clusters if count > 2 else {},
    }  # fmt: skip


def list_packages() -> list[str]:
    """Return what hosts need for all that is tried on them, and what a machine of the suite's own needs."""
    inventory = Inventory.model_validate(describe_hosts(Path("key"), Path("known_hosts"), 3))
    found = (collect_needs(inventory, [study], *chosen).needs for study, chosen in TRIED)
    names = {name for needs in found for each in needs.values() for name in each.packages()}
    names |= {*README, *shell.PROGRAMS.values(), "debian-archive-keyring"}
    return sorted(names | {apart for name, apart in APART.items() if name in names})


def make_disk() -> Path:
    """Return the folder with disk, kernel and keys of a stock guest; it is made where it is not there (five minutes).

    In its repository is what hosts need for all that is tried on them.
    """
    installable = list_packages()
    fingerprint = digest([FORMAT, NETWORK, PACKAGES, SETUP, FETCH, installable, images.SUITE])
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
            f'--customize-hook=sh {part}/fetch.sh "$1" {" ".join(installable)}',
        )
        root = part / "rootfs"
        command = images.mmdebstrap("minbase", PACKAGES, images.SUITE, root, *hooks)
        sh(*shell.contained(part), *command, timeout_s=MAKE_S)
        repository = root / "srv/repository"
        publish(sorted(repository.glob("*.deb")), repository)
        kind, key = (root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
        (part / "host-key").write_text(f"{kind} {key}\n")
        _write_disk(root, part)
    return folder


def _write_disk(root: Path, folder: Path) -> None:
    """Write disk (one ext4, no partitions, sparse), kernel and initial disk of `root` to `folder`, and remove `root`.

    The file system has `SPARE_BYTES` beside what `root` brings.
    """
    for name in (KERNEL, INITRD):
        os.replace(root / "boot" / name, folder / name)
    for file in (root / "boot").iterdir():  # versions, symbols and a second copy: the emulator is given the kernel
        file.unlink()
    used = int(sh("du", "-sB1", "--one-file-system", root, timeout_s=60).stdout.split()[0])
    size_mib = (used + used // 8 + SPARE_BYTES) // 2**20
    # No journal: every guest starts from the same disk and throws its changes away.
    options = ("-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", "lazy_itable_init=0", "-L", "guest")
    sh("mke2fs", *options, "-d", root, folder / DISK, f"{size_mib}M", timeout_s=DISK_S)
    os.chmod(folder / DISK, 0o644)
    shell.remove_tree(root)


def address(number: int) -> str:
    """Return the address of a guest, from 1 on."""
    return f"{NETWORK}.1{number}"


def set_link(number: int, state: str) -> None:
    """Plug a guest's network card in (``up``), or pull it out (``down``)."""
    sh("ip", "link", "set", _tap(number), state)


def _describe_host(number: int, key: Path) -> dict[str, Any]:
    """Return what an inventory says of a guest: of the first a login with sudo, of others root."""
    user, sudo = (USER, True) if number == 1 else ("root", False)
    return {"address": address(number), "user": user, "sudo": sudo, "key": str(key)}


@contextmanager
def open_project(home: Path, count: int) -> Iterator[Path]:
    """Boot `count` guests, and yield their inventory, which lies in the folder `home`: a project's home of its own."""
    path = home / "hosts.yml"
    with pytest.MonkeyPatch.context() as patch, boot(count, path):
        patch.setenv("INFRABENCH_HOME", str(home))
        yield path


@contextmanager
def boot(count: int, path: Path) -> Iterator[None]:
    """Boot `count` guests and write their inventory to `path`; all of them are gone at the end."""
    folder = make_disk()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stock-", dir=state_dir())))
        sh("ip", "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
        stack.callback(sh, "ip", "link", "del", BRIDGE)
        sh("ip", "addr", "add", f"{NETWORK}.1/{PREFIX}", "dev", BRIDGE)
        sh("ip", "link", "set", BRIDGE, "up")
        for number in range(1, count + 1):
            stack.enter_context(_emulate(folder, home, number, MEMORY_MIB // count))
        for number in range(1, count + 1):
            _wait_for_login(number, home)
        key = (folder / "host-key").read_text().strip()
        known = home / "known_hosts"
        known.write_text("".join(f"{address(number)} {key}\n" for number in range(1, count + 1)))
        path.write_text(yaml.safe_dump(describe_hosts(folder / "login", known, count)))
        yield


@contextmanager
def _emulate(folder: Path, home: Path, number: int, memory_mib: int) -> Iterator[None]:
    """Run the emulator of a guest; what it changes on its disk goes with it."""
    tap = _tap(number)
    sh("ip", "tuntap", "add", "dev", tap, "mode", "tap")
    try:
        sh("ip", "link", "set", tap, "master", BRIDGE, "up")
        command = (
            EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35",
            "-accel", "tcg,thread=multi", "-cpu", CPU, "-smp", str(CPUS), "-m", f"{memory_mib}M",
            "-kernel", folder / KERNEL, "-initrd", folder / INITRD,
            "-append", "root=LABEL=guest rw console=ttyS0 net.ifnames=0",
            "-serial", f"file:{_console(home, number)}",
            "-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng",
            "-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=net,romfile=,mac=02:49:42:77:00:0{number}",
            "-drive", f"file={folder / DISK},format=raw,if=none,id=root,snapshot=on,cache=unsafe",
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


def read_hosts(path: Path) -> Inventory:
    """Return the inventory in a file."""
    found = read_file(path)
    assert isinstance(found, Inventory)
    return found


def ask(inventory: Path, command: str) -> dict[str, list[str]]:
    """Return the lines that a shell command prints on each machine of an inventory, by its name."""
    found = read_hosts(inventory)
    places = {machine.address: name for name, machine in found.machines().items()}
    machines = {name: found.machines()[name] for name in places.values()}
    with open_hosts(found, machines) as opened:
        answers = {name: host.run(("sh", "-s"), timeout_s=120, stdin=command.encode()) for name, host in opened.items()}
    assert all(each.status == 0 for each in answers.values()), answers
    return {name: each.stdout.decode().splitlines() for name, each in answers.items()}


def list_changes(before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]) -> str:
    """Return what is gone (-) and what is new (+) on each host, sorted, a line each."""
    gone = (f"{host}: - {line}" for host in before for line in {*before[host]} - {*after[host]})
    new = (f"{host}: + {line}" for host in before for line in {*after[host]} - {*before[host]})
    return "\n".join(sorted([*gone, *new]))
