"""Statistics. Two layers: functions of plain arrays, and functions that take the tidy table and return one.

The table functions are importable from here: `estimates`, `contrasts`, `diagnostics`, `omnibus`, `interactions`,
`tiers`, and `interim` of a session that still runs; also `pilot.plan_from_pilot` and `stopping.look`.

The array functions take trials on the last axis and any number of cells before it; paired ones take two arrays of one
shape, in which element i of both is the same block. No answer is NaN. Import them from their module:

>>> from infrabench.stats.omnibus import friedman
>>> friedman([[1.0, 2.0, 1.5], [1.1, 2.3, 1.6], [0.9, 1.9, 1.2]]).mean_ranks.tolist()
[2.0, 3.0, 1.0]

==================  ==============================================================================================
one sample          `intervals`: t_interval, log_t_interval (geometric mean), median_interval, median_ranks,
                    hodges_lehmann, wilson_interval; `bootstrap`: bootstrap_t
ratio to baseline   `ratios`: paired_fieller, paired_log_ratio; `bootstrap`: bootstrap_quantile_ratio
two systems         `pairwise`: paired_t; `exact`: signed_rank, sign_flip
several systems     `omnibus`: friedman (with Iman-Davenport); `pairwise`: critical_distance; `interactions`:
                    interaction
levels of a factor  `trend`: page, log_slope; `interactions`: interaction
equivalence         `equivalence`: ratio_equivalence, difference_p (both on `fieller_t`), margin_ends
counts and shares   `counts`: poisson_ratio, poisson_p, poisson_difference, newcombe_interval, dispersion_p,
                    typical_values, typical_p (sign flips), clopper_pearson; `event_means`: event_means
effect sizes        `effects`: paired_d (of the log ratios), share_above (with Wilson's interval)
several tests       `adjust`: holm, benjamini_hochberg
diagnostics         `dependence`: autocorrelation, ljung_box, runs_test, kendall_trend, effective_n; `normality`:
                    shapiro, skewness; `diagnostics`: modified_z; `bimodality`: split, bimodal;
                    `dip`: dip, dip_p; `resolution`: resolution_step
sites               `heterogeneity`: cochran_q, welch_homogeneity, between_variance, between_interval, share_between;
                    `summary`: summary (mean and prediction interval), hartung_knapp, deleted; `sites`: their tables
deployments         `components`: one_way (variance components), repetitions; `dimensioning`: dimensions
planning            `planning`: n_for_precision, detectable, t_power, tost_power, equivalence_margin, blocks_to_decide
==================  ==============================================================================================
"""

from infrabench.stats.contrasts import contrasts
from infrabench.stats.diagnostics import diagnostics
from infrabench.stats.estimates import estimates
from infrabench.stats.interactions import interactions
from infrabench.stats.interim import interim
from infrabench.stats.omnibus import omnibus
from infrabench.stats.tiers import tiers
from infrabench.stats.trend import trends

__all__ = ["contrasts", "diagnostics", "estimates", "interactions", "interim", "omnibus", "tiers", "trends"]
