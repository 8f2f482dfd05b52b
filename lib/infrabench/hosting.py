"""Commands about hosts of one's own: inventories from elsewhere, and making hosts ready for studies."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from infrabench.commands import agreed, split
from infrabench.core import DesignError, InfrabenchError, SiteError

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
    failed: list[str] = []
    for path in arguments.inventories:
        failed += yield from _prepared(Path(path), arguments)
    if failed:
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


def _prepared(path: Path, arguments: Namespace) -> Iterator[str]:
    """Prepare the hosts of one inventory, yield what is to be said, and return the names of those not ready."""
    from infrabench.inventory import Inventory, opened
    from infrabench.preparing import carrying, guestfiles, needs, telling
    from infrabench.preparing.plan import Options
    from infrabench.site import read_file

    found = read_file(path)
    if not isinstance(found, Inventory):
        raise DesignError(f"{path} is a kubeconfig: hosts are prepared from an inventory")
    wanted = needs.of(found, arguments.study, split(arguments.systems), split(arguments.workloads))
    if not wanted.machines:
        raise DesignError(f"{path}: {'; '.join(wanted.untold) or 'no machine of it has a part in these studies'}")
    _check_record(path, arguments.dry_run)
    options = Options(upgrade=arguments.upgrade, update=arguments.update)
    ours = [name for name, each in wanted.needs.items() if "" in each.programs.values()]
    brought = guestfiles.made(_say) if ours else guestfiles.Brought()
    with opened(found, wanted.machines) as hosts:
        jobs = [
            carrying.job(name, hosts[name], each, brought if name in ours else guestfiles.Brought())
            for name, each in wanted.needs.items()
        ]
        planned = carrying.plans(jobs, options)
        yield f"{path}: {found.name}, {', '.join(arguments.study)}"
        yield from telling.of_plans(list(planned.values()), wanted.untold)
        ready = [each for each in planned.values() if each.plan and each.plan.commands and not each.plan.by_hand]
        asks = ready and not arguments.dry_run and not arguments.yes
        if arguments.dry_run or (asks and not agreed(f"Run these commands on {len(ready)} of the hosts? [y/N] ")):
            yield "dry run: nothing was changed" if arguments.dry_run else "nothing was changed"
            return [name for name, each in planned.items() if each.plan is None or each.plan.unmet]
        done = carrying.carried_out(jobs, planned, options, _say)
    if ready:
        yield from telling.of_results(list(done.values()))
        asked = {"studies": arguments.study, "systems": arguments.systems, "workloads": arguments.workloads}
        yield str(carrying.write(carrying.record(list(done.values()), wanted.needs, asked), path))
    return [name for name, each in done.items() if not each.ok]


def _check_record(path: Path, dry: bool) -> None:
    """Refuse to change hosts where what was changed could not be written down."""
    if not dry and not os.access(path.resolve().parent, os.W_OK):
        raise InfrabenchError(f"{path.resolve().parent}: no record can be written there; copy the inventory elsewhere")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()

