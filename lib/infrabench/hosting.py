"""Commands about hosts of one's own: inventories from elsewhere, and making hosts ready for studies."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrabench.commands import agreed, split
from infrabench.core import DesignError, InfrabenchError, SiteError

if TYPE_CHECKING:  # they need Fabric, which other commands do without
    from infrabench.inventory import Inventory
    from infrabench.preparing.carrying import Job
    from infrabench.preparing.needs import Wanted

STDIN = "-"


def inventory(arguments: Namespace) -> Iterator[str]:
    """Yield one inventory as YAML, or write one for each site and yield where."""
    from infrabench.sources import placing

    from_where = {"terraform": _terraform, "slurm": _slurm}[arguments.source]
    hosts, origin = from_where(arguments)
    found = placing.inventories(hosts, origin, arguments.known_hosts or "")
    if arguments.site:
        if arguments.site not in found:
            raise DesignError(f"{origin}: there is no site {arguments.site[:60]!r}; there are {', '.join(found)}")
        found = {arguments.site: found[arguments.site]}
    hidden = getattr(arguments, "sensitive", False)
    if arguments.out:
        yield from _written(Path(arguments.out), found, 0o600 if hidden else 0o644)
    elif hidden:
        raise DesignError("what Terraform holds to be sensitive is not printed: --out FOLDER keeps it to yourself")
    elif len(found) > 1:
        told = ", ".join(found)[:1000]
        raise DesignError(f"{origin}: there are {len(found)} sites ({told}): take --out FOLDER, or --site NAME")
    else:
        yield from (text.rstrip() for text in found.values())


def prepare(arguments: Namespace) -> Iterator[str]:
    """Make the hosts of inventories ready, or with --dry-run only say how; yield plans and what changed.

    `SiteError` at the end when a host failed or still lacks something.
    """
    from infrabench.preparing import carrying, telling
    from infrabench.preparing.plan import Options

    asked = {
        "studies": arguments.study, "systems": split(arguments.systems), "workloads": split(arguments.workloads),
    }  # fmt: skip
    options = Options(upgrade=arguments.upgrade, update=arguments.update)
    sites = _sites([Path(each) for each in arguments.inventories], asked, arguments.dry_run)
    with ExitStack() as stack:
        jobs = {path: list(_jobs(stack, site, alone=len(sites) == 1)) for path, site in sites.items()}
        every = [job for mine in jobs.values() for job in mine]
        planned = carrying.plans(every, options)
        untold = dict.fromkeys(reason for _, wanted in sites.values() for reason in wanted.untold)
        yield from telling.of_plans(list(planned.values()), list(untold))
        ready = [each for each in planned.values() if each.plan and each.plan.commands and not each.plan.by_hand]
        meant = not arguments.dry_run and (
            arguments.yes or not ready or agreed(f"Run these commands on {len(ready)} of the hosts? [y/N] ")
        )
        done = carrying.carried_out(every, planned, options, _say) if meant and ready else {}
    if not done:
        yield "dry run: nothing was changed" if arguments.dry_run else "nothing was changed"
    yield from telling.of_results(list(done.values()))
    for path, mine in jobs.items():
        if any(done[job.name].done for job in mine if done):
            said = carrying.record([done[job.name] for job in mine], {job.name: job.needs for job in mine}, asked)
            yield str(carrying.write(said, path))
    last = [*{**planned, **done}.values()]
    if failed := [each.name for each in last if not (each.ok if done else each.plan and not each.plan.unmet)]:
        raise SiteError(f"not ready: {', '.join(failed)}. What each lacks is said above")


def _terraform(arguments: Namespace) -> tuple[list, str]:
    from infrabench.sources import terraform

    origin = "standard input" if arguments.file == STDIN else str(arguments.file)[:200]
    try:
        with (sys.stdin.buffer if arguments.file == STDIN else open(arguments.file, "rb")) as file:
            text = file.read(terraform.LARGEST + 1)
    except (OSError, ValueError) as error:
        raise SiteError(f"{origin}: cannot be read: {error}") from error
    try:
        hosts = terraform.hosts(
            text, arguments.output, default_site=arguments.name or "terraform", sensitive=arguments.sensitive
        )
    except SiteError as error:
        raise SiteError(f"{origin}: {error}") from error
    return hosts, origin


def _slurm(arguments: Namespace) -> tuple[list, str]:
    from infrabench.sources import slurm

    job, names = slurm.nodes(os.environ)
    reached = {"user": arguments.user or getpass.getuser(), "port": arguments.port, "key": arguments.key}
    given = {key: value for key, value in reached.items() if value}
    hosts, left = slurm.placed(job, names, split(arguments.roles) or (), given, site=arguments.name or "")
    if left:
        sys.stderr.write(f"infrabench: nodes without a role: {', '.join(left)}\n")
    return hosts, f"Slurm job {job}"


def _written(folder: Path, found: dict[str, str], mode: int) -> Iterator[str]:
    """Write one file for each site, none of which may be there already with other content; yield their paths."""
    paths = {folder / f"{name}.yml": text for name, text in found.items()}
    for path, text in paths.items():
        if path.exists() and path.read_text() != text:
            raise SiteError(f"{path} is there and says something else: remove it, or take another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in paths.items():
        if not path.exists():
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
                file.write(text)
        yield str(path)


def _sites(paths: list[Path], asked: dict[str, Any], dry: bool) -> dict[Path, tuple[Inventory, Wanted]]:
    """Return each inventory with what its hosts need; all are read before any host is asked."""
    from infrabench.inventory import Inventory
    from infrabench.preparing import needs
    from infrabench.site import read_file

    found: dict[Path, tuple[Inventory, Wanted]] = {}
    places: dict[tuple[str, int, str | None], str] = {}
    for path in paths:
        if str(path) in ("auto", "lab", "local"):
            raise DesignError(f"{path} is prepared by make run itself; name the inventory of other hosts")
        inventory = read_file(path)
        if not isinstance(inventory, Inventory):
            raise DesignError(f"{path} is a kubeconfig: hosts are prepared from an inventory")
        wanted = needs.of(inventory, asked["studies"], asked["systems"], asked["workloads"])
        if not wanted.machines:
            raise DesignError(f"{path}: {'; '.join(wanted.untold) or 'no machine of it has a part in these studies'}")
        if inventory.name in {each.name for each, _ in found.values()}:
            raise DesignError(f"{path}: another of these inventories is called {inventory.name} too")
        for name, each in wanted.machines.items():
            there = places.setdefault((each.address, each.port, each.gateway), f"{inventory.name} {name}")
            if not there.startswith(f"{inventory.name} "):
                told = f"{there} and {inventory.name} {name} are one machine"
                raise DesignError(f"{told}: prepare one site after the other")
        _check_record(path, dry)
        found[path] = inventory, wanted
    return found


def _jobs(stack: ExitStack, site: tuple[Inventory, Wanted], *, alone: bool) -> Iterator[Job]:
    """Return what is to be done on each host of a site; its connections end with `stack`."""
    from infrabench.inventory import opened
    from infrabench.preparing import carrying, guestfiles

    inventory, wanted = site
    ours = [name for name, each in wanted.needs.items() if "" in each.programs.values()]
    brought = guestfiles.made(_say) if ours else guestfiles.Brought()
    hosts = stack.enter_context(opened(inventory, wanted.machines))
    for name, each in wanted.needs.items():
        called = name if alone else f"{inventory.name} {name}"
        yield carrying.job(called, hosts[name], each, brought if name in ours else guestfiles.Brought())


def _check_record(path: Path, dry: bool) -> None:
    """Refuse to change hosts where what was changed could not be written down."""
    if not dry and not os.access(path.resolve().parent, os.W_OK):
        raise InfrabenchError(f"{path.resolve().parent}: no record can be written there; copy the inventory elsewhere")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()

