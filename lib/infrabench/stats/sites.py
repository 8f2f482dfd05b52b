"""Contrasts of several sites -> one row per site, and one per case over sites: what holds everywhere, and what differs.

The site is a block level: a site's datum is its log ratio with the standard error that its own blocks or deployments
give, never its trials. The ratio is that of geometric means, whose log has Student's t; a session's own tables lead
with the ratio of means. What cannot be put together is refused, what is missing is counted with its reason.

What is inferred holds wherever the sites would lie with their lost trials, of which it is known how far they may have
moved each log ratio: an interval reaches as far, and a p is as large, as in any of all ways to move each site to one of
its ends, and sites differ only where they do when moved as close together as that allows. Estimates, of the mean and of
the spread between sites, and what is customary are those of the trials with a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from infrabench.core import SchemaError
from infrabench.stats import meta_analysis, multiplicity
from infrabench.stats.contrasts import DEPENDENT, NOT_IN_FAMILY
from infrabench.stats.intervals import LEVEL, NAN, Array
from infrabench.stats.losses import LOST, UNLIKE
from infrabench.stats.meta_analysis import FEWEST, Summary, deleted, hartung_knapp, summary
from infrabench.stats.table import CELL, FAMILY, ORDER, columns, join_words
from infrabench.stats.verdicts import ALPHA, EQUIVALENT, LIMITED, NOT_COMPARABLE, WITHIN, decide

SHARED = ("unit", "better", "baseline", "margin")  # what the sites of a case have to have in common
HOLDS, DIFFERS, OPEN = "holds everywhere", "differs between sites", "not decided"
NO_MEAN = "no mean over sites"
SIZE = "holds everywhere, differs in size"
STANDS_OUT, APART = "stands out", "apart from the others"
NO_INTERVAL, ABSENT = "no interval", "not measured there"
FEW = (
    "no site has an interval", "a single site: nothing is known of others",
    "two sites: no mean over sites, nothing of others",
)  # fmt: skip
FREE = 6  # sites with lost trials that are moved each on its own: 64 ways
BATCH = 50  # cases with lost trials that are worked out at a time
UNITS = "sites differ in the unit of replication"
ALONE = "sites: not significant within their family"
CHECKED, FULL = 10, 29.0  # sites, and degrees of freedom of each, up to which and from which coverage was checked
UNCHECKED = (
    "more than 10 sites of few units: beyond what the mean's interval was checked for "
    "(20 sites of 6 deployments: it covers 92 %)"
)
PER_SITE = columns("""
    str: workload scenario factor; float64: level; str: metric unit better system baseline site; int64: n_pairs
    str: pair_unit; float64: ratio ratio_low ratio_high log_ratio error df margin lost; str: verdict
    float64: weight apart p_apart p_predicted; str: named reason flags
""")
OVER_SITES = columns("""
    str: workload scenario factor; float64: level; str: metric unit better system baseline; int64: sites planned
    float64: ratio ratio_low ratio_high predicted_low predicted_high p equivalence_low equivalence_high p_equivalence
    float64: p_equivalence_adjusted hartung_knapp_low hartung_knapp_high tau tau_low tau_high i_squared i_squared_low
    float64: i_squared_high q p_q p_sites p_sites_adjusted; str: adjustment; float64: margin
    str: verdict across named missing reason
