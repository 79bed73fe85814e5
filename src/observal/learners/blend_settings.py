"""Every constant of the blend, with its reason. They were settled on tables that no result in the docs is about."""

from __future__ import annotations

LEARNERS = ("linear", "additive", "kernel", "forest", "boosted")
"""Learners, one of each kind; every one of them is the best on some tables, and none on all."""

EXTRA_LEARNERS = ("catboost", "tabicl")
"""Learners by name that are used only where they are asked for; each is the name of its package."""

# -- the population
POPULATION_ROWS = 20_000
"""Rows from which ranks are read: more do not move a quantile by a hundredth of its share."""
POPULATION_NUMBERS = 20_000_000
"""Numbers that such a sample holds at most; with very many features it has fewer rows."""
TYPICAL_ROWS = 2000
"""Rows from whose distances to the boundary a linear fit reads the typical one."""
KNOTS = 128
"""Points of the map from a feature to normal scores, equally far apart in the scores: straight between them."""
KERNEL_LIMIT = 5.0
"""Standard deviations at which values are cut for the kernel: beyond, a row would be far from every other."""

# -- the kernel
LANDMARKS = 200
"""Rows of the population that the kernel compares with: 150 were as good, 600 worse with a few hundred labels."""
WIDTHS = (0.1, 0.3, 1.0, 3.0)
"""Kernel widths to choose from: γ times the number of features."""
KERNEL_RIDGES = tuple(10.0 ** (half / 2.0) for half in range(-4, 3))
"""Ridges to choose from, 0.01 to 10."""
RANK_LOST = 1e-6
"""Directions of the landmarks' kernel with less than this share of the largest eigenvalue are rounding."""
CONSTANT = 3.0
"""The column of the intercept: large, so that the ridge hardly shrinks it."""
LEAST_LEFT = 0.01
"""Floor for 1 − leverage where a row is left out: one that determines the fit alone is not moved to infinity."""

# -- the linear learner
LOGISTIC_RIDGES = tuple(10.0**power for power in range(-4, 1))
"""Ridges for two classes, to choose from."""
LINEAR_RIDGES = tuple(10.0 ** (half / 2.0) for half in range(-4, 7))
"""Ridges for more than two classes and for the additive learner, to choose from."""
SLOPES = tuple(10.0 ** (tenth / 10.0) for tenth in range(-15, 6))
"""Factors that turn margins into log odds, to choose from: fits near the boundary are too sure far from it."""

# -- the additive learner
BENDS = 7
"""Quantiles at which a feature's line may bend."""
LEAST_VALUES = 6
"""Distinct values that a feature needs to be curved: with fewer, a straight line says nearly as much."""
MOST_CURVED = 60
"""Features that are curved, the first ones: more columns would take more time than they are worth."""
CURVE = 2.0
"""The height of a bend's column, so that the ridge shrinks bends about as much as slopes."""

# -- the trees
TREES_PER_FOLD = 25
"""Trees of the forest in each fold: 100 in all."""
BOOSTED_ROUNDS = 100
"""Boosting rounds of each fit."""
BOOSTED = {"learning_rate": 0.05, "num_leaves": 15, "max_bin": 63, "min_data_in_leaf": 5, "lambda_l2": 1.0}
"""LightGBM's settings: slow steps and small trees for a few hundred labels; 63 bins take half the time of 255. Leaves of 20
rows, its default, are too coarse for few labels."""
CATEGORIES = {"min_data_per_group": 5, "cat_smooth": 2.0, "cat_l2": 10.0}
"""LightGBM's settings for categories: its defaults need 100 rows of a group of levels and 10 of a level, which few labels do not have. A
smoothing of 1 trusts single labels too much; with 5 and more, levels with fewer labels than that are lost."""
CATBOOST = {
    "iterations": 200,
    "learning_rate": 0.06,
    "depth": 5,
    "thread_count": 1,
    "verbose": False,
    "allow_writing_files": False,
}
"""CatBoost's settings: its defaults, but fewer and smaller trees; a thousand of depth 6 take five times as long."""
TABICL = {"n_estimators": 8, "n_jobs": 1, "random_state": 0}
"""TabICL's settings: its own number of passes, on one thread."""
SHORTLIST = 1000
"""Pool rows that learners slow to predict look at in a round: those with the smallest leads of the others, ten times as many as a large batch takes."""
SHARPNESSES = tuple(10.0 ** (step / 20.0) for step in range(-16, 11))
"""Powers that make the trees' chances as sure as they should be, to choose from."""

# -- the blend
LEAST_CHANCE = 1e-3
"""Floor for the chance that a learner gives a class: one sure mistake would cost it all its weight."""
DROPPED = 0.05
"""Weight below which a learner is left out: such learners take time and hardly change a decision (0.003 ± 0.004 points of error)."""
PRIOR_LABELS = 6.0
"""Strength of the prior towards equal weights, in labels: 3 to 12 were as good, 0 worse by 0.1 points in the first rounds."""
EM_STEPS = 100
"""Steps to the weights; the likelihood is concave in them."""
TUNING_ROWS = 2000
"""Labelled rows that settings are chosen on; the fits see all."""
