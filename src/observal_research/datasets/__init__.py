"""Worlds to try methods in: generated and real data, logging policies, and the split into log, pool and test."""

from observal_research.datasets.dataset import Dataset, Region
from observal_research.datasets.generators import make_bent, make_blind_spot, make_linear
from observal_research.datasets.loaders import SHIPPED, list_npz, load_npz, load_shipped
from observal_research.datasets.policies import (
    POLICIES,
    BlindSpot,
    Certainty,
    Identical,
    Policy,
    Scorecard,
    Uncertainty,
    Uniform,
    fit_policy,
)
from observal_research.datasets.splits import TableOracle, World, simulate

__all__ = [
    "POLICIES",
    "SHIPPED",
    "BlindSpot",
    "Certainty",
    "Dataset",
    "Identical",
    "Policy",
    "Region",
    "Scorecard",
    "TableOracle",
    "Uncertainty",
    "Uniform",
    "World",
    "fit_policy",
    "list_npz",
    "load_npz",
    "load_shipped",
    "make_bent",
    "make_blind_spot",
    "make_linear",
    "simulate",
]
