"""``lakehouse new-table --from-auto-cdc``: a declaration from a flow, with and without records."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from lakehouse.cli import main
from lakehouse.declaration import FieldIs, StreamTable
from lakehouse.discovery import _declared_in, declared_tables
from lakehouse.kafka import Record
from lakehouse.settings import Settings

RECORDS: list[dict[str, object]] = [
    {"userId": 124, "name": "Raul", "city": "Oaxaca", "Operation": "INSERT", "sequenceNum": 1, "tags": {"a": 1}},
    {"userId": 123, "name": "Isabel", "city": "Monterrey", "Operation": "DELETE", "sequenceNum": 6, "tags": {"a": 2}},
]
FLOW = "CREATE FLOW f AS AUTO CDC INTO users FROM stream(cdc_data.users) KEYS (userid) SEQUENCE BY sequenceNum"
Write = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    declarations = tmp_path / f"lake_{uuid4().hex}"
    declarations.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_DECLARATIONS", declarations.name)
    Path("users.jsonl").write_text("\n".join(map(json.dumps, RECORDS)), encoding="utf-8")
    return declarations


def new_table(flow: str, *options: str, file: str = "pipeline.sql") -> int:
    Path(file).write_text(flow, encoding="utf-8")
    return main.run(["new-table", "users", "--from-auto-cdc", file, *options])


def new_users(folder: Path, flow: str, *options: str) -> tuple[StreamTable, str]:
    """The table that is declared for a flow, and the text of its file as one line."""
    assert new_table(flow, *options) == main.DONE
    _declared_in.cache_clear()  # as in another process, which reads the folder again
    (table,) = declared_tables(Settings.load())
    text = (folder / "users.py").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 120
    return table, " ".join(text.replace("\n#", " ").split())


SAMPLE = ("--from-sample", "users.jsonl")


def test_records_give_the_types_and_the_flow_gives_the_rest(folder: Path) -> None:
    table, text = new_users(
        folder,
        f"{FLOW} COLUMNS * EXCEPT (operation, sequencenum, tags) APPLY AS DELETE WHEN operation = 'DELETE'",
        *SAMPLE,
    )
    assert [(column.name, column.type, column.required) for column in table.columns] == [
        ("user_id", "BIGINT", True),
        ("name", "STRING", False),
        ("city", "STRING", False),
        ("sequence_num", "BIGINT", True),
    ]
    assert (table.topic, table.key, table.version) == ("users", ["user_id"], "sequence_num")
    assert table.apply_as_deletes == FieldIs("Operation", ["DELETE"]), "the name as the records spell it"
    assert "The flow leaves out 'sequenceNum'. It is a column here" in text
    assert "The flow reads 'cdc_data.users', the table the topic users" in text
    assert "judging by these records" not in text and "log table" not in text
    assert "Proposed from the flow in 'pipeline.sql, line 1' and 2 records." in text


def test_ignored_nulls_keep_every_column_but_the_key_and_the_version(folder: Path) -> None:
    table, _ = new_users(folder, f"{FLOW} IGNORE NULL UPDATES COLUMNS (name, city, userId)", *SAMPLE)
    assert {column.name: column.keep for column in table.columns} == {
        "user_id": False,
        "name": True,
        "city": True,
        "sequence_num": False,
    }


def test_without_records_the_columns_are_those_that_the_flow_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, text = new_users(folder, f"{FLOW} COLUMNS (userId, the_name, `the City`)")
    columns = [(column.name, column.type, column.source, column.required) for column in table.columns]
    assert columns == [
        ("user_id", "STRING", "userId", True),
        ("sequence_num", "BIGINT", "sequenceNum", True),
        ("the_name", "STRING", None, False),
        ("the_city", "STRING", "the City", False),
    ]
    assert "check each type" in text and "--from-topic TOPIC" in text
    assert "the topic users" in text
    assert "from the flow in 'pipeline.sql, line 1'. " in " ".join(capsys.readouterr().out.split())


def test_a_history_is_explained_by_the_change_feed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text = new_users(folder, f"{FLOW} STORED AS SCD TYPE 2 TRACK HISTORY ON city", *SAMPLE)
    output = " ".join(capsys.readouterr().out.split())
    for shown_text in (text, output):
        assert "The flow stores the history (SCD type 2)" in shown_text
        assert "several changes of a key in one batch are one row" in shown_text
        assert "The flow keeps the history of some columns" in shown_text


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("kind = 'DELETE'", "apply_as_deletes: these records have no field 'kind'"),
        ("operation = 1", "apply_as_deletes: 'Operation' is STRING in these records, and never equals 1"),
        ("tags.a = 'x'", "apply_as_deletes: 'tags.a' is BIGINT in these records, and never equals 'x'"),
        ("sequenceNum = true", "'sequenceNum' is BIGINT in these records, and never equals True"),
    ],
)
def test_a_condition_that_the_records_contradict_is_named(folder: Path, condition: str, message: str) -> None:
    _, text = new_users(folder, f"{FLOW} APPLY AS DELETE WHEN {condition}", *SAMPLE)
    assert message in text


def test_a_condition_that_the_records_may_meet_is_not_named(folder: Path) -> None:
    _, text = new_users(folder, f"{FLOW} APPLY AS DELETE WHEN tags.a IN (1, 2)", *SAMPLE)
    assert "apply_as_deletes:" not in text
    assert 'apply_as_deletes=FieldIs(("tags", "a"), [1, 2])' in text


def test_a_selected_column_that_no_record_has_is_named(folder: Path) -> None:
    table, text = new_users(folder, f"{FLOW} COLUMNS (userId, age)", *SAMPLE)
    assert [column.name for column in table.columns] == ["user_id", "sequence_num"]
    assert "Field 'age' is left out: these records do not have it" in text


def test_truncates_are_written_as_deletes_are(folder: Path) -> None:
    assert new_table(f"{FLOW} APPLY AS TRUNCATE WHEN operation = 'TRUNCATE'", *SAMPLE) == main.DONE
    text = (folder / "users.py").read_text(encoding="utf-8")
    assert '    apply_as_truncates=FieldIs("Operation", ["TRUNCATE"]),\n' in text
    assert "from lakehouse import Column, FieldIs, StreamTable" in text


def test_the_records_of_the_named_topic_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Record(0, number, 0, None, json.dumps(record).encode(), ()) for number, record in enumerate(RECORDS)]
    monkeypatch.setattr("lakehouse.kafka.newest_records", lambda *_: records)
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    table, _ = new_users(folder, FLOW, "--from-topic", "shop-users")
    assert (table.topic, table.by_name["user_id"].type) == ("shop-users", "BIGINT")


def test_changes_of_a_database_need_no_flow(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    change = {"before": None, "after": {"userId": 1}, "op": "c", "source": {"lsn": 1, "connector": "postgresql"}}
    records = [Record(0, 0, 0, None, json.dumps(change).encode(), ())]
    monkeypatch.setattr("lakehouse.kafka.newest_records", lambda *_: records)
    monkeypatch.setenv("LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    assert new_table(FLOW, "--from-topic", "users") == main.FAILED
    assert "are changes of a database" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("flow", "options", "message"),
    [
        ("APPLY CHANGES INTO users FROM users KEYS (id) SEQUENCE BY sequenceNum", SAMPLE, "needs the field 'id'"),
        ("APPLY CHANGES INTO users FROM users KEYS (tags) SEQUENCE BY sequenceNum", SAMPLE, "needs the field 'tags'"),
        ("APPLY CHANGES INTO users FROM `my users` KEYS (id) SEQUENCE BY s", (), "does not name a topic: my users"),
        ("APPLY CHANGES INTO users FROM users KEYS (`é`) SEQUENCE BY s", (), "'é' cannot become a column"),
        ("SELECT 1", (), "has no flow"),
    ],
)
def test_no_file_is_written_for_a_flow_that_does_not_fit(
    folder: Path, flow: str, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new_table(flow, *options) == main.FAILED
    assert message in " ".join(capsys.readouterr().err.split())
    assert list(folder.iterdir()) == []


def test_an_empty_sample_is_not_a_flow_without_records(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("users.jsonl").write_text("")
    assert new_table(FLOW, *SAMPLE) == main.FAILED
    assert "There are no records" in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_not_text_is_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("pipeline.sql").write_bytes(b"\xff")
    assert main.run(["new-table", "users", "--from-auto-cdc", "pipeline.sql"]) == main.WRONG_USE
    assert "pipeline.sql cannot be read: it is not UTF-8" in " ".join(capsys.readouterr().err.split())


def test_the_names_of_a_flow_are_never_run_as_code(folder: Path) -> None:
    name = 'x"), exec("1/0'
    table, _ = new_users(folder, FLOW.replace("userid", f"`{name}`").replace("cdc_data", "`a\n1/0`"))
    assert table.columns[0].source == name
