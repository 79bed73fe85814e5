"""Slow twins of the logging policies, written one row and one number at a time."""

from __future__ import annotations

import math


def dot(a, b):
    return math.fsum(p * q for p, q in zip(a, b, strict=True))


def unit_normal(rows, signs, eta=1.0):
    """One pass of importance-aware gradient descent, every weight 1; t grows by it just before the row's step."""
    w, t = [0.0] * len(rows[0]), 0.0
    for x, y in zip(rows, signs, strict=True):
        t += 1.0
        step = math.sqrt(eta / (eta + t))
        p = max(-1.0, min(1.0, dot(w, x)))
        s = dot(x, x)
        e = 1.0 * step * s
        along = step if e < 1e-12 else (1.0 - math.exp(-e)) / s
        w = [wj - along * 2.0 * (p - y) * xj for wj, xj in zip(w, x, strict=True)]
    length = math.sqrt(dot(w, w))
    return [wj / length for wj in w]


def median(values):
    ordered = sorted(values)
    n = len(ordered)
    return ordered[n // 2] if n % 2 else 0.5 * (ordered[n // 2 - 1] + ordered[n // 2])


def certainty(u, rows, floor=1e-5):
    """Q0 = clip(c·(u·x)²), c = 0.3/median(|u·x|)²."""
    c = 0.3 / median([abs(dot(u, x)) for x in rows]) ** 2
    return [max(floor, min(1.0, c * dot(u, x) ** 2)) for x in rows]


def uncertainty(u, rows, d, floor=1e-5):
    """Q0 = clip(1 − c·(u·x)²), c = 0.4/d²; the caller says which d, and checks that one row in six exceeds it."""
    return [max(floor, min(1.0, 1.0 - 0.4 / d**2 * dot(u, x) ** 2)) for x in rows]


def scorecard(features, weights, offset, rows, floor):
    out = []
    for x in rows:
        z = math.fsum(v * x[j] for j, v in zip(features, weights, strict=True)) - offset
        out.append(max(floor, 1.0 / (1.0 + math.exp(-z)) if z > -700 else 0.0))
    return out


def mix(z):
    """Return the splitmix64 finaliser with Python's integers."""
    z = (z + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def group(x, seed, groups):
    import struct

    total = 0
    for j, value in enumerate(x, start=1):
        if value != 0.0:
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            total += mix(bits ^ mix((j + mix(seed)) % 2**64))
    return mix(total % 2**64) % groups
