"""The page about generated records: its declarations are accepted, and its record is the one of that number."""

import json
import re
from typing import Any

from lakehouse.declaration import Generated
from lakehouse.decoding.generated import value_writer
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "generated.md").read_text(encoding="utf-8")


def declarations() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__file__": "hashes.py"}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(example, "generated.md", "exec"), namespace)  # noqa: S102 - the page's own examples
    return namespace


def test_the_record_of_the_page_is_generated_and_becomes_a_row() -> None:
    hashes = declarations()["hashes"]
    (record,) = re.findall(r"such as `(\{.*?\})`", PAGE)
    number = json.loads(record)["value"]
    assert value_writer(hashes.source.fields, hashes.source.seed)(number) == record.encode()
    assert hashes.decode(record.encode()) == json.loads(record)


def test_the_source_of_the_page_is_the_default_with_its_options() -> None:
    assert declarations()["hashes"].source == Generated()
    defaults = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    expected = {name: f"{getattr(Generated(), name):,}" for name in ("rate", "partitions", "seed")}
    assert defaults == expected


def test_the_million_of_the_page_has_a_fixed_number_of_records() -> None:
    assert declarations()["million"].source.count == 1_000_000
