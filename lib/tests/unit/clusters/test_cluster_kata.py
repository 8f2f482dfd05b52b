"""Finding an installed Kata in folders laid out as its releases and packages are, and what a host lacks for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from infrabench.core import NotRunnable
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.clusters import kata
from tests.support.cluster_fakes import Scripted

HERE = LocalHost("here")
GO = 'Kata Containers containerd shim (Golang): id: "io.containerd.kata.v2", version: 3.23.0, commit: 650ada7bcc8e'
RUST = "Kata Containers containerd shim (Rust): id: io.containerd.kata.v2, version: 3.29.0, commit: 8dccf4cf37ae"
QEMU = """
# machine_accelerators="commented"
[hypervisor.qemu]
path = "{prefix}/bin/qemu-system-x86_64"
kernel = "{prefix}/share/kata-containers/vmlinux.container"
image = "{prefix}/share/kata-containers/kata-containers.img"
# initrd = "{prefix}/share/kata-containers/kata-containers-initrd.img"
machine_type = "q35"
firmware = ""
machine_accelerators=""
default_memory = 2048
shared_fs = "virtio-fs"
virtio_fs_daemon = "{prefix}/libexec/virtiofsd"
#disable_vhost_net = true
[agent.kata]
[runtime]
sandbox_cgroup_only = false
"""
DRAGONBALL = """
[hypervisor.dragonball]
path = ""
kernel = "{prefix}/share/kata-containers/vmlinux-dragonball-experimental.container"
image = "{prefix}/share/kata-containers/kata-containers.img"
shared_fs = "inline-virtio-fs"
virtio_fs_daemon = "/nowhere"
"""


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    if text.startswith("#!"):
        file.chmod(0o755)
    return file


def shim(file: Path, said: str) -> Path:
    return write(file, f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{said}'\n")


def release(root: Path, prefix: str, *, rust: bool = False) -> Path:
    """Lay out a static release in `root`, whose configurations say that it is in `prefix`."""
    shim(root / "bin/containerd-shim-kata-v2", GO)
    defaults = root / "share/defaults/kata-containers"
    write(defaults / "configuration-qemu.toml", QEMU.format(prefix=prefix))
    write(defaults / "configuration-clh.toml", "[hypervisor.clh]\n")
    (defaults / "configuration.toml").symlink_to("configuration-qemu.toml")
    if rust:
        shim(root / "runtime-rs/bin/containerd-shim-kata-v2", RUST)
        write(defaults / "runtime-rs/configuration-dragonball.toml", DRAGONBALL.format(prefix=prefix))
        (defaults / "runtime-rs/configuration.toml").symlink_to("configuration-dragonball.toml")
    return root


def files(root: Path) -> None:
    for name in ("bin/qemu-system-x86_64", "share/kata-containers/vmlinux.container",
                 "share/kata-containers/kata-containers.img", "libexec/virtiofsd"):  # fmt: skip
        write(root / name, "\x7fELF")


def find() -> kata.Kata:
    found = kata.find(HERE)
    assert found is not None
    return found


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose /opt, /usr and /etc are below a folder, and where nothing is named."""
    script = kata._FIND
    for top in ("/opt/kata /etc", "/usr/"):
        assert top in script
    for top in ("/etc/kata", "/usr/"):
        script = script.replace(top, f"{tmp_path}{top}")
    script = script.replace("release /opt/kata", f"release {tmp_path}/opt/kata")
    monkeypatch.setattr(kata, "_FIND", script)
    monkeypatch.delenv(kata.VARIABLE, raising=False)
    return tmp_path


