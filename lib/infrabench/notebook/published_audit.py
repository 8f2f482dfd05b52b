"""The published numbers, their audit and the composite score, as a notebook shows them and as files.

Everything is computed from ``data/published`` when it is asked for; nothing here measures or needs a session.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from infrabench.analysis import figures, tables
from infrabench.analysis.published import comparison, findings, printed_numbers, score
from infrabench.analysis.published.printed_numbers import ENGINES, EXPERIMENTS, NO_RESULTS
from infrabench.analysis.results import Shown, listed, whole
from infrabench.analysis.tables import notation
from infrabench.ledger import catalogue
from infrabench.notebook.session_figures import show_figure

LONG = 16  # rows that a table of printed numbers shows at once
NAMES = {letter: ", ".join(systems.values()) for letter, (_, systems) in EXPERIMENTS.items()}


def papers() -> Shown:
    """Return the five papers: what they compare, how many numbers and results they print, with how many repetitions."""
    numbers = printed_numbers.published()
    rows = []
    for paper in printed_numbers.papers().itertuples(index=False):
        printed = numbers[numbers["source"] == paper.source]
        results = printed[~printed["statistic"].isin(NO_RESULTS)]
        stated = [str(n) for n in sorted(set(results["n"].dropna()))]
        if stated and results["n_text"].ne("").any():
            stated.append("not for all")
        rows.append({
            "source": paper.source, "experiment": f"{paper.letter}: {paper.experiment}", "title": paper.title,
            "authors": paper.authors, "venue": paper.venue, "numbers": str(len(printed)), "results": str(len(results)),
            "runs stated": ", ".join(stated) or "several",
        })  # fmt: skip
    return whole(pd.DataFrame(rows))


def numbers(study: str, out: str = "out") -> Shown:
    """Return the results that the papers of an experiment (letter A to D) print, platforms side by side.

    Values that differ between the places of one paper are all shown; a unit in brackets is the one that must be meant.
    Every printed number has a row of its own, with its words, in the files.
    """
    rows = printed_numbers.published()
    rows = rows[rows["id"].str.startswith(f"{study}.")]
    caption = f"What is printed on {NAMES[study]}."
    # what is missing is an empty cell
    _save(rows.astype("object").where(rows.notna(), "").astype("str"), out, f"numbers-{study}", caption)
    rows = rows[~rows["statistic"].isin(NO_RESULTS)]
    unit = rows["unit"].where(rows["unit_meant"] == "", rows["unit"] + " (" + rows["unit_meant"] + ")")
    runs_stated = rows["n"].astype("str").where(rows["n"].notna(), rows["n_text"])
    rows = rows.assign(unit=unit.replace("1", ""), n=runs_stated, metric=rows["metric"].str.replace("_", " "))
    # the systems by name, native first, then those that are meant together
    platforms = sorted(set(rows["platform"]), key=lambda name: (name == "all", "|" in name, name != "native", name))
    cell = ["workload", "metric", "scenario", "statistic", "source"]
    about = rows.groupby(cell, sort=False)[["unit", "n", "section"]].agg(_different, sep="; ")
    cells = rows.pivot_table("printed", cell, "platform", aggfunc=_shortened, fill_value="")[platforms]
    cells.columns = [name.replace("|", ", ") for name in platforms]
    about["where"] = about.index.get_level_values("source") + " " + about["section"]
    frame = about[["unit"]].join(cells).join(about[["n", "where"]]).droplevel("source").reset_index()
    shown = whole(frame.sort_values(["workload", "metric"], kind="stable"))
    if len(frame) <= LONG:
        return shown
    return Shown(f'<div style="max-height:{2 * LONG}em;overflow-y:auto">{shown.html}</div>', shown.text)


def audit(study: str, out: str = "out") -> Shown:
    """Return the inconsistencies of an experiment: claim, recomputation, consequence; written to files.

    Findings without arithmetic are marked *text*; the files have the quoted words and the ids of the numbers too.
    """
    rows = findings.audit(study)
    frame = pd.DataFrame({
        "": rows["id"],
        "claim, as printed": rows["claim"] + " [" + rows["where"] + "]",
        "recomputed": rows["recomputed"].where(rows["basis"] == "arithmetic", "Text: " + rows["recomputed"]),
        "consequence": rows["consequence"], "effect": rows["kind"].map(findings.KINDS), "verdict": rows["verdict"],
    })  # fmt: skip
    _save(rows, out, f"audit-{study}", f"What does not add up in the papers on {NAMES[study]}.")
    return whole(frame)


def tally(out: str = "out") -> Shown:
    """Return how many findings there are by experiment, effect and verdict; written to files."""
    frame = findings.tally(findings.audit()).astype("str").rename(columns={"study": "experiment", "kind": "effect"})
    return _table(frame, out, "tally", "Findings by experiment, effect and verdict.")


def composite(out: str = "out") -> Shown:
    """Return the composite score in every version: score with bounds from rounding by engine, and the order."""
    by_version = []
    for version, rows in score.composite().groupby("version", sort=False):
        cells = {
            ENGINES[row.engine]: f"{row.score:.2f} [{row.low:.2f}, {row.high:.2f}]"
            for row in rows.itertuples(index=False)
        }
        by_version.append({"version": rows["label"].iloc[0], **cells, "order": score.order(str(version))})
    caption = "Composite score, % of native, in every version; in brackets what the rounding of printed digits allows."
    return _table(pd.DataFrame(by_version), out, "composite", caption)


def leads(out: str = "out") -> Shown:
    """Return the lead of one engine over another in every version of the score, and whether rounding can turn it."""
    rows = score.orders()
    frame = pd.DataFrame({
        "version": rows["label"],
        "lead of": rows["ahead"].map(ENGINES) + " over " + rows["behind"].map(ENGINES),
        "points": rows["points"].map("{:+.2f}".format),
        "bounds from rounding": rows["low"].map("{:+.2f}".format) + " to " + rows["high"].map("{:+.2f}".format),
        "sign": rows["robust"].map({True: "stands", False: "open"}),
    })  # fmt: skip
    return _table(frame, out, "leads", "Leads in the composite score, percentage points.")


def figure(out: str = "out") -> Shown:
    """Return the figure of the composite score in every version, with its caption; written as PDF, SVG and PNG."""
    folder: Path = catalogue.home() / out / "figures" / "published"
    parameters = {"kind": "composite", "systems": ["native", *ENGINES]}
    return show_figure(figures.composite, folder, "composite", score.composite(), parameters, width_mm=figures.PAGE_MM)


def meaning() -> Shown:
    """Return what the versions of the score do to the papers' conclusions, in sentences made from the values."""
    leads = score.orders().set_index(["ahead", "behind"])
    count = len(score.versions())
    first = leads.loc[leads.index.get_level_values("ahead") == "lxd"]
    pair = leads.loc[("lxc", "docker")]
    ahead, open_ones = int((pair["points"] > 0).sum()), int((~pair["robust"]).sum())
    claimed = pair[pair["version"] == "published"]["points"].iloc[0]
    corrected = pair[pair["version"] != "published"]["points"]
    lines = [
        f"LXD is first in {int((first.groupby('version')['points'].min() > 0).sum())} of {count} versions; its "
        f"smallest lead is {first['points'].min():.1f} points, and {first['low'].min():.1f} when every printed digit "
        "is rounded against it.",
        f"LXC is ahead of Docker in {ahead} of {count} versions and behind in {count - ahead}; in {open_ones} of them "
        "rounding alone can turn the order.",
        f"The published lead of LXC over Docker, {claimed:.2f} points, becomes "
        f"{notation.number(corrected.min(), 1)} to {notation.number(corrected.max(), 1)} in the corrected versions.",
    ]
    return listed(lines)


