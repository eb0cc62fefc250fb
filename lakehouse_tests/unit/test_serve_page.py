"""The page about the API: each request gets the answer that it shows."""

import json
import shlex
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse_tests.helpers.api_servers import api_server
from lakehouse_tests.helpers.pages import read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.feeds import append_changes
from lakehouse_tests.helpers.tables.versions import put_commit_time

PAGE = ROOT / "docs" / "how-to" / "serve.md"
START = datetime(2023, 1, 1, tzinfo=UTC)
ROWS = [("51.500000", 0, 10.0), ("51.500000", 1, 10.5), ("51.500000", 2, None), ("61.199997", 24 * 40, -3.0)]


def write_tables(folder: Path) -> None:
    columns = zip(*ROWS, strict=True)
    latitudes, hours, temperatures = (list(values) for values in columns)
    rows = pa.table(
        {
            "latitude": pa.array([Decimal(text) for text in latitudes], pa.decimal128(9, 6)),
            "observed_at": pa.array([START + timedelta(hours=hour) for hour in hours], pa.timestamp("us", "UTC")),
            "temperature_2m": pa.array(temperatures, pa.float64()),
        }
    )
    for part in (rows.slice(0, 2), rows.slice(2)):
        write_deltalake(folder, part, mode="append")
    put_commit_time(folder, 1, datetime(2026, 11, 1, tzinfo=UTC))
    append_changes(folder, [(1, "insert", 1, 1)], source_version=1)


def test_each_request_of_the_page_gets_the_answer_that_it_shows(tmp_path: Path) -> None:
    write_tables(tmp_path / "tables" / "temperatures")
    steps = read_steps(PAGE)
    requests = [(index, shlex.split(step.text)) for index, step in enumerate(steps) if step.language == "console"]
    compared_answers = 0
    with api_server(tmp_path) as server:
        for index, words in requests:
            assert words[0] == "curl"
            response = server.request(words[-1].partition(":8000")[2])
            assert response.status_code in (200, 400), response.text
            following = steps[index + 1 : index + 2]
            if following and following[0].language == "json":
                assert response.json() == json.loads(following[0].text)
                compared_answers += 1
    assert (len(requests), compared_answers) == (6, 3)


def test_the_first_line_is_what_the_command_prints() -> None:
    (step,) = [step for step in read_steps(PAGE) if step.language == "sh"]
    assert "lakehouse serve" in step.text
    assert step.shows(
        "Serving /x/tables at http://127.0.0.1:1/v1 (this machine only, without a token). Ctrl-C ends it."
    )
