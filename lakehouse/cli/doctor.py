"""``doctor``: every part that the project depends on: its version, its state, and what to do."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from lakehouse.cli.arguments import JsonOption, examples
from lakehouse.cli.facts import judge_rows
from lakehouse.cli.output import print_json, print_line, print_table
from lakehouse.cli.table_session import load_settings
from lakehouse.errors import BrokerError, BrokerRefusedError, LakehouseError

if TYPE_CHECKING:
    from lakehouse.declaration import StreamTable
    from lakehouse.decoding.formats.format import Schemas
    from lakehouse.kafka import Record
    from lakehouse.settings import Settings

_NEWEST = 100  # records that are decoded
_SECONDS = 4.0  # to read them
_NOT_RUNNING = "Not running; commands that need it start it. lakehouse up keeps it running."
commands = typer.Typer()

_PACKAGES = ("dagster", "dagster-pyspark", "pyspark", "delta-spark", "deltalake", "duckdb", "aiokafka")
_REINSTALL = "reinstall lakehouse (in its repository: make install)."
_MAX_FAILED_RUNS = 3  # listed one by one
_PYTHON_RANGE = ((3, 11), (3, 14))


@dataclass(frozen=True)
class Part:
    """One part: ``ok``, ``broken`` (needed, but does not work) or ``note`` (worth knowing, not needed)."""

    part: str
    version: str
    state: Literal["ok", "broken", "note"]
    detail: str = ""


def examine_connectors(settings: "Settings", table: "StreamTable", *, can_read: bool) -> Iterator[Part]:
    """The settings that the declaration of a change stream requires, and newest records that contradict it.

    None for another table. ``can_read``: the broker answers and has the topic. Records whose schema no merge has stored
    yet are only named: the registry is not asked.
    """
    if table.has_changes:
        is_ok, text = _check_records(settings, table) if can_read else (False, "No record was read.")
        connector_settings = table.format.connector_settings(table.fields)
        settings_text = "; ".join(f"{name}={value}" for name, value in connector_settings.items())
        detail = f"{settings_text}. {text}"
        yield Part(f"connector of {table.name}", table.format.declared_as, "ok" if is_ok else "note", detail)


def _check_records(settings: "Settings", table: "StreamTable") -> tuple[bool, str]:
    """Whether the newest records fit the declaration, and what they are."""
    from lakehouse.ingest.schema_resolution import kept_schemas
    from lakehouse.kafka import newest_records

    try:
        records = newest_records(settings, table.topic, _NEWEST, _SECONDS)
        problems = [*contradictions(table, records, kept_schemas(settings, table))]
    except LakehouseError as error:
        return False, f"No record was read: {error}"
    if problems:
        return False, f"Rejected among the newest {len(records)} records: {'; '.join(problems)}."
    return True, "The newest records fit." if records else "The topic has no records."


def contradictions(table: "StreamTable", records: "Sequence[Record]", schemas: "Schemas") -> Iterator[str]:
    """Yield which records are rejected and why; of records with the same reason, the first one."""
    from lakehouse.decoding.staged import NO_ROWS
    from lakehouse.kafka import is_timeless

    rules = table.rules(schemas)
    details = set[str]()
    for record in records:
        if is_timeless(record.milliseconds):
            continue
        for verdict in judge_rows(record, rules):
            if verdict.reason in (None, *NO_ROWS) or verdict.detail in details:
                continue
            details.add(str(verdict.detail))
            is_unknown = verdict.reason == "unknown_schema"
            detail = "no merge has stored its schema yet, so it was not decoded" if is_unknown else verdict.detail
            yield f"{record.place}, {verdict.reason}: {detail}"


def examine_properties(settings: "Settings") -> Iterator[Part]:
    """Other properties of Kafka's clients, only their names: the values may be secret."""
    from lakehouse.kafka import only_in_spark

    if settings.client_properties:
        names = only_in_spark(settings)
        detail = f"only Spark's client supports {', '.join(names)}" if names else "supported by every client"
        yield Part("Kafka properties", f"{len(settings.client_properties)} set", "note" if names else "ok", detail)


def examine_broker(settings: "Settings") -> Iterator[Part]:
    """The broker, and of each declared table its topic and its connector; an embedded broker need not run."""
    from lakehouse.kafka import topic_names
    from lakehouse.settings.addresses import bootstrap_servers

    kind = "outside" if settings.kafka_bootstrap_servers else "embedded"
    try:
        address = bootstrap_servers(settings)
        existing_topics = topic_names(settings)
    except BrokerError as error:
        is_broken = kind == "outside" or isinstance(error, BrokerRefusedError)
        state: Literal["broken", "note"] = "broken" if is_broken else "note"
        detail = str(error) if is_broken else _NOT_RUNNING
        yield Part(f"broker ({kind})", "", state, detail)
        for table in _valid_declarations(settings):
            yield from examine_connectors(settings, table, can_read=False)
        return
    yield Part(f"broker ({kind})", "", "ok", address)
    for table in _valid_declarations(settings):
        yield from _examine_topics(settings, table, existing_topics)
        yield from examine_connectors(settings, table, can_read=table.topic in existing_topics)


