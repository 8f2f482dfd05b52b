"""The commands of `infrabench selfcheck`: is what the suite says right, and what does it cost?"""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Iterator

from infrabench.cli.subcommands import (
    Subparsers,
    add_command,
    add_group,
    add_names,
    add_session,
    add_sessions,
    complete,
    existing_site,
    split,
)
from infrabench.core import InfrabenchError, NotRunnable, SiteError
from infrabench.experiment.execution.progress import bar
from infrabench.ledger import catalogue

log = logging.getLogger(__name__)


def add_parsers(subparsers: Subparsers) -> None:
    """Add the group `selfcheck`."""
    text = "check statistics, claims, fidelity and overhead of this suite"
    group = add_group(subparsers, "selfcheck", text, "statistics")
    text = "simulate campaigns of known truth and check the statistics"
    parser = add_command(group, "statistics", statistics, text, "--only V5 N1")
    text = "A/A sessions, or ones with injected effects: is their known answer found? (default: simulations)"
    add_sessions(parser, text)
    parser.add_argument("--full", action="store_true", help="10 000 to 20 000 replicates of everything, in minutes")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these checks, such as V5 or N1 (default: all)")
    parser.add_argument("--seed", type=int, metavar="N", help="another seed than the fixed one")

    text = "check every claim of the recorded sessions on this machine"
    parser = add_command(group, "claims", claims, text, "containers --level re-analysis")
    text = "folders of data/recorded, sessions of them (containers/NAME), or published (default: all)"
    parser.add_argument("sources", metavar="SOURCE", nargs="*", help=text)
    parser.add_argument(
        "--level", default="", metavar="LEVEL",
        help="re-analysis (the recorded numbers from raw output again, to the last digit) or re-measurement (what "
        "sessions measured here say); default: both",
    )  # fmt: skip
    text = "first measure the same here, at smoke, quick or paper"
    complete(parser.add_argument("--measure", default="", metavar="PROFILE", help=text), "profiles")
    parser.add_argument("--site", default="auto", help="with --measure: as in run (default: auto)")
    add_session(parser, "--sessions", "ask these sessions (default: all that were measured here)", nargs="+")
    parser.add_argument("--all", action="store_true", help="also list recorded numbers that come out again")
    add_session(parser, "--record", "write down what recorded sessions say now", nargs="+")
    parser.add_argument("--out", default="out/tables/claims", metavar="FOLDER", help="where the table goes")

    text = "measure trials beside the same tools typed by hand"
    parser = add_command(group, "fidelity", fidelity, text, "--site local --systems native")
    parser.add_argument("--blocks", type=int, default=30, metavar="N", help="blocks, interleaved (default: 30)")
    text = "the two ways agree where the 90 %% interval of their ratio lies within this margin (default: 2)"
    parser.add_argument("--margin", type=float, default=2.0, metavar="PERCENT", help=text)
    parser.add_argument("--study", default="containers", help="whose tools: containers (default), cnis or storage")
    add_names(parser, "systems", "systems (default: native docker, flannel cilium, or zfs ceph)")
    parser.add_argument("--site", default="lab", help="lab (default), local, an inventory file, or a kubeconfig")
    parser.add_argument("--seed", type=int, default=20200315, metavar="N", help="seed of the order (default: 20200315)")

    parser = add_command(group, "overhead", overhead, "measure what the harness itself costs")
    parser.add_argument("--blocks", type=int, default=30, metavar="N", help="blocks, interleaved (default: 30)")
    parser.add_argument("--site", default="local", help="local (default), lab, or an inventory file")
    add_session(parser, "--session", "also say how much of this session's time its tools had")

    parser = add_command(group, "peers", peers, "find a small difference beside hyperfine and ReBench")
    parser.add_argument("--repetitions", type=int, default=5, metavar="N", help="of every campaign (default: 5)")
    parser.add_argument("--seconds", type=float, default=20.0, metavar="S", help="of each campaign (default: 20)")
    parser.add_argument("--out", default="out/peers", metavar="FOLDER", help="samples (default: out/peers)")


