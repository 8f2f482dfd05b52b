"""The commands of `infrabench hosts`: inventories from elsewhere, and making hosts ready for studies."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infrabench.cli.subcommands import Subparsers, add_command, add_group, add_names, agreed, complete, split
from infrabench.core import DesignError, InfrabenchError, SiteError

if TYPE_CHECKING:  # they need Fabric, which other commands do without
    from infrabench.machines.sites.prepare.plan import HostPlan
    from infrabench.machines.sites.prepare.requirements import SiteNeeds

STDIN = "-"


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `hosts`."""
    text = "write inventories of your own hosts, and make the hosts ready"
    group = add_group(subparsers, "hosts", text, "prepare hosts.yml --dry-run")
    text, example = "write inventories from Terraform or a Slurm allocation", "outputs.json --out sites"
    sources = add_group(group, "inventory", text, f"terraform {example}", dest="source")
    text = "write inventories from `terraform output -json`"
    terraform = add_command(sources, "terraform", inventory, text, example)
    terraform.add_argument("file", metavar="FILE", help="what it printed; - is standard input")
    terraform.add_argument(
        "--output", default="infrabench_hosts", metavar="NAME",
        help="the output with the hosts: a list of objects with address, role and, where needed, user, sudo, key, "
        "port, site, gateway, name (default: infrabench_hosts)",
    )  # fmt: skip
    terraform.add_argument("--sensitive", action="store_true", help="take it although Terraform calls it sensitive")
    text = "write inventories from the allocation that this runs in (sbatch, salloc)"
    slurm = add_command(sources, "slurm", inventory, text, "--roles server client --out sites")
    text = "roles that the nodes take in their order; the next nodes are the next site (default: server client)"
    slurm.add_argument("--roles", nargs="+", metavar="ROLE", help=text)
    slurm.add_argument("--user", help="login on the nodes (default: yours)")
    slurm.add_argument("--sudo", action="store_true", help="that login becomes root by sudo, without a password")
    slurm.add_argument("--key", metavar="FILE", help="private key of that login (default: what SSH finds)")
    slurm.add_argument("--port", type=int, metavar="N", help="port of SSH (default: 22)")
    for parser in (terraform, slurm):
        parser.add_argument("--name", help="name of a site that has none (default: terraform, or slurm-JOB)")
        parser.add_argument("--site", metavar="NAME", help="only this site")
        parser.add_argument("--out", metavar="FOLDER", help="write FOLDER/SITE.yml of each site; print none")
        parser.add_argument("--known-hosts", metavar="FILE", help="file with the hosts' keys (default: SSH's own)")

    text = "make hosts of an inventory ready for studies, or say how"
    parser = add_command(group, "prepare", prepare, text, "hosts.yml --study containers --dry-run")
    parser.add_argument("inventories", metavar="INVENTORY", nargs="+", help="inventory files (YAML)")
    text = "studies to be run (default: containers)"
    study = parser.add_argument("--study", nargs="+", default=["containers"], metavar="NAME", help=text)
    complete(study, "studies")
    add_names(parser, "systems", "systems of theirs (default: all)")
    add_names(parser, "workloads", "workloads of theirs (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="only print every command, as it would be run")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--update", action="store_true", help="bring apt's lists up to date first, in any case")
    parser.add_argument("--upgrade", action="store_true", help="allow packages that are there to be upgraded")


def inventory(arguments: Namespace) -> Iterator[str]:
    """Yield one inventory as YAML, or write one for each site and yield where."""
    from infrabench.machines.sites import import_hosts

    hosts, origin = (_terraform if arguments.source == "terraform" else _slurm)(arguments)
    found = import_hosts.inventories(hosts, origin, arguments.known_hosts or "")
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
        names = ", ".join(found)[:1000]
        raise DesignError(f"{origin}: there are {len(found)} sites ({names}): take --out FOLDER, or --site NAME")
    else:
        yield from (text.rstrip() for text in found.values())


def prepare(arguments: Namespace) -> Iterator[str]:
    """Make hosts ready, or with --dry-run only say how; yield plans and results; `SiteError` when one is not ready."""
    from infrabench.machines.hosts import claims
    from infrabench.machines.sites.prepare import apply

    done: list[HostPlan] = []
    choice = {
        "studies": arguments.study, "systems": split(arguments.systems), "workloads": split(arguments.workloads),
    }  # fmt: skip
    sites = _sites([Path(each) for each in arguments.inventories], choice, arguments.dry_run)
    with ExitStack() as stack:
        hosts = {path: list(_hosts(stack, site, arguments, alone=len(sites) == 1)) for path, site in sites.items()}
        planned = apply.make_plans([host for listed in hosts.values() for host in listed])
        untold = dict.fromkeys(reason for site in sites.values() for reason in site.untold)
        yield from apply.render_plans(planned, list(untold))
        ready = [each for each in planned if each.commands and not each.by_hand]
        question = f"Run these commands on {len(ready)} of the hosts? [y/N] "
        if ready and not arguments.dry_run and (arguments.yes or agreed(question)):
            # A host without python3 cannot be claimed, nor be measured by anybody.
            able = [each.host for each in ready if each.survey and "python3" not in each.survey.absent]
            with claims.claim_hosts(able, claims.make_holder("hosts prepare")):
                done = apply.apply_plans(planned, _say)
    records, failed = list[str](), list[str]()  # all are written before a word is said: who reads it may stop reading
    for path, listed in hosts.items():
        prepared = [each for each in done if each.name in {host.name for host in listed}]
        if any(each.done for each in prepared):
            try:
                records.append(str(apply.write_record(path, prepared, choice)))
            except OSError as error:
                failed.append(f"{path}: no record could be written: {error.strerror}")
    if not done:
        yield "dry run: nothing was changed" if arguments.dry_run else "nothing was changed"
    yield from apply.render_results(done)
    yield from records
    if not done and not arguments.dry_run:
        if enough := [each.name for each in planned if each.commands and each.ok and not each.is_incomplete]:
            yield f"ready as it is: {', '.join(enough)}"
        lacking = [each.name for each in planned if not each.ok or each.is_incomplete]
        if ready and lacking:
            raise SiteError(f"not ready: {', '.join(lacking)}; nothing was run, for nobody agreed (--yes)")
    if bad := [each.name for each in done or planned if not each.ok]:
        failed.append(f"not ready: {', '.join(bad)}. What each lacks is said above")
    if failed:
        raise SiteError("; ".join(failed))


