"""What a notebook may use: one request, one session, and tables of it. Everything here reads or runs; nothing draws."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from infrabench import design as designs
from infrabench import registry, runs, session
from infrabench.analysis import Results
from infrabench.analysis import results as analysed
from infrabench.comparability import differences, measures_alike, shown, stamp
from infrabench.core import STATES, DesignError, Study, unknown_name
from infrabench.design import Design
from infrabench.progress import bar, words
from infrabench.records import PROBE, read_blocks, read_bytes, read_session
from infrabench.runner import Look, LookAt
from infrabench.stats import stopping
from infrabench.stats.contrasts import contrasts as _contrasts
from infrabench.stats.estimates import estimates as _estimates
from infrabench.stats.pilot import plan_from_pilot as _plan_from_pilot
from infrabench.stats.planning import ALPHA, detectable, equivalence_margin
from infrabench.tidy import missing, tidy

MODES = ("load", "run")
MIB = 2**20
NOT_HOSTS = ("deployments", "site", "suite")  # in provenance/, beside one file per host


@dataclass(frozen=True)
class Session:
    """A recorded session: its folder, ``session.json``, tidy table, and planned trials without a record."""

    folder: Path
    data: dict[str, Any]
    table: pd.DataFrame
    missing: pd.DataFrame


def study(name: str) -> Study:
    """Return the study called `name`; `DesignError` with the nearest names when there is none."""
    return registry.study(name)


def request(
    study: str, *, profile: str, runs: int | None = None, systems: Sequence[str] | str | None = None,
    workloads: Sequence[str] | str | None = None, seed: int | None = None, deployments: int | None = None,
    order: str = "random", precision: float | None = None, most: int | None = None, hours: float | None = None,
    aa: str = "",
) -> Design:  # fmt: skip
    """Return the validated design of a notebook's parameters; None means what the study says.

    Lists may also come as text, ``["native", "docker"]`` or ``native,docker``: papermill hands them over so.
    `precision` (relative half-width, 0.02 = 2 %) adds blocks to the 30 until every primary cell's interval is that
    narrow, at `most` so many and for so many `hours`. `aa` names a system to measure under two labels.
    """
    return session.request(
        registry.study(study), profile=profile, runs=runs, systems=_listed(systems), workloads=_listed(workloads),
        seed=seed, deployments=deployments, order=order, stopping=designs.stopping(precision, most, hours), aa=aa,
    )  # fmt: skip


def plan_table(wanted: Design) -> pd.DataFrame:
    """Return one row per case of `wanted`: systems, blocks, trials, expected minutes and MiB inside a target."""
    rows = [
        {
            "workload": case.workload, "scenario": case.scenario, "systems": len(wanted.systems),
            "blocks": wanted.blocks, "trials": len(wanted.systems) * wanted.blocks,
            "seconds_each": case.seconds, "disk_MiB": round(case.disk_bytes / MIB, 1),
            "minutes": round(len(wanted.systems) * wanted.blocks * (case.seconds + designs.TRIAL_OVERHEAD_S) / 60, 1),
        }
        for case in wanted.cases
    ]  # fmt: skip
    return pd.DataFrame(rows)


def plan_summary(wanted: Design) -> str:
    """Return one sentence that says how much `wanted` is and how long it takes."""
    cost = designs.expected(wanted, probe_s=session.study_of(wanted).probe_s)
    count = len(wanted.systems) * len(wanted.cases) * wanted.blocks
    return (
        f"{count} trials: {wanted.blocks} blocks of {len(wanted.systems)} systems ({', '.join(wanted.systems)}) "
        f"x {len(wanted.cases)} cases, seed {wanted.seed}, about {words(cost.seconds)}; at most "
        f"{cost.target_bytes / MIB:.0f} MiB inside a target, {cost.ledger_bytes / MIB:.0f} MiB recorded"
    )


def power_summary(wanted: Design) -> str:
    """Return what `wanted` can show, whatever its values will be: detectable difference and margin of equivalence.

    In units of the standard deviation of the paired log ratios, at 80 % power; and the largest such spread at which
    equal systems are shown equivalent within the study's default margin.
    """
    anew, contrasted = wanted.deployments > 1, max(len(wanted.systems) - 1, 1)
    n, unit = (wanted.deployments, "deployments") if anew else (wanted.blocks, "blocks")
    if n < 2:
        return f"n = {n} ({unit[:-1]}): no interval and no test; take at least 2, better 30."
    one, holm = (float(detectable(1.0, n, alpha=ALPHA / k)) for k in (1, contrasted))
    within = float(equivalence_margin(1.0, n))
    margin = session.study_of(wanted).margins.get("")
    told = (
        f"n = {n} {unit}, paired: a difference of {one:.2f} SD of the log ratios is found with 80 % power"
        + (f" ({holm:.2f} with Holm over {contrasted} contrasts)" if contrasted > 1 else "")
        + f"; equal systems are shown equivalent, with 80 % power, within {within:.2f} SD"
    )
    if margin is None:
        return f"{told}."
    limit = 100 * float(-np.log1p(-margin)) / within
    return f"{told}. At the margin of {100 * margin:g} % that asks for an SD of at most {limit:.2g} %."


def look(wanted: Design) -> LookAt:
    """Return what looks at a session's intervals for the stopping rule of `wanted`: at their widths alone."""
    rule, primary = wanted.stopping, session.study_of(wanted).primary
    if rule is None:
        raise DesignError("this design has no stopping rule")

    def look_at(folder: Path, elapsed_s: float) -> Look:
        seen = stopping.look(
            tidy(folder), primary, rule.target, least=rule.least, batch=rule.batch, most=rule.most,
            elapsed_s=elapsed_s, budget_s=np.inf if rule.budget_s is None else rule.budget_s,
        )  # fmt: skip
        widths = {" ".join(cell): width for cell, width in seen.widths.items() if np.isfinite(width)}
        return Look(seen.n, widths, seen.stop, seen.reason)

    return look_at


