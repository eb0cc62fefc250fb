"""The file whose lines ``publish`` sends."""

import os
from pathlib import Path

import pytest
import typer

from lakehouse.cli.publish import open_lines


def test_a_pipe_is_refused_because_its_lines_are_checked_before_they_are_sent(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    descriptor = os.open(pipe, os.O_RDWR)  # so that opening it does not wait for a writer
    try:
        with pytest.raises(typer.BadParameter, match="pipe can be read only once; for"), open_lines(str(pipe)):
            pass
    finally:
        os.close(descriptor)
