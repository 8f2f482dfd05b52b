"""Campaign files: which studies, with which parameters, on which sites. YAML, checked word by word::

name: three-sites
studies:
  containers: {profile: quick, systems: [native, docker], workloads: [sysbench-cpu, web]}
  twice: {study: containers, profile: smoke, sites: [rack-a]}   # a study once more, under a label of its own
sites:
  rack-a: rack-a.yml                # an inventory or a kubeconfig, relative to this file; or lab, or local
  rack-b: rack-b.yml
  node-7: {target: local, slurm: {nodes: node-7, partition: bench}}   # what a job of Slurm finds itself on
shares:
  - [rack-a, rack-b]                # one switch: never measured at the same time
parity: [kernel, docker]            # what has to be equal everywhere

And what its sites are made of, and which of them may not be measured at the same time: two sites disturb each other
when they share a machine, a switch or storage. That is declared (``shares``), as nothing can see a switch; machines
that two sites have in common are found and must be declared. A site on this machine is measured alone: the jobs of the
others would be load on it, for this machine steers them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, ValidationError

from infrabench.core import DesignError, SiteError
from infrabench.machines.sites import site as site_files
from infrabench.machines.sites import yaml_with_lines
from infrabench.machines.sites.inventory import Inventory
from infrabench.machines.sites.kubeconfig import Kubeconfig

HERE = ("lab", "local")
# Parts of names of folders and sessions; no dot, which stands between them.
Label = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,37}$")]
# A word for Slurm's sbatch: no blank, no quote, and no option.
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,+*&|()\[\]-]{0,199}$")]
Names = list[str] | None
Executor = Literal["local", "slurm", "kubernetes"]
PROFILE = "quick"  # what the notebooks take, too
MOST_FAULTS = 20  # of one file in one message
TWICE: Mapping[tuple[str, ...], str] = {  # what is wrong with a key that stands in a file twice
    (): "the key stands there twice",
    ("sites",): "the site is listed twice",
    ("studies",): "the label stands there twice: its jobs would have one name",
}


class Slurm(BaseModel):
    """What Slurm is asked for, for the jobs of a site."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    nodes: Word | None = None
    partition: Word | None = None
    account: Word | None = None
    constraint: Word | None = None
    qos: Word | None = None


class Place(BaseModel):
    """A site as the file names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    target: Annotated[str, Field(min_length=1, max_length=4096)]
    slurm: Slurm = Slurm()


class Entry(BaseModel):
    """A study of a campaign: its parameters are those of its notebook."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    study: str | None = None
    sites: list[Label] | None = None
    profile: str = PROFILE
    runs: StrictInt | None = None
    systems: Names = None
    workloads: Names = None
    set: dict[str, Any] | None = None
    seed: StrictInt | None = None
    deployments: StrictInt | None = None
    order: str | None = None
    rounds: StrictInt | None = None
    precision: StrictFloat | None = None
    most: StrictInt | None = None
    minutes: StrictFloat | StrictInt | None = None
    mixture: StrictBool = False

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that were given, by the names of the notebook's."""
        return self.model_dump(exclude={"study", "sites"}, exclude_unset=True)


def _place(given: object) -> object:
    return {"target": given} if isinstance(given, str) else given


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    name: Label
    studies: Annotated[dict[Label, Entry], Field(min_length=1)]
    sites: Annotated[dict[Label, Annotated[Place, BeforeValidator(_place)]], Field(min_length=1)]
    shares: list[Annotated[list[Label], Field(min_length=2)]] = []
    parity: list[str] = []


@dataclass(frozen=True)
class Campaign:
    """What a campaign file asks for."""

    path: Path
    name: str
    studies: Mapping[str, Entry]
    sites: Mapping[str, Place]
    shares: tuple[frozenset[str], ...] = ()
    parity: tuple[str, ...] = ()
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def where(self, *place: str) -> str:
        """Return a place of the file for a message: its line, where there is one, and its keys."""
        line = next((self.lines[place[:end]] for end in range(len(place), 0, -1) if place[:end] in self.lines), None)
        return (f"line {line}, " if line else "") + ".".join(place)


