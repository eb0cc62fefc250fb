"""The example of heart rates over real files, as they are and spoiled: it equals what Python computes without Spark."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.heart_rates import Clinic, elements_of, patients_in, rows_of

TRACKER = ROOT.parent / "shared" / "data" / "tracker"
MONTHS = ("01.json.gz", "02.json.gz", "03.json.gz")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (TRACKER / "patients.csv").exists(), reason=f"the heart-rate files are not in {TRACKER}"),
]


@pytest.fixture
def clinic(spark: SparkSession, tmp_path: Path) -> Clinic:
    return Clinic.of(spark, tmp_path, (TRACKER / "patients.csv").read_bytes())


def test_monthly_files_become_the_rows_counts_and_averages_that_python_computes(clinic: Clinic) -> None:
    contents = {name: (TRACKER / name).read_bytes() for name in MONTHS}
    patients = patients_in((TRACKER / "patients.csv").read_bytes())
    first, *later = MONTHS
    clinic.land(first, contents[first])
    clinic.merge()
    clinic.assert_equals(rows_of(elements_of(contents[first]), patients))
    for name in later:
        clinic.land(name, contents[name])
    clinic.merge()
    elements = [element for content in contents.values() for element in elements_of(content)]
    clinic.assert_equals(rows_of(elements, patients))
    without_rate = sum(float(element["heartrate"]) <= 0 for element in elements)
    assert Counter(reason for reason, _ in clinic.rejected()) == {"no_rate": without_rate}
    clinic.assert_accounted()


def test_spoiled_files_give_the_rows_that_python_reads_in_them(clinic: Clinic, tmp_path: Path) -> None:
    january, february, march = (elements_of((TRACKER / name).read_bytes()) for name in MONTHS)
    stranger = january[0]["mrn"]
    lines = (TRACKER / "patients.csv").read_bytes().splitlines(keepends=True)
    patients = b"".join(line for line in lines if not line.startswith(stranger.encode()))
    (tmp_path / "patients.csv").write_bytes(patients)
    bad = [{**january[1], "time": "noon"}, {"device_id": "3"}, 5, [], None, {**january[2], "heartrate": "fast"}]
    spoiled = [*january[:100], *bad, *january[100:]]
    clinic.land("01.json", json.dumps(spoiled, indent=4).encode())
    clinic.land("01_again.json.gz", gzip.compress(json.dumps(spoiled).encode()))
    whole = json.dumps(february, indent=4).encode()
    end = whole.index(json.dumps(february[500]["time"]).encode())
    clinic.land("02.json", whole[:end])
    clinic.land("03.json", json.dumps(march[:1000]).encode())
    clinic.merge()
    changed = [{**element, "heartrate": "61.25"} for element in march[:10]]
    clinic.land("03.json", json.dumps([*march[10:2000], *changed]).encode())
    clinic.merge()
    read = [*spoiled, *spoiled, *february[:500], *march[:1000], *march[10:2000], *changed]
    clinic.assert_equals(rows_of(read, patients_in(patients)))
    reasons = Counter(reason for reason, _ in clinic.rejected())
    rates = [float(e["heartrate"]) for e in read if isinstance(e, dict) and e.get("heartrate", "fast") != "fast"]
    # an element with a bad time and a rate of zero or less has one reason
    assert reasons["no_rate"] == sum(rate <= 0 for rate in rates)
    assert reasons["unknown_patient"] == sum(
        isinstance(e, dict) and e.get("mrn") == stranger and e not in bad and float(e["heartrate"]) > 0 for e in read
    )
    assert reasons["unreadable_file"] == 1
    assert sum(reasons.values()) == reasons["no_rate"] + reasons["unknown_patient"] + 1 + 2 * len(bad)
    clinic.assert_accounted()
