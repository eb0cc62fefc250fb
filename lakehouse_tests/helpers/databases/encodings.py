"""How a connector writes changes: the settings that the page names, and the declaration that reads them."""

from dataclasses import replace
from typing import NamedTuple

from lakehouse.declaration import Avro, Debezium
from lakehouse.settings import Settings
from lakehouse.settings.addresses import registry_url
from lakehouse_tests.helpers.databases.workload import COLUMNS, TEXT_NUMBERS, TYPED_COLUMNS, DatabaseColumn
from lakehouse_tests.helpers.pages import read_steps
from lakehouse_tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "how-to" / "change-streams.md"
_REGISTRY = "http://registry:8080"


class Encoding(NamedTuple):
    """The format of the records, the columns of the table, and the settings of the connector."""

    form: Debezium = TEXT_NUMBERS
    columns: tuple[DatabaseColumn, ...] = COLUMNS
    connector: tuple[tuple[str, str], ...] = ()
    sends_truncates: bool = True


JSON = Encoding()


def encoding_of(name: str, settings: Settings) -> Encoding:
    """Return an encoding by its name; for Avro, a registry has to run."""
    if name == "JSON with schemas":
        return Encoding(Debezium(), TYPED_COLUMNS, _settings_on_page("value.converter.schemas.enable=true"))
    if name == "flattened":
        form = replace(TEXT_NUMBERS, flattened=True)
        return Encoding(form, COLUMNS, _settings_on_page("transforms=unwrap"), sends_truncates=False)
    address = registry_url(settings).removesuffix("/apis/ccompat/v7")
    avro = _settings_on_page("value.converter=io.apicurio", address)
    if name == "Avro":
        return Encoding(Debezium(Avro()), TYPED_COLUMNS, avro)
    flattened = avro + _settings_on_page("transforms=unwrap")
    return Encoding(Debezium(Avro(), flattened=True), TYPED_COLUMNS, flattened, sends_truncates=False)


def _settings_on_page(part: str, registry: str = _REGISTRY) -> tuple[tuple[str, str], ...]:
    """Return the settings of the box of the page that has this line, or its start."""
    (box,) = [
        step.text for step in read_steps(PAGE) if step.language == "properties" and f"\n{part}" in f"\n{step.text}"
    ]
    lines = box.replace(_REGISTRY, registry).splitlines()
    return tuple((name, value) for name, _, value in (line.partition("=") for line in lines))
