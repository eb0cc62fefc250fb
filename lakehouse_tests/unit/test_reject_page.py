"""The page about rules that reject: its declarations are valid, and say what it shows."""

import json
import re

from lakehouse import Reject
from lakehouse_tests.helpers.pages import run_examples
from lakehouse_tests.helpers.places import ROOT

PAGE = (ROOT / "docs" / "how-to" / "reject.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_declarations_of_the_page_have_the_rules_that_it_describes() -> None:
    names: dict[str, object] = {}
    run_examples("reject.md", EXAMPLES, names)
    no_rate = Reject("no_rate", when="heartrate <= 0")
    assert names["heart"].rejects == [no_rate]  # type: ignore[attr-defined]
    unknown = Reject("unknown_patient", unknown="patients", by=["mrn"])
    assert names["heart_of_patients"].rejects == [no_rate, unknown]  # type: ignore[attr-defined]
    (element,) = re.findall(r"The element `(.*?)`", PAGE)
    row = names["heart"].decode(element.encode())  # type: ignore[attr-defined]
    assert f"'heartrate' is {row['heartrate']}`" in PAGE
    assert json.loads(element)["heartrate"] == str(row["heartrate"])
