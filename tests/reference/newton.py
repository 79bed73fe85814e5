"""Slow twin of observal.learners.newton: the objective row by row as it is written, and a generic minimiser."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize


def loss(name, z):
    if name == "squared":
        return (1.0 - z) ** 2
    return math.log1p(math.exp(-z)) if z > 0 else -z + math.log1p(math.exp(z))


def objective(theta, X, signs, weights, *, counts, n_rows, name, regulariser, penalty, ridge, fit_intercept):
    """(1/N)·Σ s·a·φ + sqrt(λ/N·V̂) + ridge/2·|w|², one row at a time."""
    w, b = (theta[:-1], theta[-1]) if fit_intercept else (theta, 0.0)
    first = second = 0.0
    for x, y, a, s in zip(X, signs, weights, counts, strict=True):
        if a > 0:
            u = a * loss(name, y * (float(np.dot(x, w)) + b))
            first += s * u / n_rows
            second += s * u**2 / n_rows
    v = {None: 0.0, "second_moment": second, "variance": max(0.0, second - first**2)}[regulariser]
    return first + math.sqrt(penalty / n_rows * v) + ridge / 2 * float(np.dot(w, w))


def minimum(X, signs, weights, *, fit_intercept, **settings):
    """The least value that a generic minimiser finds from 0, without derivatives of ours."""
    size = X.shape[1] + fit_intercept

    def value(theta):
        return objective(theta, X, signs, weights, fit_intercept=fit_intercept, **settings)

    found = minimize(value, np.zeros(size), method="BFGS", options={"gtol": 1e-7})
    return minimize(value, found.x, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000}).fun
