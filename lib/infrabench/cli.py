"""The command line. Exit status: 0 done, 1 it went wrong, 2 it was asked for something that does not exist."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Iterator, Sequence

from infrabench import commands, evaluation, hosting, labcommand
from infrabench.campaign import command as campaigns
from infrabench.core import DesignError, InfrabenchError, NotRunnable
from infrabench.dataset import commands as dataset

Words = Iterator[str]


NOT_RUN = 3  # exit status: nothing failed, but this site cannot run what was asked for


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = _parser().parse_args(argv)
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    logging.getLogger("infrabench").setLevel(logging.DEBUG if arguments.debug else logging.INFO)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill cleans up as Ctrl-C does
    try:
        for line in arguments.command(arguments):
            print(line, flush=True)
    except InfrabenchError as error:
        if arguments.debug:
            raise
        print(f"infrabench: {error}", file=sys.stderr)
        return 2 if isinstance(error, DesignError) else NOT_RUN if isinstance(error, NotRunnable) else 1
    except KeyboardInterrupt:
        print("infrabench: interrupted. What is recorded is safe; the same command goes on.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe (head, less) has seen enough
        sys.stderr.close()
        return 1
    except OSError as error:
        if arguments.debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        hint = "Is there space, and may this user write there? --debug shows where it happened."
        print(f"infrabench: {where}{error.strerror or error}. {hint}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="infrabench", description="Reproducible studies that compare infrastructure.",
        epilog="A study is planned, run, and analysed; a run that was interrupted goes on with the same command.",
    )  # fmt: skip
    parser.add_argument("--debug", action="store_true", help="show the whole traceback of an error, and more log")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")
    for name, command, text, fill in (
        ("plan", commands.plan, "print every trial, with time and disk; or the blocks a goal needs", _plan),
        ("run", commands.run, "run a study on a site, or go on with it", _run),
        ("campaign", campaigns.campaign, "run studies on several sites, or go on with it", _campaign),
        ("status", commands.status, "say how far sessions are", _sessions),
        ("analyze", commands.analyze, "print estimates, and contrasts against the baseline", _session),
        ("tidy", dataset.tidy, "bring many sessions into one data set of parquet", _tidy),
        ("survey", dataset.survey, "analyse a data set: every study at every site, in bounded memory", _survey),
        ("report", commands.report, "make one static site of executed notebooks, figures, tables and data", _report),
        ("paper", commands.paper, "write numbers, captions and tables of sessions as a paper takes them", _paper),
        ("diff", commands.diff, "compare what two sessions say about where and how they were measured", _diff),
        ("sites", commands.sites, "say what several sites say together, and where they differ", _sites),
        ("verify", commands.verify, "check every file, and read the raw output again", _sessions),
        ("reparse", commands.reparse, "write a session anew with the parsers of now", _reparse),
        ("pack", commands.pack, "write a session into one reproducible archive", _pack),
        ("clean", commands.clean, "remove sessions made on this machine", _clean),
        ("lab", labcommand.lab, "bring the embedded lab up or down, or ask how it is", _lab),
        ("notebook", commands.notebook, "execute a notebook, its parameters checked first", _notebook),
        ("jupyter", commands.jupyter, "open JupyterLab on the notebooks, on this machine alone", _jupyter),
        ("fidelity", commands.fidelity, "measure trials beside the same tools typed by hand", _fidelity),
        ("benchmark", commands.benchmark, "measure what the harness itself costs", _benchmark),
        ("validate", commands.validate, "simulate campaigns of known truth and check the statistics", _validate),
        ("claims", evaluation.claims, "check every claim of the recorded sessions on this machine", _claims),
        ("inventory", hosting.inventory, "write inventories from Terraform or a Slurm allocation", _inventory),
        ("prepare", hosting.prepare, "make hosts of an inventory ready for studies, or say how", _prepare),
        ("archive", evaluation.archive, "write one archive: raw data, source, results, metadata, checksums", _archive),
        ("reproduce", evaluation.reproduce, "make an archive's tables again and compare every byte", _reproduce),
    ):
        verb = verbs.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        verb.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        verb.set_defaults(command=command)
        fill(verb)
    return parser


def _request(parser: argparse.ArgumentParser, study: str | None = None) -> None:
    parser.add_argument("study", metavar="STUDY", nargs=study, help="a study, such as containers")
    parser.add_argument("--profile", default="quick", help="size of the study: smoke, quick or paper (default: quick)")
    parser.add_argument("--runs", type=int, metavar="N", help="number of blocks (default: what the profile says)")
    parser.add_argument(
        "--systems", nargs="+", metavar="NAME",
        help="systems (default: all of the study); the first is the baseline where the study's is not among them",
    )  # fmt: skip
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="workloads (default: all of the profile)")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of the random order (default: the study's)")
    parser.add_argument(
        "--deployments", type=int, metavar="N",
        help="make every system ready anew N times; blocks are shared out (default: what the profile says)",
    )  # fmt: skip
    parser.add_argument(
        "--order", default="random", help="order in a block: random (default), or williams against carry-over"
    )
    parser.add_argument("--aa", default="", metavar="SYSTEM", help="A/A: measure this one system under two labels")
    parser.add_argument(
        "--precision", type=float, metavar="PERCENT",
        help="from 30 blocks on, add blocks until every primary cell's 95 %% interval is at most this half-width",
    )  # fmt: skip
    parser.add_argument("--most", type=int, metavar="N", help="with --precision: at most N blocks (default: 100)")
    parser.add_argument("--hours", type=float, metavar="H", help="with --precision: add no block after H hours")


def _plan(parser: argparse.ArgumentParser) -> None:
    _request(parser, "?")  # a pilot knows its study
    parser.add_argument(
        "--pilot", metavar="SESSION",
        help="say, from the spread in this session, how many blocks and hours each goal needs",
    )  # fmt: skip
    parser.add_argument(
        "--goals", type=float, nargs="+", default=[1.0, 2.0, 5.0], metavar="PERCENT",
        help="with --pilot: half-widths to plan for (default: 1 2 5)",
    )  # fmt: skip
    parser.add_argument("--all", action="store_true", help="with --pilot: all metrics, not only the primary ones")


def _diff(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="A", help="name, folder or archive of a session")
    parser.add_argument("second", metavar="B", help="another one")
    parser.add_argument("--all", action="store_true", help="also what may differ, and is only reported")


def _run(parser: argparse.ArgumentParser) -> None:
    _request(parser)
    parser.add_argument(
        "--site", default="auto",
        help="lab, local, an inventory file of hosts (YAML), or the kubeconfig of a cluster, whose nodes need the "
        "image of pods (INFRABENCH_POD_IMAGE names another); auto (default) is lab where it can be, else local",
    )  # fmt: skip
    parser.add_argument("--session", metavar="NAME", help="session name or folder (default: one per set of parameters)")


def _campaign(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a campaign file (YAML): which studies on which sites")
    parser.add_argument("--dry-run", action="store_true", help="ask the sites and print the plan, and start nothing")
    parser.add_argument("--status", action="store_true", help="say what is there and what is missing, and ask no site")
    parser.add_argument(
        "--executor", choices=("local", "slurm", "kubernetes"), default="local",
        help="where jobs run: processes here (default), jobs of Slurm, or of a cluster of Kubernetes",
    )  # fmt: skip
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="SITE", help="go on without these sites, which are lost, or busy"
    )
    parser.add_argument(
        "--at-once", type=int, metavar="N", help="at most N sites steered from here at a time (default: its processors)"
    )
    parser.add_argument(
        "--engine-profile", metavar="FOLDER", help="a profile of Snakemake, with more options for the executor"
    )


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", help="name, folder or archive of a session")


def _sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="*", help="name, folder or archive (default: all)")


def _report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebooks", metavar="NOTEBOOK", nargs="*", help="executed notebooks (default: all in --out)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="the report is its folder report (default: out)")
    for what in ("figures", "tables"):
        parser.add_argument(
            f"--{what}", metavar="FOLDER", help=f"saved {what} (default: {what} in --out and in the checkout)"
        )
    parser.add_argument("--raw", action="store_true", help="with every raw output of the sessions, however large")


def _tidy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="*", help="name, folder or archive (default: all)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the data set: new, or one to bring up to date")
    parser.add_argument(
        "--site", default="", metavar="NAME", help="call their site so (every embedded lab calls itself lab)"
    )
    parser.add_argument("--campaign", metavar="FILE", help="the sessions of a campaign.json, under its sites' labels")


def _survey(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", metavar="DATASET", help="a data set that infrabench tidy made")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="where tables and answers go (default: out)")
    parser.add_argument(
        "--stamped", action="store_true",
        help="pool the sessions of a site also where their checked provenance differs, and say so beside every answer",
    )  # fmt: skip


def _paper(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="+", help="name, folder or archive of a session")
    parser.add_argument("--out", default="out/paper", metavar="FOLDER", help="where to write (default: out/paper)")
    parser.add_argument(
        "--figures", default="figures", metavar="FOLDER",
        help="saved figures, whose captions are commands too (default: figures; those of your runs: out/figures)",
    )  # fmt: skip
    parser.add_argument(
        "--prefix", default="", metavar="LETTERS", help="begin every command with these letters instead of the study's"
    )


def _sites(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sessions", metavar="SESSION", nargs="+",
        help="name, folder or archive of a session, one of each site; or the campaign.json of a campaign",
    )  # fmt: skip
    parser.add_argument("--labels", nargs="+", metavar="NAME", help="what to call the sites (default: the sessions)")
    parser.add_argument("--out", default="out", metavar="FOLDER", help="tables go below it (default: out)")


def _reparse(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("destination", metavar="FOLDER", help="the new session's folder")


def _pack(parser: argparse.ArgumentParser) -> None:
    _session(parser)
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive to write (.tar.xz)")


def _clean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sessions", metavar="SESSION", nargs="+", help="name or folder of a session")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _lab(parser: argparse.ArgumentParser) -> None:
    verbs = ("up", "status", "down", "build", "trim", "purge")
    parser.add_argument(
        "verb_of_lab", metavar="|".join(verbs), choices=verbs,
        help="build: make images and Go tools ahead of time; trim: remove what only a next build needs; "
        "purge: take the lab down and remove all that it keeps",
    )  # fmt: skip
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="with build: these images and tools")
    parser.add_argument(
        "--kubernetes", metavar="CNI", help="with up: a cluster with this CNI (flannel, cilium, bridge) that stays"
    )
    parser.add_argument(
        "--hosts", nargs="+", metavar="NAME", default=[],
        help="with up: for each name a server and a client as hosts of one's own, with an inventory, that stay",
    )  # fmt: skip


def _notebook(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebook", metavar="NOTEBOOK")
    parser.add_argument("out", metavar="OUT", help="where the executed notebook is written")
    parser.add_argument(
        "-p", dest="parameters", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="a parameter; VALUE is JSON or text",
    )  # fmt: skip
    parser.add_argument("--cell-timeout", type=int, default=24 * 3600, metavar="SECONDS", help="longest time of a cell")


def _jupyter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="port on the loopback (default: Jupyter's own choice)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address, with its token")


def _benchmark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--blocks", type=int, default=30, metavar="N", help="blocks, interleaved (default: 30)")
    parser.add_argument("--site", default="local", help="local (default), lab, or an inventory file")
    parser.add_argument("--session", metavar="SESSION", help="also say how much of this session's time its tools had")
    parser.add_argument("--analysis", action="store_true", help="measure the analysis of 100 000 trials instead")
    parser.add_argument(
        "--rows", type=int, nargs="+", metavar="N",
        help="measure tidying, analysis and report of so many rows instead, each size by itself; fails above 2 GB",
    )  # fmt: skip
    parser.add_argument("--sites", type=int, default=10, metavar="N", help="with --rows: from so many sites")


def _validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sessions", metavar="SESSION", nargs="*",
        help="A/A sessions, or ones with injected effects: is their known answer found? (default: simulations)",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="10 000 to 20 000 replicates of everything, in minutes")
    parser.add_argument("--only", nargs="+", metavar="ID", help="these checks, such as V5 or N1 (default: all)")
    parser.add_argument("--seed", type=int, metavar="N", help="another seed than the fixed one")


def _fidelity(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--blocks", type=int, default=30, metavar="N", help="blocks, interleaved (default: 30)")
    parser.add_argument("--study", default="containers", help="whose tools: containers (default), cnis or storage")
    parser.add_argument(
        "--systems", nargs="+", metavar="NAME", help="systems (default: native docker, flannel cilium, or zfs ceph)"
    )
    parser.add_argument("--site", default="lab", help="lab (default), local, an inventory file, or a kubeconfig")
    parser.add_argument("--seed", type=int, default=20200315, metavar="N", help="seed of the order (default: 20200315)")


def _inventory(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_subparsers(dest="source", required=True, metavar="terraform|slurm")
    terraform = sources.add_parser("terraform", help="from `terraform output -json`")
    terraform.add_argument("file", metavar="FILE", help="what it printed; - is standard input")
    terraform.add_argument(
        "--output", default="infrabench_hosts", metavar="NAME",
        help="the output with the hosts: a list of objects with address, role and, where needed, user, key, port, "
        "site, gateway, name (default: infrabench_hosts)",
    )  # fmt: skip
    terraform.add_argument("--sensitive", action="store_true", help="take it although Terraform calls it sensitive")
    slurm = sources.add_parser("slurm", help="from the allocation that this runs in (sbatch, salloc)")
    slurm.add_argument(
        "--roles", nargs="+", metavar="ROLE",
        help="roles that the nodes take in their order; the next nodes are the next site (default: server client)",
    )  # fmt: skip
    slurm.add_argument("--user", help="login on the nodes (default: yours)")
    slurm.add_argument("--key", metavar="FILE", help="private key of that login (default: what SSH finds)")
    slurm.add_argument("--port", type=int, metavar="N", help="port of SSH (default: 22)")
    for source in (terraform, slurm):
        source.add_argument("--name", help="name of a site that has none (default: terraform, or slurm-JOB)")
        source.add_argument("--site", metavar="NAME", help="only this site")
        source.add_argument("--out", metavar="FOLDER", help="write FOLDER/SITE.yml of each site; print none")
        source.add_argument("--known-hosts", metavar="FILE", help="file with the hosts' keys (default: SSH's own)")


def _prepare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("inventories", metavar="INVENTORY", nargs="+", help="inventory files (YAML)")
    parser.add_argument(
        "--study", nargs="+", default=["containers"], metavar="NAME", help="studies to be run (default: containers)"
    )
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="systems of theirs (default: all)")
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="workloads of theirs (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="only print every command, as it would be run")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--update", action="store_true", help="bring apt's lists up to date first, in any case")
    parser.add_argument("--upgrade", action="store_true", help="allow packages that are there to be upgraded")


def _claims(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", metavar="SOURCE", nargs="*",
        help="folders of data/recorded, sessions of them (containers/NAME), or published (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--level", default="", metavar="LEVEL",
        help="re-analysis (the recorded numbers from raw output again, to the last digit) or re-measurement (what "
        "sessions measured here say); default: both",
    )  # fmt: skip
    parser.add_argument(
        "--measure", default="", metavar="PROFILE", help="first measure the same here, at smoke, quick or paper"
    )
    parser.add_argument("--site", default="auto", help="with --measure: as in run (default: auto)")
    parser.add_argument(
        "--sessions", metavar="SESSION", nargs="+", help="ask these sessions (default: all that were measured here)"
    )
    parser.add_argument("--all", action="store_true", help="also list recorded numbers that come out again")
    parser.add_argument("--record", metavar="SESSION", nargs="+", help="write down what recorded sessions say now")
    parser.add_argument("--out", default="out/tables/claims", metavar="FOLDER", help="where the table goes")


def _archive(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="ARCHIVE", help="the archive to write (.tar.xz)")
    parser.add_argument(
        "--notebooks", default="out", metavar="FOLDER",
        help="executed notebooks NAME-recorded.ipynb go in from here, as make figures leaves them (default: out)",
    )  # fmt: skip


def _reproduce(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results", metavar="FOLDER", help="the recorded tables (default: results, in an unpacked archive)"
    )


if __name__ == "__main__":
    sys.exit(main())
