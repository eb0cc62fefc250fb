"""The settings of a connector that follow from a declaration, as the page about change streams lists them."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Literal

import pytest

from lakehouse.declaration import Avro, Column, Debezium, Json, RecordHeader
from lakehouse.decoding.fields import Field
from lakehouse.decoding.formats import FORMATS
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "change-streams.md").read_text(encoding="utf-8")
DECIMAL, TEXT = (Column("price", type_, "Price.").field for type_ in ("ARRAY<DECIMAL(10,2)>", "STRING"))
UNWRITTEN, BASE64, BASE64URL, HEX = (
    Column("photo", "BINARY", "Photo.", written=form).field for form in (None, "base64", "base64url", "hex")
)
MODES: tuple[Literal["precise", "string", "double"], ...] = ("precise", "string", "double")
FIELDS = (DECIMAL, TEXT, UNWRITTEN, BASE64, BASE64URL, HEX)
OWN = "<gone>"
"""A placeholder of its own for values that did not change."""
Case = tuple[Debezium, Field]
WRITTEN: tuple[Json | Avro, ...] = (Json(), Avro(), Json(framed=True))
CASES: list[Case] = [
    (Debezium(written, is_flattened, mode), field)
    for written, is_flattened, mode, field in product(WRITTEN, (False, True), MODES, FIELDS)
] + [(Debezium(unavailable_value_placeholder=OWN), TEXT)]


def applies(condition: str, form: Debezium, field: Field) -> bool:
    """Whether a row of the page's table is about a declaration."""
    is_json = form.written == Json()
    if "a DECIMAL column" in condition:
        return is_json and form.decimal_handling_mode == "precise" and field is DECIMAL
    is_own_form = field is UNWRITTEN or (field is BASE64 and form.written != Avro())
    conditions = {
        "`unavailable_value_placeholder=`": form.unavailable_value_placeholder == OWN,
        "": True,
        'a BINARY column without `written`, or with `written="base64"` in JSON': is_own_form,
        '`Avro()` and a BINARY column with `written="base64"`': field is BASE64 and form.written == Avro(),
        'a BINARY column with `written="base64url"`': field is BASE64URL,
        'a BINARY column with `written="hex"`': field is HEX,
        "`flattened=True`": form.flattened,
        "`Json()`": is_json,
        "`Avro()`": form.written == Avro(),
        "`Json(framed=True)`": form.written == Json(framed=True),
        "`Avro()` or `Json(framed=True)`": not is_json,
    }
    return conditions[condition]


def page_settings(form: Debezium, field: Field) -> Iterator[tuple[str, str]]:
    """Yield the settings that the page lists for a declaration."""
    table = PAGE.partition("| setting | value | if the declaration has |\n|---|---|---|\n")[2].partition("\n\n")[0]
    for line in table.splitlines():
        names, value, condition = (cell.strip() for cell in line.strip("|").split("|"))
        if applies(condition, form, field):
            value = form.unavailable_value_placeholder if "`unavailable_value_placeholder`" in value else value
            mode = form.decimal_handling_mode if "`decimal_handling_mode`" in value else value.strip("`")
            yield from ((name, mode) for name in re.findall("`([^`]+)`", names))


@pytest.mark.parametrize(("form", "field"), CASES, ids=lambda part: getattr(part, "declared_as", None))
def test_the_page_lists_the_settings_of_each_declaration(form: Debezium, field: Field) -> None:
    assert form.connector_settings([TEXT, field]) == dict(page_settings(form, field))


def test_the_connector_of_the_page_has_the_settings_that_its_declaration_needs() -> None:
    page_lines = {line.strip() for line in PAGE.splitlines()}
    settings = Debezium(decimal_handling_mode="string").connector_settings([DECIMAL])
    assert {f"{name}={value}" for name, value in settings.items()} <= page_lines


def test_columns_of_bytes_in_several_forms_name_no_mode() -> None:
    assert "binary.handling.mode" not in Debezium().connector_settings([BASE64, HEX])
    header = Column("photo", "BINARY", "Photo.", source=RecordHeader("photo")).field
    assert "binary.handling.mode" not in Debezium().connector_settings([header])


def test_only_change_streams_have_a_connector() -> None:
    assert {form.has_changes for form in FORMATS if form.connector_settings([TEXT])} == {True}
    assert not Json().connector_settings([DECIMAL])
