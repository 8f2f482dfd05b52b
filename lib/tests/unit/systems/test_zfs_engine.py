"""Which engine of OpenZFS a host gets: the kernel's module, the one in user space, or none, with the reason."""

from __future__ import annotations

import pytest

from infrabench.core import NotRunnable
from infrabench.machines.sites.site import OpenSite
from infrabench_platforms.stores.node.config import GIB, Config
from infrabench_platforms.systems import block_storage
from tests.support.cluster_fakes import Scripted, answers
from tests.support.places import PLATFORMS

SOURCES = PLATFORMS / "lab/storage/zvol"
CONFIG = Config("zfs_kernel", "zfs", 8 * GIB, 4 * GIB)


def host(*, module: bool, absent: str = "", compiler: str = "") -> Scripted:
    """Return a host with or without the module, without these programs, whose compiler says so when it fails."""
    told = {"modprobe": (int(not module), ""), "zpool": absent, "build.sh": (int(bool(compiler)), compiler)}
    return Scripted(answers(told))


def choose(kind: str, node: Scripted) -> block_storage.Engine:
    return block_storage.choose_zfs(OpenSite("s", kind, {}), node)


def test_the_lab_has_the_engine_in_user_space_and_says_so() -> None:
    node = host(module=True)
    engine = choose("lab", node)
    assert (engine.module, engine.qualifier, engine.options) == ("zfs", "user space", {})
    assert node.asked == []


def test_a_host_with_the_module_uses_it_and_is_told_which_tools_are_missing() -> None:
    engine = choose("inventory", host(module=True))
    assert (engine.module, engine.qualifier) == ("zfs_kernel", "")
    assert engine.paths(CONFIG)["device"][0].startswith("/dev/zvol/")
    with pytest.raises(NotRunnable, match=r"apt-get install qemu-utils zfsutils-linux$"):
        choose("local", host(module=True, absent="zpool\nzfs\nqemu-nbd\n"))


def test_a_host_without_the_module_gets_the_plugin_built_or_is_told_why_and_left_as_it_was() -> None:
    node = host(module=False)
    engine = choose("inventory", node)
    assert (engine.module, engine.qualifier, engine.options) == ("zfs", "user space", {"plugin": block_storage.PLUGIN})
    assert node.pushed == {f"{block_storage.SOURCES}/{each.name}": each.read_text() for each in SOURCES.iterdir()}
    assert (f"{block_storage.SOURCES}/build.sh", block_storage.PLUGIN) in node.asked
    node = host(module=False, compiler="fatal error: libzutil.h: No such file or directory")
    with pytest.raises(NotRunnable, match=r"no ZFS module.*libzfslinux-dev.*libzutil\.h"):
        choose("local", node)
    assert node.asked[-1] == ("rm", "-rf", block_storage.SOURCES)