def test_a_machine_without_kata_says_where_it_was_searched(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kata.find(HERE) is None
    told = kata.not_installed(HERE)
    assert told.startswith("Kata is not installed: searched /opt/kata and the places of packages on here;")
    monkeypatch.setenv(kata.VARIABLE, str(machine / "none"))
    release(machine / "opt/kata", "/opt/kata")
    assert kata.find(HERE) is None  # what is named is meant, and nothing else
    assert f"searched {machine}/none on here; INFRABENCH_KATA=DIR names" in kata.not_installed(HERE)


def test_a_static_release_is_found_with_its_default_configuration(machine: Path) -> None:
    root = release(machine / "opt/kata", "/opt/kata", rust=True)
    assert find() == kata.Kata(
        str(root), f"{root}/bin/containerd-shim-kata-v2",
        f"{root}/share/defaults/kata-containers/configuration.toml", "3.23.0", "qemu",
        "/opt/kata/bin/qemu-system-x86_64", "", False, True,
        (
            "/opt/kata/bin/qemu-system-x86_64", "/opt/kata/share/kata-containers/vmlinux.container",
            "/opt/kata/share/kata-containers/kata-containers.img", "/opt/kata/libexec/virtiofsd",
        ),
    )  # fmt: skip


def test_the_administrators_configuration_and_drop_ins_win(machine: Path) -> None:
    release(machine / "opt/kata", "/opt/kata")
    own = machine / "etc/kata-containers"
    write(own / "configuration.toml", QEMU.format(prefix="/opt/kata"))
    write(own / "config.d/10-less.toml", "[hypervisor.qemu]\ndisable_vhost_net = true\n")
    write(own / "config.d/20-emulated.toml", '[hypervisor.qemu]\nmachine_accelerators = "accel=tcg"\n[runtime]\n')
    found = find()
    assert found.configuration == f"{own}/configuration.toml"
    assert (found.vhost_net, found.accelerators) == (False, "accel=tcg")


def test_the_shim_in_rust_is_taken_where_it_is_the_only_one(machine: Path) -> None:
    root = release(machine / "opt/kata", "/opt/kata", rust=True)
    (root / "bin/containerd-shim-kata-v2").unlink()
    found = find()
    assert (found.shim, found.version) == (f"{root}/runtime-rs/bin/containerd-shim-kata-v2", "3.29.0")
    assert found.configuration.endswith("/runtime-rs/configuration.toml")
    assert (found.hypervisor, found.program, found.rust) == ("dragonball", "", True)
    assert not any("nowhere" in file for file in found.files)  # it shares files by itself


@pytest.mark.parametrize("folder", ["usr/share/defaults/kata-containers", "usr/share/kata-containers/defaults"])
def test_a_package_is_found_where_distributions_put_it(machine: Path, folder: str) -> None:
    shim(machine / "usr/bin/containerd-shim-kata-v2", "containerd-shim-kata-v2 of unknown make")
    write(machine / folder / "configuration.toml", QEMU.format(prefix="/usr"))
    found = find()
    assert (found.root, found.shim) == ("", f"{machine}/usr/bin/containerd-shim-kata-v2")
    assert found.version == "containerd-shim-kata-v2 of unknown make"
    assert found.files[0] == "/usr/bin/qemu-system-x86_64"
    with pytest.raises(NotRunnable, match=r"unpack Kata's static release, and name it by INFRABENCH_KATA=DIR"):
        kata.folders_for_node(found)


@pytest.mark.parametrize("inside", ["", "opt/kata"])
def test_a_folder_that_is_named_may_hold_a_release_or_be_one(machine: Path, inside: str, monkeypatch) -> None:
    root = release(machine / "away" / inside, "/opt/kata")
    write(machine / "etc/kata-containers/configuration.toml", "[hypervisor.clh]\n")  # of some other Kata
    monkeypatch.setenv(kata.VARIABLE, str(machine / "away"))
    found = find()
    assert (found.root, found.hypervisor, found.place) == (str(root), "qemu", "/opt/kata")
    assert kata.folders_for_node(found) == {"/opt/kata": str(root)}  # its programs look for their files there
    assert kata.find(HERE, "") is None


def test_a_release_that_was_built_for_its_place_stays_there(machine: Path) -> None:
    root = release(machine / "opt/kata", f"{machine}/opt/kata")
    write(machine / "etc/kata-containers/configuration.toml", QEMU.format(prefix=root))
    own = f"{machine}/etc/kata-containers"
    assert kata.folders_for_node(find()) == {str(root): str(root), own: own}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[hypervisor.qemu\n", "cannot be understood"),
        ("[runtime]\n", "0 tables of a hypervisor"),
        ("[hypervisor.qemu]\n[hypervisor.clh]\n", "2 tables of a hypervisor"),
        ('[hypervisor]\nqemu = "x"\n', "cannot be understood"),
    ],
)
def test_a_configuration_that_is_none_is_told_by_its_path(text: str, told: str) -> None:
    with pytest.raises(NotRunnable, match=told) as error:
        kata.parse_configuration("/opt/kata", "/s", "/etc/kata-containers/configuration.toml", GO, [text])
    assert "/etc/kata-containers/configuration.toml" in str(error.value)


