"""The columns that Dagster shows of a topic: the fields that its records have, and the types of their values."""

from dataclasses import replace
from typing import Any

import dagster as dg

from lakehouse.declaration import Avro, BrokerTime, Column, Csv, Files, RecordKey, StreamTable, TextBoolean
from lakehouse.defs.build import build_defs
from lakehouse.defs.specs import CatalogEntry, topic_spec
from lakehouse.examples.tables.temperatures import temperatures


def test_the_topic_schema_shows_whether_a_key_is_text_or_bytes():
    latitude = temperatures.record_columns[0]
    without_other_parts: dict[str, Any] = {"partition_by": None, "base": None, "references": (), "rollups": ()}
    for source, expected_type in ((RecordKey("text"), "string"), (RecordKey("big_endian", window="time"), "bytes")):
        id_column = replace(latitude, name="id", type="INT", source=source, between=None)
        table = replace(temperatures, columns=[id_column], key=["id"], **without_other_parts)
        schema = topic_spec(CatalogEntry(table)).metadata["dagster/column_schema"]
        assert [(column.name, column.type) for column in schema.columns] == [("key of the record", expected_type)]


def test_the_topic_schema_shows_the_kinds_of_values_in_another_form():
    forms: dict[str, tuple[str, Any]] = {
        "string": ("INT", "text"),
        "string|number": ("INT", "text_or_number"),
        "number": ("STRING", "number"),
        "any": ("STRING", "json"),
        "string|boolean": ("BOOLEAN", TextBoolean(["Y", True], ["N"])),
    }
    columns = [Column("id", "INT", "Which.", required=True)]
    columns += [
        Column(f"n{number}", type_, "", written=written) for number, (type_, written) in enumerate(forms.values())
    ]
    table = StreamTable("items", "items", "Items.", columns, ["id"])
    schema = topic_spec(CatalogEntry(table)).metadata["dagster/column_schema"]
    assert [column.type for column in schema.columns] == ["number", *forms]


def test_the_topic_schema_shows_which_bytes_are_a_text() -> None:
    columns = [Column("id", "INT", "Which.", required=True), Column("raw", "BINARY", "Bytes.")]
    columns += [Column("digest", "BINARY", "Bytes.", written="hex"), Column("key", "BINARY", "", source=RecordKey())]
    table = StreamTable("items", "items", "Items.", columns, ["id"], format=Avro())
    schema = topic_spec(CatalogEntry(table)).metadata["dagster/column_schema"]
    assert [column.type for column in schema.columns] == ["number", "bytes", "string", "bytes"]


def test_the_topic_schema_of_csv_has_texts() -> None:
    columns = [Column("id", "INT", "Which.", required=True), Column("at", "TIMESTAMP", "When.", source=BrokerTime())]
    table = StreamTable("rows", "rows", "Rows.", columns, ["id"], format=Csv(["id"]))
    schema = topic_spec(CatalogEntry(table)).metadata["dagster/column_schema"]
    assert [column.type for column in schema.columns] == ["string", "timestamp"]


def test_two_tables_of_a_topic_share_its_asset_with_the_fields_of_both() -> None:
    id_column = Column("id", "INT", "Which.", required=True)
    sizes = StreamTable("sizes", "items", "Sizes.", [id_column, Column("size", "INT", "How large.")], ["id"])
    names = StreamTable("names", "items", "Names.", [id_column, Column("name", "STRING", "How called.")], ["id"])
    other_table = StreamTable("others", "others", "Others.", [id_column], ["id"])
    graph = build_defs([sizes, names, other_table]).resolve_asset_graph()
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert {key for key in keys if key.endswith("_topic")} == {"sizes_topic", "others_topic"}
    topic = graph.get(dg.AssetKey("sizes_topic"))
    columns = topic.metadata["dagster/column_schema"].columns
    assert [(column.name, column.type) for column in columns] == [
        ("id", "number"),
        ("size", "number"),
        ("name", "string"),
    ]
    assert topic.description == "Kafka topic items. Its records are merged into sizes, names."
    for name in ("names", "names_rejected"):
        assert dg.AssetKey("sizes_topic") in graph.get(dg.AssetKey(name)).parent_keys
    lineage = graph.get(dg.AssetKey("names")).metadata["dagster/column_lineage"].deps_by_column
    assert lineage["name"] == [dg.TableColumnDep(dg.AssetKey("sizes_topic"), "name")]


def test_two_tables_of_different_files_of_a_folder_have_an_asset_each() -> None:
    columns = [Column("id", "INT", "Which.", required=True)]
    tables = [
        StreamTable(name, source=Files("in", names=f"{name}-*.jsonl"), doc="", columns=columns, key=["id"])
        for name in ("first", "second")
    ]
    keys = build_defs(tables).resolve_asset_graph().get_all_asset_keys()
    assert {dg.AssetKey("first_folder"), dg.AssetKey("second_folder")} <= keys