def outcome(study: str) -> Shown:
    """Return what of an experiment's conclusions survives, what does not, and what cannot be decided."""
    found = findings.outcomes(study)
    parts = [(findings.OUTCOMES[kind], lines) for kind, lines in found.items()]
    page = "".join(f"<p><b>{name.capitalize()}</b></p>{listed(lines).html}" for name, lines in parts)
    return Shown(page, "\n".join(f"{name.capitalize()}\n{listed(lines).text}" for name, lines in parts))


def targets(out: str = "out") -> Shown:
    """Return the published ratios that a measurement can be compared with, and how far each can be trusted."""
    five, rows = "{:.5f}".format, []
    for each in (each for by_system in comparison.targets() for each in by_system.values()):
        printed = each.columns
        rows.append({
            "number": each.key, "ratio": f"{each.system} / {each.baseline}",
            "published": " to ".join(map(five, sorted({printed["published_low"], printed["published_high"]}))),
            "allowed by rounding": f"{five(each.rounded.low)} to {five(each.rounded.high)}",
            "grade": printed["grade"], "measured here as": f"{each.workload} {each.metric}", "note": printed["note"],
        })  # fmt: skip
    return _table(pd.DataFrame(rows), out, "targets", "Published ratios that a measurement can be compared with.")


def _different(texts: pd.Series, sep: str) -> str:
    """Return texts, each once."""
    return sep.join(dict.fromkeys(texts))


def _shortened(printed: pd.Series) -> str:
    """Return the different values that are printed; a long one, a hash, by its ends."""
    return _different(printed.where(printed.str.len() < 20, printed.str[:6] + "…" + printed.str[-6:]), " / ")


def _table(frame: pd.DataFrame, out: str, name: str, caption: str) -> Shown:
    _save(frame, out, name, caption)
    return whole(frame)


def _save(frame: pd.DataFrame, out: str, name: str, caption: str) -> None:
    tables.save(frame, catalogue.home() / out / "tables" / "published", name, caption)
