"""The sample weather: its counts and keys, and that it never changes."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.records import decode
from lakehouse.examples.samples import MovieRatingSamples, TemperatureSamples
from lakehouse.examples.tables.movie_ratings import movie_ratings
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse_tests.helpers.places import DATA

SAMPLES = TemperatureSamples()

Key = tuple[float, float, str]


@pytest.fixture(scope="module")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples") / "base"
    SAMPLES.write_base(folder)
    return folder


@pytest.fixture(scope="module")
def base(base_folder: Path) -> dict[Key, float]:
    rows = {}
    for file in base_folder.iterdir():
        archive = json.loads(file.read_text(encoding="utf-8"))
        hourly = archive["hourly"]
        for time, value in zip(hourly["time"], hourly["temperature_2m"], strict=True):
            rows[archive["latitude"], archive["longitude"], time] = value
    return rows


def key_of(record: dict[str, Any]) -> Key:
    return record["latitude"], record["longitude"], record["time"]


def test_base_is_24_files_of_six_places_and_four_years(base_folder: Path) -> None:
    names = [file.name.split("_")[:2] for file in base_folder.iterdir()]
    assert len(names) == 24
    assert {year for year, _ in names} == {"2019", "2020", "2021", "2022"}
    assert len({place for _, place in names}) == 6


def test_base_has_35064_hours_of_each_place_and_no_key_twice(base: dict[Key, float]) -> None:
    assert len(base) == 210_384
    assert set(Counter((latitude, longitude) for latitude, longitude, _ in base).values()) == {35_064}
    assert None not in base.values()


def test_a_second_run_writes_the_same_bytes(base_folder: Path, tmp_path: Path) -> None:
    TemperatureSamples().write_base(tmp_path)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == {
        f.name: f.read_bytes() for f in base_folder.iterdir()
    }


def test_another_seed_gives_other_weather() -> None:
    assert next(TemperatureSamples(seed=1).stream()) != next(SAMPLES.stream())


def test_stream_is_26064_new_hours_of_the_first_half_of_2023(base: dict[Key, float]) -> None:
    records = [json.loads(line) for line in SAMPLES.stream()]
    keys = {key_of(record) for record in records}
    assert len(records) == len(keys) == 26_064
    assert not keys & base.keys()
    assert (min(time for *_, time in keys), max(time for *_, time in keys)) == (
        "2023-01-01T00:00",
        "2023-06-30T23:00",
    )
    assert {(latitude, longitude) for latitude, longitude, _ in keys} == {key[:2] for key in base}


def test_96_records_of_one_place_in_the_stream_have_no_temperature() -> None:
    without_temperature = [record for line in SAMPLES.stream() if "temperature_2m" not in (record := json.loads(line))]
    assert len(without_temperature) == 96
    assert len({record["latitude"] for record in without_temperature}) == 1
    assert min(record["time"] for record in without_temperature) == "2023-06-27T00:00"


def test_update_changes_8760_values_and_adds_ten_hours_of_2009(base: dict[Key, float]) -> None:
    records = [json.loads(line) for line in SAMPLES.update()]
    updated_records = [record for record in records if key_of(record) in base]
    added_records = [record for record in records if key_of(record) not in base]
    assert (len(records), len(updated_records), len(added_records)) == (8_770, 8_760, 10)
    assert all(record["temperature_2m"] != base[key_of(record)] for record in updated_records)
    assert len({key_of(record) for record in records}) == 8_770
    assert {record["time"][:4] for record in added_records} == {"2009"}
    assert {(record["latitude"], record["longitude"]) for record in records} == {(61.199997, -149.9)}


def test_temperatures_are_plausible_and_have_one_decimal(base: dict[Key, float]) -> None:
    assert -35 < min(base.values()) < -10
    assert 32 < max(base.values()) < 45
    assert all(value == round(value, 1) for value in base.values())
    january = [value for (latitude, _, time), value in base.items() if latitude == 51.5 and time[5:7] == "01"]
    july = [value for (latitude, _, time), value in base.items() if latitude == 51.5 and time[5:7] == "07"]
    assert sum(july) / len(july) - sum(january) / len(january) > 8


def test_every_sample_record_becomes_a_row() -> None:
    for line in [*SAMPLES.stream(), *SAMPLES.update()]:
        assert decode(line, temperatures.fields)["observed_at"] is not None


def test_the_committed_locations_are_the_six_places_of_the_samples(base: dict[Key, float]) -> None:
    assert (DATA / "locations.jsonl").read_bytes().splitlines() == list(SAMPLES.locations())
    places = [json.loads(line) for line in (DATA / "locations.jsonl").read_bytes().splitlines()]
    assert {(place["latitude"], place["longitude"]) for place in places} == {key[:2] for key in base}
    assert all(place["name"] and place["elevation"] for place in places)


def test_the_committed_stream_has_the_outcomes_that_its_readme_lists() -> None:
    outcomes = []
    for line in (DATA / "stream.jsonl").read_bytes().splitlines():
        try:
            decode(line, temperatures.fields)
            outcomes.append("row")
        except Rejection as rejection:
            outcomes.append(rejection.reason)
    assert outcomes[:11] == ["row"] * 11
    assert outcomes[11:17] == [
        "truncated",
        "invalid_json",
        "not_an_object",
        "trailing_bytes",
        "duplicate_name",
        "not_finite",
    ]
    assert outcomes[17:] == [
        "missing_field",
        "null_field",
        "out_of_range",
        "wrong_type",
        "wrong_time_format",
        "no_such_date",
    ]


def test_the_committed_base_files_are_the_first_week_of_the_generated_files(base_folder: Path) -> None:
    committed_files = sorted((DATA / "base").iterdir())
    assert len(committed_files) == 2
    for file in committed_files:
        sample = json.loads(file.read_text(encoding="utf-8"))
        whole_document = json.loads((base_folder / file.name).read_text(encoding="utf-8"))
        assert sample["hourly"] == {name: values[:168] for name, values in whole_document["hourly"].items()}
        assert sample | {"hourly": None} == whole_document | {"hourly": None}


def test_ratings_of_one_day_do_not_change_and_only_old_ones_are_late() -> None:
    ratings = MovieRatingSamples(today=date(2026, 3, 1))
    records = [json.loads(line) for line in (*ratings.stream(), *ratings.update())]
    assert records == [json.loads(line) for line in (*ratings.stream(), *ratings.update())]
    assert list(replace(ratings, seed=1).stream()) != list(ratings.stream())
    end_of_day = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
    ages = [timedelta(seconds=end_of_day - record["rating_timestamp"]) for record in records]
    assert movie_ratings.late
    assert sum(age > movie_ratings.late.after for age in ages) == 50
    assert max(age for age in ages if age < timedelta(days=9)) < movie_ratings.late.after
