"""NewtonVC as a pool query strategy of scikit-activeml."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from skactiveml.base import SingleAnnotatorPoolQueryStrategy
from skactiveml.utils import MISSING_LABEL, is_labeled, rand_argmax

from observal.checks import Bools, Floats, Ints
from observal.exchange.skactiveml.evidence import Evidence, method_of
from observal.methods.draw import passes_gate


class ObservalSampling(SingleAnnotatorPoolQueryStrategy):  # type: ignore[misc]
    """Query the rows whose class flips most easily, first where the old policy rarely looked.

    This is ``NewtonVC``, for data whose labels exist because an old policy
    chose where to look. It fits its own logistic regression on importance weights, so it needs no classifier.

    Parameters
    ----------
    explore_share : float, default=0.1
        The share of queries that are picked at random from the rows that pass the gate, so every row can be chosen.
    gate_share : float, default=0.5
        The share of queries that go to rows that pass the gate: rows of a kind that the old policy rarely labelled. 0 switches
        the gate off. A row passes if ``2·(labels queried + batch_size)`` exceeds the number of rows that the old policy looked at,
        times the row's propensity. While fewer rows than a batch would pass, all pass.
    tempering : "auto" or float, default="auto"
        Importance weights are raised to this power: 1 is the full correction, 0 none.
    ridge : "auto" or float, default="auto"
        The ridge of the logistic regression; "auto" chooses it by weighted cross-validation.
    features : {"linear", "splines", "fourier", "auto"}, default="linear"
        What the logistic regression sees.
    missing_label : scalar or string or np.nan or None, default=np.nan
        Value to represent a missing label.
    random_state : int or RandomState instance or None, default=None
        Controls the randomness of the strategy.

    Notes
    -----
    Each sample of a batch is the one with the highest utility, ties broken at random. The utility is ``1/(1 + gap)``, where gap
    is how much worse the fit must get before the row's class flips. For a share `gate_share` of the samples, 1 is added if a
    row passes the gate and its chance of flipping is above 5 %. For a share `explore_share`, the utility is 1 if a row passes
    the gate and 0 otherwise. Without labels of two classes, every row has the same gap. More than two classes are handled one
    against the rest.

    Examples
    --------
    >>> import numpy as np
    >>> from observal.exchange.skactiveml import ObservalSampling
    >>> X = np.linspace(-1.0, 1.0, 9)[:, None]
    >>> y = np.array([0, 0, 0, np.nan, np.nan, np.nan, 1, 1, 1])
    >>> strategy = ObservalSampling(explore_share=0.0, random_state=0)
    >>> indices, utilities = strategy.query(X, y, return_utilities=True)
    >>> indices.tolist(), utilities.shape
    ([4], (1, 9))
    """

    def __init__(
        self,
        explore_share: float = 0.1,
        gate_share: float = 0.5,
        tempering: float | str = "auto",
        ridge: float | str = "auto",
        features: str = "linear",
        missing_label: object = MISSING_LABEL,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(missing_label=missing_label, random_state=random_state)
        self.explore_share = explore_share
        self.gate_share = gate_share
        self.tempering = tempering
        self.ridge = ridge
        self.features = features

    def query(
        self,
        X: ArrayLike,
        y: ArrayLike,
        propensity: ArrayLike | None = None,
        queried_indices: ArrayLike | None = None,
        candidates: ArrayLike | None = None,
        batch_size: int = 1,
        return_utilities: bool = False,
    ) -> Ints | tuple[Ints, Floats]:
        """Return the candidates to query; the arguments are not changed.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            All samples, labelled or not.
        y : array-like of shape (n_samples,)
            Their labels, `missing_label` where not known.
        propensity : float or array-like of shape (n_samples,), default=None
            The chance that the old policy had of labelling each sample. It may be 0 where it did not. By default the share
            of labelled samples, for all: labels were given at random.
        queried_indices : array-like of int, default=None
            The labelled samples that were queried and not labelled by the old policy. None by default.
        candidates : None or array-like of shape (n_candidates,), dtype=int or \
                array-like of shape (n_candidates, n_features), default=None
            Samples that may be queried: all unlabelled ones, the ones at these indices, or these samples themselves. In the
            last case one propensity for each sample of `X` cannot be mapped to them, which is a MappingError.
        batch_size : int, default=1
            The number of samples to query; if there are fewer candidates, a warning is given.
        return_utilities : bool, default=False
            Whether to return the utilities too.

        Returns
        -------
        query_indices : numpy.ndarray of shape (batch_size,)
            Indices into `X`, or into `candidates` if these are samples.
        utilities : numpy.ndarray of shape (batch_size, n_samples) or (batch_size, n_candidates)
            The utilities used for each of the selected samples; NaN for samples that are not candidates or were selected
            earlier. Only if `return_utilities` is True.

        Examples
        --------
        >>> import numpy as np
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["no", "", "", "yes"])
        >>> strategy = ObservalSampling(explore_share=0.0, gate_share=1.0, missing_label="")
        >>> strategy.query(X, y, propensity=[0.9, 0.9, 0.1, 0.9]).tolist()
        [2]
        """
        samples, labels, candidates, batch_size, return_utilities = self._validate_data(
            X, y, candidates, batch_size, return_utilities, reset=True, check_X_dict={}
        )
        method = method_of(self)
        evidence = Evidence.of(samples, labels, is_labeled(labels, self.missing_label_), propensity, queried_indices)
        rows, mapping = self._transform_candidates(
            candidates, samples, labels, enforce_mapping=propensity is not None and np.ndim(propensity) > 0
        )
        chances = np.full(len(rows), evidence.propensity[0]) if mapping is None else evidence.propensity[mapping]
        choice = replace(method.choice, batch=max(1, batch_size))  # 0 if there is no candidate
        passing = passes_gate(chances, evidence.n_logged, int(evidence.queried.sum()), choice)
        gaps = evidence.gaps(method, rows) if batch_size else np.zeros(0)
        gated = passing & (gaps < method.uncertain_gap) if batch_size else passing  # without a batch there are no gaps
        batch, scores = choose_batch(
            gaps, passing, gated, batch_size, method.explore_share, method.gate_share, self.random_state_
        )
        if mapping is None:
            return (batch, scores) if return_utilities else batch
        indices: Ints = mapping[batch]
        if not return_utilities:
            return indices
        utilities = np.full((batch_size, len(samples)), np.nan)
        utilities[:, mapping] = scores
        return indices, utilities


def choose_batch(
    gaps: Floats,
    passing: Bools,
    gated: Bools,
    size: int,
    explore_share: float,
    gate_share: float,
    rng: np.random.RandomState,
) -> tuple[Ints, Floats]:
    """Return the rows of a batch, in the order they were chosen, and the utilities used for each choice.

    Random picks are made from the `passing` rows; the gate's share goes to the `gated` ones, which pass and are uncertain. Which
    samples are random picks, and which must pass the gate, is itself random, so the shares hold over many small batches as
    well as within a large one.

    Examples
    --------
    >>> import numpy as np
    >>> gaps, passing = np.array([0.0, 1.0, 3.0]), np.array([False, True, True])
    >>> batch, utilities = choose_batch(gaps, passing, passing, 2, 0.0, 1.0, np.random.RandomState(0))
    >>> batch.tolist(), utilities.tolist()
    ([1, 2], [[1.0, 1.5, 1.25], [1.0, nan, 1.25]])
    """
    at_random = rng.random(size) < explore_share
    for_gate = np.diff(np.floor(gate_share * np.arange(size + 1) + rng.random())) > 0.0
    first = np.zeros(gaps.size) if passing.all() else gated.astype(np.float64)
    batch = np.empty(size, dtype=np.int64)
    utilities = np.empty((size, gaps.size))
    for i in range(size):
        utilities[i] = passing if at_random[i] else 1.0 / (1.0 + gaps) + for_gate[i] * first
        utilities[i, batch[:i]] = np.nan
        batch[i] = rand_argmax(utilities[i], random_state=rng)[0]
    return batch, utilities
