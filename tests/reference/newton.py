"""Slow twin of observal.learners.newton_fit: the objective row by row as it is written, and a generic minimiser."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression


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


def leverage(x, hessian):
    """x̃ᵀH⁻¹x̃ by solving for one row."""
    extended = np.append(x, 1.0)
    return float(extended @ np.linalg.solve(hessian, extended))


def with_half_rows(X, signs, weights):
    """The rows with half a row of each class in the origin, half of a mean weight each, and weights that add up to 1."""
    half = float(np.mean(weights)) / 2
    shares = np.append(weights, [half, half])
    return np.vstack([X, np.zeros((2, X.shape[1]))]), np.append(signs, [-1, 1]), shares / shares.sum()


def gap_without_row(row, theta, X, signs, weights, ridge, total):
    """The flip gap of a labelled row by a fit without it: one explicit Newton step from `theta` on the other rows.

    The other rows keep their share of the weights; the derivatives are summed row by row and the Hessian is inverted.
    """
    rows, labels, shares = with_half_rows(X, signs, weights)
    size = theta.size
    gradient, hessian = np.zeros(size), np.zeros((size, size))
    gradient[:-1] += ridge * theta[:-1]
    hessian[:-1, :-1] += ridge * np.eye(size - 1)
    for i, (x, y, c) in enumerate(zip(rows, labels, shares, strict=True)):
        if i == row:
            continue
        extended = np.append(x, 1.0)
        right = 1.0 / (1.0 + math.exp(-y * float(extended @ theta)))
        gradient -= c * (1.0 - right) * y * extended
        hessian += c * right * (1.0 - right) * np.outer(extended, extended)
    inverse = np.linalg.inv(hessian)
    extended = np.append(X[row], 1.0)
    margin = float(extended @ (theta - inverse @ gradient))
    return total * margin**2 / (2 * float(extended @ inverse @ extended))


def nearness(margin, typical):
    """1 on the boundary, ½ at the typical distance, falling off with the square."""
    return 1.0 if typical == 0.0 else typical**2 / (typical**2 + margin**2)


def near_boundary(X, signs, weights, ridge, population, fits=2):
    """(w, b) and weights after `fits` fits on weights times nearness to the fit before, each from scratch by scikit-learn."""

    def fit(current):
        rows, labels, shares = with_half_rows(X, signs, current)
        model = LogisticRegression(C=1.0 / ridge, tol=1e-10, max_iter=5000).fit(rows, labels, sample_weight=shares)
        return np.append(model.coef_[0], model.intercept_)

    theta, current = fit(weights), weights
    for _ in range(fits):
        squares = [float(np.append(x, 1.0) @ theta) ** 2 for x in population]
        typical = math.sqrt(sum(squares) / len(squares))
        margins = [float(np.append(x, 1.0) @ theta) for x in X]
        current = np.array([w * nearness(m, typical) for w, m in zip(weights, margins, strict=True)])
        theta = fit(current)
    return theta, current
