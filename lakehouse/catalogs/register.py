"""Registers tables in the catalog of the settings, or says in what their registrations differ."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from lakehouse.catalogs.glue import GlueCatalog
from lakehouse.catalogs.hive import HiveCatalog
from lakehouse.catalogs.registration import Catalog, Registrable, Registration
from lakehouse.catalogs.unity import UnityCatalog
from lakehouse.declaration import StreamTable, View
from lakehouse.errors import CatalogError, CatalogUnreachableError, LakehouseError, SettingsError, TableError
from lakehouse.ledger.log import open_table
from lakehouse.operations.planned_changes import layouts_of
from lakehouse.settings import Settings
from lakehouse.storage.layout import Layout


@dataclass(frozen=True)
class RegisteredTable:
    """What was done, or what is to be done: ``differences`` are those of the registration before; ``note`` warns."""

    table: str
    differences: list[str]
    outcome: Literal["created", "updated", "unchanged", "differs"]
    note: str = ""


def registrable_tables(
    settings: Settings, tables: Iterable[StreamTable], views: Iterable[View] = (), *, every: bool = False
) -> Iterator[Registrable]:
    """Yield the tables of declarations that have rows for readers; ``every`` other one too that they may create."""
    for table in tables:
        names = (table.name, table.base_name, *table.derived, *(reference.name for reference in table.references))
        for layout in layouts_of(settings, table):
            if every or layout.name in names:
                yield Registrable(layout, table.owner)
    for view in views:
        if view.materialized:
            yield Registrable(Layout(view.name, settings.table_uri(view.name), view.doc, ()), view.owner)


def open_catalog(settings: Settings) -> Catalog:
    """Return the catalog of the settings, which is not asked yet. ``SettingsError`` if none is set."""
    if settings.catalog is None:
        action = "Set it, for example to glue://eu-central-1/lake, hive://HOST:9083/lake or unity+https://HOST/a.lake."
        raise SettingsError("LAKEHOUSE_CATALOG is not set", action=action)
    address = urlsplit(settings.catalog)
    name = address.path.strip("/")
    if address.scheme == "glue":
        return GlueCatalog(address.netloc, name)
    if address.scheme == "hive":
        return HiveCatalog(address.hostname or "", address.port or 0, name)
    token = settings.catalog_token.get_secret_value() if settings.catalog_token else None
    return UnityCatalog(f"{address.scheme.removeprefix('unity+')}://{address.netloc}", name, token)


def register_table(catalog: Catalog, registration: Registration, *, check: bool = False) -> RegisteredTable:
    """Write what differs from the registration of a table, or with ``check`` only say it.

    A second run reads the registration, and writes nothing. ``CatalogError`` if the catalog has another table under the
    name, which is never overwritten.
    """
    wanted_table = catalog.fit(registration)
    stored_table = catalog.read(wanted_table.name)
    if stored_table is not None:
        _require_own(catalog, wanted_table, stored_table)
    differences = ["It is not registered."] if stored_table is None else wanted_table.differences(stored_table)
    if check or not differences:
        return RegisteredTable(wanted_table.name, differences, "differs" if differences else "unchanged")
    if stored_table is not None:
        return RegisteredTable(wanted_table.name, differences, "updated", catalog.replace(wanted_table, stored_table))
    try:
        catalog.create(wanted_table)
    except CatalogError:
        stored_table = catalog.read(wanted_table.name)
        if stored_table is None or wanted_table.differences(stored_table):
            raise
        return RegisteredTable(wanted_table.name, [], "unchanged")  # another process was faster
    return RegisteredTable(wanted_table.name, differences, "created")


def register_all(
    settings: Settings, tables: Iterable[Registrable], *, check: bool = False, must_exist: bool = False
) -> tuple[list[RegisteredTable], dict[str, LakehouseError]]:
    """Register each table as ``register_table`` does, and return the errors by the names of their tables.

    An error of one does not stop the others; that of a catalog which cannot be reached is the error of all after it. A
    table that does not exist is left out; it is an error with ``must_exist``, or if a check finds it registered.
    """
    results, errors = list[RegisteredTable](), dict[str, LakehouseError]()
    catalog, outage = None, None
    for table in tables:
        name = table.layout.name
        try:
            if outage:
                raise outage
            catalog = catalog or open_catalog(settings)
            registration = table.read()
            if registration is not None:
                results.append(register_table(catalog, registration, check=check))
            elif must_exist or (check and catalog.read(name)):
                action = "Merge or materialize it, or remove its registration if it has one."
                raise TableError(f"{name} does not exist", where=table.layout.uri, action=action)
        except LakehouseError as error:
            errors[name], outage = error, error if isinstance(error, CatalogUnreachableError) else None
    return results, errors


def _require_own(catalog: Catalog, wanted_table: Registration, stored_table: Registration) -> None:
    """Refuse to touch what is not a registration of this table: another program's, or of a table at another place."""
    if not stored_table.table_id:
        fact = f"The catalog has a table {wanted_table.name} that lakehouse did not register"
    elif stored_table.location != wanted_table.location and not _has_moved(wanted_table, stored_table):
        fact = f"The catalog has {wanted_table.name} of another lakehouse, in {stored_table.location}"
    else:
        return
    action = "Nothing was changed. Remove that registration there, or set LAKEHOUSE_CATALOG to another database."
    raise CatalogError(fact, where=catalog.place, action=action)


def _has_moved(wanted_table: Registration, stored_table: Registration) -> bool:
    """Whether a table is now elsewhere: a copy has the id too, but leaves a table at the former place."""
    try:
        return stored_table.table_id == wanted_table.table_id and open_table(stored_table.location) is None
    except LakehouseError:
        return False  # what is there is unknown
