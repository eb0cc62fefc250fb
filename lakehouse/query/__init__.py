"""The tables without a JVM: DuckDB with its Delta extension, times in UTC.

``queries`` runs SQL, and ``reading`` gives the rows of one table to Python. Two barriers make SQL read-only: only one
statement that reads is accepted, and DuckDB itself may only open files under the root of the tables. ``connections``
opens DuckDB, which Ctrl-C interrupts, and explains its errors. This package starts nothing and writes nothing.
"""

from lakehouse.query.queries import Result, RunningQuery, open_query, query, table_names

__all__ = ["Result", "RunningQuery", "open_query", "query", "table_names"]
