"""A campaign: labels bought over days and by several people, stored in a database."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from observal.checks import check_whole
from observal.errors import InvalidInput
from observal.exchange.label_tools import AGENT, DrawnRow, read_annotations
from observal.exchange.model_file import load_model, save_model
from observal.exchange.onnx_file import ONNX, write_onnx
from observal.exchange.scored_table import predict_codes
from observal.files import check_target
from observal.journal.campaign_tables import TableOptions, load_tables
from observal.journal.codec import encode_entry
from observal.journal.engine import Engine
from observal.journal.events import OBSERVAL
from observal.journal.history import Entry
from observal.journal.ledger import Ledger, Sample
from observal.journal.memory import MemoryJournal
from observal.journal.receipts import Batch, Check, Receipt
from observal.journal.replay import start_replay
from observal.journal.settings import ANYONE, GivenGoals, Settings, check_annotator, make_settings, versions
from observal.journal.sql.connection import StoreConnection
from observal.journal.sql.journal import SqlJournal, SqlTransaction
from observal.journal.sql.store import Store, create_store, open_store, refuse_existing
from observal.journal.sql.stored_problem import (
    Progress,
    add_rows,
    check_rows,
    find_near_rows,
    require_growable,
    write_more_rows,
    write_problem,
)
from observal.journal.status import Agreement, Status, agreement
from observal.methods import MethodLike
from observal.parquet import ExecutorLike
from observal.problem.data import LoggedData, Pool
from observal.problem.given import arrange
from observal.problem.goals import Looks
from observal.problem.labels import refuse_alike
from observal.problem.objectives import TOLERANCE
from observal.problem.problem import Problem
from observal.report.monitoring import Monitoring, NewTable, draw_rows, monitor
from observal.session import Labelling, Session
from observal.tables.load import Propensity

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

__all__ = [
    "ANYONE",
    "Agreement",
    "Batch",
    "Campaign",
    "Check",
    "Entry",
    "Receipt",
    "Status",
    "TableOptions",
    "agreement",
    "load_model",
]


class Campaign(Labelling[SqlTransaction]):
    """Labels bought over days and by several people, stored in an SQLite file or a PostgreSQL database.

    Make one with ``create`` (from tables) or ``create_from_arrays``, and open it later with ``open``.

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

    def __init__(self, store: Store, executor: ExecutorLike = None) -> None:
        super().__init__(Engine(SqlJournal(store), executor))
        self._store = store

    # -- beginning ----------------------------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        where: str | Path,
        logged: TableSource | Sequence[TableSource],
        pool: TableSource | None = None,
        *,
        label: str,
        propensity: Propensity = None,
        id: str | None = None,
        label_budget: int | None = None,
        tables: TableOptions | None = None,
        method: MethodLike = None,
        random_state: int = 0,
        overlap: int = 1,
        population: str | None = None,
        looks: Looks = "planned",
        tolerance: float | None = TOLERANCE,
        width: float | None = None,
        objective: str | Mapping[Any, float | str] = "error",
        budget_cost: float | None = None,
        replace: bool = False,
    ) -> Self:
        """Make a campaign from tables: files, or pandas, polars or pyarrow frames.

        Parameters
        ----------
        where : path or ``postgresql://`` address
            A file that does not exist yet, or an empty database.
        logged : table, or list of tables
            The log; several without recorded propensities are joined.
        pool : table, optional
            The rows you can ask about; without it, the log's rows that have no label.
        label, id : str
            The columns of labels and of ids; rows without ids are numbered.
        propensity : str, float or policy, optional
            Where the probabilities with which a system drew labels were recorded, as for ``observal.load``.
        tables : TableOptions, optional
            Which columns and classes to use, how the files are written, what people see, whether tables stay in place.
        label_budget, method, random_state, overlap, population, looks, tolerance, width, objective, budget_cost
            As for ``create_from_arrays``.
        replace : bool
            Replace a campaign file to which no answer was told yet; one with answers is never replaced.

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
        from observal.tables import TableRoles

        refuse_existing(where, replace)
        options = TableOptions() if tables is None else tables
        if options.progress:
            options.progress(0, 1, "reading")
        logs = list(logged) if isinstance(logged, list | tuple) else [logged]
        roles = TableRoles(
            label,
            None,
            id,
            options.cost,
            None if options.features is None else tuple(options.features),
            tuple(options.exclude),
            options.group,
            tuple(options.known_before),
            options.price,
        )
        loaded = load_tables(logs, pool, roles, propensity, options, population)
        goals = GivenGoals(loaded.population, looks, tolerance, width, objective)
        settings = make_settings(
            loaded.problem, method, goals, label_budget, random_state, overlap, budget_cost, loaded
        )
        return cls._make(where, loaded.problem, loaded.rows, settings, options.progress, options.executor, replace)

    @classmethod
    def create_from_arrays(
        cls,
        where: str | Path,
        logged: LoggedData,
        pool: Pool | None = None,
        *,
        label_budget: int | None = None,
        method: MethodLike = None,
        random_state: int = 0,
        overlap: int = 1,
        population: str | None = None,
        looks: Looks = "planned",
        tolerance: float | None = TOLERANCE,
        width: float | None = None,
        objective: str | Mapping[Any, float | str] = "error",
        budget_cost: float | None = None,
    ) -> Self:
        """Make a campaign from arrays.

        Parameters
        ----------
        where : path or ``postgresql://`` address
            A file that does not exist yet, or an empty database.
        logged, pool : LoggedData, Pool
            With dense features, all of them numbers.
        label_budget : int, optional
            How many labels may be bought; without it the method decides when to stop.
        method : Method, "auto" or "newton", optional
            How rows are chosen; ``AutoVC`` by default.
        random_state : int
            Seed of all random numbers.
        overlap : int
            How many annotators label each row; the majority decides.
        population, looks, tolerance, width, objective, budget_cost
            What intervals are about and when to stop, as for ``observal.Session``.
        """
        import pyarrow as pa

        logged, pool, population, _ = arrange(logged, pool, population)
        problem = Problem(logged, pool)
        if problem.in_parts:
            raise InvalidInput(
                "A campaign from arrays copies its rows, but these stay in Parquet; use Campaign.create(..., tables=TableOptions(in_place=True))."
            )
        problem.require_numbers("A campaign", "use Campaign.create, which encodes columns of any kind")
        goals = GivenGoals(population, looks, tolerance, width, objective)
        settings = make_settings(problem, method, goals, label_budget, random_state, overlap, budget_cost)
        columns = {} if pool.rows.is_sparse else dict(zip(settings.features, problem.pool.X.T, strict=True))
        return cls._make(where, problem, pa.table(columns), settings, None)

    @classmethod
    def _make(
        cls,
        where: str | Path,
        problem: Problem,
        rows: pa.Table | None,
        settings: Settings,
        progress: Progress,
        executor: ExecutorLike = None,
        replace: bool = False,
    ) -> Self:
        # Before anything is written, check that the settings can be stored and that the method accepts the data.
        encode_entry(settings.method)
        classes = tuple(
            value if isinstance(value, bool | int | float | str) else str(value) for value in settings.classes
        )
        refuse_alike(classes)
        start_replay(problem, settings)

        def fill(connection: StoreConnection) -> None:
            arrays = write_problem(connection, problem, rows, progress)
            stored = dataclasses.replace(settings, classes=classes, arrays=arrays)
            payload = {"settings": stored, "versions": versions(), "data": connection.data_digest()}
            SqlTransaction(connection).append(OBSERVAL, "created", payload)

        return cls(create_store(where, fill, replace), problem.pool.X.executor if problem.in_parts else executor)

    @classmethod
    def open(cls, where: str | Path, executor: ExecutorLike = None) -> Self:
        """Return the campaign at a path or ``postgresql://`` address.

        `executor` says what reads and computes on tables that stay in place: see ``observal.parquet.executor_of``.
        """
        return cls(open_store(where), executor)

    # -- asking and telling -------------------------------------------------------------------------------------

    def ask(self, n: int | None = None, annotator: str = ANYONE) -> Batch:
        """Return at most `n` open rows for an annotator; by default all that no other annotator holds.

        Rows that the annotator already holds come first, so asking again returns the same rows. With `overlap` 1 a row goes to
        one annotator only. The next round opens when all rows of this one are answered or skipped. An annotator who holds no row while
        others hold all open ones gets rows chosen ahead, by the model of the last closed round.
        """
        if n is not None:
            check_whole(n, "n", 1)
        self.engine.open_round(annotator)  # others can write while it fits
        with self.engine.writing() as transaction:
            return self._ask(transaction, n, annotator)

    def _ask(self, transaction: SqlTransaction, n: int | None, annotator: str) -> Batch:
        assignment = self.engine.ask(transaction, n, annotator)
        ledger = self.engine.ledger
        settings = ledger.settings
        rows, name = transaction.pool_rows(assignment.positions), settings.id
        rows = rows.select([column for column in rows.column_names if column not in {name, *settings.hidden_columns}])
        return Batch(
            ids=tuple(assignment.ids),
            round=max(assignment.rounds, default=len(ledger.plans)),
            query_probability=tuple(assignment.query_probability),
            reason=tuple(assignment.reason),
            rows=rows.add_column(0, name, [assignment.ids]),
            finished=bool(ledger.stopped),
            note=assignment.note,
            classes=settings.classes,
            rounds=tuple(assignment.rounds),
            label=settings.label,
            table_format=settings.format,
        )

    def tell_file(
        self,
        path: str | Path,
        annotator: str = ANYONE,
        correct: bool = False,
        text: str | bytes | None = None,
        *,
        sep: str | None = None,
        encoding: str | None = None,
        missing: Sequence[str] = (),
    ) -> Receipt:
        """Store the answers from a file, as a session does; files that Label Studio exported may have several annotators."""
        answers = read_annotations(path, text)
        if answers is not None:
            return self.tell_people(answers)
        return super().tell_file(path, annotator, correct, text, sep=sep, encoding=encoding, missing=missing)

    def drawn(self, annotator: str) -> list[DrawnRow]:
        """Return the open rows that no other annotator holds, for labelling in another tool, with what the model thinks of them.

        They are handed to `annotator`, the tool, so that others do not get them; ``release`` takes them back.
        """
        self.engine.open_round(annotator)  # others can write while it fits
        with self.engine.writing() as transaction:  # rows and model in one, so that no answer comes between them
            assignment = self.engine.ask(transaction, None, annotator)
            return self._describe_drawn(transaction, assignment.positions)

    def predicted(self, ids: Sequence[object]) -> list[DrawnRow]:
        """Return rows that were asked about with what the model thinks of them now; ids that were not asked about are left out."""
        with self.engine.reading() as transaction:
            positions = [self.engine.ledger.find(id_) for id_ in ids]
            return self._describe_drawn(transaction, [position for position in positions if position is not None])

    def _describe_drawn(self, transaction: SqlTransaction, positions: list[int]) -> list[DrawnRow]:
        if not positions:
            return []
        ledger, replay = self.engine.ledger, self.engine.replay(transaction)
        estimator = replay.round(replay.closed).estimator
        chances = estimator.predict_proba(replay.problem.pool.rows.take(np.array(positions)))
        hidden = {ledger.settings.id, *ledger.settings.hidden_columns}
        cells = [
            {name: value for name, value in row.items() if name not in hidden}
            for row in transaction.pool_rows(positions).to_pylist()
        ]
        order = {position: number for number, position in enumerate(ledger.ids, start=1)}
        columns = zip(*self.engine.describe_rows(positions, AGENT)[:6], cells, chances, strict=True)
        return [
            DrawnRow(
                id=str(id_),
                order=order[position],
                round=round_,
                query_probability=query_probability,
                reason=reason,
                cells=row,
                prediction=str(estimator.classes_[class_chances.argmax()]),
                score=float(class_chances.max()),
                model_round=replay.closed,
            )
            for position, id_, round_, _, query_probability, reason, row, class_chances in columns
        ]

    def extend(
        self,
        label_budget: int | None = None,
        actor: str = ANYONE,
        *,
        pool: object = None,
        propensity: str | float | None = None,
        budget_cost: float | None = None,
    ) -> None:
        """Raise the label budget, or add rows to the pool, or both.

        New rows can be asked about from the next round on. From then on intervals are about the pool with the new rows, even those of
        earlier rounds. Earlier questions, and the chances they were chosen with, stay as they were. Once the budget was raised, intervals
        hold at all rounds together, however many follow.

        Parameters
        ----------
        label_budget : int, optional
            How many labels may be bought in total.
        actor : str
            Who does it.
        pool : table or Pool, optional
            The new rows: a table with the pool's columns, or a ``Pool`` if the campaign was made from arrays.
        propensity : str or float, optional
            The column of a table's propensities, or one number for all its rows; by default where those of the pool came from.
        budget_cost : float, optional
            What all labels together may cost.

        Examples
        --------
        >>> import numpy as np, observal as ob, tempfile
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> logged = ob.LoggedData(X[:20], X[:20, 0] > -0.7, propensity=0.5)
        >>> path = tempfile.mkdtemp() + "/campaign.db"
        >>> campaign = ob.Campaign.create_from_arrays(path, logged, ob.Pool(X[20:40], 0.1), label_budget=20)
        >>> campaign.extend(30, pool=ob.Pool(X[40:], 0.1, ids=np.arange(20, 40)))
        >>> campaign.status().pool_rows, campaign.status().label_budget
        (40, 30)
        """
        if pool is None:
            if label_budget is None and budget_cost is None:
                raise InvalidInput("There is nothing to extend; give a label budget or rows for the pool.")
            if propensity is not None:
                raise InvalidInput(
                    "A propensity is for new rows of the pool, but there are none; give them, or leave it out."
                )
            return super().extend(label_budget, actor, budget_cost=budget_cost)
        check_annotator(actor, 1)
        require_growable(self.settings)

        def read_rows(reading: SqlTransaction) -> Callable[[SqlTransaction], dict[str, Any]]:
            ledger = self.engine.ledger
            problem = reading.problem(ledger.settings)
            more, rows = self._read_more_rows(reading, problem, pool, propensity)
            larger = add_rows(problem, more)
            near = find_near_rows(start_replay(larger, ledger.settings), ledger, len(problem.pool))

            def write_rows(writing: SqlTransaction) -> dict[str, Any]:
                arrays = write_more_rows(writing.connection, self.engine.ledger.settings.arrays, more, rows)
                payload = {"pool_rows": len(larger.pool), "added": len(more), "arrays": arrays}
                return {**payload, "near": near, "data": writing.connection.data_digest()}

            return write_rows

        return self.engine.add_rows(read_rows, label_budget, actor, budget_cost)

    def _read_more_rows(
        self, reading: SqlTransaction, problem: Problem, pool: object, propensity: str | float | None
    ) -> tuple[Pool, pa.Table]:
        """Return new rows for the pool, and as people see them."""
        import pyarrow as pa

        settings = self.engine.ledger.settings
        if settings.encoder is not None:
            from observal.tables import TableRoles
            from observal.tables.more_rows import read_more_rows

            source = settings.propensities
            if isinstance(propensity, str):
                source = dataclasses.replace(source, columns=(propensity,))
            elif propensity is not None:
                source = dataclasses.replace(source, columns=(), number=propensity)
            roles = TableRoles(
                settings.label, None, settings.id, settings.cost, group=settings.group, price=settings.price
            )
            raw = reading.pool_rows([])
            return read_more_rows(pool, roles, settings.encoder, source, problem, raw, settings.random_state)
        if not isinstance(pool, Pool) or pool.rows.is_sparse or pool.rows.in_files:
            raise InvalidInput(
                "The campaign was made from arrays, so its new rows must be a Pool with dense features in memory; give one (pool=)."
            )
        if propensity is not None:
            raise InvalidInput("A Pool has its own propensities, but another one was given; leave out propensity.")
        pool = problem.align(pool, list(settings.features) if settings.named else None, "The new pool")
        return pool, pa.table(dict(zip(settings.features, pool.X.T, strict=False)))

    # -- after the campaign -------------------------------------------------------------------------------------

    def open_table(self, path: str | Path) -> NewTable:
        """Return a table of new rows for ``monitor`` and ``draw_sample``."""
        settings = self.settings
        if settings.encoder is None:
            raise InvalidInput(
                "This campaign was made from arrays, which have no column names, so it cannot read a table; make it from tables."
            )
        return NewTable(path, settings.encoder, settings.id)

    def monitor(self, table: NewTable) -> Monitoring:
        """Return whether the rows of a new table look like log and pool, and how the model's predictions for both are spread."""
        with self._replaying() as replay:
            settings = self.engine.ledger.settings
            classifier = replay.estimator(replay.closed)
            return monitor(replay.problem, classifier, settings.features, table, settings.random_state)

    def draw_sample(self, table: NewTable, n: int = 30, annotator: str = ANYONE) -> pa.Table:
        """Draw rows of a new table at random to check the error, and return them, the id first.

        The journal keeps which rows were drawn and what the model predicts for them. Their answers, told with ``verify_file``, train
        nothing.
        """
        check_whole(n, "n", 1)
        classifier = self.estimator
        with self.engine.writing() as transaction:
            ledger = self.engine.ledger
            positions, rows = draw_rows(table, n, ledger.settings.random_state, len(ledger.samples))
            ids = table.ids(rows, positions)
            codes, _ = predict_codes(classifier, table.encoder.encode(rows))
            self.engine.sample(transaction, annotator, table.name, table.n_rows, ids, codes.tolist())
        hidden = {table.id, *ledger.settings.hidden_columns}
        return rows.select([name for name in rows.column_names if name not in hidden]).add_column(0, table.id, [ids])

    def verify_file(self, path: str | Path, annotator: str = ANYONE) -> Sample:
        """Store the answers in a file to rows that ``draw_sample`` drew; they train nothing, and replace earlier answers."""
        with self.engine.writing() as transaction:
            return self.engine.verify_file(transaction, path, annotator)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The rows that were drawn to check the error on new tables, with their answers."""
        with self.engine.reading():
            return tuple(self.engine.ledger.samples)

    def check(self) -> Check:
        """Read the whole campaign and compare it with its digests; raise NotACampaign if anything was changed."""
        engine = Engine(self.engine.journal)  # it follows the journal from its first entry
        with engine.reading() as transaction:
            connection = transaction.connection
            if problem := connection.structure_problem():
                raise connection.damaged(f"its database file was changed ({problem})")
            transaction.problem(engine.ledger.settings)
            check_rows(connection)
            chunks = connection.chunk_names()
            for name, chunk in chunks:
                connection.read_chunk(name, chunk)
            return Check(engine.ledger.sequence, len(chunks), engine.ledger.bought, engine.ledger.digest)

    def backup(self, path: str | Path, force: bool = False) -> None:
        """Copy the campaign to a file, with every answer so far, also while others use it; `force` is as for ``export``."""
        self._store.copy(Path(path), force)

    def session(self) -> Session:
        """Return a copy of the campaign as a session in memory; what is told to it is not stored in the campaign."""
        with self.engine.reading() as transaction:
            problem = transaction.problem(self.engine.ledger.settings)
            return Session.over(MemoryJournal(problem, transaction.events(Ledger())))

    def export(self, path: str | Path, force: bool = False) -> None:
        """Write the classifier, with the encoder for raw rows, to a file for ``load_model``, or to one that ends in ``.onnx``.

        An existing file is replaced only with `force`; a campaign is never replaced.
        """
        check_target(path, force)
        classifier, encoder = self.estimator, self.engine.ledger.settings.encoder
        if Path(path).suffix.lower() == ONNX:
            write_onnx(path, classifier, encoder, force)
        else:
            save_model(path, classifier, encoder, force)
