"""Statistics. Two layers: functions of plain arrays, and functions that take the tidy table and return one.

The table functions are importable from here: `estimates`, `contrasts`, `diagnostics`, `omnibus`, `interactions`,
`tiers`, and `interim` of a session that still runs; also `pilot.plan_from_pilot`, `stopping.look`,
`components.by_deployment` and `components.components`.

The array functions take trials on the last axis and any number of cells before it; paired ones take two arrays of one
shape, in which element i of both is the same block. No answer is NaN. Import them from their module:

>>> from infrabench.stats.omnibus import friedman
>>> friedman([[1.0, 2.0, 1.5], [1.1, 2.3, 1.6], [0.9, 1.9, 1.2]]).mean_ranks.tolist()
[2.0, 3.0, 1.0]

==================  ==============================================================================================
one sample          `intervals`: t_interval, log_t_interval (geometric mean), median_interval, median_ranks,
                    hodges_lehmann, wilson_interval; `bootstrap`: bootstrap_mean (percentile, basic, BCa),
                    bootstrap_t, bootstrap_quantile, bootstrap_spread
ratio to baseline   `ratios`: paired_fieller, fieller (Satterthwaite or n - 1), paired_log_ratio, delta_log_ratio;
                    `bootstrap`: bootstrap_ratio, bootstrap_quantile_ratio; `components`: hierarchical_ratio
two systems         `pairwise`: paired_t, welch_t; `exact`: signed_rank, sign_flip, mann_whitney; `intervals`:
                    hodges_lehmann_shift; `spreads`: pitman_morgan
several systems     `omnibus`: friedman (with Iman-Davenport), quade, welch_anova, kruskal, brown_forsythe, anova;
                    `pairwise`: games_howell, nemenyi, critical_distance, dunn; `interactions`: interaction
levels of a factor  `trend`: page, log_slope; `interactions`: interaction
equivalence         `equivalence`: tost_paired, tost_welch, tost_log_ratio
effect sizes        `effects`: cliffs_delta with cliffs_delta_interval (Newcombe), cohens_d, hedges_g
several tests       `adjust`: holm, benjamini_hochberg
diagnostics         `dependence`: autocorrelation, ljung_box, runs_test, kendall_trend, effective_n; `normality`:
                    shapiro, anderson_darling, skewness; `diagnostics`: modified_z; `bimodality`: split, bimodal;
                    `dip`: dip, dip_p; `resolution`: resolution_step
sites               `heterogeneity`: cochran_q, welch_homogeneity, between_variance, between_interval, share_between;
                    `summary`: summary (mean and prediction interval), hartung_knapp, deleted; `sites`: their tables
deployments         `components`: levels (variance components), repetitions, one_way
planning            `planning`: n_for_precision, n_for_difference, n_for_equivalence, detectable, t_power,
                    tost_power, equivalence_margin, blocks_to_decide, n_for_percentile; `pilot`: confirm
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
