"""Lines that are appended to a log."""

from pathlib import Path

from lakehouse.local.process import Tail


def test_only_new_lines_are_returned_and_only_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    tail = Tail(log)
    with log.open("a") as writer:
        writer.write("one\ntwo\n")
    assert tail.lines() == ["one", "two"]
    assert tail.lines() == []


def test_an_incomplete_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    assert tail.lines() == []
    log.write_text("one\ntw")
    assert tail.lines() == ["one"]
    with log.open("a") as writer:
        writer.write("o\n")
    assert tail.lines() == ["two"]


def test_bytes_that_are_not_utf8_are_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    log.write_bytes(b"\xff!\n")
    assert tail.lines() == ["\ufffd!"]


def test_a_recreated_log_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a long line of the old log\n")
    tail = Tail(log)
    log.unlink()
    log.write_text("new\n")
    assert tail.lines() == ["new"]
