"""The picture of a rollup: drawn from the stored rows, small, valid, and at most once an hour."""

import base64
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.declaration import Measure
from lakehouse.defs.figures import DRAWN_AT, PICTURE, draw, picture
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.settings import Settings

(ROLLUP,) = temperatures.rollups
SVG = "{http://www.w3.org/2000/svg}"
NOW = datetime(2026, 3, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A rollup of eight places with 200 months each."""
    months = [date(2000 + n // 12, n % 12 + 1, 1) for n in range(200)]
    rows = {
        "latitude": pa.array([float(place) for place in range(8) for _ in months]),
        "longitude": pa.array([1.5 for _ in range(8 * len(months))]),
        "observed_month": pa.array([month for _ in range(8) for month in months], pa.date32()),
        "rows": pa.array([n % 31 for _ in range(8) for n in range(len(months))], pa.int64()),
    }
    settings = Settings(home=tmp_path)
    write_deltalake(settings.table_uri(ROLLUP.name), pa.table(rows))
    return settings


def parsed(svg: str | bytes | None) -> Element:
    assert svg
    return ElementTree.fromstring(svg)  # noqa: S314 - the picture is ours


def make_materialization(metadata: dict[str, dg.MetadataValue]) -> dg.AssetMaterialization:
    return dg.AssetMaterialization(ROLLUP.name, metadata=metadata)


def test_the_first_measure_is_drawn_over_time_for_five_groups(settings: Settings) -> None:
    root = parsed(draw(settings, temperatures, ROLLUP))
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 5
    assert {len(line.attrib["points"].split()) for line in lines} == {100}
    newest = [f"{dot.attrib['cx']},{dot.attrib['cy']}" for dot in root.findall(f"{SVG}circle")]
    assert newest == [line.attrib["points"].split()[-1] for line in lines]
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert texts[0] == f"rows of {ROLLUP.name}"
    assert "0.0, 1.5" in texts


def test_a_rollup_without_a_time_is_drawn_as_its_largest_groups(settings: Settings) -> None:
    rollup = replace(ROLLUP, by=["latitude"])
    root = parsed(draw(settings, temperatures, rollup))
    assert len(root.findall(f"{SVG}rect")) == 1 + 12
    assert [text.text for text in root.findall(f"{SVG}text")][2] == "30"


def test_a_picture_is_an_image_of_at_most_20_000_characters(settings: Settings) -> None:
    text = picture(settings, temperatures, ROLLUP, None, NOW)[PICTURE]
    assert isinstance(text, dg.MarkdownMetadataValue) and text.value is not None
    assert len(text.value) <= 20_000
    data = text.value.removeprefix(f"![{ROLLUP.name}](data:image/svg+xml;base64,").removesuffix(")")
    parsed(base64.b64decode(data))


@pytest.mark.parametrize(("seconds_later", "is_drawn"), [(0.0, False), (3599.0, False), (3600.0, True), (-1.0, True)])
def test_a_picture_is_drawn_once_an_hour_and_if_the_clock_was_set_back(
    settings: Settings, seconds_later: float, is_drawn: bool
) -> None:
    first = picture(settings, temperatures, ROLLUP, None, NOW)
    second = picture(settings, temperatures, ROLLUP, make_materialization(first), NOW + seconds_later)
    assert (PICTURE in second) == is_drawn
    assert second[DRAWN_AT] == dg.MetadataValue.timestamp(NOW + seconds_later if is_drawn else NOW)


def test_the_hour_counts_from_the_picture_over_materializations_without_one(settings: Settings) -> None:
    last = None
    drawn_lines = []
    for minutes in range(0, 121, 30):
        metadata = picture(settings, temperatures, ROLLUP, last, NOW + minutes * 60)
        drawn_lines.append(PICTURE in metadata)
        last = make_materialization(metadata)
    assert drawn_lines == [True, False, True, False, True]


def test_nothing_is_drawn_without_rows_or_a_numeric_measure(settings: Settings, tmp_path: Path) -> None:
    assert picture(Settings(home=tmp_path / "empty"), temperatures, ROLLUP, None, NOW) == {}
    texts = replace(ROLLUP, measures={"latest": Measure("max(note)", "STRING", "Note.")})
    assert picture(settings, temperatures, texts, None, NOW) == {}


def test_values_that_are_not_numbers_and_names_with_markup_are_drawn_safely(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    values = pa.array([float("nan"), float("inf"), None, 2.0])
    rows = pa.table({"latitude": ["<b>", "&", "c", '<script x="1">'], "temperature_max": values})
    write_deltalake(settings.table_uri(ROLLUP.name), rows)
    measures = {"temperature_max": ROLLUP.measures["temperature_max"]}
    root = parsed(draw(settings, temperatures, replace(ROLLUP, by=["latitude"], measures=measures)))
    assert [text.text for text in root.findall(f"{SVG}text")][1:] == ['<script x="1">', "2"]
