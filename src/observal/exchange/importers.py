"""Logs that users already have: Open Bandit Pipeline's dictionary, Vowpal Wabbit's contextual-bandit text, LIBSVM.

A bandit log has actions and rewards where observal has labels that were revealed or not. The reading here: choose one
action. The label is "the reward when that action is taken", and it was revealed exactly where the action was taken. A
propensity is the chance that a row's label was revealed: here, the chance of that action at that row.
"""

from observal.exchange.imported_log import ImportedLog
from observal.exchange.libsvm import from_libsvm
from observal.exchange.open_bandit import from_obp
from observal.exchange.vowpal_wabbit import from_vw_cb

__all__ = ["ImportedLog", "from_libsvm", "from_obp", "from_vw_cb"]
