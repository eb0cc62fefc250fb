"""``doctor``: every part the project stands on, its version and its state, and what to do about it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.output import print_json, print_table, say
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.settings import Settings

verbs = typer.Typer()

_PACKAGES = ("dagster", "dagster-pyspark", "pyspark", "delta-spark", "deltalake", "duckdb", "aiokafka")
_AGAIN = "install lakehouse again (in its repository: make install)."
_FEW = 3  # failed runs that are listed one by one
_PYTHON = ((3, 11), (3, 14))


@dataclass(frozen=True)
class Part:
    """One part: ``ok``, ``broken`` (needed, and does not work) or ``note`` (worth knowing, not needed)."""

    part: str
    version: str
    state: Literal["ok", "broken", "note"]
    detail: str = ""


@verbs.command(epilog=examples("lakehouse doctor", "lakehouse doctor --json"))
def doctor(json: JsonOption = False) -> None:
    """Look at every part the project stands on; exit with 1 where one that is needed does not work.

    The engine's memory and Dagster's failed runs of the last day are among them; a note does not change the exit code.
    Nothing is fetched, started or changed. (Python may keep your declarations compiled, as always.)
    """
    parts = list(_examine(load_settings()))
    broken = [part.part for part in parts if part.state == "broken"]
    if json:
        print_json([asdict(part) for part in parts])
    else:
        print_table(["part", "version", "state", "detail"], [tuple(asdict(part).values()) for part in parts])
        say(f"Broken: {', '.join(broken)}." if broken else "All that is needed works.")
    if broken:
        raise typer.Exit(1)


def _examine(settings: "Settings") -> Iterator[Part]:
    yield _python()
    yield from (_package(name) for name in _PACKAGES)
    yield _parser()
    yield _tried("Java", _java)
    yield from _jars(settings)
    yield _tried("Spark", lambda: _spark(settings))
    yield _tried("engine", lambda: _engine(settings))
    yield from _failed_runs(settings)
    yield _tables(settings)
    yield _tried("declarations", lambda: _declarations(settings))
    yield from _properties(settings)
    yield from _broker(settings)
    yield from _registry(settings)


def _tried(part: str, examine: Callable[[], Part]) -> Part:
    try:
        return examine()
    except LakehouseError as error:
        return Part(part, "", "broken", str(error))


def _python() -> Part:
    found = ".".join(map(str, sys.version_info[:3]))
    fits = _PYTHON[0] <= sys.version_info[:2] < _PYTHON[1]
    return Part("Python", found, "ok" if fits else "broken", sys.prefix if fits else "3.11 to 3.13 are supported.")


def _package(name: str) -> Part:
    try:
        return Part(name, version(name), "ok")
    except PackageNotFoundError:
        return Part(name, "", "broken", f"Not installed; {_AGAIN}")


def _parser() -> Part:
    """The native parser of records, as on this machine; without it every record is decoded by the strict path."""
    try:
        import orjson
    except ImportError:
        return Part("orjson", "", "note", f"Not there: records are decoded as strictly, and slower; {_AGAIN}")
    return Part("orjson", orjson.__version__, "ok")


def _java() -> Part:
    from lakehouse.local.java import find_java

    java = find_java()
    return Part("Java", str(java.version), "ok", str(java.path))


def _jars(settings: "Settings") -> Iterator[Part]:
    """One part for each group; jars that are missing are fetched when they are first needed."""
    from lakehouse.local.jars import GROUPS, jar_states

    held = jar_states(settings)
    for group in GROUPS:
        states = [each for each in held if each.jar.group == group]
        damaged = [each.jar.path for each in states if each.state == "damaged"]
        missing = sum(each.state == "missing" for each in states)
        name, count = f"jars ({group})", f"{len(states)} jars"
        if damaged:
            yield Part(name, count, "broken", f"{damaged[0]} is damaged; delete it, it will be fetched again.")
        elif missing:
            yield Part(name, count, "note", f"{missing} missing; fetched when first needed.")
        else:
            yield Part(name, count, "ok", str(settings.jar_folder))


def _spark(settings: "Settings") -> Part:
    place = settings.spark_place
    if not settings.spark_remote:
        place += f", driver {settings.spark_driver_memory}"
    return Part("Spark", version("pyspark"), "ok", place)


def _engine(settings: "Settings") -> Part:
    """The engine of the home, which need not be up; one that does not fit is refused by every command."""
    from lakehouse.spark.engine import engine_folder, lives, read_address
    from lakehouse.spark.heap import heap_of
    from lakehouse.spark.sessions import fingerprint

    folder = engine_folder(settings)
    address = read_address(folder)
    if settings.spark_remote or not lives(folder):
        return Part("engine", "", "note", "Not up; commands start a Spark of their own, lakehouse up keeps a warm one.")
    if address is None:
        return Part("engine", "", "note", "It is being started.")
    heap = heap_of(address.pid)
    place = f"{address}, process {address.pid}{f', {heap}' if heap else ''}"
    if address.fingerprint != fingerprint(settings):
        detail = f"{place}: other packages, jars or settings; start lakehouse up again."
        return Part("engine", address.fingerprint, "broken", detail)
    if heap and heap.full:
        detail = f"{place}: too little; raise LAKEHOUSE_SPARK_DRIVER_MEMORY and start lakehouse up again."
        return Part("engine", address.fingerprint, "note", detail)
    return Part("engine", address.fingerprint, "ok", place)


def _failed_runs(settings: "Settings") -> Iterator[Part]:
    """One part for each failed run of the last day that ``failed_runs`` finds, up to a few; none without a storage."""
    from sqlite3 import Error

    from lakehouse.local.dagster_home import dagster_folder
    from lakehouse.local.failed_runs import failed_runs

    page = "Dagster's page (lakehouse up) says"
    try:
        folder = dagster_folder(settings)
        failed = failed_runs(folder)
    except (OSError, Error, LakehouseError) as error:
        yield Part("failed runs", "", "note", f"Cannot be read now: {error}; {page} which runs failed.")
        return
    if failed is None:
        detail = f"Not looked for: {folder / 'dagster.yaml'} names another storage; {page} which runs failed."
        yield Part("failed runs", "", "note", detail)
        return
    for each in failed[:_FEW]:
        yield Part("failed run", each.run[:8], "note", f"{each}; {page} why, at /runs/{each.run}.")
    if (more := len(failed) - _FEW) > 0:
        yield Part("failed runs", "", "note", f"At least {more} more in the last day.")


def _tables(settings: "Settings") -> Part:
    root = settings.tables_root
    if not settings.store.is_path:
        return Part("tables", "", "note", f"{root} (not tried)")
    existing = next(folder for folder in (Path(root), *Path(root).parents) if folder.exists())
    if existing.is_dir() and _writable(existing):
        return Part("tables", "", "ok", root)
    return Part("tables", "", "broken", f"{existing} cannot be written; correct its permissions or LAKEHOUSE_TABLES.")


def _writable(folder: Path) -> bool:
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _declarations(settings: "Settings") -> Part:
    from lakehouse.discovery import declared_tables

    tables = declared_tables(settings)
    return Part("declarations", f"{len(tables)}", "ok", f"{', '.join(each.name for each in tables)}")


def _properties(settings: "Settings") -> Iterator[Part]:
    """Other properties of Kafka's clients, by name alone: their values may be secret."""
    from lakehouse.kafka import only_in_spark

    if settings.client_properties:
        names = only_in_spark(settings)
        detail = f"only Spark's client knows {', '.join(names)}" if names else "known to every client"
        yield Part("Kafka properties", f"{len(settings.client_properties)} set", "note" if names else "ok", detail)


