"""The progress of a session or campaign: its numbers, annotator agreement, and why there is no row to label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from shlex import quote
from typing import Any

import numpy as np

from observal.checks import Ints
from observal.journal.ledger import Ledger
from observal.journal.settings import ANYONE
from observal.problem.objectives import is_about_last, objective_words
from observal.problem.words import count, listed, money

CHOOSING = "Choosing the next rows…"


@dataclass(frozen=True)
class Agreement:
    """Agreement on the rows with at least two answers.

    Parameters
    ----------
    rows : int
        Rows with at least two answers.
    share : float
        The share of agreeing pairs of annotators, averaged over these rows.
    kappa : float, optional
        The same, corrected for chance; None if annotators would always agree by chance.
    kind : str
        ``"Cohen"`` for two annotators, ``"Fleiss"`` for more.
    """

    rows: int
    share: float
    kappa: float | None
    kind: str


@dataclass(frozen=True)
class Status:
    """The progress of a session or campaign.

    Parameters
    ----------
    n_logged, revealed, pool_rows : int
        Rows of the log, how many of them have a label, and rows of the pool.
    features : int
        The method's input columns.
    classes : tuple
        The label values, the positive one last.
    label_budget : int, optional
        How many labels may be bought.
    labels, skipped : int
        Rows with a label, and rows that were skipped.
    round, round_rows, open_rows : int
        The latest round, its number of rows, and how many of them are open; totals if several rounds are open.
    held : mapping
        Annotator → number of open rows they hold.
    answers : mapping
        Annotator → number of rows they labelled; skips do not count.
    overlap, corrections : int
        Annotators for each row, and answers that were corrected.
    agreement : Agreement, optional
        If annotators answered the same rows.
    stopped : str
        Why nothing is left to ask; empty if there may be more to ask.
    method : str
        The method, with its non-default settings.
    random_state : int
        Seed of all random numbers.
    intervals : str
        What intervals are about, and at which rounds they hold.
    notes : tuple of str
        How the data were read, and warnings.
    objective : str
        What the classifier is for; see ``observal.problem.objectives``.
    open_rounds : int
        How many rounds are open; more than one if rows were chosen ahead.
    counted_rows : int
        The number of rows that the intervals are about.
    spent, budget_cost : float, optional
        What the labels have cost so far, if the pool has prices, and what all may cost.
    group : str, optional
        The column of what related rows share.
    uncounted, waiting : int, str
        How many of the labels do not count yet, because a round is not closed, and why and what to do, in words.
    is_given : bool
        Whether nobody knows propensities; then the log has labelled rows only.
    """

    n_logged: int
    revealed: int
    pool_rows: int
    features: int
    classes: tuple[Any, ...]
    label_budget: int | None
    labels: int
    skipped: int
    round: int
    round_rows: int
    open_rows: int
    held: Mapping[str, int]
    answers: Mapping[str, int]
    overlap: int
    corrections: int
    agreement: Agreement | None
    stopped: str
    method: str
    random_state: int
    intervals: str
    notes: tuple[str, ...]
    objective: str = "error"
    open_rounds: int = 0
    counted_rows: int = 0
    spent: float | None = None
    budget_cost: float | None = None
    group: str | None = None
    uncounted: int = 0
    waiting: str = ""
    is_given: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; the log's rows are ``log_rows`` there."""
        values = {"log_rows" if name == "n_logged" else name: value for name, value in asdict(self).items()}
        return {**values, "held": dict(self.held), "answers": dict(self.answers)}

    def lines(self) -> list[tuple[str, str]]:
        """Return pairs of a name and a text, for people."""
        budget = f" of {self.label_budget}" if self.label_budget is not None else ""
        lines = [
            *self._rows(),
            ("classes", self._classes()),
            ("labels", f"{self.labels}{budget}"),
            *([("waiting", self.waiting)] if self.waiting else []),
        ]
        if cost := self.cost_words():
            lines.append(("cost", cost))
        if self.skipped:
            lines.append(("skipped", f"{self.skipped} rows"))
        if self.corrections:
            lines.append(("corrected", f"{self.corrections} answers"))
        n_answered = self.round_rows - self.open_rows
        rounds = str(self.round) if self.open_rounds < 2 else f"{self.round - self.open_rounds + 1} to {self.round}"
        lines.append(("round", f"{rounds}: {n_answered} of {self.round_rows} rows done" if self.round else "none yet"))
        if self.held:
            lines.append(("held", ", ".join(f"{name} {n}" for name, n in self.held.items())))
        if self.answers:
            lines.append(("answers", ", ".join(f"{name} {n}" for name, n in self.answers.items())))
        if self.overlap > 1:
            lines.append(("per row", f"{self.overlap} annotators, the majority decides"))
        if self.agreement:
            kappa = "not defined" if self.agreement.kappa is None else f"{self.agreement.kappa:.2f}"
            kind = f"{self.agreement.kind}'s kappa {kappa}"
            lines.append(("agreement", f"{self.agreement.share:.1%} on {self.agreement.rows} rows, {kind}"))
        lines.append(("state", f"finished: {self.stopped}" if self.stopped else "not finished"))
        lines.append(("method", f"{self.method}, seed {self.random_state}"))
        if self.objective != "error":
            lines.append(("objective", objective_words(self.objective, self.classes)))
        lines.append(("intervals", self.intervals))
        if groups := self.group_words():
            lines.append(("groups", groups))
        return lines

    def _rows(self) -> list[tuple[str, str]]:
        """Return the rows with and without a label; where given labels count, those without are simply the others."""
        if self.is_given and self.counted_rows > self.pool_rows:
            to_ask = f"{count(self.pool_rows, 'row')}, {count(self.features, 'feature')}"
            return [
                ("rows", f"{self.counted_rows:,}, {self.revealed:,} of them with a label"),
                ("to ask about", to_ask),
            ]
        log = ("log", f"{self.n_logged} rows, {self.revealed} with a label")
        return [log, ("pool", f"{self.pool_rows} rows, {self.features} features")]

    def group_words(self) -> str:
        """Return which rows are related, in words; empty if none are."""
        return "" if self.group is None else f"rows with the same {self.group!r} count as one in intervals"

    def cost_words(self) -> str:
        """Return what was spent and what is left, in words; empty if labels have no prices."""
        if self.spent is None:
            return ""
        on = f"spent on {count(self.labels, 'label')}"
        if self.budget_cost is None:
            return f"{money(self.spent)} {on}"
        left = f"{money(max(0.0, self.budget_cost - self.spent))} left"
        return f"{money(self.spent)} of {money(self.budget_cost)} {on}, {left}"

    def _classes(self) -> str:
        names = ", ".join(str(value) for value in self.classes)
        has_positive = is_about_last(self.objective, len(self.classes))
        return f"{names}; {self.classes[-1]} is the positive class" if has_positive else names


