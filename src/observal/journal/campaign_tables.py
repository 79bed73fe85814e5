"""From a user's tables to what a campaign stores: log and pool, the rows to display, and part of the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from observal.checks import Ints
from observal.errors import InvalidInput, hide_secrets, one_line
from observal.journal.settings import Display
from observal.parquet import ExecutorLike, Source
from observal.problem.given import Arranged, arrange
from observal.problem.labels import Label
from observal.problem.problem import Problem
from observal.tables import LoadedProblem, TableEncoder, TableRoles
from observal.tables.classes import Positive
from observal.tables.load import Propensity
from observal.tables.more_rows import PropensityOrigin
from observal.tables.table_format import TableFormat, reading_of

if TYPE_CHECKING:
    import pyarrow as pa

    from observal.tables.read import TableSource

MAX_INSTRUCTIONS = 50_000  # characters


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Less common options for making a campaign from tables.

    Parameters
    ----------
    features, exclude : sequence of str
        The columns to use, by default all that every table has; and columns hidden from the model and from
        annotators.
    cost : str, optional
        The column with the cost of a mistake on the row, in [0, 1].
    price : str, optional
        The pool's column with the cost of each row's label; not a feature.
    group : str, optional
        The column that related rows share, such as a customer, a household or a day; a group counts as one in
        intervals.
    known_before : sequence of str
        Columns known before the label is; they are never reported as leaks.
    classes : sequence, optional
        The label values, the negative one of two first; needed if the log does not show them all.
    positive : optional
        The class that precision and recall are about; by default the obvious or rarer one.
    propensity_floor : float, optional
        Smaller propensities are raised to this.
    sep, decimal, encoding, missing
        How the tables are written, as for ``observal.read_table``; detected by default.
    images, image_column : path, str, optional
        Images for the labelling page: a column of paths inside the folder `images` or, without a folder, of
        images in base64. The column is not a feature unless `features` names it.
    pixels : (int, int), optional
        Height and width of a picture whose pixels are columns of numbers, such as ``p0`` to ``p63``.
    instructions : path, optional
        A Markdown file with instructions for the labelling page.
    columns_help : path, optional
        A table that explains columns: names and descriptions, or the columns with one row of descriptions. A
        row of descriptions below the header of the pool's CSV or Excel file is recognised without it.
    in_place : bool, optional
        Whether the tables, which must be Parquet, stay where they are and need not fit into memory; the
        campaign then stores their propensities, labels and a checksum of each row group. By default for
        tables of 1 GB or more.
    executor : optional
        What reads and computes on tables in place; see ``observal.parquet.executor_of``.
    progress : callable, optional
        Called with (done, total, what) while tables are read and stored.

    Examples
    --------
    >>> import observal as ob
    >>> ob.TableOptions(positive="default", exclude=["name"], decimal=",").exclude
    ['name']
    """

    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    cost: str | None = None
    price: str | None = None
    group: str | None = None
    known_before: Sequence[str] = ()
    classes: Sequence[Label] | None = None
    positive: Positive = None
    propensity_floor: float | None = None
    sep: str | None = None
    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    images: str | Path | None = None
    image_column: str | None = None
    pixels: tuple[int, int] | None = None
    instructions: str | Path | None = None
    columns_help: str | Path | None = None
    in_place: bool | None = None
    executor: ExecutorLike = None
    progress: Callable[..., None] | None = None


class CampaignTables(NamedTuple):
    """Log and pool, the pool's rows for display (None if tables stay in place), and their part of the settings."""

    problem: Problem
    rows: pa.Table | None
    id: str
    label: str
    encoder: TableEncoder
    notes: tuple[str, ...]
    files: tuple[str, ...]
    propensities: PropensityOrigin
    cost: str | None
    group: str | None
    known_before: tuple[str, ...]
    excluded: tuple[str, ...]
    display: Display
    price: str | None
    population: str | None


def load_tables(
    logs: Sequence[TableSource],
    pool: TableSource | None,
    roles: TableRoles,
    propensity: Propensity,
    options: TableOptions,
    population: str | None,
) -> CampaignTables:
    """Read a campaign's tables, or leave them in place if they are large and allow it.

    `population` is what the user says the error is about; see ``observal.problem.given.arrange``.
    """
    from observal.tables.load_in_place import can_stay, is_large, load_in_place

    format_ = TableFormat(options.sep, options.decimal, options.encoding, tuple(options.missing))
    has_pictures = any((options.images, options.image_column, options.pixels))
    simple = not has_pictures and can_stay(logs, propensity, format_)
    if not (options.in_place or (options.in_place is None and simple and pool is not None and is_large([*logs, pool]))):
        return _copy(logs, pool, roles, propensity, options, format_, population)
    if not simple or pool is None or not isinstance(propensity, str):
        raise InvalidInput(
            "Tables that stay in place need one log with a propensity column and a pool, are used as they are in the files (without "
            "missing, --missing and the like), and cannot show images; leave out in_place (--in-place), or prepare such a log first."
        )
    loaded = load_in_place(
        cast(Source, logs[0]),  # rejected there unless it is Parquet
        cast(Source, pool),
        roles,
        executor=options.executor,
        propensity=propensity,
        classes=options.classes,
        positive=options.positive,
        propensity_floor=options.propensity_floor,
    )
    source = PropensityOrigin((propensity,), floor=options.propensity_floor)
    arranged = arrange(loaded.logged, loaded.pool, population)
    columns = arranged.pool.X.names
    roles = roles.within({*loaded.logged.X.names, *columns})
    return _describe(loaded, arranged, roles, [*logs, pool], source, columns, describe_rows(options, columns))