def _broker(settings: "Settings") -> Iterator[Part]:
    """The broker and the topic of each declared table; an embedded broker need not be up."""
    from lakehouse.kafka import topic_names
    from lakehouse.settings.broker_address import bootstrap_servers

    kind = "outside" if settings.kafka_bootstrap_servers else "embedded"
    try:
        address = bootstrap_servers(settings)
        present = topic_names(settings)
    except BrokerError as error:
        wrong = kind == "outside" or isinstance(error, BrokerRefusedError)
        state: Literal["broken", "note"] = "broken" if wrong else "note"
        detail = str(error) if wrong else "Not up; verbs that need it start it, lakehouse up keeps it."
        yield Part(f"broker ({kind})", "", state, detail)
        return
    yield Part(f"broker ({kind})", "", "ok", address)
    for table in _declared(settings):
        yield _topic(settings, table, present)


def _declared(settings: "Settings") -> "Sequence[StreamTable]":
    """The declared tables; where these cannot be told, their own part says why."""
    from lakehouse.discovery import declared_tables

    try:
        return declared_tables(settings)
    except LakehouseError:
        return ()


def _topic(settings: "Settings", table: "StreamTable", present: list[str]) -> Part:
    from lakehouse.kafka import look
    from lakehouse.operations.verify import producer_time

    name = f"topic {table.topic}"
    if table.topic not in present:
        return Part(name, "", "note", "Missing; lakehouse topics --create makes it.")
    try:
        state = look(settings, table.topic)
    except LakehouseError as error:
        return Part(name, "", "broken", str(error))
    found = producer_time(state, table)
    return Part(name, f"{len(state.end)} partitions", "ok" if found.passed else "note", found.detail)


def _registry(settings: "Settings") -> Iterator[Part]:
    """The schema registry, where a declared table needs it; an embedded one need not be up."""
    if not any(table.has_schemas for table in _declared(settings)):
        return
    from lakehouse.errors import RegistryError
    from lakehouse.kafka.registry_client import Registry

    outside = settings.registry_url is not None
    name = f"registry ({'outside' if outside else 'embedded'})"
    try:
        yield Part(name, "", "ok", Registry(settings, patience=0).require_answer())
    except RegistryError as error:
        detail = str(error) if outside else "Not up; verbs that need it start it, lakehouse up keeps it."
        yield Part(name, "", "broken" if outside else "note", detail)
