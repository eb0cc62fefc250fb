"""The page about files: its declarations read what it shows."""

import re
from datetime import timedelta
from typing import Any

from lakehouse.decoding.files.contents import chunk_hashes
from lakehouse.decoding.files.reader import FileForm, FilePart, read_part
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "files.md").read_text(encoding="utf-8")


def declarations() -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(example, "files.md", "exec"), namespace)  # noqa: S102 - the page's own examples
    return namespace


def test_an_element_of_the_page_becomes_its_row() -> None:
    (element,) = re.findall(r"The element `(.*?)`", PAGE)
    row = declarations()["heart_rates"].decode(element.encode())
    cells = [cell.strip() for cell in re.findall(r"^\| 23 \|.*$", PAGE, re.MULTILINE)[0].strip("|").split("|")]
    assert [str(row["device_id"]), f"{row['time']:%Y-%m-%d %H:%M:%S.%f}".rstrip("0"), str(row["heartrate"])] == cells


def test_a_line_after_the_header_of_the_page_becomes_a_row(tmp_path: Any) -> None:
    patients = declarations()["patients"]
    file = tmp_path / "patients.csv"
    file.write_bytes(b"mrn,name\n7,Ann\n")
    part, form = (
        FilePart(str(tmp_path), file.name, chunk_hashes(str(tmp_path), file.name)),
        FileForm(header=patients.source.header),
    )
    (records,) = [records for records in read_part(part, form) if len(records.values)]
    assert [patients.decode(value.as_py()) for value in records.values] == [{"mrn": 7, "name": "Ann"}]


def test_the_defaults_of_the_page_are_those_of_the_class() -> None:
    source = declarations()["heart_rates"].source
    assert (source.settle, source.batch_bytes) == (timedelta(seconds=30), 2**30)
    assert "`settle=timedelta(seconds=30)`" in PAGE and "1 GiB together: `batch_bytes`" in PAGE