""")
MEANS = [
    *("ratio", "ratio_low", "ratio_high", "predicted_low", "predicted_high", "p"),
    *("equivalence_low", "equivalence_high", "p_equivalence", "hartung_knapp_low", "hartung_knapp_high"),
]
WORDS = [name for name, kind in OVER_SITES.items() if kind == "str"]


def per_site(contrasts: Mapping[str, pd.DataFrame], tables: Mapping[str, pd.DataFrame] | None = None) -> pd.DataFrame:
    """Return one row per case, system and site with what the site says, in the order of the sites given.

    `contrasts`: site -> its contrasts (`stats.contrasts`); `tables`: site -> its tidy table, from which a case that
    has no value there, and so no contrast, has a row of the metrics of the other sites. Columns `PER_SITE`. ``ratio``:
    of geometric means, with its paired t interval; ``log_ratio`` and its standard ``error`` with ``df`` degrees of
    freedom; ``lost``: how far lost trials may have moved ``log_ratio`` either way; ``reason``: why a site has none.
    What the others say of a site is filled in by `over_sites`. Raises `SchemaError` where a metric has another unit,
    direction, baseline or margin at another site.
    """
    frames = [frame.assign(site=site) for site, frame in contrasts.items()]
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if rows.empty:
        return pd.DataFrame(columns=list(PER_SITE)).astype(PER_SITE)
    for name in SHARED:
        distinct = rows.groupby(CELL)[name].nunique()
        if (distinct > 1).any():
            where = ", ".join(distinct.index[distinct > 1][0])
            raise SchemaError(f"{where}: the {name} differs between sites; sites that measure different things are "
                              "not put together")  # fmt: skip
    silent = [_silent(rows, site, table) for site, table in (tables or {}).items()]
    rows = pd.concat([rows, *(each for each in silent if len(each))], ignore_index=True)
    df = rows["n_pairs"].to_numpy(dtype=float) - 1
    ends = rows[["log_low", "log_high"]].to_numpy(dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = (np.log(ends[:, 1]) - np.log(ends[:, 0])) / 2
        error = half / special.stdtrit(df, (1 + LEVEL) / 2)
        estimate = np.log(rows["log_ratio"].to_numpy(dtype=float))
        moved = np.log(np.stack([ends[:, 0] / rows["bound_low"], rows["bound_high"] / ends[:, 1]])).max(axis=0)
    usable = np.isfinite(estimate) & np.isfinite(error) & (error > 1e-14 * np.maximum(np.abs(estimate), 1.0))
    # of counts and shares nobody knows how far lost trials may have moved the logarithm
    usable &= ~(rows["flags"].str.contains(LOST, regex=False) & rows["bound_low"].isna()).to_numpy()
    found = rows.assign(
        ratio=rows["log_ratio"], ratio_low=ends[:, 0], ratio_high=ends[:, 1],
        log_ratio=np.where(usable, estimate, NAN), error=np.where(usable, error, NAN),
        df=np.where(usable, df, NAN), lost=np.fmax(moved, 0.0), weight=NAN, apart=NAN, p_apart=NAN, p_predicted=NAN,
        named="",
    )  # fmt: skip
    found["reason"] = np.where(usable | (found["reason"] != ""), found["reason"], NO_INTERVAL)
    order = {site: i for i, site in enumerate(contrasts)}
    found = found.reindex(columns=list(PER_SITE)).astype(PER_SITE)
    return found.sort_values([*ORDER, "site"], key=lambda s: s.map(order) if s.name == "site" else s, ignore_index=True)


def _silent(rows: pd.DataFrame, site: str, table: pd.DataFrame) -> pd.DataFrame:
    """Rows of the cases that a site tried without a value of any system; other sites say which metrics they have."""
    case = ["workload", "scenario"]
    tried = table[table["state"] != "discarded"]
    bare = tried[tried.groupby(case)["value"].transform("count") == 0]
    fallen = bare.assign(gone=bare["state"] != "invalid").groupby([*case, "system"], as_index=False)["gone"].any()
    found = rows.drop_duplicates(CELL).merge(fallen, on=[*case, "system"])
    found = found.merge(fallen.rename(columns={"system": "baseline"}), on=[*case, "baseline"], suffixes=("", "_base"))
    numbers = ("log_ratio", "log_low", "log_high", "bound_low", "bound_high")
    return found.assign(
        **dict.fromkeys(numbers, NAN), site=site, n_pairs=0, verdict=NOT_COMPARABLE,
        flags=np.where(found["gone"] | found["gone_base"], LOST, ""),
        reason=[f"no ok trial of {each.system} and {each.baseline}" for each in found.itertuples()],
    )  # fmt: skip


def over_sites(
    rows: pd.DataFrame,
    sites: Sequence[str],
    primary: Iterable[tuple[str, str]] = (),
    lost: Mapping[str, str] | None = None,
    not_run: Mapping[tuple[str, str, str, str], str] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `per_site` with what the others say of each, and one row per case and system over sites.

    `rows`: from `per_site`; `sites`: every site that was planned, in order; `primary`: metrics whose tests of sites
    that differ are adjusted by Holm, all others by Benjamini-Hochberg; `lost`: site -> why it has no session;
    `not_run`: (site, system, workload, scenario) -> why its session has not run this, "" where it is any.

    In `rows`: ``weight``: share in the mean; ``apart``: log ratio minus the mean of the others; ``named``: *stands out*
    where the others do not predict it, *apart from the others* where it differs from them and they cannot be told
    apart, both adjusted by Holm over the case's sites.

    Columns `OVER_SITES`. ``ratio``: the mean over sites with its interval, and the interval of a new site's true ratio
    (``predicted_low`` ..), none below three sites; ``tau``: standard deviation of log ratios between sites;
    ``i_squared``: its share in what is seen; ``p_sites``: Welch's test that all sites have one ratio;
    ``p_equivalence``: of a mean outside the margin, below 5 % exactly when the 90 % interval (``equivalence_low`` ..)
    lies inside; ``p_equivalence_adjusted``: by Holm over the cases of the metric in the workload, as within a session,
    and the one that decides; ``verdict``: of the mean, at the margin; ``across``: *holds everywhere*, also in size or
    not, *differs between sites*, or *not decided*; ``missing``: planned sites that are not in it, with the reason;
    ``reason``: what qualifies it.
    """
    if rows.empty:
        return rows, pd.DataFrame(columns=list(OVER_SITES)).astype(OVER_SITES)
    number = rows.groupby(CELL, sort=False).ngroup().to_numpy()
    first = rows.drop_duplicates(CELL)
    every = first.reindex(columns=list(OVER_SITES)).assign(ratio=NAN, ratio_low=NAN, ratio_high=NAN, named="")
    every = every.reset_index(drop=True).astype(dict.fromkeys(WORDS, "object"))
    every["planned"], every["missing"] = len(sites), _missing(rows, number, sites, lost or {}, not_run or {})
    marked = rows.copy()
    used = rows["error"].notna().to_numpy()
    counts = np.bincount(number[used], minlength=len(every))
    # a case with lost trials is worked out in up to 65 ways, and takes as much more room
    with_lost = np.bincount(number[used], rows["lost"].to_numpy()[used], minlength=len(every)) > 0
    batch = np.where(with_lost, 1 + np.arange(len(every)) // BATCH, 0)
    for k, which in np.unique(np.stack([counts, batch]), axis=1).T:
        cells = np.flatnonzero((counts == k) & (batch == which))
        # their rows, site by site: (cells, k)
        places = np.flatnonzero(used & np.isin(number, cells))
        places = places[np.argsort(number[places], kind="stable")].reshape(len(cells), k)
        for name, values in _over(rows, places, every["margin"].to_numpy(dtype=float)[cells]).items():
            every.loc[cells, name] = values
        if k >= FEWEST:
            against = _against_others(rows, places, every["p_sites"].to_numpy(dtype=float)[cells])
            for name, values in against.items():
                marked.loc[rows.index[places.ravel()], name] = values.ravel()
            every.loc[cells, "named"] = [
                ", ".join(f"{site} {word}" for site, word in zip(names, words, strict=True) if word)
                for names, words in zip(rows["site"].to_numpy()[places], against["named"], strict=True)
            ]
    every = _decided(_withheld(every, rows, number))
    every["p_sites_adjusted"], every["adjustment"] = multiplicity.by_metric(every, every["p_sites"], primary)
    alone = (every["p_sites"] < ALPHA) & (every["p_sites_adjusted"] >= ALPHA)
    every["reason"] = join_words(every["reason"], np.where(alone, ALONE, ""))
    return marked.astype(PER_SITE), every.astype(OVER_SITES)


def _withheld(every: pd.DataFrame, rows: pd.DataFrame, number: NDArray[np.intp]) -> pd.DataFrame:
    """The table without the means of the cases that a site lacks for its lost trials: the rest would speak for all."""
    gone = rows["error"].isna() & rows["flags"].str.contains(LOST, regex=False)
    for case, sites in rows["site"][gone].groupby(number[gone]):
        every.loc[case, MEANS] = NAN
        reason = f"{LOST} at {', '.join(sites)}: {UNLIKE}"
        every.loc[case, "reason"] = "; ".join(filter(None, (every.loc[case, "reason"], reason)))
    return every


def _missing(
    rows: pd.DataFrame,
    number: NDArray[np.intp],
    sites: Sequence[str],
    lost: Mapping[str, str],
    not_run: Mapping[tuple[str, str, str, str], str],
) -> list[str]:
    """Of each case the planned sites that have no say in it, each with its reason."""
    fits = rows["error"].notna()
    there = dict.fromkeys(zip(number[fits], rows["site"][fits], strict=True))
    why = dict(zip(zip(number[~fits], rows["site"][~fits], strict=True), rows["reason"][~fits], strict=True))
    treatments = rows.drop_duplicates(CELL)[["system", "workload", "scenario"]].itertuples(index=False, name=None)

    def explain(case: int, site: str, system: str, workload: str, scenario: str) -> str:
        known = ((system, "", ""), ("", workload, ""), (system, workload, scenario))
        reasons = (why.get((case, site)), *(not_run.get((site, *each)) for each in known), lost.get(site))
        return next(filter(None, reasons), ABSENT)

    return [
        "; ".join(f"{site}: {explain(case, site, *each)}" for site in sites if (case, site) not in there)
        for case, each in enumerate(treatments)
    ]


def _moved(y: Array, off: Array) -> Array:
    """The estimates (cells, k), and with each moved by `off` down or up, in all ways: (ways, cells, k).

    Of more than `FREE` sites that lost trials those that lost least go the same way.
    """
    free = min(int((off > 0).sum(axis=-1).max()), FREE)
    if not free:
        return y[None]
    sign = np.minimum(np.argsort(np.argsort(-off, axis=-1), axis=-1), free - 1)  # which one moves a site
    return np.stack([y, *(y + np.array(way)[sign] * off for way in product((-1, 1), repeat=free))])


def _near(y: Array, e: Array, off: Array) -> Array:
    """The estimates moved by `off` at the most, as close together as that allows: with the smallest Cochran's Q."""
    low, high = y - off, y + off
    ends = low.min(axis=-1), high.max(axis=-1)
    for _ in range(60):  # Q about a centre is convex in it: halved until no digit is left
        centre = (ends[0] + ends[1])[:, None] / 2
        above = ((centre - np.clip(centre, low, high)) / e**2).sum(axis=-1) > 0
        ends = np.where(above, ends[0], centre[:, 0]), np.where(above, centre[:, 0], ends[1])
    return np.clip(centre, low, high)


def _over(rows: pd.DataFrame, mine: NDArray[np.intp], margin: Array) -> dict[str, Any]:
    """The columns over sites of cases with equally many, `mine` (cells, k) the places of their rows."""
    y, e, df, off = (rows[name].to_numpy()[mine] for name in ("log_ratio", "error", "df", "lost"))
    k = mine.shape[1]
    qualified = [_qualified(rows.iloc[each]) for each in mine]
    line: dict[str, Any] = {"sites": k}
    if k > 1:
        q, welch = meta_analysis.cochran_q(y, e), meta_analysis.welch_homogeneity(_near(y, e, off), e, df)
        line |= {"q": q.statistic, "p_q": q.p, "p_sites": welch.p}
    if k < FEWEST:
        return line | {"verdict": NO_MEAN, "reason": join_words([FEW[k]] * len(qualified), qualified)}
    between, ends = meta_analysis.between_variance(y, e, df), meta_analysis.between_interval(y, e, df)
    for name, value in (("", between), ("_low", ends.low), ("_high", ends.high)):
        line |= {f"tau{name}": np.sqrt(value), f"i_squared{name}": meta_analysis.share_between(value, e)}
    known = hartung_knapp(y, e, between)
    line |= {"hartung_knapp_low": np.exp(known.low), "hartung_knapp_high": np.exp(known.high)}
    unchecked = (k > CHECKED) & (df < FULL).any(axis=-1)
    reason = join_words(qualified, np.where(unchecked, UNCHECKED, ""))
    within = (np.log(1 - margin), np.log(1 + margin))
    ways = _moved(y, off)
    found = summary(ways, *(np.broadcast_to(each, ways.shape) for each in (e, df)), within=within)
    return line | _said(found) | {"reason": reason}


def _qualified(used: pd.DataFrame) -> str:
    """What has to be known of the sites of one case: other units of replication, a coarse tool, dependence."""
    units = dict.fromkeys(used["pair_unit"])
    notes = [f"{UNITS}: {', '.join(units)}"] if len(units) > 1 else []
    for word in (LIMITED, DEPENDENT, LOST):
        where = used.loc[used["flags"].str.contains(word, regex=False), "site"]
        notes += [f"{word} at {', '.join(where)}"] if len(where) else []
    return "; ".join(notes)


def _said(found: Summary) -> dict[str, Any]:
    """The mean over sites, a new site, and what the verdict rests on: of `found` (ways, cells) what holds in all."""
    line: dict[str, Any] = {"ratio": np.exp(found.mean[0])}
    for name, ends in (("ratio", found.interval), ("equivalence", found.narrow), ("predicted", found.predicted)):
        line |= {f"{name}_low": np.exp(np.min(ends.low, axis=0)), f"{name}_high": np.exp(np.max(ends.high, axis=0))}
    turned = np.ptp(np.sign(found.mean), axis=0) > 0
    return line | {"p": np.where(turned, 1.0, found.p.max(axis=0)), "p_equivalence": found.p_outside.max(axis=0)}


def _decided(every: pd.DataFrame) -> pd.DataFrame:
    """The table with verdicts, and whether they hold everywhere: once all of a family are there to adjust."""
    adjusted = multiplicity.by_family(every["p_equivalence"], every.groupby(FAMILY).ngroup(), multiplicity.holm)
    ends = ("ratio_low", "ratio_high", "predicted_low", "predicted_high", "p_sites", "p_equivalence", "margin")
    low, high, new_low, new_high, p_sites, p, margin = (every[name].to_numpy(dtype=float) for name in ends)
    some, differ, apart = np.isfinite(low), p_sites < ALPHA, (low > 1) | (high < 1)
    verdict = decide({"inferred": some, "apart": apart}, adjusted)
    alike = np.isin(verdict, (EQUIVALENT, WITHIN))
    # a new site's ratio is on the mean's side of 1, or within the margin: whichever the verdict is about
    everywhere = (apart & ((new_low > 1) | (new_high < 1))) | (alike & (1 - margin < new_low) & (new_high < 1 + margin))
    across = np.select([everywhere & differ, everywhere, differ], [SIZE, HOLDS, DIFFERS], default=OPEN)
    claimed = some & (p < ALPHA) & ~alike
    reason = join_words(every["reason"], np.where(claimed, NOT_IN_FAMILY, ""))
    return every.assign(
        p_equivalence_adjusted=adjusted, verdict=np.where(some, verdict, NO_MEAN), across=across, reason=reason
    )


def _against_others(rows: pd.DataFrame, mine: NDArray[np.intp], p_sites: Array) -> dict[str, NDArray[Any]]:
    """What the others say of each site, every column (cells, k)."""
    y, e, df, off = (rows[name].to_numpy()[mine] for name in ("log_ratio", "error", "df", "lost"))
    w = 1 / (e**2 + np.asarray(meta_analysis.between_variance(y, e, df))[:, None])
    ways = _moved(y, off)
    found = deleted(ways, *(np.broadcast_to(each, ways.shape) for each in (e, df)), own=(y - off, y + off))
    others = ways - found.apart  # their means, between which a site may be level with them
    level = (y - off <= others.max(axis=0)) & (y + off >= others.min(axis=0)) & (len(ways) > 1)
    p_apart, p_predicted = (np.where(level, 1.0, p.max(axis=0)) for p in (found.p_apart, found.p_predicted))
    alike = found.p_others.min(axis=0) >= ALPHA
    out = multiplicity.holm(p_predicted) < ALPHA
    # apart from others that agree: the one that is furthest from them, and only where sites differ at all
    furthest = np.arange(mine.shape[1]) == np.argmin(p_apart, axis=-1)[:, None]
    apart = furthest & (p_sites < ALPHA)[:, None] & (multiplicity.holm(p_apart) < ALPHA) & alike
    return {
        "weight": w / w.sum(axis=-1, keepdims=True), "apart": found.apart[0], "p_apart": p_apart,
        "p_predicted": p_predicted, "named": np.select([out, apart], [STANDS_OUT, APART], default=""),
    }  # fmt: skip