def found_in(root: Path, text: str = QEMU, said: str = GO, **more: object) -> kata.Kata:
    drop = "".join(f"{key} = {value}\n" for key, value in more.items())
    texts = [text.format(prefix=root), f"[hypervisor.qemu]\n{drop}" if more else ""]
    return kata.parse_configuration(str(root), "/s", "/c.toml", said, texts)


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /dev, with every device, beside a Kata with every file."""
    files(tmp_path)
    folder = tmp_path / "dev"
    for device in kata.DEVICES:
        write(folder / device.removeprefix("/dev/"), "")
    check = kata._CHECK.replace("/dev/kvm)", f"{folder}/kvm)")
    assert check != kata._CHECK
    monkeypatch.setattr(kata, "_CHECK", check)
    real = kata._needed_devices
    monkeypatch.setattr(
        kata, "_needed_devices", lambda each: {p.replace("/dev/", f"{folder}/"): why for p, why in real(each).items()}
    )
    return folder


def reason(found: kata.Kata) -> str:
    """Return why this Kata cannot run here; empty where it can."""
    return kata.lacks(HERE, found) or ""


NET = "there is no /dev/vhost-net for guests' network devices: modprobe vhost_net"


@pytest.mark.parametrize(
    ("gone", "how", "told"),
    [
        ("vhost-vsock", {}, "there is no /dev/vhost-vsock to speak with guests by: modprobe vhost_vsock"),
        ("vhost-vsock", {"disable_vhost_net": "true"}, "modprobe vhost_vsock"),
        ("net/tun", {}, "there is no /dev/net/tun for guests' network devices: modprobe tun"),
        ("vhost-net", {}, f"{NET}, or set disable_vhost_net"),
        ("vhost-net", {"disable_vhost_net": "true"}, ""),
        # The shim in Rust needs it with QEMU whatever its configuration says; with its own hypervisor it needs none.
        ("vhost-net", {"said": RUST}, f"{NET} (the shim in Rust"),
        ("vhost-net", {"said": RUST, "disable_vhost_net": "true"}, f"{NET} (the shim in Rust"),
        ("vhost-vsock vhost-net", {"text": DRAGONBALL}, ""),
    ],
)
def test_a_device_that_is_not_there_is_told_with_what_to_do(
    devices: Path, tmp_path: Path, gone: str, how: dict[str, str], told: str
) -> None:
    write(tmp_path / "share/kata-containers/vmlinux-dragonball-experimental.container", "")
    found = found_in(tmp_path, **how)
    assert reason(found) == ""
    for name in gone.split():
        (devices / name).unlink()
    assert reason(found).startswith("Kata cannot run on here: there is no /dev/" if told else "")
    assert told in reason(found)
    assert bool(reason(found)) is bool(told)
    assert ("set disable_vhost_net" in reason(found)) is ("set disable_vhost_net" in told)


def test_looking_for_kvm_makes_no_file_in_its_place(devices: Path) -> None:
    (devices / "kvm").unlink()
    for _ in range(2):  # the second look found what the first one had made
        asked = HERE.run(("sh", "-s", "", f"{devices}/kvm"), timeout_s=20, stdin=kata._CHECK.encode())
        assert asked.stdout.decode().split() == [f"{devices}/kvm"]
    assert not (devices / "kvm").exists()


def test_a_file_that_is_not_there_is_told(devices: Path, tmp_path: Path) -> None:
    (tmp_path / "libexec/virtiofsd").unlink()
    told = f"Kata cannot run on here: {tmp_path}/libexec/virtiofsd, which /c.toml names, is not there"
    assert reason(found_in(tmp_path)) == told
    moved = kata.parse_configuration(str(tmp_path), "/s", "/c.toml", GO, [QEMU.format(prefix="/opt/kata")])
    assert f"Kata's static release works at /opt/kata only, and lies in {tmp_path}" in reason(moved)


@pytest.mark.parametrize(
    ("program", "accelerators", "runs"),
    [("\x7fELF", "", False), ("#!/bin/sh\nexec qemu -machine accel=tcg\n", "", True), ("\x7fELF", "accel=tcg", True)],
)
def test_without_kvm_only_emulation_is_let_through(tmp_path: Path, program: str, accelerators: str, runs: bool) -> None:
    files(tmp_path)
    write(tmp_path / "bin/qemu-system-x86_64", program)
    found = found_in(tmp_path, machine_accelerators=f'"{accelerators}"')
    script = kata._CHECK.replace('[ -e "$path" ] &&', "false &&")
    assert script != kata._CHECK
    asked = HERE.run(("sh", "-s", found.program, "/dev/kvm", *found.files), timeout_s=20, stdin=script.encode())
    assert asked.stdout.decode().split()[-1] == "/dev/kvm"
    told = kata.lacks(Scripted(lambda argv, stdin: (0, asked.stdout)), found)
    assert (told is None) is runs
    assert runs or "/dev/kvm cannot be opened" in str(told)


def said(*lines: str) -> Scripted:
    return Scripted(lambda argv, stdin: (0, "".join(f"{line}\n" for line in lines).encode()))


def test_what_runs_the_guests_is_told_by_their_hypervisors() -> None:
    found = found_in(Path("/opt/kata"))
    one = "/opt/kata/bin/qemu-system-x86_64 -name sandbox-0 -machine q35,accel=kvm"
    assert kata.is_accelerated(said(f"kvm\t{one}", f"kvm\t{one}"), found) is True
    assert kata.is_accelerated(said(f"kvm\t{one}", f"none\t{one}"), found) is False
    assert kata.is_accelerated(said(), found) is None
    host = said()
    kata.is_accelerated(host, found)
    assert host.asked[0][-1] == "qemu-system-x86_64"


def test_a_hypervisor_is_told_from_other_processes(tmp_path: Path) -> None:
    program = tmp_path / "cloud-hypervisor-test"
    shutil.copy("/bin/sleep", program)
    found = kata.parse_configuration("/k", "/s", "/c", GO, [f'[hypervisor.clh]\npath = "{program}"\n'])
    assert kata.is_accelerated(HERE, found) is None
    with subprocess.Popen([program, "60"]) as child:
        try:
            assert kata.is_accelerated(HERE, found) is False  # it runs, and not by KVM
        finally:
            child.kill()
    assert kata.is_accelerated(HERE, found) is None
