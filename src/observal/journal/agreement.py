"""How well annotators agree on the rows that several of them answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from observal.checks import Ints


@dataclass(frozen=True)
class Agreement:
    """Agreement on the rows with at least two answers.

    Parameters
    ----------
    rows : int
        Rows with at least two answers.
    share : float
        The mean over these rows of the share of pairs of annotators who agree.
    kappa : float, optional
        The same, corrected for chance; None if annotators would always agree by chance.
    kind : str
        ``"Cohen"`` for two annotators, ``"Fleiss"`` for more.
    """

    rows: int
    share: float
    kappa: float | None
    kind: str


def agreement(responses: Collection[Mapping[str, int | None]], n_classes: int) -> Agreement | None:
    """Return the agreement of annotators, or None if no row has two answers.

    Parameters
    ----------
    responses : collection of mappings
        For each row, annotator → class code; None is a skip and does not count.
    n_classes : int
        How many classes there are.

    Notes
    -----
    With n_ij answers of class j among the m_i of row i, the row's share is P_i = Σ_j n_ij(n_ij − 1) / (m_i(m_i − 1)).
    Fleiss: κ = (P̄ − P_e)/(1 − P_e) with P_e = Σ_j p_j² and p_j the share of class j in all answers; every row has the
    same weight, whatever its m_i. Cohen: P_e = Σ_j p_j·q_j with p and q the two annotators' own shares.

    Examples
    --------
    >>> agreement([{"ann": 1, "bob": 1}, {"ann": 0, "bob": 0}, {"ann": 1, "bob": 0}, {"ann": 1}], n_classes=2)
    Agreement(rows=3, share=0.6666666666666666, kappa=0.4, kind='Cohen')
    """
    answered = [{name: code for name, code in row.items() if code is not None} for row in responses]
    answered = [row for row in answered if len(row) > 1]
    if not answered:
        return None
    counts: Ints = np.array([np.bincount(list(row.values()), minlength=n_classes) for row in answered], dtype=np.int64)
    size = counts.sum(axis=1)
    share = float(((counts * (counts - 1)).sum(axis=1) / (size * (size - 1))).mean())
    names = sorted({name for row in answered for name in row})
    if len(names) == 2:
        codes = np.array([[row[name] for name in names] for row in answered])
        one, other = (np.bincount(codes[:, k], minlength=n_classes) / len(codes) for k in (0, 1))
        chance = float(one @ other)
    else:
        shares = counts.sum(axis=0) / counts.sum()
        chance = float(shares @ shares)
    # A chance of exactly 1 may be computed as slightly less.
    kappa = None if chance > 1.0 - 1e-12 else round((share - chance) / (1.0 - chance), 12)
    return Agreement(len(answered), share, kappa, "Cohen" if len(names) == 2 else "Fleiss")