def _copy(
    logs: Sequence[TableSource],
    pool: TableSource | None,
    roles: TableRoles,
    propensity: Propensity,
    options: TableOptions,
    format_: TableFormat,
    population: str | None,
) -> CampaignTables:
    from observal.tables import load_problem
    from observal.tables.read import read_tables
    from observal.tables.table_format import without_reading

    sources = [*logs, *([] if pool is None else [pool])]
    tables = read_tables(sources, roles.id, roles.label, format_, options.classes)
    roles = roles.within({name for table in tables for name in table.column_names})
    display = _make_display(options, tables[-1])
    column = display.image_column
    unused = [column] if column and column not in (roles.features or ()) else []
    features = [table.drop_columns([name for name in unused if name in table.column_names]) for table in tables]
    loaded = load_problem(
        features if pool is None else features[:-1],
        None if pool is None else features[-1],
        roles,
        propensity=propensity,
        classes=options.classes,
        positive=options.positive,
        propensity_floor=options.propensity_floor,
    )
    arranged = arrange(loaded.logged, loaded.pool, population)
    rows = tables[-1] if arranged.rows is None else _pick_rows(tables, arranged.rows)
    number = 0.0 if loaded.logged.is_given else propensity
    source = PropensityOrigin(
        (propensity,) if isinstance(propensity, str) and propensity in rows.column_names else (),
        float(number) if isinstance(number, int | float) else None,
        floor=options.propensity_floor,
    )
    described = _describe(loaded, arranged, roles, sources, source, rows.column_names, display)
    return described._replace(rows=without_reading(rows))


def _pick_rows(tables: Sequence[pa.Table], rows: Ints) -> pa.Table:
    """Return some rows of tables stacked on each other, in the columns of the last."""
    import pyarrow as pa

    names = tables[-1].column_names
    parts = [table.select([name for name in names if name in table.column_names]) for table in tables]
    return pa.concat_tables(parts, promote_options="permissive").select(names).take(rows)


def describe_rows(options: TableOptions, columns: Sequence[str]) -> Display:
    """Return the instructions and column descriptions for annotators."""
    from observal.tables.column_help import read_column_help

    instructions = "" if options.instructions is None else read_instructions(options.instructions)
    return Display(
        instructions=instructions,
        column_help={} if options.columns_help is None else read_column_help(options.columns_help, columns),
    )


def read_instructions(path: str | Path) -> str:
    """Return the text of a Markdown file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"The instructions in {str(path)!r} cannot be read ({one_line(error, 100)}); give a text file in UTF-8."
        ) from None
    if len(text) > MAX_INSTRUCTIONS:
        raise InvalidInput(
            f"The instructions in {str(path)!r} have {len(text):,} characters, and {MAX_INSTRUCTIONS:,} is the most; shorten them."
        )
    return text


def _make_display(options: TableOptions, rows: pa.Table) -> Display:
    folder = None if options.images is None else str(Path(options.images).resolve())
    words = describe_rows(options, rows.column_names)
    display = replace(
        words,
        images=folder,
        image_column=options.image_column,
        pixels=options.pixels,
        column_help={**reading_of(rows).descriptions, **words.column_help},
    )
    if display.image_column is not None and display.image_column not in rows.column_names:
        raise InvalidInput(
            f"The pool has no column {display.image_column!r} for images, its columns are {rows.column_names}; choose one of these."
        )
    if display.folder is not None and not display.folder.is_dir():
        raise InvalidInput(
            f"The folder of images {display.folder} does not exist; give the folder that the paths start from."
        )
    return display


def _describe(
    loaded: LoadedProblem,
    arranged: Arranged,
    roles: TableRoles,
    tables: Sequence[TableSource],
    source: PropensityOrigin,
    columns: Sequence[str],
    display: Display,
) -> CampaignTables:
    """Return what a campaign's settings say about its tables."""
    from observal.diagnosis.quick_warnings import quick_warnings

    encoder = loaded.encoder
    dates = [rule.source for rule in encoder.rules if rule.kind in ("date", "duration")]
    problem = Problem(arranged.logged, arranged.pool)
    warnings = quick_warnings(
        loaded.logged, problem, encoder.names, encoder.sources, dates, roles.label, roles.known_before
    )
    return CampaignTables(
        problem,
        None,
        roles.id or ("id" if "id" not in columns else "row"),
        roles.label,
        encoder,
        (*warnings, *loaded.notes),
        tuple(source_name(table) for table in tables),
        source,
        roles.cost,
        roles.group,
        roles.known_before,
        roles.exclude,
        display,
        roles.price,
        arranged.population,
    )


def source_name(table: object) -> str:
    """Return a table's file name, without its folder; empty for a frame.

    Examples
    --------
    >>> source_name("data/logged.csv"), source_name(object())
    ('logged.csv', '')
    """
    return Path(hide_secrets(str(table))).name if isinstance(table, str | Path) else ""
