"""A campaign: a session that lives in a database, for days, machines and several people.

Every method that changes something is one transaction; what it returns is on disk when it returns. The database's
journal is the truth. A campaign object keeps only what it has read of it, and reads on before it does anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from observal.campaign.answers import WrittenAnswer, read_answers, written
from observal.campaign.contents import ROWS, Progress, read_problem, write_problem
from observal.campaign.encoding import decode_method, encode
from observal.campaign.history import entries
from observal.campaign.ledger import Ledger
from observal.campaign.pieces import read_rows, read_whole_table
from observal.campaign.results import Batch, Check, Entry, Receipt, Status
from observal.campaign.settings import campaign_settings, check_annotator, check_whole, observal_version
from observal.campaign.standing import make_batch, status_of
from observal.campaign.store import Store, Transaction, create_store, damaged, open_store, refuse_existing
from observal.campaign.telling import judge
from observal.methods import Method
from observal.session import Session
from observal.types import LoggedData, Pool, Problem, RunResult
from observal.writing import check_target

ANYONE = "anyone"
OBSERVAL = "observal"


class Campaign:
    """Labels bought over days, by several people, without losing one.

    Make one with :meth:`create` (tables) or :meth:`create_from_arrays`, and come back to it with :meth:`open`. It is an
    SQLite file, or a PostgreSQL database where a team shares one.

    Examples
    --------
    >>> import numpy as np, observal as ob, tempfile
    >>> from observal.campaign import Campaign
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "good", "bad")
    >>> shown = rng.random(200) < 0.4
    >>> logged = ob.LoggedData(X[:200], np.where(shown, y[:200], None), propensity=0.4)
    >>> path = tempfile.mkdtemp() + "/campaign.db"
    >>> campaign = Campaign.create_from_arrays(path, logged, ob.Pool(X[200:], propensity=0.4), label_budget=20)
    >>> while batch := campaign.ask(5):
    ...     receipt = campaign.tell(batch.ids, [y[200 + i] for i in batch.ids])
    >>> Campaign.open(path).status().labels
    20
    >>> campaign.result().estimator.score(X, y) > 0.9
    True
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ledger = Ledger()

    # -- beginning ----------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        where: str | Path,
        logged: Any,
        pool: Any,
        *,
        label: str,
        propensity: Any = None,
        id: str | None = None,
        label_budget: int | None = None,
        features: Sequence[str] | None = None,
        classes: Sequence[Any] | None = None,
        cost: str | None = None,
        floor: float | None = None,
        kept_only_labelled: bool = False,
        log_rows: int | None = None,
        method: Method | None = None,
        seed: int = 0,
        overlap: int = 1,
        progress: Progress = None,
    ) -> Self:
        """Make a campaign from tables: files, or pandas, polars or pyarrow frames.

        Parameters
        ----------
        where : path or ``postgresql://`` address
            Nothing may be there yet.
        logged : table, or list of tables
            What the old policy saw; several logs are one campaign.
        pool : table
            The rows that can be asked about.
        label, propensity, id, features, classes, cost, floor, kept_only_labelled
            As for :func:`observal.tables.load_problem`; `propensity` is a column, ``"estimate"`` and so on.
        log_rows : int, optional
            The number of rows behind a log that kept only its labelled ones.
        label_budget, method, seed, overlap
            As for :meth:`create_from_arrays`.
        progress : callable, optional
            Called with (done, total, what).

        Examples
        --------
        >>> import pandas as pd, tempfile
        >>> from observal.campaign import Campaign
        >>> log = pd.DataFrame({"id": [1, 2, 3], "age": [30, 40, 50], "bad": [0, None, 1], "q0": [0.5, 0.1, 1.0]})
        >>> pool = pd.DataFrame({"id": [7, 8], "age": [35, 45], "q0": [0.2, 0.8]})
        >>> path = tempfile.mkdtemp() + "/campaign.db"
        >>> campaign = Campaign.create(path, log, pool, label="bad", propensity="q0", id="id", label_budget=2)
        >>> sorted(campaign.ask(2).ids)
        [7, 8]
        """
        from observal.tables import TableRoles, load_problem, read_table

        refuse_existing(where)
        if progress:
            progress(0, 1, "reading")
        logs = list(logged) if isinstance(logged, list | tuple) else [logged]
        roles = TableRoles(label, None, id, cost, None if features is None else tuple(features))
        rows = read_table(pool, id)
        loaded = load_problem(
            [read_table(log, id) for log in logs],
            rows,
            roles,
            propensity=propensity,
            classes=classes,
            propensity_floor=floor,
            kept_only_labelled=kept_only_labelled,
            n_logged_rows=log_rows,
            random_state=seed,
        )
        about = {
            "id": id or ("id" if "id" not in rows.column_names else "row"),
            "label": label,
            "features": list(loaded.encoder.names),
            "encoder": loaded.encoder.to_dict(),
            "notes": list(loaded.notes),
        }
        return cls._make(where, loaded.logged, loaded.pool, rows, about, label_budget, method, seed, overlap, progress)

    @classmethod
    def create_from_arrays(
        cls,
        where: str | Path,
        logged: LoggedData,
        pool: Pool,
        *,
        label_budget: int | None = None,
        method: Method | None = None,
        seed: int = 0,
        overlap: int = 1,
    ) -> Self:
        """Make a campaign from records in memory.

        Parameters
        ----------
        where : path or ``postgresql://`` address
            Nothing may be there yet.
        logged, pool : LoggedData, Pool
            With dense features.
        label_budget : int, optional
            The most rows to have labelled; without one the method decides.
        method : Method, optional
            How rows are chosen; :class:`~observal.NewtonVC` by default.
        seed : int
            Of everything random.
        overlap : int
            How many annotators each row goes to; the majority decides.
        """
        import pyarrow as pa

        Problem(logged, pool)
        names = [f"x{k}" for k in range(pool.X.shape[1])]
        rows = None if hasattr(pool.X, "tocsr") else pa.table(dict(zip(names, pool.X.T, strict=True)))
        about = {"id": "id", "label": "label", "features": names, "encoder": None, "notes": []}
        return cls._make(where, logged, pool, rows, about, label_budget, method, seed, overlap, None)

    @classmethod
    def _make(
        cls,
        where: str | Path,
        logged: LoggedData,
        pool: Pool,
        rows: Any,
        about: dict[str, Any],
        label_budget: int | None,
        method: Method | None,
        seed: int,
        overlap: int,
        progress: Progress,
    ) -> Self:
        settings = campaign_settings(logged, pool, about, label_budget, method, seed, overlap)

        def fill(transaction: Transaction) -> None:
            arrays = write_problem(transaction, logged, pool, rows, progress)
            transaction.append(OBSERVAL, "created", {**settings, "arrays": arrays, "data": transaction.data_digest()})

        return cls(create_store(where, fill))

    @classmethod
    def open(cls, where: str | Path) -> Self:
        """Return the campaign at a path or ``postgresql://`` address, of this or an older version."""
        return cls(open_store(where))

    # -- asking and telling -------------------------------------------------------------------------------------

    def ask(self, n: int | None = None, annotator: str = ANYONE) -> Batch:
        """Return at most `n` open rows for an annotator, all that are free by default.

        Rows that the annotator has come first, so asking again returns the same. A row is handed to no one else, unless
        the campaign wants several annotators for each. The next round opens when all rows of this one are settled.
        """
        if n is not None:
            check_whole("n", n, 1)
        with self._writing() as transaction:
            ledger = self._ledger
            check_annotator(annotator, ledger.overlap, ANYONE)
            if not ledger.stopped and not ledger.open_rows:
                self._open_round(transaction)
            rows = ledger.held_by(annotator)
            more = ledger.free_for(annotator)[: None if n is None else max(0, n - len(rows))]
            if more:
                transaction.append(annotator, "asked", {"rows": more})
                self._follow(transaction)
            return make_batch(transaction, ledger, ledger.held_by(annotator)[:n], annotator)

    def tell(
        self, ids: Iterable[Any], labels: Iterable[Any], annotator: str = ANYONE, correct: bool = False
    ) -> Receipt:
        """Store answers; all of them or, if one is refused, none.

        Parameters
        ----------
        ids : iterable
            Of rows that were asked for, in any order and of any round.
        labels : iterable
            One of the classes each, also as text; None, NaN or ``"skip"`` skips the row, and a label told later takes a
            skip's place. ``""`` is no answer yet: the row stays open.
        annotator : str
            Who answers.
        correct : bool
            Let another answer take the place of one that is there. The old one stays in the journal.
        """
        return self._tell(written(ids, labels), annotator, correct)

    def tell_file(
        self, path: str | Path, annotator: str = ANYONE, correct: bool = False, text: str | bytes | None = None
    ) -> Receipt:
        """Store the answers of a CSV or JSON file, as :meth:`tell` does; `text` is its content where there is no file.

        In a file only the word ``skip`` skips a row. A blank label, or JSON's null, is no answer yet: the row stays open.
        """
        settings = self._read().settings
        answers, blank = read_answers(path, settings["id"], settings["label"], text)
        receipt = self._tell(answers, annotator, correct)
        return replace(receipt, blank=receipt.blank + blank)

    def release(self, annotator: str) -> int:
        """Take back the open rows that an annotator has, so that others can have them; return how many."""
        with self._writing() as transaction:
            rows = self._ledger.held_by(annotator)
            if rows:
                transaction.append(OBSERVAL, "released", {"annotator": annotator, "rows": rows})
            return len(rows)

    # -- reading ------------------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return where the campaign stands; nothing is fitted for it."""
        return status_of(self._read())

    def check(self) -> Check:
        """Read all of the campaign and compare it with its digests; raise NotACampaign where something was changed."""
        with self._store.reading() as transaction:
            self._ledger = Ledger()
            ledger = self._follow(transaction)
            if problem := transaction.structure_problem():
                raise damaged(self._store.name, f"its database file was changed ({problem})")
            read_problem(transaction, ledger.settings["arrays"], ledger.settings["classes"])
            chunks = transaction.chunk_names()
            for name, chunk in chunks:
                transaction.read_chunk(name, chunk)
            read_whole_table(transaction, ROWS)
            return Check(ledger.sequence, len(chunks), ledger.bought, ledger.digest)

    def history(self) -> list[Entry]:
        """Return the journal in words, the first event first."""
        with self._store.reading() as transaction:
            ledger = self._follow(transaction)
            return entries(transaction.events(), ledger)

    @property
    def settings(self) -> dict[str, Any]:
        """What the campaign was made with: the payload of the journal's first event."""
        return dict(self._read().settings)

    def session(self) -> Session:
        """Return the campaign as a session in memory, which is not connected with it: telling it stores nothing here."""
        with self._store.reading() as transaction:
            return self._session(transaction, with_ids=True)

    def result(self) -> RunResult:
        """Return what is known now: classifier, rounds, decisions and the interval around the error."""
        result = self.session().result()
        return replace(result, stopped=self._ledger.stopped or result.stopped)

    def export(self, path: str | Path, force: bool = False) -> None:
        """Write the classifier, with what turns raw rows into numbers, to a file for :func:`load_model`.

        A file that is there is replaced only with `force`, and a campaign never.
        """
        from observal.campaign.model import save_model

        check_target(path, force)
        save_model(path, self.session().estimator, self._ledger.settings["encoder"], force)

    # -- machinery ----------------------------------------------------------------------------------------------

    def _follow(self, transaction: Transaction) -> Ledger:
        """Read on in the journal."""
        try:
            self._ledger.follow(transaction.events(self._ledger.sequence, self._ledger.digest))
            if self._ledger.data_digest != transaction.data_digest():
                raise damaged(self._store.name, "chunks of its data were changed, added or removed")
        except BaseException:
            self._ledger = Ledger()  # it may have followed some of the events
            raise
        return self._ledger

    def _read(self) -> Ledger:
        with self._store.reading() as transaction:
            return self._follow(transaction)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        try:
            with self._store.writing() as transaction:
                self._follow(transaction)
                yield transaction
        except BaseException:
            self._ledger = Ledger()  # it may have followed events that were then not stored
            raise

    def _session(self, transaction: Transaction, with_ids: bool) -> Session:
        settings = self._follow(transaction).settings
        logged, pool = read_problem(transaction, settings["arrays"], settings["classes"], with_ids)
        method, budget, seed = decode_method(settings["method"]), settings["label_budget"], settings["seed"]
        return Session.restore(logged, pool, method, budget, seed, self._ledger.plans, self._ledger.labels)

    def _open_round(self, transaction: Transaction) -> None:
        """Record what the method decides next: a round, or that nothing is left to ask."""
        known = len(self._ledger.plans)
        session = self._session(transaction, with_ids=False)
        query = session.ask()
        for number, plan in enumerate(session.plans[known:], start=known + 1):
            ids = read_rows(transaction, "pool.ids", plan.asked.tolist()).column("id").to_pylist()
            payload = {"round": number, "ids": ids, "plan": encode(plan), "observal": observal_version()}
            transaction.append(OBSERVAL, "round", payload)
        if query is None:
            transaction.append(OBSERVAL, "finished", {"reason": session.stopped})
        self._follow(transaction)

    def _tell(self, answers: list[WrittenAnswer], annotator: str, correct: bool) -> Receipt:
        with self._writing() as transaction:
            check_annotator(annotator, self._ledger.overlap, ANYONE)
            changes = judge(answers, self._ledger, annotator, correct)
            if changes.new:
                transaction.append(annotator, "answered", {"answers": changes.new})
            if changes.corrected:
                transaction.append(annotator, "corrected", {"answers": changes.corrected})
        skips = sum(code is None for _, code in changes.new)
        return Receipt(len(changes.new) - skips, skips, len(changes.corrected), changes.unchanged, changes.blank)
