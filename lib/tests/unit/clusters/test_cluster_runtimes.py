"""High-level runtimes and the low-level ones that they take: their configurations, and what stands before programs."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infrabench.core import DesignError, NotRunnable, ProvisionError
from infrabench.machines.hosts.host import LocalHost
from infrabench_platforms.clusters import runtimes, workers
from infrabench_platforms.clusters.kata import Kata
from infrabench_platforms.lab import go_parts
from tests.support.cluster_fakes import Scripted, answers, machines, scripts
from tests.support.scripts import write_program

KATA = Kata(
    "/opt/kata", "/opt/kata/bin/containerd-shim-kata-v2", "/opt/kata/c.toml", "3.23.0", "qemu", "/opt/kata/bin/qemu",
    "", False, True, (),
)  # fmt: skip


def place(
    *names: str, runtime: runtimes.Runtime = runtimes.CONTAINERD, restricted: bool = False, kata: Kata | None = None
) -> runtimes.Worker:  # fmt: skip
    versions = dict.fromkeys(names, "")
    host = Scripted(name="worker1")
    return runtimes.Worker("worker1", host, machines(host), runtime, versions, kata, restricted)


def containerds(where: runtimes.Worker) -> dict[str, Any]:
    return tomllib.loads(runtimes.configure_containerd(where))["plugins"]["io.containerd.cri.v1.runtime"]


def crios(where: runtimes.Worker) -> dict[str, Any]:
    return tomllib.loads(runtimes.configure_crio(where))["crio"]


def test_each_handler_of_containerd_is_a_shim_with_its_options() -> None:
    read = containerds(place("runc", "crun", "runsc", "kata", kata=KATA))["containerd"]
    assert read["default_runtime_name"] == "runc"
    assert read["runtimes"] == {
        "runc": {"runtime_type": "io.containerd.runc.v2"},
        "crun": {"runtime_type": "io.containerd.runc.v2", "options": {"BinaryName": "crun"}},
        "runsc": {
            "runtime_type": "io.containerd.runsc.v1",
            "options": {"TypeUrl": "io.containerd.runsc.v1.options", "ConfigPath": runtimes.GVISOR_CONFIG},
        },
        "kata": {
            "runtime_type": "io.containerd.kata.v2", "runtime_path": KATA.shim,
            "privileged_without_host_devices": True, "options": {"ConfigPath": "/opt/kata/c.toml"},
        },
    }  # fmt: skip


def test_each_handler_of_crio_is_a_program_that_it_runs_or_a_shim() -> None:
    read = crios(place("runc", "crun", "runsc", "kata", kata=KATA))
    assert read["runtime"]["default_runtime"] == "runc"
    assert read["runtime"]["runtimes"] == {
        "runc": {"runtime_root": "/run/runc", "monitor_cgroup": "pod"},
        "crun": {"runtime_root": "/run/crun", "monitor_cgroup": "pod"},
        "runsc": {
            "runtime_type": "vm", "runtime_path": "/etc/infrabench/containerd-shim-runsc-v2",
            "runtime_root": "/run/vc", "runtime_config_path": runtimes.GVISOR_CONFIG,
        },
        "kata": {
            "runtime_type": "vm", "runtime_path": KATA.shim, "runtime_root": "/run/vc",
            "runtime_config_path": "/opt/kata/c.toml", "privileged_without_host_devices": True,
        },
    }  # fmt: skip
    assert read["image"]["pause_image"] == "localhost/pause:1"
    assert read["runtime"]["pinns_path"] == "/opt/infrabench/crio/pinns"
    assert read["metrics"]["metrics_host"] == "127.0.0.1"
    assert read["storage_option"] == ["overlay.skip_mount_home=true"]
    assert "storage_option" not in crios(place("runc"))


def test_containers_have_the_same_rights_under_both() -> None:
    read = crios(place("runc"))["runtime"]
    # The default of containerd 2.4 (pkg/oci, defaultUnixCaps).
    assert set(read["default_capabilities"]) == {
        "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
        "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
    }  # fmt: skip
    assert read["pids_limit"] == -1
    assert read["apparmor_profile"] == "unconfined"
    assert containerds(place("runc"))["disable_apparmor"] is True
    assert containerds(place("runc"))["cni"] == {"bin_dirs": ["/opt/cni/bin"], "conf_dir": "/etc/cni/net.d"}
    assert crios(place("runc"))["network"] == {
        "network_dir": "/etc/cni/net.d", "plugin_dirs": ["/opt/cni/bin"],
    }  # fmt: skip


def test_an_older_containerd_is_told_the_same_in_its_own_form() -> None:
    def at(version: str) -> runtimes.Worker:
        where = place("runc", "crun")
        return replace(where, machines=replace(where.machines, facts={"versions": {"containerd": version}}))

    older, newer = (tomllib.loads(runtimes.configure_containerd(at(each))) for each in ("v2.1.6", "v2.4.2"))
    assert (older.pop("version"), newer.pop("version")) == (3, 4)
    for server in ("grpc", "metrics"):
        assert older.pop(server) == newer["plugins"].pop(f"io.containerd.server.v1.{server}")
    network = [each["plugins"]["io.containerd.cri.v1.runtime"].pop("cni") for each in (older, newer)]
    assert [each.pop(key) for each, key in zip(network, ("bin_dir", "bin_dirs"), strict=True)] == [
        "/opt/cni/bin", ["/opt/cni/bin"]
    ]  # fmt: skip
    assert network[0] == network[1]
    assert older == newer
    assert not runtimes.is_containerd_2_1(replace(at("v2.1.6"), runtime=runtimes.CRIO))


def test_kubelets_differ_in_nothing_but_where_their_runtime_is() -> None:
    one, other = (workers._kubelet(each) for each in runtimes.RUNTIMES.values())
    assert {key for key in one if one[key] != other[key]} == {"containerRuntimeEndpoint"}
    assert one.keys() == other.keys()
    assert one["maxPods"] == 110  # kubelet's own default


def test_tables_of_toml_are_read_as_they_were_meant() -> None:
    values = {"a": 'say "x"\\', "b": True, "c": 7, "d": ["ä", ""], "e": ""}
    assert tomllib.loads(runtimes.toml('x."a.b"', values)) == {"x": {"a.b": values}}


@pytest.mark.parametrize(
    ("runtime", "names", "parts"),
    [
        ("containerd", ("runc",), ("containerd",)),
        ("crio", ("runc", "crun"), ("crio",)),
        ("containerd", ("runc", "runsc"), ("containerd", "gvisor")),
        ("crio", ("runc", "runsc"), ("crio", "gvisor")),
        ("crio", ("runc", "kata"), ("crio", "kata")),
    ],
)
def test_machines_are_asked_for_what_a_pair_needs(runtime: str, names: tuple[str, ...], parts: tuple[str, ...]) -> None:
    assert workers.parts(runtime, names) == parts


def test_what_does_not_go_together_is_refused_before_anything_is_made() -> None:
    with pytest.raises(NotRunnable, match="CRI-O gives the pods of all handlers the same network"):
        workers.parts("crio", ("runc", "plain"))
    with pytest.raises(DesignError, match="unknown low-level runtime 'runcs': did you mean run"):
        workers.parts("crio", ("runcs",))
    with pytest.raises(DesignError, match=r"unknown high-level runtime 'docker'.*containerd, crio"):
        workers.parts("docker")


def test_a_worker_without_a_handlers_program_says_what_to_install() -> None:
    host = Scripted(answers({"sh crun": (1, ""), "": "free"}), name="worker1")
    with pytest.raises(NotRunnable, match=r"^crun is not installed on worker1: apt-get install crun$"):
        workers.prepare("worker1", machines(host), "crio", ("runc", "crun"))
    assert not any(b"systemctl" in text for text in host.given)
    with pytest.raises(NotRunnable, match=r"^Kata is not installed: searched /opt/kata"):
        workers.prepare("worker1", machines(host), "crio", ("runc", "kata"))


@pytest.mark.parametrize("part", ["containerd", "crio"])
def test_the_specification_of_containers_is_that_of_the_pinned_runtime(part: str) -> None:
    pins = (go_parts.PARTS[part].folder / "go.mod").read_text()
    assert f"github.com/opencontainers/runtime-spec v{runtimes.RUNTIMES[part].spec} " in pins


def test_a_crun_that_does_not_know_the_specification_says_so_before_anything_is_started(tmp_path: Path) -> None:
    here = LocalHost(environment={"PATH": f"{tmp_path}:{os.environ['PATH']}"})

    def lacks(words: str) -> str | None:
        known = "--version) echo 'crun version 1.8.1'; echo commit;;"
        write_program(tmp_path / "crun", f"case $* in {known} *create*) {words};; esac")
        return runtimes.CRUN.lacks(replace(place("crun"), host=here))

    refuses = (
        'for bundle in "$@"; do [ ! -e "$bundle/config.json" ] || grep -q 1.3.0 "$bundle/config.json" && why=1; done'
    )
    assert lacks(f'{refuses}; [ -z "$why" ] || echo unknown version specified >&2; exit 1') == (
        "crun version 1.8.1 refuses containers of specification 1.3.0, which containerd writes: "
        "unknown version specified"
    )
    assert lacks("echo 'error opening file /none' >&2; exit 1") is None


def test_a_worker_knows_what_its_handlers_are() -> None:
    host = Scripted(answers({"runc --version": "runc version 1.1.5\nspec: 1.0.2\n"}), name="worker1")
    made = workers.prepare("worker1", machines(host), "crio", ("runc",))
    assert (made.runtime.name, made.handlers, made.kata) == ("crio", {"runc": "runc version 1.1.5"}, None)
    assert scripts(host, b"skopeo")[0][2:] == (
        "overlay@/var/lib/containers/storage+/run/containers/storage",
        "/opt/images/pause.tar", "localhost/pause:1", "/opt/images/tools.tar", "localhost/tools:1",
    )  # fmt: skip


def test_images_come_into_the_store_as_crio_opens_it(tmp_path: Path) -> None:
    write_program(tmp_path / "skopeo", f'echo "$@" >>{tmp_path}/asked')
    where = place("runc", "kata", kata=KATA)
    runtimes._start_crio(where)
    (argv, script), *_ = [
        each for each in zip(where.host.asked, where.host.given, strict=True) if b"skopeo" in each[1]
    ]  # fmt: skip
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(argv, input=script, check=True, timeout=20, env={**os.environ, "PATH": path})
    # Without the option skopeo leaves a private bind mount there, which hides the files from the shim of Kata.
    assert (tmp_path / "asked").read_text().splitlines()[0].split()[-2:] == [
        "docker-archive:/opt/images/pause.tar",
        "containers-storage:[overlay@/var/lib/containers/storage+/run/containers/storage"
        ":overlay.skip_mount_home=true]localhost/pause:1",
    ]  # fmt: skip


def test_a_program_that_does_not_tell_its_version_is_an_error() -> None:
    where = replace(place("runc"), host=Scripted(lambda argv, stdin: (126, b"no such")))
    with pytest.raises(ProvisionError, match="runc --version does not tell its version: no such"):
        runtimes.read_versions(where)


def test_on_a_restricted_machine_only_wrappers_are_added() -> None:
    free, restricted = (place("runc", "crun", "kata", restricted=each, kata=KATA) for each in (False, True))
    assert runtimes.wrappers(free) == {}
    assert set(runtimes.wrappers(restricted)) == {"/etc/infrabench/crio-runc", "/etc/infrabench/crio-crun"}
    one, other = (crios(each)["runtime"].pop("runtimes") for each in (free, restricted))
    for name in ("runc", "crun"):
        assert other[name].pop("runtime_path") == f"/etc/infrabench/crio-{name}"
    assert one == other
    assert containerds(restricted)["restrict_oom_score_adj"] is True
    assert containerds(free)["restrict_oom_score_adj"] is False


def wrapped(folder: Path, *words: str) -> list[str]:
    """Run the wrapper of a low-level runtime that prints its arguments."""
    write_program(folder / "low", "printf '%s\\n' \"$@\"")
    wrapper = folder / "wrapper"
    wrapper.write_text(runtimes._OCI_WRAPPER.format(name="low", raise_=runtimes.RAISE.format(file='"$file"')))
    wrapper.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        [wrapper, *words], check=True, capture_output=True, text=True, timeout=20, env={**os.environ, "PATH": path}
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("words", [("--bundle", "{}"), ("-b", "{}")])
def test_scores_below_zero_are_raised_where_a_container_is_made(tmp_path: Path, words: tuple[str, str]) -> None:
    spec = {"process": {"oomScoreAdj": -998, "args": ["a b", "$x"]}, "other": {"oomScoreAdj": 999}}
    (tmp_path / "config.json").write_text(json.dumps(spec, indent=1))
    told = [word.format(tmp_path) for word in words]
    assert wrapped(tmp_path, "--root", "/r", "create", *told, "an id") == ["--root", "/r", "create", *told, "an id"]
    spec["process"]["oomScoreAdj"] = 0
    assert json.loads((tmp_path / "config.json").read_text()) == spec


def test_scores_of_commands_in_a_container_are_raised_too_and_nothing_else_is_read(tmp_path: Path) -> None:
    process = tmp_path / "process.json"
    process.write_text('{"oomScoreAdj":-997}')
    wrapped(tmp_path, "exec", "--process", str(process), "id")
    assert process.read_text() == '{"oomScoreAdj":0}'
    assert wrapped(tmp_path, "kill", "id", "15") == ["kill", "id", "15"]
    assert wrapped(tmp_path, "create", "--bundle", "/nowhere") == ["create", "--bundle", "/nowhere"]


def test_gvisors_shim_is_wrapped_only_where_it_would_fail() -> None:
    free, restricted = place("runc", "runsc"), place("runc", "runsc", restricted=True)
    table, options = runtimes.RUNSC.containerd(free)
    assert "runtime_path" not in table
    assert runtimes.RUNSC.containerd(restricted) == ({**table, "runtime_path": runtimes.GVISOR_WRAPPER}, options)
    config = tomllib.loads(runtimes.RUNSC.files(free)[runtimes.GVISOR_CONFIG])
    assert config["binary_name"] == "/opt/infrabench/gvisor/runsc"
    added = set(runtimes.RUNSC.files(restricted)) - set(runtimes.RUNSC.files(free))
    assert added == {runtimes.GVISOR_WRAPPER, runtimes.GVISOR_USER_MAP}
    assert config["runsc_config"]["platform"] == "systrap"
    # user_namespaces(7): the first namespace maps 4294967295 users; what maps fewer is another one.
    assert runtimes.RUNSC.files(restricted)[runtimes.GVISOR_USER_MAP].split() == ["0", "0", "4294967294"]


def test_gvisor_needs_a_right_where_its_shim_cannot_be_helped() -> None:
    def lacks(status: int, *, restricted: bool) -> str | None:
        host = Scripted(lambda argv, stdin: (status, b""))
        return runtimes.RUNSC.lacks(replace(place("runsc", restricted=restricted), host=host))

    assert lacks(1, restricted=True) == "the gVisor shim needs CAP_SYS_RESOURCE, which this machine does not grant"
    assert lacks(0, restricted=True) is None
    assert lacks(1, restricted=False) is None


@pytest.mark.parametrize("restricted", [False, True])
def test_crio_is_told_the_address_that_gvisors_shim_gives(tmp_path: Path, restricted: bool) -> None:
    where = place("runc", "runsc", restricted=restricted)
    shim, wrapper = tmp_path / "shim", tmp_path / "containerd-shim-runsc-v2"
    text = runtimes.RUNSC.files(where)[runtimes.GVISOR_FOR_CRIO]
    for path in (f"/opt/infrabench/gvisor/{runtimes.GVISOR_SHIM}", runtimes.GVISOR_WRAPPER):
        text = text.replace(path, str(shim))
    wrapper.write_text(text)
    told = '{"version":2,"address":"unix:///run/containerd/s/0a","protocol":"ttrpc"}'
    write_program(shim, f'[ "$1" != bad ] || {{ echo no such thing; exit 3; }}\n[ "$3" != start ] || echo \'{told}\'')
    (tmp_path / "config.json").write_text('{"process": {"oomScoreAdj": -998}}')

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        argv = ["sh", str(wrapper), *words]
        return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20, cwd=tmp_path)

    assert run("-id", "a b", "start").stdout == "unix:///run/containerd/s/0a\n"
    assert ("-998" in (tmp_path / "config.json").read_text()) is not restricted
    assert (run("-id", "x", "delete").stdout, run("bad", "x", "delete").returncode) == ("", 3)
    failed = run("bad", "x", "start")
    assert (failed.returncode != 0, failed.stdout) == (True, "no such thing\n")
