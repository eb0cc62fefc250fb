"""What one module decides, no other module decides again."""

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable

import pytest

from lakehouse_tests.helpers.places import ROOT

SOURCES = sorted((ROOT / "lakehouse").rglob("*.py"))


def modules_with(pattern: str) -> set[str]:
    """The modules whose code contains this pattern."""
    regex = re.compile(pattern)
    return {str(file.relative_to(ROOT / "lakehouse")) for file in SOURCES if regex.search(file.read_text("utf-8"))}


def test_only_the_store_distinguishes_a_path_from_a_uri() -> None:
    assert modules_with(r"""["'](://|file:/*)["']""") == {"settings/store.py"}


def test_only_one_module_builds_the_text_of_a_merge() -> None:
    assert modules_with(r"WHEN (NOT )?MATCHED") == {"storage/merge_spec.py"}


def test_only_one_module_decides_which_writer_writes_rows() -> None:
    assert modules_with(r"\bcan_(append|merge)_quickly\(") == {"storage/eligibility.py", "storage/stored_table.py"}


def imported_names(source: str) -> set[str]:
    """The full names that a module imports."""
    nodes = [*ast.walk(ast.parse(source))]
    modules = {name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    from_imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return modules | {f"{node.module}.{name.name}" for node in from_imports for name in node.names}


def imports_past_stored_table(source: str) -> list[str]:
    """The imports of functions that only ``StoredTable`` calls, or of their modules."""
    functions = r"(ensure_table|read_table|read_rows|read_changes|run_upkeep|commit_\w+|(append|upsert|write)_quickly"
    functions += r"|rewrite_table|restrict_statistics|run_statement)"
    module = r"lakehouse\.storage\.(schema_change|data_files|delta_rs_writer|spark_writer|statement)"
    private_import = re.compile(rf"{module}|{module}\.{functions}")
    return sorted(name for name in imported_names(source) if private_import.fullmatch(name))


@pytest.mark.parametrize(
    "source",
    [
        "from lakehouse.storage.spark_writer import commit_merge",
        "from lakehouse.storage.delta_rs_writer import write_quickly as store",
        "from lakehouse.storage import spark_writer",
        "import lakehouse.storage.schema_change",
    ],
)
def test_an_import_past_the_stored_table_is_detected(source: str) -> None:
    assert imports_past_stored_table(source)


def test_steps_access_tables_only_through_the_stored_table() -> None:
    storage = ROOT / "lakehouse" / "storage"
    assert imports_past_stored_table((storage / "stored_table.py").read_text("utf-8"))
    imports = {file: imports_past_stored_table(file.read_text("utf-8")) for file in SOURCES}
    assert {str(file): names for file, names in imports.items() if names and storage not in file.parents} == {}
    assert {
        module for module in modules_with(r"""format\(["']delta["']\)""") if not module.startswith("storage/")
    } == set()


FORMATS = ROOT / "lakehouse" / "decoding" / "formats"


def format_classes() -> set[str]:
    """The class names of the formats and their parsers."""
    nodes = (node for file in FORMATS.rglob("*.py") for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    bases = {node.name: {*map(ast.unparse, node.bases)} for node in nodes if isinstance(node, ast.ClassDef)}
    classes = {"Format", "Parser"}
    while derived := {name for name, base_names in bases.items() if base_names & classes} - classes:
        classes |= derived
    return classes - {"Format", "Parser"}


FORMAT_CLASSES = format_classes()
FORMAT_PACKAGES = ("lakehouse.declaration", "lakehouse.decoding")


def names_of_others(nodes: Iterable[ast.AST]) -> set[str]:
    """The names of format classes that mean something else in a module: those of another package."""
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    foreign_imports = [node for node in imports if not (node.module or "").startswith(FORMAT_PACKAGES)]
    assignments = [node for node in nodes if isinstance(node, ast.Assign)]
    targets = {target.id for node in assignments for target in node.targets if isinstance(target, ast.Name)}
    return targets | {alias.asname or alias.name for node in foreign_imports for alias in node.names}


def format_decisions(source: str) -> list[str]:
    """Uses of the class of a format other than creating an instance, and comparisons of such an instance."""
    nodes = [*ast.walk(ast.parse(source))]
    format_names = FORMAT_CLASSES - names_of_others(nodes)

    def names_format(node: ast.AST) -> bool:
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in format_names

    constructor_calls = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    constructor_calls |= {
        id(node.value) for node in nodes if isinstance(node, ast.keyword) and node.arg == "default_factory"
    }
    comparisons = [node for node in nodes if isinstance(node, ast.Compare) and any(map(names_format, ast.walk(node)))]
    uses = [node for node in nodes if names_format(node) and id(node) not in constructor_calls]
    return [ast.unparse(node) for node in (*comparisons, *uses)]


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(table.format, Avro)",
        "isinstance(form, (Json, int))",
        "isinstance(parser, avro.AvroParser)",
        "type(form) is Json",
        "form == Json(framed=True)",
        "kind = Avro",
        "def f(form: Json | Avro): pass",
        "match form:\n    case Avro(): pass",
        "from lakehouse.declaration import Text\nisinstance(form, Text)",
    ],
)
def test_a_decision_by_the_class_of_a_format_is_detected(source: str) -> None:
    assert format_decisions(source)