def plan_from_pilot(pilot: Session, goals: Sequence[float], *, every: bool = False) -> pd.DataFrame:
    """Return how many blocks, and hours, each goal needs, from the spread and the pace of `pilot`.

    `goals`: relative half-widths (0.02 = 2 %). Of the primary metrics, or of every one. See `stats.pilot`.
    """
    data, table = pilot.data, pilot.table
    planned = _plan_from_pilot(table, data["baseline"], data["margins"], goals, _pace_s(table))
    wanted = pd.MultiIndex.from_tuples([tuple(each) for each in data["primary"]])
    chosen = pd.MultiIndex.from_frame(planned[["workload", "metric"]]).isin(wanted)
    return planned if every else planned[chosen].reset_index(drop=True)


def _pace_s(table: pd.DataFrame) -> float:
    """Return the wall time of one block, or of one deployment with its blocks when there are several."""
    trials = table.drop_duplicates(["session", "trial"])
    trials = trials.assign(start=pd.to_datetime(trials["started_utc"], format="ISO8601").astype("datetime64[ns, UTC]"))
    several = trials[["session", "deployment"]].drop_duplicates().shape[0] > 1
    parts = trials.groupby(["session", "deployment"] if several else ["session", "block"])
    length = (parts["start"].max() - parts["start"].min()).dt.total_seconds() + parts["duration_s"].last()
    return float(length.mean())


def run_or_load(wanted: Design, *, mode: str, site: str = "lab", session: str | None = None) -> Session:
    """Run `wanted` on `site` (``mode="run"``: what is missing of it), or load a recorded session (``mode="load"``).

    `session` names it; None is the session of these parameters, or the one recorded session of the study. A loaded
    session must have the profile, blocks and seed of `wanted`; fewer systems or workloads narrow its table.
    """
    if mode not in MODES:
        raise unknown_name("mode", mode, MODES)
    if mode == "run":
        with bar(f"{wanted.study} {wanted.profile}") as show:
            rule = look(wanted) if wanted.stopping is not None else None
            return open_session(runs.carry_out(wanted, site=site, name=session, on_progress=show, look=rule))
    found = open_session(runs.find(wanted.study, session))
    for key in ("study", "profile", "blocks", "seed"):
        then, asked = found.data[key], getattr(wanted, key)
        if then != asked:
            raise DesignError(f"{found.folder} has {key} {then!r}, not {asked!r}; mode='run' measures that")
    return _narrowed(found, wanted)


def open_session(folder: str | Path) -> Session:
    """Return the session in `folder`, or in an archive made by `archive.pack`."""
    path = runs.find(None, str(folder))
    return Session(path, read_session(path), tidy(path), missing(path))


def pool(names: Sequence[str | Path], *, stamped: bool = False) -> Session:
    """Return several sessions of one study as one: each is a deployment of its own, and so the unit of analysis.

    Raises
    ------
    SchemaError
        The sessions are of different studies or baselines.
    NotComparable
        Their checked provenance differs; with `stamped` they are pooled all the same, and every figure and table says
        what differs.
    """
    parts = [open_session(name) for name in names]
    folders = [part.folder for part in parts]
    measures_alike(folders)
    told = stamp(folders, allow=stamped)
    data = dict(parts[0].data)
    data["systems"] = list(dict.fromkeys(name for part in parts for name in part.data["systems"]))
    data["not_run"] = {name: why for part in parts for name, why in part.data["not_run"].items()}
    data["blocks"] = sum(part.data["blocks"] for part in parts)
    data["pooled"], data["stamp"] = [folder.name for folder in folders], told
    table = pd.concat([part.table for part in parts], ignore_index=True)
    absent = pd.concat([part.missing for part in parts], ignore_index=True)
    return Session(folders[0], data, table, absent)


