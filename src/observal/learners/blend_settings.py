"""Every constant of the blend, with its reason. They were chosen on tables that no published result uses."""

from __future__ import annotations

LEARNERS = ("linear", "additive", "kernel", "forest", "boosted")
"""One learner of each kind; each is the best on some tables, and none on all."""

# -- the population
POPULATION_ROWS = 20_000
"""Rows used to estimate ranks: more do not move a quantile by a hundredth of its share."""
POPULATION_NUMBERS = 20_000_000
"""The most numbers that this sample may hold; with very many features it has fewer rows."""
TYPICAL_ROWS = 2000
"""Rows used to estimate the typical distance from a linear fit's boundary."""
SCORE_KNOTS = 128
"""Knots of the piecewise linear map from a feature to normal scores, equally spaced in the scores."""
KERNEL_LIMIT = 5.0
"""Standard deviations at which the kernel clips values: beyond, a row would be far from every other."""

# -- the kernel
LANDMARKS = 200
"""Landmarks of the kernel: 150 were as good, 600 worse with a few hundred labels."""
WIDTHS = (0.1, 0.3, 1.0, 3.0)
"""Candidate kernel widths: γ times the number of features."""
KERNEL_RIDGES = tuple(10.0 ** (half / 2.0) for half in range(-4, 3))
"""Candidate ridges, 0.01 to 10."""
MIN_EIGENVALUE_SHARE = 1e-6
"""Eigenvalues of the landmarks' kernel below this share of the largest are rounding errors."""
CONSTANT = 3.0
"""The intercept column: large, so that the ridge hardly shrinks it."""
MIN_REMAINDER = 0.01
"""Floor for 1 − leverage when a row is left out: a row that alone determines the fit must not move to infinity."""

# -- the linear learner
LOGISTIC_RIDGES = tuple(10.0**power for power in range(-4, 1))
"""Candidate ridges for two classes."""
LINEAR_RIDGES = tuple(10.0 ** (half / 2.0) for half in range(-4, 7))
"""Candidate ridges for more than two classes and for the additive learner."""
SLOPES = tuple(10.0 ** (tenth / 10.0) for tenth in range(-15, 6))
"""Candidate factors from margins to log-odds: fits near the boundary are overconfident far from it."""

# -- the additive learner
CURVE_KNOTS = 7
"""Quantiles used as knots for a feature's piecewise linear curve."""
MIN_VALUES = 6
"""Distinct values a feature needs for a curve: with fewer, a straight line does nearly as well."""
MAX_CURVED = 60
"""The most features that get a curve, the first ones: more would cost more time than they are worth."""
KNOT_SCALE = 2.0
"""Scale of a knot's column, so that the ridge shrinks knots about as much as slopes."""

# -- the trees
TREES_PER_FOLD = 25
"""Forest trees per fold: 100 in all."""
BOOSTED_ROUNDS = 100
"""Boosting rounds per fit."""
BOOSTED = {"learning_rate": 0.05, "num_leaves": 15, "max_bin": 63, "min_data_in_leaf": 5, "lambda_l2": 1.0}
"""LightGBM's settings: slow steps and small trees for a few hundred labels; 63 bins take half the time of 255.
Leaves of 20 rows, its default, are too coarse for few labels."""
CATEGORIES = {"min_data_per_group": 5, "cat_smooth": 2.0, "cat_l2": 10.0}
"""LightGBM's settings for categories: its defaults need 100 rows per group of levels and 10 per level, more than
few labels offer. A smoothing of 1 trusts single labels too much; 5 or more loses levels with fewer labels than
that."""
SHARPNESSES = tuple(10.0 ** (step / 20.0) for step in range(-16, 11))
"""Candidate exponents that calibrate the trees' confidence."""

# -- the blend
MIN_CHANCE = 1e-3
"""Floor for a learner's class probabilities: one confident mistake would cost it all its weight."""
MIN_WEIGHT = 0.05
"""Weight below which a learner is dropped: it takes time and hardly changes a decision (0.003 ± 0.004 points of
error)."""
PRIOR_LABELS = 6.0
"""Strength of the prior towards equal weights, in labels: 3 to 12 were as good, 0 was worse by 0.1 points in the
first rounds."""
EM_STEPS = 100
"""EM steps to the weights; the likelihood is concave in them."""
TUNING_ROWS = 2000
"""Labelled rows used for tuning; the fits use all."""