def _valid_declarations(settings: "Settings") -> "Sequence[StreamTable]":
    """The declared tables with topics; empty if they cannot be read, which the part ``declarations`` reports."""
    from lakehouse.discovery import declared_tables

    try:
        return [table for table in declared_tables(settings) if table.has_topics]
    except LakehouseError:
        return ()


def _examine_topics(settings: "Settings", table: "StreamTable", existing_topics: list[str]) -> Iterator[Part]:
    """The topics of a table; a pattern may match none."""
    from lakehouse.errors import TopicError
    from lakehouse.ingest.topics import split_by_topic

    try:
        for part in split_by_topic(settings, table):
            yield examine_topic(settings, part, existing_topics)
    except TopicError as error:
        yield Part(table.topic_text, "", "note", str(error))


def examine_topic(settings: "Settings", table: "StreamTable", existing_topics: list[str]) -> Part:
    """The topic of a table: its partitions, whether producers set its times, and what open transactions hold back."""
    from lakehouse.kafka import read_topic
    from lakehouse.ledger.positions import describe_held
    from lakehouse.operations.verify import producer_time

    name = f"topic {table.topic}"
    if table.topic not in existing_topics:
        return Part(name, "", "note", "Missing; create it with lakehouse topics --create.")
    try:
        state = read_topic(settings, table.topic, with_held=True)
    except LakehouseError as error:
        return Part(name, "", "broken", str(error))
    if table.has_changes and state.is_compacted is not False:
        detail = "It is compacted, or may be, but has changes of a database. Set cleanup.policy=delete."
        return Part(name, f"{len(state.end)} partitions", "broken", detail)
    finding = producer_time(state, table)
    is_fine = finding.passed and not state.held_parts
    detail = f"{finding.detail} {describe_held(state.held_parts, table.position_noun)}".rstrip()
    return Part(name, f"{len(state.end)} partitions", "ok" if is_fine else "note", detail)


def examine_registry(settings: "Settings") -> Iterator[Part]:
    """The schema registry, if a declared table needs it; an embedded one need not run."""
    if not any(table.has_schemas for table in _valid_declarations(settings)):
        return
    from lakehouse.errors import RegistryError
    from lakehouse.kafka.registry_client import Registry

    is_external = settings.registry_url is not None
    name = f"registry ({'outside' if is_external else 'embedded'})"
    try:
        yield Part(name, "", "ok", Registry(settings, patience=0).require_answer())
    except RegistryError as error:
        detail = str(error) if is_external else _NOT_RUNNING
        yield Part(name, "", "broken" if is_external else "note", detail)


@commands.command(epilog=examples("lakehouse doctor", "lakehouse doctor --json"))
def doctor(json: JsonOption = False) -> None:
    """Check every part that the project depends on; exit with 1 if a needed part does not work.

    Also shows the engine's memory and Dagster's failed runs of the last day. A note does not change the exit code.
    Downloads and starts nothing. Of tables in S3, it writes, lists and deletes one object. (Python may cache your
    compiled declarations, as always.)
    """
    parts = list(_examine(load_settings()))
    broken = [part.part for part in parts if part.state == "broken"]
    if json:
        print_json([asdict(part) for part in parts])
    else:
        print_table(["part", "version", "state", "detail"], [tuple(asdict(part).values()) for part in parts])
        print_line(f"Broken: {', '.join(broken)}." if broken else "All needed parts work.")
    if broken:
        raise typer.Exit(1)


def _examine(settings: "Settings") -> Iterator[Part]:
    yield _python()
    yield from (_package(name) for name in _PACKAGES)
    yield _parser()
    yield _check("Java", _java)
    yield from _jars(settings)
    yield _check("Spark", lambda: _spark(settings))
    yield _check("engine", lambda: _engine(settings))
    yield from _failed_runs(settings)
    yield _check("tables", lambda: _tables(settings))
    yield _check("declarations", lambda: _declarations(settings))
    yield from examine_properties(settings)
    yield from examine_broker(settings)
    yield from examine_registry(settings)


def _check(part: str, examine: Callable[[], Part]) -> Part:
    try:
        return examine()
    except LakehouseError as error:
        return Part(part, "", "broken", str(error))


def _python() -> Part:
    python_version = ".".join(map(str, sys.version_info[:3]))
    is_supported = _PYTHON_RANGE[0] <= sys.version_info[:2] < _PYTHON_RANGE[1]
    detail = sys.prefix if is_supported else "Supported versions: 3.11 to 3.13."
    return Part("Python", python_version, "ok" if is_supported else "broken", detail)


def _package(name: str) -> Part:
    try:
        return Part(name, version(name), "ok")
    except PackageNotFoundError:
        return Part(name, "", "broken", f"Not installed; {_REINSTALL}")