def _terraform(arguments: Namespace) -> tuple[list, str]:
    from infrabench.machines.sites import import_hosts

    origin = "standard input" if arguments.file == STDIN else str(arguments.file)[:200]
    try:
        with sys.stdin.buffer if arguments.file == STDIN else open(arguments.file, "rb") as file:
            text = file.read(import_hosts.LARGEST + 1)
        site = arguments.name or "terraform"
        return import_hosts.read_terraform(text, arguments.output, site, sensitive=arguments.sensitive), origin
    except (OSError, ValueError) as error:
        raise SiteError(f"{origin}: cannot be read: {error}") from error
    except SiteError as error:
        raise SiteError(f"{origin}: {error}") from error


def _slurm(arguments: Namespace) -> tuple[list, str]:
    from infrabench.machines.sites import import_hosts

    job, names = import_hosts.read_allocation(os.environ)
    user = arguments.user or getpass.getuser()
    reached = {"user": user, "sudo": arguments.sudo, "port": arguments.port, "key": arguments.key}
    given = {key: value for key, value in reached.items() if value}
    hosts, left = import_hosts.assign_roles(job, names, split(arguments.roles) or (), given, site=arguments.name or "")
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
            with open(path, "x", opener=partial(os.open, mode=mode)) as file:
                file.write(text)
        yield str(path)


def _sites(paths: list[Path], asked: dict[str, Any], dry: bool) -> dict[Path, SiteNeeds]:
    """Return what the hosts of each inventory need; all are read before any host is asked."""
    from infrabench.machines.sites.inventory import Inventory
    from infrabench.machines.sites.prepare import requirements
    from infrabench.machines.sites.site import read_file

    found: dict[Path, SiteNeeds] = {}
    places: dict[tuple[str, int, str | None], tuple[str, str]] = {}
    for path in paths:
        if str(path) in ("auto", "lab", "local"):
            raise DesignError(f"{path} is prepared by make run itself; name the inventory of other hosts")
        inventory = read_file(path)
        if not isinstance(inventory, Inventory):
            raise DesignError(f"{path} is a kubeconfig: hosts are prepared from an inventory")
        wanted = requirements.collect_needs(inventory, asked["studies"], asked["systems"], asked["workloads"])
        if not wanted.machines:
            raise DesignError(f"{path}: {'; '.join(wanted.untold) or 'no machine of it has a part in these studies'}")
        if inventory.name in {each.inventory.name for each in found.values()}:
            raise DesignError(f"{path}: another of these inventories is called {inventory.name} too")
        for name, each in wanted.machines.items():
            site, other = places.setdefault((each.address, each.port, each.gateway), (inventory.name, name))
            if site != inventory.name:
                both = f"{site} {other} and {inventory.name} {name} are one machine"
                raise DesignError(f"{both}: prepare one site after the other")
        folder = path.resolve().parent
        if not dry and not os.access(folder, os.W_OK):
            raise InfrabenchError(f"{folder}: no record can be written there; copy the inventory elsewhere")
        found[path] = wanted
    return found


def _hosts(stack: ExitStack, site: SiteNeeds, arguments: Namespace, *, alone: bool) -> Iterator[HostPlan]:
    """Yield each host of a site with what it needs; its connections end with `stack`."""
    from infrabench.machines.sites.inventory import open_hosts
    from infrabench.machines.sites.prepare.plan import HostPlan
    from infrabench.machines.sites.prepare.requirements import GuestFiles, load_files

    inventory, nothing = site.inventory, GuestFiles()
    ours = {name for name, each in site.needs.items() if "" in each.programs.values()}
    brought = load_files(_say) if ours else nothing
    hosts = stack.enter_context(open_hosts(inventory, site.machines))
    for name, needs in site.needs.items():
        title, files = name if alone else f"{inventory.name} {name}", brought if name in ours else nothing
        needs = replace(needs, folders=tuple(dict.fromkeys((*needs.folders, *files.folders))))
        yield HostPlan(title, hosts[name], needs, files, arguments.upgrade, arguments.update)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
