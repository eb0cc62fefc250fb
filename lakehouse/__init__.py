"""Kafka topics, merged exactly once into Delta tables.

The flow, package by package::

    declaration   what you write: columns, key, order
    kafka         bounded ranges of a topic           -> records (bytes and position)
    sources       topics, or files, as ranges of records
    decoding      the bytes of a record               -> a typed row, or a reason to reject it
    ingest        a batch of rows                     -> one fenced commit
    storage       one Delta table: its layout, its schema changes, its two writers
    ledger        what the log of a table records: progress, counts, restores
    derived       changes of the merged table         -> change feed and rollups
    exports       rows, or what changed               -> files, once by a manifest
    sinks         what changed   -> a database or a topic, with the version in one transaction
    operations    maintenance, repair, status, checks
    catalogs      where a table is, and its columns -> a catalog, by its name

``discovery`` finds the declared tables, ``examples`` contains examples, ``query`` reads tables and runs SQL. ``serve``
answers requests over HTTP, ``cli`` is the command line, ``defs`` (through ``definitions``) is for Dagster, ``spark``
has the session, ``local`` the stack on one machine.

The names in ``__all__`` are public and stable; everything else may change: the classes of ``declaration``, and a few
others. Importing this package imports nothing else: each name is looked up at its first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse import declaration
    from lakehouse.declaration import *  # noqa: F403 - its names are those of its __all__
    from lakehouse.decoding.formats import writer_schema
    from lakehouse.defs.build import LakehouseTables, build_defs
    from lakehouse.defs.resources import LakehouseResource
    from lakehouse.discovery import declared_tables
    from lakehouse.errors import LakehouseError
    from lakehouse.ingest.sources import OpenMeteoFiles
    from lakehouse.operations.foreach_batch import foreach_batch
    from lakehouse.query.reading import Reading, read
    from lakehouse.settings import Settings

    __all__ = [
        "LakehouseError",
        "LakehouseResource",
        "LakehouseTables",
        "OpenMeteoFiles",
        "Reading",
        "Settings",
        "build_defs",
        "declared_tables",
        "foreach_batch",
        "read",
        "writer_schema",
    ]
    __all__ += declaration.__all__

_MODULES_BY_NAME = {
    "LakehouseError": "lakehouse.errors",
    "LakehouseResource": "lakehouse.defs.resources",
    "LakehouseTables": "lakehouse.defs.build",
    "OpenMeteoFiles": "lakehouse.ingest.sources",
    "Reading": "lakehouse.query.reading",
    "Settings": "lakehouse.settings",
    "build_defs": "lakehouse.defs.build",
    "declared_tables": "lakehouse.discovery",
    "foreach_batch": "lakehouse.operations.foreach_batch",
    "read": "lakehouse.query.reading",
    "writer_schema": "lakehouse.decoding.formats",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_get_public("__all__")})


def _get_public(name: str) -> Any:
    if name in _MODULES_BY_NAME:
        return getattr(import_module(_MODULES_BY_NAME[name]), name)
    declared_names = import_module("lakehouse.declaration").__all__
    if name == "__all__":
        return sorted([*_MODULES_BY_NAME, *declared_names])
    if name in (moved := import_module("lakehouse.declaration.names").FORMER_NAMES):
        raise ImportError(f"{name} is in {moved[name]}: write from {moved[name]} import {name}", name=__name__)
    if name not in declared_names:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("lakehouse.declaration"), name)


if not TYPE_CHECKING:  # a type checker would take every misspelled name for one that exists
    __getattr__ = _get_public
