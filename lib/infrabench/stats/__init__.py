"""Statistics. Two layers: functions of plain arrays, and functions that take the tidy table and return one.

The table functions are importable from here: `estimates`, `contrasts`, `diagnostics`, `omnibus`, `interactions`,
`tiers`, and `interim` of a session that still runs; also `planning.plan_from_pilot` and `stopping.look`. In all of them
`table` is the tidy table, `baseline` the system that the others are divided by, `primary` the (workload, metric) pairs
that were declared before the first trial, `margins` metric -> relative equivalence margin (0.02 = 2 %; ``""``: the
default), and `cube` `table.blocked` of that table where it is there already. Columns have the units of the table. They
raise `SchemaError` for a table that is not a tidy one (`table.check_values`).

The array functions take trials on the last axis and any number of cells before it; paired ones take two arrays of one
shape, in which element i of both is the same block. No answer is NaN. Import them from their module:

>>> from infrabench.stats.omnibus import friedman
>>> friedman([[1.0, 2.0, 1.5], [1.1, 2.3, 1.6], [0.9, 1.9, 1.2]]).p.round(4).tolist()
0.0498

==================  ==============================================================================================
one sample          `intervals`: t_interval, log_t_interval (geometric mean), median_interval, median_ranks,
                    hodges_lehmann, wilson_interval, bootstrap_t
two systems         `pairwise`: paired_t, paired_fieller (ratio of means), paired_log_ratio, signed_rank
equivalence         `pairwise`: ratio_equivalence, difference_p (both on `fieller_t`)
effect sizes        `pairwise`: paired_d (of the log ratios), share_above (with Wilson's interval)
several systems     `omnibus`: friedman (with Iman-Davenport), interaction
levels of a factor  `omnibus`: log_slope, interaction; `knee`: crossing
several tests       `multiplicity`: holm, benjamini_hochberg, compact_letters
counts and shares   `events`: poisson_ratio, poisson_p, poisson_difference, newcombe_interval, dispersion_p,
                    typical_values, typical_p (sign flips), clopper_pearson; `estimates`: event_means
diagnostics         `dependence`: autocorrelation, ljung_box, kendall_trend, effective_n; `verdicts`: resolution_step;
                    `diagnostics`: shapiro, skewness, modified_z, split, bimodal
sites               `meta_analysis`: cochran_q, welch_homogeneity, between_variance, between_interval, share_between,
                    summary (mean and prediction interval), hartung_knapp, deleted; `sites`: their tables
sessions over time  `segmentation`: find_changes
planning            `planning`: n_for_precision, detectable, t_power, tost_power, equivalence_margin, blocks_to_decide,
                    one_way (variance components), blocks_per_deployment, dimensions
==================  ==============================================================================================
"""

from infrabench.stats.contrasts import contrasts
from infrabench.stats.diagnostics import diagnostics
from infrabench.stats.estimates import estimates, interim
from infrabench.stats.multiplicity import tiers
from infrabench.stats.omnibus import interactions, omnibus, trends

__all__ = ["contrasts", "diagnostics", "estimates", "interactions", "interim", "omnibus", "tiers", "trends"]