class Refused(DesignError):
    """A campaign that is not begun, with everything that is wrong with it."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self.problems = tuple(problems)
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "".join(f"\n  - {each}" for each in problems)
        super().__init__(f"{path}: {count}; nothing was started{lines}")


def read(path: Path) -> Campaign:
    """Return the campaign that a file asks for; `Refused` (a `DesignError`) names every fault with its line.

    What it names is not looked at yet: see `checks`.
    """
    if not path.is_file():
        raise DesignError(f"there is no campaign file {path}; what one looks like: docs/campaigns.md")
    written = yaml_with_lines.read(path, "a campaign file", DesignError)
    if not isinstance(written.data, Mapping):
        raise Refused(path, ["a campaign is a mapping: name, studies, sites, and perhaps shares and parity"])
    faults = [
        f"line {line}, {'.'.join(place)}: {TWICE.get(place[:1] if len(place) == 2 else (), TWICE[()])} "
        f"(first in line {written.lines[place]})"
        for place, line in written.repeated.items()
        if place[:-1] not in written.repeated
    ]
    try:
        file = _File.model_validate(written.data)
    except ValidationError as error:
        for item in error.errors(include_input=False, include_url=False, include_context=False):
            place = ".".join(str(part)[:60] for part in item["loc"])
            faults.append(f"line {written.line(item['loc'])}, {place}: {item['msg']}")
    if faults:
        more = [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
        raise Refused(path, faults[:MOST_FAULTS] + more)
    shares = tuple(frozenset(group) for group in file.shares)
    return Campaign(path, file.name, file.studies, file.sites, shares, tuple(file.parity), written.lines)


NOWHERE = Slurm()
LOST = "lost"  # the kind of a site that cannot be read


@dataclass(frozen=True, slots=True)
class Site:
    """A site of a campaign.

    `target` is what a notebook takes as its site; `name` and `kind` are those of the site itself, as sessions keep
    them; `read` is what its file says; `steered_here`: its jobs run on this machine; `fault`: why the site of kind
    `LOST` cannot be read.
    """

    label: str
    target: str
    name: str
    kind: str
    slurm: Slurm = NOWHERE
    steered_here: bool = True
    read: Inventory | Kubeconfig | None = None
    fault: str = ""

    @property
    def on_this_machine(self) -> bool:
        """Tell whether it is this machine that is measured."""
        return self.steered_here and self.kind in HERE

    @property
    def same(self) -> tuple[str, str | None]:
        """Return what two sites must not have in common: with Slurm, `local` is another machine on other nodes."""
        return self.target, None if self.steered_here else self.slurm.nodes


def read_sites(
    campaign: Campaign, executor: Executor, without: Collection[str] = ()
) -> tuple[dict[str, Site], list[str]]:
    """Return the sites that can be read, by label, and what is wrong with the others.

    What is wrong with one that is left out is its own `fault`: nothing is measured there.
    """
    known: dict[str, Site] = {}
    wrong: list[str] = []
    for label, place in campaign.sites.items():
        try:
            known[label] = _site(campaign, label, place, executor)
        except SiteError as error:
            if label in without:
                here, fault = executor == "local", " ".join(str(error).split())
                known[label] = Site(label, place.target, place.target, LOST, place.slurm, here, fault=fault)
            else:
                wrong.append(f"{campaign.where('sites', label)}: {error}")
    return known, wrong


def machines(site: Site, systems: Sequence[str]) -> dict[str, str]:
    """Return how each machine that a site measures with `systems` is known beforehand: role -> address or server.

    Behind a gateway an address is one of its network.
    """
    if isinstance(site.read, Kubeconfig):
        return {"cluster": site.read.server}
    if not isinstance(site.read, Inventory):
        return {}
    ways = {
        role: (*([site.read.gateways[host.gateway]] if host.gateway else []), host)
        for role, host in site.read.machines(systems).items()
    }
    return {role: ">".join(f"{each.address.lower()}:{each.port}" for each in way) for role, way in ways.items()}


def find_duplicates(known: Mapping[str, Site]) -> list[str]:
    """Return, in words, the sites that are one site under two labels: nothing that is declared mends that."""
    sentences = []
    for a, b in combinations(known.values(), 2):
        why = f"both are {a.target}" if a.same == b.same else ""
        if not why and a.kind == b.kind == "inventory" and machines(a, ())["server"] == machines(b, ())["server"]:
            why = "they have the same server"
        if why:
            sentences.append(f"sites {a.label} and {b.label} are one: {why}; a site is listed once")
    return sentences


def _site(campaign: Campaign, label: str, place: Place, executor: Executor) -> Site:
    here = executor == "local"
    if place.target in HERE:
        return Site(label, place.target, place.target, place.target, place.slurm, here)
    if place.target == "auto":
        raise SiteError("a campaign says which sites it means: lab, local, or a file, not auto")
    path = Path(os.path.expanduser(place.target))  # Path's own raises for a user who is not known
    path = (path if path.is_absolute() else campaign.path.parent / path).resolve()
    read = site_files.read_file(path)
    kind = "inventory" if isinstance(read, Inventory) else "kubeconfig"
    return Site(label, str(path), read.name, kind, place.slurm, here, read)