def test_creating_or_calling_a_format_is_allowed() -> None:
    assert format_decisions("from rich.text import Text\ndef f(text: Text): pass") == []
    source = "a = Avro()\nb: Format = field(default_factory=Json)\ndef f(form: Format): return form.framed"
    assert format_decisions(source) == []


def test_only_format_modules_decide_by_the_class_of_a_format() -> None:
    assert {"Avro", "Json", "AvroParser", "JsonParser"} <= FORMAT_CLASSES
    decisions = {file: format_decisions(file.read_text("utf-8")) for file in SOURCES if FORMATS not in file.parents}
    assert {str(file.relative_to(ROOT)): uses for file, uses in decisions.items() if uses} == {}


def test_only_format_modules_name_the_type_of_a_schema() -> None:
    modules = modules_with(r"""["'](AVRO|PROTOBUF)["']""")
    assert "decoding/formats/avro/nodes.py" in modules
    assert [module for module in modules if not module.startswith("decoding/formats/")] == []


def test_only_the_modules_of_a_format_name_its_own_reason() -> None:
    modules = modules_with(r"""["']invalid_avro["']""")
    assert modules
    assert {module for module in modules if not module.startswith("decoding/formats/avro/")} == set()


KAFKA_WORDS = ("cluster_id", "topic_id", "incarnation", "offset", "offsets")
OTHER_MEANINGS = {
    "decoding/verdicts.py": "of lists in an array",
    "decoding/files/lines.py": "of bytes in an array",
    "decoding/conversion/times.py": "the same",
    "declaration/sql/queries.py": "a part of SQL",
    "ledger/log_copies.py": "the name that a listing of a store begins after",
}


def names_in(source: str) -> set[str]:
    """Every name in a module, without surrounding underscores: definitions, uses and imports."""
    nodes = [*ast.walk(ast.parse(source))]
    values = {getattr(node, attribute, None) for node in nodes for attribute in ("id", "attr", "arg", "name", "asname")}
    parts = {part for name in values if isinstance(name, str) for part in name.split(".")}
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
def test_a_kafka_word_is_detected(source: str) -> None:
    assert names_in(source) & {*KAFKA_WORDS}


def test_only_the_kafka_package_uses_kafka_words() -> None:
    names_by_module = {str(file.relative_to(ROOT / "lakehouse")): names_in(file.read_text("utf-8")) for file in SOURCES}
    places = {place for place, names in names_by_module.items() if names & {*KAFKA_WORDS}}
    assert {place for place in places if not place.startswith("kafka/")} == set(OTHER_MEANINGS)


def test_no_statement_reads_offsets_from_rows() -> None:
    assert modules_with(r"(_record|position|_kept\S*)\.(offset|incarnation)\b") == set()


def lines_by_room() -> Counter[str]:
    """The lines of Python in each package of lakehouse, and in the modules at its top level."""
    lines = Counter[str]()
    for path in (ROOT / "lakehouse").rglob("*.py"):
        room, *inner = path.relative_to(ROOT / "lakehouse").parts
        lines[room if inner else "top level"] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def test_no_room_has_more_lines_than_its_budget() -> None:
    budgets = tomllib.loads((ROOT / "docs" / "contributing" / "line-budgets.toml").read_text(encoding="utf-8"))
    lines = lines_by_room()
    assert {*budgets} == {*lines}
    advice = "delete something first, or raise the budget with a page in docs/decisions that says what could not go"
    assert {room: count for room, count in lines.items() if count > budgets[room]} == {}, advice
