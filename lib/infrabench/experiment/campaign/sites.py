"""Sites of a campaign: what each is made of, and which of them may not be measured at the same time.

Two sites disturb each other when they share a machine, a switch or storage. That is declared (``shares``), as nothing
can see a switch; machines that two sites have in common are found and must be declared. A site on this machine is
measured alone: the jobs of the others would be load on it, for this machine steers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from infrabench.core import SiteError
from infrabench.experiment.campaign.file import Campaign, Executor, Place, Slurm
from infrabench.machines.sites import site as sites
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.kubeconfig import Kubeconfig

HERE = ("lab", "local")
NOWHERE = Slurm()


@dataclass(frozen=True, slots=True)
class Site:
    """A site of a campaign.

    `target` is what a notebook takes as its site; `name` and `kind` are those of the site itself, as sessions keep
    them; `read` is what its file says; `steered_here`: its jobs run on this machine.
    """

    label: str
    target: str
    name: str
    kind: str
    slurm: Slurm = NOWHERE
    steered_here: bool = True
    read: Inventory | Kubeconfig | None = None

    @property
    def on_this_machine(self) -> bool:
        """Tell whether it is this machine that is measured."""
        return self.steered_here and self.kind in HERE

    @property
    def same(self) -> tuple[str, str | None]:
        """Return what two sites must not have in common: with Slurm, `local` is another machine on other nodes."""
        return self.target, None if self.steered_here else self.slurm.nodes


def read_sites(campaign: Campaign, executor: Executor) -> tuple[dict[str, Site], list[str]]:
    """Return the sites that can be read, by label, and what is wrong with the others."""
    known: dict[str, Site] = {}
    wrong: list[str] = []
    for label, place in campaign.sites.items():
        try:
            known[label] = _site(campaign, label, place, executor)
        except SiteError as error:
            wrong.append(f"{campaign.where('sites', label)}: {error}")
    return known, wrong


def machines(site: Site, systems: Sequence[str]) -> dict[str, str]:
    """Return how each machine that a site measures with `systems` is known beforehand: role -> address or server."""
    if isinstance(site.read, Kubeconfig):
        return {"cluster": site.read.server}
    if not isinstance(site.read, Inventory):
        return {}
    teams = {name: team.members() for name, team in site.read.clusters.items() if name in systems}
    nodes = {f"{name}-{role}": node for name, members in teams.items() for role, node in members.items()}
    hosts = {**site.read.hosts, **nodes}
    return {str(role): f"{host.address.lower()}:{host.port}" for role, host in hosts.items()}


def find_duplicates(known: Mapping[str, Site]) -> list[str]:
    """Return, in words, the sites that are one site under two labels: nothing that is declared mends that."""
    told = []
    for a, b in combinations(known.values(), 2):
        if a.same == b.same:
            told.append(f"sites {a.label} and {b.label} are one: both are {a.target}; a site is listed once")
        elif a.kind == b.kind == "inventory" and machines(a, ())["server"] == machines(b, ())["server"]:
            told.append(f"sites {a.label} and {b.label} are one: they have the same server; a site is listed once")
    return told


def is_declared(campaign: Campaign, a: str, b: str) -> bool:
    """Tell whether the campaign says that two sites share something."""
    return any({a, b} <= group for group in campaign.shares)


def _site(campaign: Campaign, label: str, place: Place, executor: Executor) -> Site:
    here = executor == "local"
    if place.target in HERE:
        return Site(label, place.target, place.target, place.target, place.slurm, here)
    if place.target == "auto":
        raise SiteError("a campaign says which sites it means: lab, local, or a file, not auto")
    path = Path(place.target).expanduser()
    path = (path if path.is_absolute() else campaign.path.parent / path).resolve()
    read = sites.read_file(path)
    kind = "inventory" if isinstance(read, Inventory) else "kubeconfig"
    return Site(label, str(path), read.name, kind, place.slurm, here, read)