def _parser() -> Part:
    """The native parser of records; without it, the strict parser reads every record."""
    try:
        import orjson
    except ImportError:
        return Part("orjson", "", "note", f"Not installed: records are decoded as strictly, but slower; {_REINSTALL}")
    return Part("orjson", orjson.__version__, "ok")


def _java() -> Part:
    from lakehouse.local.java import find_java

    java = find_java()
    return Part("Java", str(java.version), "ok", str(java.path))


def _jars(settings: "Settings") -> Iterator[Part]:
    """One part for each group; missing jars are downloaded when they are first needed."""
    from lakehouse.local.jars import jar_states, spark_groups

    all_states = jar_states(settings)
    for group in ("broker", *spark_groups(settings)):
        states = [(jar, state) for jar, state in all_states if jar.group == group]
        damaged_paths = [jar.path for jar, state in states if state == "damaged"]
        missing_count = sum(state == "missing" for _, state in states)
        name, count = f"jars ({group})", f"{len(states)} jars"
        if damaged_paths:
            yield Part(name, count, "broken", f"{damaged_paths[0]} is damaged; delete it to download it again.")
        elif missing_count:
            yield Part(name, count, "note", f"{missing_count} missing; downloaded when first needed.")
        else:
            yield Part(name, count, "ok", str(settings.jar_folder))


def _spark(settings: "Settings") -> Part:
    memory = "" if settings.spark_remote else f", driver {settings.spark_driver_memory}"
    return Part("Spark", version("pyspark"), "ok", f"{settings.spark_place}{memory}")


def _engine(settings: "Settings") -> Part:
    """The engine of the home, which need not run; every command refuses an engine with other packages or settings."""
    from lakehouse.local.java import read_heap
    from lakehouse.spark.engine import engine_folder, is_engine_running, read_address
    from lakehouse.spark.sessions import fingerprint

    folder = engine_folder(settings)
    address = read_address(folder)
    if settings.spark_remote or not is_engine_running(folder):
        detail = "Not running; commands start their own Spark. lakehouse up keeps a warm engine."
        return Part("engine", "", "note", detail)
    if address is None:
        return Part("engine", "", "note", "It is starting.")
    heap = read_heap(address.pid)
    engine_text = f"{address}, process {address.pid}{f', {heap}' if heap else ''}"
    if address.fingerprint != fingerprint(settings):
        detail = f"{engine_text}: its packages, jars or settings differ; restart lakehouse up."
        return Part("engine", address.fingerprint, "broken", detail)
    if heap and heap.is_full:
        detail = f"{engine_text}: too little memory; raise LAKEHOUSE_SPARK_DRIVER_MEMORY and restart lakehouse up."
        return Part("engine", address.fingerprint, "note", detail)
    return Part("engine", address.fingerprint, "ok", engine_text)


def _failed_runs(settings: "Settings") -> Iterator[Part]:
    """One part for each failed run of the last day, up to a limit; none without a run storage."""
    from sqlite3 import Error

    from lakehouse.local.dagster_home import dagster_folder, failed_runs

    ui = "Dagster's UI (lakehouse up) shows"
    try:
        folder = dagster_folder(settings)
        runs = failed_runs(folder)
    except (OSError, Error, LakehouseError) as error:
        yield Part("failed runs", "", "note", f"Cannot be read now; {ui} which runs failed: {error}")
        return
    if runs is None:
        detail = f"Not checked: {folder / 'dagster.yaml'} names another storage; {ui} which runs failed."
        yield Part("failed runs", "", "note", detail)
        return
    for failed_run in runs[:_MAX_FAILED_RUNS]:
        yield Part("failed run", failed_run.run[:8], "note", f"{failed_run}; {ui} why, at /runs/{failed_run.run}.")
    if (more := len(runs) - _MAX_FAILED_RUNS) > 0:
        yield Part("failed runs", "", "note", f"At least {more} more in the last day.")


def _tables(settings: "Settings") -> Part:
    root = settings.tables_root
    if settings.store.folder is None:
        from lakehouse.storage.store_probe import probe_store

        rest = "the store honours If-None-Match" if probe_store(root) else "only one writer is safe"
        return Part("tables", "", "ok", f"{root} was listed, and an object written and deleted; {rest}")
    existing = next(folder for folder in (Path(root), *Path(root).parents) if folder.exists())
    if existing.is_dir() and _is_writable(existing):
        return Part("tables", "", "ok", root)
    return Part("tables", "", "broken", f"{existing} is not writable; correct its permissions or LAKEHOUSE_TABLES.")


def _is_writable(folder: Path) -> bool:
    from tempfile import TemporaryFile

    with suppress(OSError), TemporaryFile(dir=folder):
        return True
    return False


def _declarations(settings: "Settings") -> Part:
    from lakehouse.discovery import declared_tables

    tables = declared_tables(settings)
    return Part("declarations", f"{len(tables)}", "ok", f"{', '.join(table.name for table in tables)}")
