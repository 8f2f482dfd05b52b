"""Sites: the hosts that a study runs on, and machines that they give a system for its own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from infrabench.core.hosts import Host


@dataclass(frozen=True, slots=True)
class Machines:
    """Hosts that a system has for its own, and where on them its programs and images lie.

    Of a cluster the hosts are ``control``, ``worker1``, ``worker2``; of a store there is one, ``store``, and
    another one, ``client``, where that was asked for and the site has it.

    `pause` and `resume` freeze and thaw all of them at once; None where that cannot be had.
    """

    hosts: Mapping[str, Host]  # by role
    tools: Mapping[str, str]  # part (kubernetes, etcd, ...) -> folder on every host
    images: Mapping[str, tuple[str, str]]  # kind (pause, tools) -> name of the image, path of its archive on every host
    embedded: bool  # nodes of the lab, that go away whole; else hosts that have to be left as they were found
    pause: Any = None
    resume: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)


class Site(Protocol):
    """The hosts a study runs on, by role, and where guests get their image and network from.

    `machines` gives a system hosts of its own for as long as its context lasts: a name, the parts of the tools that it
    needs, and how many workers. `store` gives it one host for its disks and daemons, with `need_bytes` of free space;
    with `guest`, that host also has what a virtual machine is started from, in its tools' folder ``guest``; with
    `client`, there is a second host for the store's client, where the site has one.
    Both raise `NotRunnable` where the site has none.

    `version` gives the site as a version of a system finds it: its ``server`` is a host that has this version. It
    raises `NotRunnable` where there is none.
    """

    name: str
    kind: Literal["lab", "local", "inventory", "kubeconfig"]
    hosts: Mapping[str, Host]  # role -> host; `server` always, `client` when there is another
    facts: Mapping[str, Any]  # what the site knows of itself (guest image path and hash, bridge, ...)
    private: Mapping[str, str]  # what no session may hold (addresses of its machines) -> what it says there instead

    def machines(self, name: str, tools: tuple[str, ...], workers: int = 2) -> AbstractContextManager[Machines]: ...

    def store(
        self, name: str, need_bytes: int, guest: bool = False, client: bool = False
    ) -> AbstractContextManager[Machines]: ...

    def version(self, system: str, version: str) -> AbstractContextManager[Site]: ...