def diff_table(first: str | Path, second: str | Path) -> pd.DataFrame:
    """Return what differs between the provenance of two sessions: where, key, first, second, checked."""
    found = differences(open_session(first).folder, open_session(second).folder)
    rows = [(each.where, each.key, shown(each.first), shown(each.second), each.checked) for each in found]
    return pd.DataFrame(rows, columns=["where", "key", "first", "second", "checked"])


def probes(session: Session) -> pd.DataFrame:
    """Return the drift probes of a session: block, host, position, value (bytes hashed per second), unit."""
    rows = [
        (each["block"], each["host"], each["position"], each["bytes"] / each["seconds"], "B/s")
        for each in read_blocks(session.folder, PROBE)
    ]
    return pd.DataFrame(rows, columns=["block", "host", "position", "value", "unit"])


def estimates(session: Session) -> pd.DataFrame:
    """Return one row per cell: counts by state, mean, median and their intervals (`stats.estimates`)."""
    return _estimates(session.table, session.missing)


def contrasts(session: Session) -> pd.DataFrame:
    """Return one row per cell and system against the baseline, by the session's margins (`stats.contrasts`)."""
    data = session.data
    return _contrasts(session.table, data["baseline"], data["margins"], [tuple(each) for each in data["primary"]])


def results(session: Session, out: str = "out") -> Results:
    """Return the analysis of a session; its figures and tables are written below `out` (relative to the checkout)."""
    return analysed(session.data, session.table, session.missing, runs.home() / out, probes(session))


def validity_table(session: Session) -> pd.DataFrame:
    """Return trials by state, one row per system and workload, with planned trials that are missing and not run."""
    trials = session.table.drop_duplicates("trial")
    counts = pd.crosstab([trials["system"], trials["workload"]], trials["state"])
    counts = counts.reindex(columns=list(STATES), fill_value=0)
    absent = session.missing.groupby(["system", "workload"], observed=True).size()
    counts = counts.join(absent.rename("missing"), how="outer").fillna(0).astype(int).reset_index()
    counts["note"] = ""
    left = [(name, "all", f"not run: {reason}") for name, reason in session.data["not_run"].items()]
    left += [("all", name, f"not run: {reason}") for name, reason in session.data.get("left_out", {}).items()]
    rows = pd.DataFrame(left, columns=["system", "workload", "note"])
    merged = pd.concat([counts, rows], ignore_index=True) if left else counts
    numbers = [*STATES, "missing"]
    return merged.fillna(dict.fromkeys(numbers, 0)).astype(dict.fromkeys(numbers, "int64"))


def reasons_table(session: Session) -> pd.DataFrame:
    """Return why trials are not ok: one row per system, workload, state and reason, with how often."""
    bad = session.table[session.table["state"] != "ok"].drop_duplicates("trial")
    keys = ["system", "workload", "scenario", "state", "reason"]
    return bad.groupby(keys, observed=True).size().rename("trials").reset_index()


def provenance_table(session: Session) -> pd.DataFrame:
    """Return what the hosts say about themselves: one row per field, one column per host; empty where they do not."""
    hosts = [path for path in sorted(session.folder.glob("provenance/*.json")) if path.stem not in NOT_HOSTS]
    columns = {path.stem: _flat(json.loads(read_bytes(path))) for path in hosts if ".resumed-" not in path.name}
    frame = pd.DataFrame(columns).rename_axis("field")
    return frame[~frame.index.str.startswith(("missing.", "cpu.flags", "time_s"))]


def deployments_table(session: Session) -> pd.DataFrame:
    """Return what the systems say about themselves: one row per field, one column per system."""
    data = json.loads(read_bytes(session.folder / "provenance" / "deployments.json"))
    columns = {name: _flat({**each["facts"], "tools": each["tools"]}) for name, each in data.items()}
    return pd.DataFrame(columns).rename_axis("field")


def _narrowed(found: Session, wanted: Design) -> Session:
    systems, workloads = set(wanted.systems), {case.workload for case in wanted.cases}

    def keep(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["system"].isin(systems) & frame["workload"].isin(workloads)].reset_index(drop=True)

    return Session(found.folder, found.data, keep(found.table), keep(found.missing))


def _listed(names: Sequence[str] | str | None) -> Sequence[str] | None:
    if not isinstance(names, str):
        return names
    if not names.strip().startswith("["):
        return [part.strip() for part in names.split(",") if part.strip()]
    try:
        return list(json.loads(names))
    except ValueError as error:
        raise DesignError(f"not a list of names: {names!r}; write [\"native\", \"docker\"] or native,docker") from error


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(data, dict):
        return {prefix.removesuffix("."): ", ".join(map(str, data)) if isinstance(data, list) else data}
    return {key: value for name, part in data.items() for key, value in _flat(part, f"{prefix}{name}.").items()}


def show_log(level: str = "INFO") -> None:
    """Print what the library does (systems made ready, lab started) below the cell that asks for it."""
    logging.basicConfig(format="%(message)s", level=logging.WARNING, force=True)
    logging.getLogger("infrabench").setLevel(level)
