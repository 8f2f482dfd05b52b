"""What hosts need is what the plug-ins say: one list, agreed with the images of the lab."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infrabench import registry
from infrabench.core import DesignError
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.prepare import plan, requirements
from infrabench_platforms.clusters import remote
from infrabench_platforms.lab import images
from infrabench_platforms.stores import on_host
from tests.support.places import PLATFORMS

TWO = {"server": {"address": "192.0.2.1"}, "client": {"address": "192.0.2.2"}}
TEAM = {
    "control": {"address": "192.0.2.3"}, "worker1": {"address": "192.0.2.4"}, "worker2": {"address": "192.0.2.5"},
}  # fmt: skip


ALWAYS = {"python3", "coreutils"}


def _inventory(**more: object) -> Inventory:
    return Inventory.model_validate({"name": "two", "hosts": TWO, **more})


def _of(inventory: Inventory, *studies: str, **only: list[str]) -> dict[str, requirements.Needs]:
    return dict(requirements.collect_needs(inventory, studies, only.get("systems"), only.get("workloads")).needs)


def _packages(need: requirements.Needs) -> set[str]:
    return set(need.packages())


def test_a_study_narrowed_to_one_workload_needs_little() -> None:
    found = _of(_inventory(), "containers", systems=["native"], workloads=["sysbench-cpu"])
    assert set(found) == {"server"}
    assert _packages(found["server"]) == ALWAYS | {"sysbench", "iproute2", "util-linux", "procps"}
    assert found["server"].nofile == 16384
    assert found["server"].folders == ("/var/cache/infrabench",)
    assert not found["server"].root


def test_engines_bring_their_tools_in_the_guest_and_the_client_needs_its_own() -> None:
    asked = {"systems": ["docker"], "workloads": ["web", "iozone"]}
    found = _of(_inventory(), "containers", **asked)
    load = {"apache2-utils", "curl", "iproute2", "util-linux"}
    assert (_packages(found["server"]), _packages(found["client"])) == (ALWAYS | {"docker.io"}, ALWAYS | load)
    assert found["client"].wanted["ab"] == ("web",)
    alone = _of(_inventory(hosts={"server": TWO["server"]}), "containers", **asked)  # the load is made there
    assert {name: _packages(each) for name, each in alone.items()} == {"server": ALWAYS | load | {"docker.io"}}


def test_everything_that_containers_need_of_native_is_in_the_guest_image() -> None:
    """Both lists are of the same programs: the image's says where they come from there."""
    found = _of(_inventory(), "containers", systems=["native"])
    here = _packages(found["server"]) | _packages(found["client"])
    base = {"coreutils", "util-linux", "iproute2", "redis-tools"}  # of every Debian, or brought by another of them
    building = {"gcc", "libc6-dev"}  # of the image's own programs, purged after
    in_image = set(images.packages("guest")) - set(images.BOOT) - building
    assert here - base == in_image


def test_engines_of_the_lab_are_those_that_systems_name() -> None:
    found = _of(_inventory(), "containers", systems=["docker", "lxc", "lxd"], workloads=["stream"])
    assert _packages(found["server"]) - ALWAYS - {"tar", "iproute2"} <= set(images.packages("node"))


def test_machines_of_a_cluster_need_what_they_are_refused_without() -> None:
    inventory = _inventory(clusters={"flannel": TEAM, "crio-crun": TEAM})
    wanted = requirements.collect_needs(inventory, ["cnis", "runtimes"], ["flannel", "crio-crun"])
    found = wanted.needs
    assert set(found) == {
        "flannel-control + crio-crun-control", "flannel-worker1 + crio-crun-worker1", "flannel-worker2",
    }  # fmt: skip
    assert set(remote.programs(("crio",))) <= set(found["flannel-control + crio-crun-control"].programs)
    assert "crun" in found["flannel-worker1 + crio-crun-worker1"].programs
    assert "skopeo" not in found["flannel-worker2"].programs
    assert all(each.root for each in found.values())
    told = _packages(found["flannel-worker1 + crio-crun-worker1"]) - ALWAYS - {"iproute2", "mount"}
    assert told - set(images.packages("cluster")) == set()


def test_cilium_says_how_old_its_compiler_may_be() -> None:
    found = _of(_inventory(clusters={"cilium": TEAM}), "cnis", systems=["cilium"])
    assert found["cilium-worker1"].package("clang") == ("clang", "1:17~")
    assert "clang" not in found["cilium-control"].programs


@pytest.mark.parametrize("name", ["ceph", "zfs"])
def test_a_store_needs_what_it_is_refused_without(name: str) -> None:
    found = _of(_inventory(), "storage", systems=[name])["server"]
    assert set(on_host.programs(name)) <= set(found.programs)
    assert found.modules == on_host.MODULES == dict.fromkeys(on_host.DEVICES) | on_host.MODULES
    assert found.root
    assert _packages(found) - ALWAYS - {"mount"} - set(images.packages("storage")) == set()


def test_machines_that_are_not_named_and_systems_that_say_nothing_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(registry.system("host"), "NEEDS")
    wanted = requirements.collect_needs(_inventory(), ["cnis"], ["flannel", "host"])
    untold = ("the inventory names no machines for flannel", "host does not say what it needs of a host")
    assert wanted.untold == untold
    assert wanted.machines == {}


def test_an_option_that_names_nothing_is_refused() -> None:
    with pytest.raises(DesignError, match="no system is named"):
        _of(_inventory(), "containers", systems=[])


def test_every_package_has_the_name_of_one() -> None:
    modules = [registry.system(name) for name in registry.names("systems")]
    modules += [registry.workload(name) for name in registry.names("workloads")]  # type: ignore[misc]
    count = 0
    for module in modules:
        for programs in (getattr(module, "PROGRAMS", None) or getattr(module, "NEEDS", None) or {}).values():
            for program, package in programs.items():
                count += 1
                assert re.fullmatch(r"(/[\w./+*-]+|[\w.+-]+)", program)
                assert re.fullmatch(r"[a-z0-9][a-z0-9+.-]+(>=[0-9][\w.:~+-]*)?", package) or program.startswith("ib-")
    assert count > 100


def test_servers_that_stay_off_are_those_of_the_guests() -> None:
    """What is masked in every guest is masked on hosts, of packages that a study installs."""
    setup = (PLATFORMS / "lab/guest/setup.sh").read_text()
    units = set(re.search(r"for unit in (.*?); do", setup, re.DOTALL)[1].replace("\\\n", " ").split())  # type: ignore[index]
    ours = {unit for package in ("apache2", "vsftpd", "postfix", "redis-server") for unit in plan.STAYS_OFF[package]}
    assert ours <= units
    assert {"apache2.service", "vsftpd.service", "postfix.service", "redis-server.service"} <= ours


def test_the_mail_server_of_trials_has_no_folder_of_one_that_a_host_has() -> None:
    overlay = PLATFORMS / "lab/guest/overlay"
    queue = "/var/spool/infrabench/mail"
    for name in ("usr/local/bin/ib-service", "etc/infrabench/mail/main.cf"):
        text = (overlay / name).read_text()
        assert queue in text
        assert "spool/postfix" not in text
        assert "lib/postfix\n" not in text


@given(st.lists(st.sampled_from(registry.study("containers").systems), min_size=1, unique=True))
def test_fewer_systems_never_need_more(systems: list[str]) -> None:
    every, some = _of(_inventory(), "containers"), _of(_inventory(), "containers", systems=systems)
    for name, each in some.items():
        assert set(each.programs) <= set(every[name].programs)
