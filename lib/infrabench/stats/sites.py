"""Contrasts of several sites -> one row per site, and one per case over sites: what holds everywhere, and what differs.

The site is a block level: a site's datum is its log ratio with the standard error that its own blocks or deployments
give, never its trials. The ratio is that of geometric means, whose log has Student's t; a session's own tables lead
with the ratio of means. What cannot be put together is refused, what is missing is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import special

from infrabench.core import SchemaError
from infrabench.stats import adjust, heterogeneity
from infrabench.stats.equivalence import log_margin
from infrabench.stats.intervals import LEVEL, NAN, Array
from infrabench.stats.summary import FEWEST, Summary, deleted, hartung_knapp, summary
from infrabench.stats.verdicts import ALPHA, DIFFERENT, EQUIVALENT, INCONCLUSIVE, LIMITED, WITHIN

CASE = ["workload", "scenario", "metric", "system"]
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
UNITS = "sites differ in the unit of replication"
ALONE = "sites: not significant within their family"
PER_SITE = {
    **dict.fromkeys(("workload", "scenario", "factor"), "str"),
    "level": "float64",
    **dict.fromkeys(("metric", "unit", "better", "system", "baseline", "site"), "str"),
    "n_pairs": "int64",
    "pair_unit": "str",
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "log_ratio", "error", "df", "margin"), "float64"),
    "verdict": "str",
    **dict.fromkeys(("weight", "apart", "p_apart", "p_predicted"), "float64"),
    **dict.fromkeys(("named", "reason", "flags"), "str"),
}
OVER_SITES = {
    **dict.fromkeys(("workload", "scenario", "factor"), "str"),
    "level": "float64",
    **dict.fromkeys(("metric", "unit", "better", "system", "baseline"), "str"),
    **dict.fromkeys(("sites", "planned"), "int64"),
    **dict.fromkeys(("ratio", "ratio_low", "ratio_high", "predicted_low", "predicted_high", "p"), "float64"),
    **dict.fromkeys(("hartung_knapp_low", "hartung_knapp_high"), "float64"),
    **dict.fromkeys(("tau", "tau_low", "tau_high", "i_squared", "i_squared_low", "i_squared_high"), "float64"),
    **dict.fromkeys(("q", "p_q", "p_sites", "p_sites_adjusted"), "float64"),
    "adjustment": "str",
    "margin": "float64",
    **dict.fromkeys(("verdict", "across", "named", "missing", "reason"), "str"),
}

WORDS = [name for name, kind in OVER_SITES.items() if kind == "str"]


def per_site(contrasts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per case, system and site with what the site says, in the order of the sites given.

    Parameters
    ----------
    contrasts
        Site -> its contrasts (`stats.contrasts`).

    Returns
    -------
    DataFrame
        Columns `PER_SITE`. ``ratio``: of geometric means, with its paired t interval; ``log_ratio`` and its standard
        ``error`` with ``df`` degrees of freedom; ``reason``: why a site has none. What the others say of a site is
        filled in by `over_sites`.

    Raises
    ------
    SchemaError
        A metric has another unit, direction, baseline or margin at another site.
    """
    frames = [frame.assign(site=site) for site, frame in contrasts.items()]
    rows = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if rows.empty:
        return pd.DataFrame(columns=list(PER_SITE)).astype(PER_SITE)
    for name in SHARED:
        told = rows.groupby(CASE)[name].nunique()
        if (told > 1).any():
            where = ", ".join(told.index[told > 1][0])
            raise SchemaError(f"{where}: the {name} differs between sites; sites that measure different things are "
                              "not put together")  # fmt: skip
    df = rows["n_pairs"].to_numpy(dtype=float) - 1
    ends = rows[["log_low", "log_high"]].to_numpy(dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        half = (np.log(ends[:, 1]) - np.log(ends[:, 0])) / 2
        error = half / special.stdtrit(df, (1 + LEVEL) / 2)
        estimate = np.log(rows["log_ratio"].to_numpy(dtype=float))
    usable = np.isfinite(estimate) & np.isfinite(error) & (error > 1e-14 * np.maximum(np.abs(estimate), 1.0))
    found = rows.assign(
        ratio=rows["log_ratio"], ratio_low=ends[:, 0], ratio_high=ends[:, 1],
        log_ratio=np.where(usable, estimate, NAN), error=np.where(usable, error, NAN),
        df=np.where(usable, df, NAN), weight=NAN, apart=NAN, p_apart=NAN, p_predicted=NAN, named="",
    )  # fmt: skip
    found["reason"] = np.where(usable | (found["reason"] != ""), found["reason"], NO_INTERVAL)
    order = {site: i for i, site in enumerate(contrasts)}
    found = found.reindex(columns=list(PER_SITE)).astype(PER_SITE)
    keys = ["workload", "metric", "level", "scenario", "system", "site"]
    return found.sort_values(keys, key=lambda s: s.map(order) if s.name == "site" else s, ignore_index=True)


def over_sites(
    rows: pd.DataFrame,
    sites: Sequence[str],
    primary: Iterable[tuple[str, str]] = (),
    lost: Mapping[str, str] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `per_site` with what the others say of each, and one row per case and system over sites.

    Parameters
    ----------
    rows
        From `per_site`.
    sites
        Every site that was planned, in order.
    primary
        (workload, metric) pairs whose tests of sites that differ are adjusted by Holm; all others by
        Benjamini-Hochberg.
    lost
        Site -> why it has no session.

    Returns
    -------
    DataFrame
        `rows`; ``weight``: share in the mean; ``apart``: log ratio minus the mean of the others; ``named``:
        *stands out* where the others do not predict it, *apart from the others* where it differs from them and they
        cannot be told apart, both adjusted by Holm over the case's sites.
    DataFrame
        Columns `OVER_SITES`. ``ratio``: the mean over sites with its interval, and the interval of a new site's true
        ratio (``predicted_low`` ..), none below three sites; ``tau``: standard deviation of log ratios between sites;
        ``i_squared``: its share in what is seen; ``p_sites``: Welch's test that all sites have one ratio; ``verdict``:
        of the mean, at the margin; ``across``: *holds everywhere*, also in size or not, *differs between sites*, or
        *not decided*; ``missing``: planned sites that are not in it, with the reason; ``reason``: what qualifies it.
    """
    if rows.empty:
        return rows, pd.DataFrame(columns=list(OVER_SITES)).astype(OVER_SITES)
    number = rows.groupby(CASE, sort=False).ngroup().to_numpy()
    first = rows.drop_duplicates(CASE)
    every = first.reindex(columns=list(OVER_SITES)).assign(ratio=NAN, ratio_low=NAN, ratio_high=NAN, named="")
    every = every.reset_index(drop=True).astype(dict.fromkeys(WORDS, "object"))
    every["planned"], every["missing"] = len(sites), _missing(rows, number, sites, lost or {})
    told = rows.copy()
    used = rows["error"].notna().to_numpy()
    counts = np.bincount(number[used], minlength=len(every))
    for k in np.unique(counts):
        cells = np.flatnonzero(counts == k)
        # their rows, site by site: (cells, k)
        mine = np.flatnonzero(used & np.isin(number, cells))
        mine = mine[np.argsort(number[mine], kind="stable")].reshape(len(cells), k)
        for name, values in _over(rows, mine, every["margin"].to_numpy(dtype=float)[cells]).items():
            every.loc[cells, name] = values
        if k >= FEWEST:
            against = _against_others(rows, mine, every["p_sites"].to_numpy(dtype=float)[cells])
            for name, values in against.items():
                told.loc[rows.index[mine.ravel()], name] = values.ravel()
            every.loc[cells, "named"] = [
                ", ".join(f"{site} {word}" for site, word in zip(names, words, strict=True) if word)
                for names, words in zip(rows["site"].to_numpy()[mine], against["named"], strict=True)
            ]
    every["p_sites_adjusted"], every["adjustment"] = adjust.by_metric(every, every["p_sites"], primary)
    alone = (every["p_sites"] < ALPHA) & (every["p_sites_adjusted"] >= ALPHA)
    every.loc[alone, "reason"] = every.loc[alone, "reason"].map(lambda told: "; ".join(filter(None, (told, ALONE))))
    return told.astype(PER_SITE), every.astype(OVER_SITES)


def _missing(rows: pd.DataFrame, number: NDArray[np.intp], sites: Sequence[str], lost: Mapping[str, str]) -> list[str]:
    """Of each case the planned sites that have no say in it, each with its reason."""
    fits = rows["error"].notna()
    there = dict.fromkeys(zip(number[fits], rows["site"][fits], strict=True))
    why = dict(zip(zip(number[~fits], rows["site"][~fits], strict=True), rows["reason"][~fits], strict=True))
    return [
        "; ".join(
            f"{site}: {why.get((case, site), lost.get(site, ABSENT))}" for site in sites if (case, site) not in there
        )
        for case in range(number.max() + 1)
    ]


def _over(rows: pd.DataFrame, mine: NDArray[np.intp], margin: Array) -> dict[str, Any]:
    """The columns over sites of cases with equally many, `mine` (cells, k) the places of their rows."""
    y, e, df = (rows[name].to_numpy()[mine] for name in ("log_ratio", "error", "df"))
    k = mine.shape[1]
    qualified = [_qualified(rows.iloc[each]) for each in mine]
    line: dict[str, Any] = {"sites": k}
    if k > 1:
        q, welch = heterogeneity.cochran_q(y, e), heterogeneity.welch_homogeneity(y, e, df)
        line |= {"q": q.statistic, "p_q": q.p, "p_sites": welch.p}
    differ = line["p_sites"] < ALPHA if k > 1 else np.zeros(len(mine), dtype=bool)
    if k < FEWEST:
        reason = ["; ".join(filter(None, (FEW[k], each))) for each in qualified]
        return line | {"verdict": NO_MEAN, "across": np.where(differ, DIFFERS, OPEN), "reason": reason}
    between, ends = heterogeneity.between_variance(y, e, df), heterogeneity.between_interval(y, e, df)
    for name, value in (("", between), ("_low", ends.low), ("_high", ends.high)):
        line |= {f"tau{name}": np.sqrt(value), f"i_squared{name}": heterogeneity.share_between(value, e)}
    known = hartung_knapp(y, e, between)
    line |= {"hartung_knapp_low": np.exp(known.low), "hartung_knapp_high": np.exp(known.high)}
    return line | _said(summary(y, e, df), differ, log_margin(margin)) | {"reason": qualified}


def _qualified(used: pd.DataFrame) -> str:
    """What has to be known of the sites of one case: other units of replication, a coarse tool."""
    units = dict.fromkeys(used["pair_unit"])
    coarse = used.loc[used["flags"].str.contains(LIMITED, regex=False), "site"]
    told = [f"{UNITS}: {', '.join(units)}"] if len(units) > 1 else []
    return "; ".join(told + ([f"{LIMITED} at {', '.join(coarse)}"] if len(coarse) else []))


def _said(found: Summary, differ: NDArray[np.bool_], margin: Array) -> dict[str, Any]:
    """The mean over sites, its verdict, and whether it holds everywhere."""
    excludes = (found.interval.low > 0) | (found.interval.high < 0)
    alike = (-margin < found.narrow.low) & (found.narrow.high < margin)
    verdict = np.select([excludes & alike, excludes, alike], [WITHIN, DIFFERENT, EQUIVALENT], default=INCONCLUSIVE)
    low, high = found.predicted.low, found.predicted.high
    # a new site's ratio is on the mean's side of 1, or within the margin: whichever the verdict is about
    everywhere = (excludes & ((low > 0) | (high < 0))) | (alike & (-margin < low) & (high < margin))
    across = np.select([everywhere & differ, everywhere, differ], [SIZE, HOLDS, DIFFERS], default=OPEN)
    ratios = {
        "ratio": found.mean, "ratio_low": found.interval.low, "ratio_high": found.interval.high,
        "predicted_low": low, "predicted_high": high,
    }  # fmt: skip
    return {name: np.exp(value) for name, value in ratios.items()} | {
        "p": found.p, "verdict": verdict, "across": across,
    }  # fmt: skip


def _against_others(rows: pd.DataFrame, mine: NDArray[np.intp], p_sites: Array) -> dict[str, NDArray[Any]]:
    """What the others say of each site, every column (cells, k)."""
    y, e, df = (rows[name].to_numpy()[mine] for name in ("log_ratio", "error", "df"))
    w = 1 / (e**2 + np.asarray(heterogeneity.between_variance(y, e, df))[:, None])
    found = deleted(y, e, df)
    out = adjust.holm(found.p_predicted) < ALPHA
    # apart from others that agree: the one that is furthest from them, and only where sites differ at all
    furthest = np.arange(mine.shape[1]) == np.argmin(found.p_apart, axis=-1)[:, None]
    apart = furthest & (p_sites < ALPHA)[:, None] & (adjust.holm(found.p_apart) < ALPHA) & (found.p_others >= ALPHA)
    return {
        "weight": w / w.sum(axis=-1, keepdims=True), "apart": found.apart, "p_apart": found.p_apart,
        "p_predicted": found.p_predicted, "named": np.select([out, apart], [STANDS_OUT, APART], default=""),
    }  # fmt: skip