def round_rows(ledger: Ledger) -> int:
    """Return how many rows the open rounds ask about; those of the latest round if none is open."""
    return sum(int(plan.asked.size) for plan in ledger.plans[min(ledger.closed, len(ledger.plans) - 1) :])


def status_of(ledger: Ledger) -> Status:
    """Return the status."""
    settings = ledger.settings
    answers = Counter(name for row in ledger.responses.values() for name, code in row.items() if code is not None)
    uncounted = settings.goals.uncounted_words(settings.revealed if settings.is_given else 0)
    return Status(
        n_logged=settings.log_rows,
        revealed=settings.revealed,
        pool_rows=settings.pool_rows,
        features=len(settings.features),
        classes=settings.classes,
        label_budget=settings.label_budget,
        labels=ledger.bought,
        skipped=len(ledger.labels) - ledger.bought,
        round=len(ledger.plans),
        round_rows=round_rows(ledger),
        open_rounds=len(ledger.plans) - ledger.closed,
        open_rows=len(ledger.open_rows),
        held=dict(sorted(ledger.held().items())),
        answers=dict(sorted(answers.items())),
        overlap=ledger.overlap,
        corrections=ledger.corrections,
        agreement=agreement(ledger.responses.values(), len(settings.classes)),
        stopped=ledger.stopped,
        method=settings.method.summary(),
        random_state=settings.random_state,
        intervals=f"{settings.goals.words()}. {uncounted}".removesuffix(". "),
        is_given=settings.is_given,
        objective=settings.goals.objective,
        counted_rows=settings.goals.count_rows(settings.log_rows, settings.pool_rows),
        notes=settings.notes,
        spent=ledger.spent if ledger.prices or settings.price or settings.budget_cost is not None else None,
        budget_cost=settings.budget_cost,
        group=settings.group,
        uncounted=count_uncounted(ledger),
        waiting=why_waiting(ledger),
    )


