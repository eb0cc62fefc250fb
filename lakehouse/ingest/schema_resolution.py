"""What a batch learns of its records' schemas: new ones are kept, and those that are have to mean what they meant."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from lakehouse.declaration import Rejection, StreamTable
from lakehouse.decoding.formats import Format
from lakehouse.decoding.formats.format import NO_SCHEMAS, RegisteredSchema, Schemas, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import unframed
from lakehouse.errors import RegistryError
from lakehouse.ingest.kept_schemas import COLUMNS, kept_schemas, schemas_layout
from lakehouse.kafka.registry_client import Registry, SchemaRefusedError, registry, writer_schema_of
from lakehouse.settings import Settings
from lakehouse.storage.merge_spec import MergeSpec, equal_keys, from_source
from lakehouse.storage.table_context import TableContext

MOST_ASKED = 1_000
"""Ids that are unknown and asked for in one batch, those of most records: bytes that are none of ours may tell any."""
_CONFIRMED = 100  # of the first and of the last ids
_LARGEST = 2**31  # no registry gives an id beyond


def learn(context: TableContext, known: Schemas, ids: Sequence[int], *, confirm: bool) -> Schemas:
    """Ask the registry for ids that are not known, the first of them, and keep what it says.

    With ``confirm``, those that are known have to mean there what they meant, where it still has them; before anything
    is learnt, the first and the last that are kept too. Raises ``RegistryError`` where they do not, where the registry
    does not answer, and where it lets us read none; an id that it does not know stays unknown. What is returned besides
    is why others cannot be used.
    """
    unknown = _likely_first([each for each in ids if each not in known.known and each < _LARGEST], known)[:MOST_ASKED]
    met = [each for each in ids if each in known.known]
    confirmed = list(dict.fromkeys([*met, *_first_and_last(known)])) if unknown else met if confirm else []
    if not unknown and not confirmed:
        return known
    with registry(context.settings) as asked:
        told = [_means_the_same(asked, each, known, context.table, met=each in ids) for each in confirmed]
        found, unusable = _ask(asked, context.table.format, unknown, trusted=any(told))
    if found:
        _keep(context, found)
    return Schemas({**known.known, **found}, unusable)


def look_up(settings: Settings, form: Format, values: Iterable[bytes | None], known: Schemas = NO_SCHEMAS) -> Schemas:
    """The schemas that are ``known``, and what the registry says of others that records of a format name.

    Nothing is kept. Raises ``RegistryError``.
    """
    unknown = set[int]()
    for value in values:
        with suppress(Rejection):
            unknown.add(unframed(value)[0])
    unknown = {each for each in unknown - known.known.keys() if each < _LARGEST}
    if not unknown:
        return known
    with registry(settings) as asked:
        found, unusable = _ask(asked, form, sorted(unknown)[:MOST_ASKED], trusted=bool(known.known))
    return Schemas({**known.known, **found}, unusable)


def _first_and_last(known: Schemas) -> list[int]:
    """Ids of which a registry that was made anew gives some to other schemas; not all there are, each a question."""
    ids = sorted(known.known)
    return [*ids[:_CONFIRMED], *ids[-_CONFIRMED:]]


def _likely_first(ids: list[int], known: Schemas) -> list[int]:
    """Ids as a registry gives them next, then the others, as they stand: bytes that are no ids may name any."""
    last = max(known.known, default=0)
    near = sorted(each for each in ids if last < each <= last + MOST_ASKED // 2)
    return [*near, *(each for each in ids if each not in {*near})]


def _ask(
    asked: Registry, form: Format, ids: Collection[int], *, trusted: bool
) -> tuple[dict[int, WriterSchema], dict[int, str]]:
    """What the registry says of ids: schemas, and why others are of no use. ``trusted``: it has let us read some."""
    found, unusable = dict[int, WriterSchema](), dict[int, str]()
    refused: SchemaRefusedError | None = None
    for schema_id in ids:
        try:
            schema = writer_schema_of(asked, schema_id, form)
        except UnusableSchemaError as error:
            unusable[schema_id] = str(error).encode("utf-8", "replace").decode()
            continue
        except SchemaRefusedError as error:
            unusable[schema_id], refused = "the registry does not let us read it", error
            continue
        if schema is not None:
            found[schema_id] = schema
    if refused and not found and not trusted:  # who may read none can say nothing of a record
        raise refused
    return found, unusable


def _means_the_same(asked: Registry, schema_id: int, known: Schemas, table: StreamTable, *, met: bool) -> bool:
    """Whether the registry tells that an id means what it did; not, where it was deleted, which means no other.

    Raises ``RegistryError`` where it means another schema; where we may not read it, only of one that records name.
    """
    kept, form = known.known[schema_id], table.format
    try:
        now = writer_schema_of(asked, schema_id, form)
    except UnusableSchemaError as error:
        if _is_usable(kept, form):
            raise _changed(table, f"Schema {schema_id} of the registry cannot be used any more ({error})") from None
        return False
    except SchemaRefusedError:
        if met:
            raise
        return False
    if now is not None and form.fingerprint(now) != form.fingerprint(kept):
        raise _changed(table, f"Schema {schema_id} of the registry is another one now")
    return now is not None


def _is_usable(kept: WriterSchema, form: Format) -> bool:
    """Whether a schema that was kept would be kept today."""
    with suppress(UnusableSchemaError):
        return bool(form.writer_schema(RegisteredSchema(kept.text, kept.references, kept.kind)))
    return False


def _keep(context: TableContext, found: Mapping[int, WriterSchema]) -> None:
    """Keep schemas; where another process has kept another one for an id meanwhile, that is an error."""
    form = context.table.format
    rows = [(i, form.fingerprint(each), each.text, list(each.references)) for i, each in found.items()]
    columns = ", ".join(f"`{column.name}` {column.type}" for column in COLUMNS)
    spec = MergeSpec(equal_keys(["id"]), insert=from_source([column.name for column in COLUMNS]))
    schemas = context.stored(schemas_layout)
    commit = schemas.ensured_ledger().next_commit("load", context.run)
    schemas.merge(context.spark.createDataFrame(rows, columns), spec, commit)
    kept = kept_schemas(context.settings, context.table).known
    for schema_id, schema in found.items():
        if form.fingerprint(kept[schema_id]) != form.fingerprint(schema):
            raise _changed(context.table, f"Schema {schema_id} of the registry is another one now")


def _changed(table: StreamTable, fact: str) -> RegistryError:
    return RegistryError(
        f"{fact}, and records were read by the one that is kept in {table.schemas_name}",
        where=f"table {table.name}",
        action="Nothing was written. A registry that was made anew gives its ids to other schemas: bring back its data,"
        " or have what is written with the new one on a topic, and in a table, of its own.",
    )
