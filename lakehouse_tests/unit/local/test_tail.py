"""Lines that are added to a log."""

from pathlib import Path

from lakehouse.local.tail import Tail


def test_only_lines_added_since_are_told_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old\n")
    tail = Tail(log)
    with log.open("a") as writer:
        writer.write("one\ntwo\n")
    assert tail.lines() == ["one", "two"]
    assert tail.lines() == []


def test_part_of_a_line_waits_for_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    assert tail.lines() == []
    log.write_text("one\ntw")
    assert tail.lines() == ["one"]
    with log.open("a") as writer:
        writer.write("o\n")
    assert tail.lines() == ["two"]


def test_bytes_that_are_no_text_are_shown_all_the_same(tmp_path: Path) -> None:
    log = tmp_path / "log"
    tail = Tail(log)
    log.write_bytes(b"\xff!\n")
    assert tail.lines() == ["\ufffd!"]


def test_a_log_that_is_made_anew_is_told_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a long line of the former\n")
    tail = Tail(log)
    log.unlink()
    log.write_text("new\n")
    assert tail.lines() == ["new"]