def count_uncounted(ledger: Ledger) -> int:
    """Return how many labels the model and its intervals do not know yet, because a round is not closed."""
    closed = ledger.closed
    return sum(code is not None and ledger.round_of[row] > closed for row, code in ledger.labels.items())


def why_waiting(ledger: Ledger) -> str:
    """Return why labels do not count yet, and what to do; empty if all of them count. Status, report and page all say this."""
    rows, uncounted = ledger.open_rows, count_uncounted(ledger)
    if not uncounted:
        return ""
    rounds = [str(k) for k in sorted({ledger.round_of[row] for row in rows})]
    holders = sorted({name for row in rows for name in ledger.holders.get(row, ())} - {ANYONE})
    whose = f" ({_describe_holders(ledger, rows)})" if holders or ledger.overlap > 1 else ""
    if len(holders) == 1 and all(ledger.holders.get(row) == holders for row in rows):
        whose = f" that {holders[0]} holds"
    release = f"observal release --annotator {'NAME' if holders[1:] else quote(holders[0])}" if holders else ""
    return (
        f"{count(ledger.bought, 'label is', 'labels are')} stored; {uncounted:,} {'does' if uncounted == 1 else 'do'} not count yet, because "
        f"round{'s' * (len(rounds) > 1)} {listed(rounds)} wait{'s' * (len(rounds) == 1)} for {count(len(rows), 'row')}{whose}: "
        f"answer them{release and f', or let others have them with {release}'}."
    )


def why_nothing(ledger: Ledger, annotator: str) -> str:
    """Return why there is no row for an annotator, in words."""
    if ledger.stopped:
        return f"Nothing is left to ask: {ledger.stopped}."
    rows = len(ledger.open_rows)
    holders = _describe_holders(ledger, ledger.open_rows)
    sentence = f"There is no row for {annotator} now: of the {count(rows, 'open row')}, {holders}."
    if ledger.to_buy == 0:
        sentence += " They use up the label budget; raise it with observal extend."
    elif ledger.money_left == 0.0:
        sentence += " They use up the money for labels; raise it with observal extend --budget-cost."
    return sentence


def why_ahead(ledger: Ledger, round_: int) -> str:
    """Return why rows of a round were chosen ahead; empty if they were not, or if earlier rounds are closed now."""
    before = [row for row in ledger.open_rows if ledger.round_of[row] < round_]
    base = ledger.bases[round_ - 1]
    if base == round_ - 1 or not before:
        return ""
    return (
        f"These rows were chosen ahead by the model of round {base}, because earlier rows are still open: "
        f"{_describe_holders(ledger, before)}."
    )


def _describe_holders(ledger: Ledger, rows: Sequence[int]) -> str:
    counts = Counter(name for row in rows for name in ledger.holders.get(row, ()))
    parts = [f"{name} holds {n}" for name, n in sorted(counts.items())]
    nobody = {row for row in rows if not ledger.holders.get(row)}
    tied = nobody.intersection(ledger.tied_rows)
    if n := len(nobody) - len(tied):
        parts.append(f"{n} {'waits' if n == 1 else 'wait'} for another annotator")
    if n := len(tied):
        parts.append(f"{n} {'needs' if n == 1 else 'need'} a decision, because people disagree")
    return ", ".join(parts)


def agreement(responses: Collection[Mapping[str, int | None]], n_classes: int) -> Agreement | None:
    """Return the agreement of annotators, or None if no row has two answers.

    Parameters
    ----------
    responses : collection of mappings
        For each row, annotator → class code; None, a skip, does not count.
    n_classes : int
        The number of classes.

    Notes
    -----
    With n_ij answers of class j among the m_i of row i, the row's share is P_i = Σ_j n_ij(n_ij − 1) /
    (m_i(m_i − 1)). Fleiss: κ = (P̄ − P_e)/(1 − P_e) with P_e = Σ_j p_j² and p_j the share of class j in all
    answers; every row has the same weight, whatever its m_i. Cohen: P_e = Σ_j p_j·q_j with p and q the two
    annotators' own shares.

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
        p, q = (np.bincount(codes[:, k], minlength=n_classes) / len(codes) for k in (0, 1))
        chance = float(p @ q)
    else:
        shares = counts.sum(axis=0) / counts.sum()
        chance = float(shares @ shares)
    # A chance agreement of exactly 1 may be computed as slightly less.
    kappa = None if chance > 1.0 - 1e-12 else round((share - chance) / (1.0 - chance), 12)
    return Agreement(len(answered), share, kappa, "Cohen" if len(names) == 2 else "Fleiss")
