"""How far a comparison is, as a terminal shows it."""

import pytest

from lakehouse.cli import compare
from lakehouse.cli.compare import PassFigures, progress_text
from lakehouse.cli.output import spinner
from lakehouse.operations.compare import Progress

PROGRESS = Progress("public.items", 20_000, 1_000_000, 1, 4)


def test_the_text_has_the_rows_of_an_estimate_and_the_pass_of_how_many() -> None:
    assert progress_text(PROGRESS) == "20,000 of about 1,000,000 rows of public.items, pass 1 of at most 4"
    assert progress_text(Progress("items", 1, None, 2, 11)) == "1 row of items, pass 2 of at most 11"


def test_the_text_changes_at_most_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(compare, "monotonic", lambda: now)
    figures = PassFigures()
    assert str(figures) == ""
    texts = list[str]()
    for tenth in range(25):
        now = 100.0 + tenth / 10
        figures.show(PROGRESS._replace(rows=tenth))
        texts.append(str(figures).partition(" ")[0])
    assert texts == ["0"] * 10 + ["10"] * 10 + ["20"] * 5


def test_only_a_terminal_shows_the_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def spinner_text() -> str:
        figures = PassFigures()
        figures.show(PROGRESS)
        with spinner("Comparing", figures):
            pass
        return capsys.readouterr().err

    assert spinner_text() == ""
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then assumes a terminal
    monkeypatch.setenv("COLUMNS", "200")
    assert "20,000 of about 1,000,000 rows of public.items, pass 1 of at most 4" in spinner_text()
