"""What sites ask of the platforms: the lab, images, clusters and stores, which are a package of their own.

`find_platforms` returns that package's module ``provider``, which has the functions of `Platforms`. It is imported when
something is measured, never before: sessions are read, analysed and reported where it is not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from infrabench.core import Host, Machines, NotRunnable, Site, Study
from infrabench.registry import PLATFORMS, packages

if TYPE_CHECKING:
    from infrabench.machines.hosts.claims import Holder  # needs what speaks SSH

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outlook:
    """Why a system could not run in the lab here, and on this host itself (None: it could); what is made first."""

    lab: str | None
    local: str | None
    first: tuple[str, ...]


class Platforms(Protocol):
    """What is measured and where, as the harness asks for it.

    * `require_lab` raises `NotRunnable` where this machine and user can have no lab.
    * `open_lab` gives the lab as a site, brought up where it is not up, with who has claimed this machine.
    * `sweep_lab` removes a lab whose user is gone; `remove_leftovers` what a killed session has left on a host that the
      caller has claimed (`ProvisionError` with what cannot be removed).
    * `guest_image` returns facts of a site: the guest image of this machine (hash, path of its archive), or the reason
      why there is none; unless `make`, without making it.
    * `open_cluster` gives hosts by role as the machines of a cluster, with programs and images on them, and leaves them
      as they were found; `tools`: the parts that a system needs.
    * `open_store` gives a host as that of a storage system, with `need_bytes` of free space; with `client`, the
      `other` one as that of its client.
    * `make_pod_image` returns name and archive of the image of pods; `find_kubectl` the path of a kubectl made here.
    * `check_systems` returns what each system of a study could do here (`made` begins empty and is shared between
      studies), `seconds` about how long it takes to make what comes first.
    """

    def require_lab(self) -> None: ...

    def open_lab(self, say: Say, holder: Holder | None) -> AbstractContextManager[Site]: ...

    def sweep_lab(self) -> None: ...

    def remove_leftovers(self, host: Host, say: Say) -> None: ...

    def guest_image(self, say: Say, make: bool = True) -> dict[str, Any]: ...

    def open_cluster(
        self, hosts: Mapping[str, Any], tools: tuple[str, ...], say: Say
    ) -> AbstractContextManager[Machines]: ...

    def open_store(
        self, host: Host, other: Host | None, name: str, need_bytes: int, client: bool = False
    ) -> AbstractContextManager[Machines]: ...

    def make_pod_image(self, say: Say) -> tuple[str, Path]: ...

    def find_kubectl(self) -> Path | None: ...

    def check_systems(
        self, study: Study, systems: Sequence[str], disk_bytes: int, made: dict[str, bool]
    ) -> dict[str, Outlook]: ...

    def seconds(self, first: Sequence[str]) -> float: ...


def find_platforms() -> Platforms:
    """Return the platforms; `NotRunnable` where their package is not installed."""
    if PLATFORMS not in packages().values():
        raise NotRunnable(
            f"the package {PLATFORMS} is not installed here: sessions can be read and analysed, but nothing be "
            "measured. Install it beside infrabench (`make env` in a checkout)"
        )
    return cast(Platforms, importlib.import_module(f"{PLATFORMS}.provider"))
