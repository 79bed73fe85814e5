"""scikit-learn's own checks of an estimator."""

from __future__ import annotations

import json
import os
import subprocess
import sys

EXCUSED = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
"""Checks that a weight of two is a row given twice: not so where folds depend on the number of rows."""

# In a process of its own, because scikit-learn's array API check runs only where this variable is set before scipy starts.
CHECKS = """if True:
    import importlib, json, sys
    from sklearn.utils.estimator_checks import check_estimator
    module, name, settings, excused = json.loads(sys.argv[1])
    excused = dict.fromkeys(excused, "see tests/estimator_checks.py")
    reports = []
    for parameters in settings:
        parameters = {key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()}
        estimator = getattr(importlib.import_module(module), name)(**parameters)
        reports.append(check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=excused))
    told = [[[one["check_name"], one["status"], repr(one["exception"])] for one in report] for report in reports]
    print(json.dumps(told))"""


def failed_checks(module, name, *settings):
    """Return the checks that an estimator of ours does not pass, with the reason, for each of some settings."""
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS, json.dumps([module, name, settings, sorted(EXCUSED)])],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    reports = json.loads(process.stdout.strip().splitlines()[-1])
    assert len(reports) == len(settings)
    assert all(len(report) > 50 for report in reports)
    return [{name: why for name, status, why in report if status != "passed"} for report in reports]
