"""Rows as parts: Parquet row groups that are read when they are needed, and what computes on them.

``files.py`` finds the row groups, ``rows.py`` has :class:`Parts`, which is used like an array, ``vectors.py`` what is kept of each row,
``executors.py`` and ``cluster.py`` what computes, ``ranks.py`` exact order statistics that are merged from parts, ``memory.py`` gives memory
back once a part is done.
"""

from observal.parquet.executors import Executor, Processes, Serial, Threads, executor_of
from observal.parquet.parts import Parts, collect, map_blocks

__all__ = ["Executor", "Parts", "Processes", "Serial", "Threads", "collect", "executor_of", "map_blocks"]