def statistics(arguments: Namespace) -> Iterator[str]:
    """Run the simulations of known truth, or ask sessions of it, and yield tables; `InfrabenchError` when one fails."""
    from infrabench.analysis import session_data
    from infrabench.notebook import api
    from infrabench_selfcheck import known_answers, validation  # the statistics are loaded for this command alone

    for name in arguments.sessions or ():
        opened = session_data.open_session(catalogue.find(None, name))
        yield f"{opened.folder.name}: {opened.data['title']}"
        yield from known_answers.lines(api.results(opened))
    if arguments.sessions:
        return
    seed = validation.SEED if arguments.seed is None else arguments.seed
    yield from validation.lines(validation.run(arguments.only, full=arguments.full, seed=seed))


def claims(arguments: Namespace) -> Iterator[str]:
    """Check claims and yield them; `InfrabenchError` at the end when one has failed. All columns go to a table."""
    from infrabench.analysis import tables
    from infrabench_selfcheck import claims as checks  # pandas and scipy are loaded for this command alone
    from infrabench_selfcheck.claims import claim

    if arguments.record:
        yield from (str(checks.record(name)) for name in arguments.record)
        return
    levels = [arguments.level] if arguments.level else list(claim.LEVELS)
    if arguments.measure:
        yield from _measured(arguments.sources, arguments.measure, arguments.site)
    kept: list[claim.Claim] = []

    def keeping() -> Iterator[claim.Claim]:
        for each in checks.collect_claims(arguments.sources, levels, arguments.sessions):
            kept.append(each)
            yield each

    yield from claim.lines(keeping(), every=arguments.all)
    caption = "Every claim, the command that checks it, and what came of it on this machine."
    yield str(tables.save(claim.table(kept), catalogue.home() / arguments.out, "claims", caption)[0])
    failed = sum(each.judged.outcome == claim.FAIL for each in kept)
    if failed:
        raise InfrabenchError(f"{failed} of {len(kept)} claims fail")


def _measured(sources: list[str], profile: str, site: str) -> Iterator[str]:
    """Measure here what the recorded sessions measured; one that cannot run here says why, and the others go on."""
    from infrabench_selfcheck.claims import choose_sources, remeasurement

    for source, recorded in choose_sources(sources).items():
        try:
            yield f"{source}: measured in {remeasurement.measure(recorded, profile, site)}"
        except (NotRunnable, SiteError) as error:
            yield f"{source}: not measured: {error}"


def fidelity(arguments: Namespace) -> Iterator[str]:
    """Measure trials beside the same tools typed by hand and yield a table."""
    from infrabench_selfcheck import fidelity as compared

    site = existing_site(arguments.site)
    systems = compared.SYSTEMS.get(arguments.study, ()) if arguments.systems is None else split(arguments.systems)
    with bar("fidelity") as show:
        lines = list(compared.report(
            site, systems=systems or (), blocks=arguments.blocks, seed=arguments.seed, on_progress=show,
            study=arguments.study, margin=arguments.margin / 100,
        ))  # fmt: skip
    yield from lines


def overhead(arguments: Namespace) -> Iterator[str]:
    """Measure the harness itself, and yield a table."""
    from infrabench_selfcheck import overhead as benchmarks

    site = existing_site(arguments.site)
    if arguments.session:
        yield benchmarks.tool_share(catalogue.find(None, arguments.session))
    yield from benchmarks.report(site, arguments.blocks)


def peers(arguments: Namespace) -> Iterator[str]:
    """Run the campaigns of all tools that are missing, and yield a table."""
    from infrabench_selfcheck import peers as compared

    out = catalogue.home() / arguments.out
    yield from compared.report(arguments.repetitions, arguments.seconds, out.resolve(), log.info)
