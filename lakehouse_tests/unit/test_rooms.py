"""What one module alone decides, no other asks."""

import ast
import re

import pytest

from lakehouse_tests.helpers.places import ROOT

SOURCES = sorted((ROOT / "lakehouse").rglob("*.py"))


def asking(pattern: str) -> set[str]:
    """The modules whose code holds this pattern."""
    found = re.compile(pattern)
    return {str(file.relative_to(ROOT / "lakehouse")) for file in SOURCES if found.search(file.read_text("utf-8"))}


def test_the_store_alone_tells_a_path_from_an_address() -> None:
    assert asking(r"""["'](://|file:/*)["']""") == {"settings/store.py"}


def test_the_text_of_a_merge_is_made_in_one_place() -> None:
    assert asking(r"WHEN (NOT )?MATCHED") == {"storage/merge_spec.py"}


def test_who_writes_rows_is_decided_in_one_place() -> None:
    assert asking(r"\bis_quick(_to_merge)?\(") == {"storage/eligibility.py", "storage/stored_table.py"}


def imported(source: str) -> set[str]:
    """What a module imports, each by its whole name."""
    nodes = [*ast.walk(ast.parse(source))]
    whole = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    parts = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return whole | {f"{node.module}.{name.name}" for node in parts for name in node.names}


def writes_past_the_stored_table(source: str) -> list[str]:
    """What a module imports of the functions, or of their modules, that only ``StoredTable`` calls."""
    functions = r"(ensure_table|read_table|read_rows|read_changes|upkeep|commit_\w+|(append|merge|store)_quickly"
    functions += r"|reform|leave_statistics|run_statement)"
    module = r"lakehouse\.storage\.(schema_change\.(apply|rewrite)|table_files|delta_rs_writer|spark_writer|statement)"
    past = re.compile(rf"{module}|{module}\.{functions}")
    return sorted(name for name in imported(source) if past.fullmatch(name))


@pytest.mark.parametrize(
    "source",
    [
        "from lakehouse.storage.spark_writer import commit_merge",
        "from lakehouse.storage.delta_rs_writer import store_quickly as store",
        "from lakehouse.storage import spark_writer",
        "import lakehouse.storage.schema_change.apply",
    ],
)
def test_what_writes_past_the_stored_table_is_seen(source: str) -> None:
    assert writes_past_the_stored_table(source)


def test_steps_make_read_and_write_tables_through_the_stored_table_alone() -> None:
    room = ROOT / "lakehouse" / "storage"
    assert writes_past_the_stored_table((room / "stored_table.py").read_text("utf-8"))
    others = {file: writes_past_the_stored_table(file.read_text("utf-8")) for file in SOURCES}
    assert {str(file): past for file, past in others.items() if past and room not in file.parents} == {}
    assert {module for module in asking(r"""format\(["']delta["']\)""") if not module.startswith("storage/")} == set()


FORMATS = ROOT / "lakehouse" / "decoding" / "formats"


def classes_of_formats() -> set[str]:
    """The formats and their parsers, by their names."""
    nodes = (node for file in FORMATS.glob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    bases = {node.name: {*map(ast.unparse, node.bases)} for node in nodes if isinstance(node, ast.ClassDef)}
    classes = {"Format", "Parser"}
    while derived := {name for name, above in bases.items() if above & classes} - classes:
        classes |= derived
    return classes - {"Format", "Parser"}


CLASSES = classes_of_formats()


def names_format(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in CLASSES


def asks_which_format(source: str) -> list[str]:
    """Where the class of a format is used for anything but to make a value of it, or such a value is compared."""
    nodes = [*ast.walk(ast.parse(source))]
    makes = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    makes |= {id(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg == "default_factory"}
    compares = [node for node in nodes if isinstance(node, ast.Compare) and any(map(names_format, ast.walk(node)))]
    uses = [node for node in nodes if names_format(node) and id(node) not in makes]
    return [ast.unparse(node) for node in (*compares, *uses)]


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(table.format, Avro)",
        "isinstance(form, (Json, int))",
        "isinstance(parser, avro_format.AvroParser)",
        "type(form) is Json",
        "form == Json(framed=True)",
        "kind = Avro",
        "def f(form: Json | Avro): pass",
        "match form:\n    case Avro(): pass",
    ],
)
def test_what_asks_which_format_it_has_is_seen(source: str) -> None:
    assert asks_which_format(source)


def test_what_makes_a_format_or_asks_one_is_not_seen() -> None:
    source = "a = Avro()\nb: Format = field(default_factory=Json)\ndef f(form: Format): return form.framed"
    assert asks_which_format(source) == []


def test_no_module_but_a_format_asks_which_format_it_has() -> None:
    assert {"Avro", "Json", "AvroParser", "JsonParser"} <= CLASSES
    others = {file: asks_which_format(file.read_text("utf-8")) for file in SOURCES if FORMATS not in file.parents}
    assert {str(file.relative_to(ROOT)): asked for file, asked in others.items() if asked} == {}


def test_the_kind_of_a_schema_is_named_by_its_format() -> None:
    modules = asking(r"""["'](AVRO|PROTOBUF)["']""")
    assert "decoding/formats/avro_nodes.py" in modules
    assert [module for module in modules if not module.startswith("decoding/formats/")] == []


def test_a_reason_of_one_format_alone_is_named_in_its_modules() -> None:
    modules = asking(r"""["']invalid_avro["']""")
    assert modules
    assert {module for module in modules if not module.startswith("decoding/formats/avro_")} == set()


WORDS_OF_KAFKA = ("cluster_id", "topic_id", "incarnation", "offset", "offsets")
NO_OFFSETS_OF_A_TOPIC = {
    "cli/peek.py": "a record as Kafka's client gives it",
    "ingest/around_timeless.py": "the same",
    "decoding/fast/plain_records.py": "where bytes begin in an array",
    "decoding/fast/plain_times.py": "the same",
    "declaration/rules/time_rules.py": "of a time from UTC",
}


def named_in(source: str) -> set[str]:
    """Every name in a module, without underscores around it: what it makes, asks and imports."""
    nodes = [*ast.walk(ast.parse(source))]
    found = {getattr(node, of, None) for node in nodes for of in ("id", "attr", "arg", "name", "asname")}
    parts = {part for name in found if isinstance(name, str) for part in name.split(".")}
    return {name.strip("_").lower() for name in parts}


@pytest.mark.parametrize(
    "source",
    [
        "offset = 3",
        "state.topic_id",
        "def f(_offset: int): pass",
        "f(incarnation=here)",
        "class Incarnation: pass",
        "from lakehouse.kafka import Incarnation as Id",
        "OFFSETS = {}",
    ],
)
def test_a_word_of_kafka_is_seen(source: str) -> None:
    assert named_in(source) & {*WORDS_OF_KAFKA}


def test_words_of_kafka_stay_with_kafka() -> None:
    named = {str(file.relative_to(ROOT / "lakehouse")): named_in(file.read_text("utf-8")) for file in SOURCES}
    places = {place for place, names in named.items() if names & {*WORDS_OF_KAFKA}}
    assert {place for place in places if not place.startswith("kafka/")} == set(NO_OFFSETS_OF_A_TOPIC)


def test_no_statement_asks_rows_for_offsets() -> None:
    assert asking(r"(_record|position|_kept\S*)\.(offset|incarnation)\b") == set()
