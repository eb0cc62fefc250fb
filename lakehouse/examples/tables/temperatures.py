"""Hourly air temperature at six places, from weather files and a topic of readings."""

from pathlib import Path

from lakehouse.declaration import Column, Json, Measure, Month, Reference, Rollup, StreamTable, Time
from lakehouse.examples.samples import TemperatureSamples
from lakehouse.ingest.sources import OpenMeteoFiles

_LATITUDE = Column(
    "latitude", "DECIMAL(9,6)", required=True, between=(-90, 90), doc="Degrees north of the equator (WGS 84)."
)
_LONGITUDE = Column(
    "longitude", "DECIMAL(9,6)", required=True, between=(-180, 180), doc="Degrees east of Greenwich (WGS 84)."
)
_READING = "CAST(temperature_2m AS DECIMAL(18,6))"

temperatures = StreamTable(
    name="temperatures",
    topic="temperatures",
    doc="Air temperature 2 m above the ground: one row for each place and hour.",
    file=__file__,
    format=Json(),
    columns=[
        _LATITUDE,
        _LONGITUDE,
        Column(
            "observed_at",
            "TIMESTAMP",
            required=True,
            source="time",
            written=Time("%Y-%m-%dT%H:%M"),
            doc="Hour of the reading, UTC.",
        ),
        Column(
            "temperature_2m",
            "DOUBLE",
            between=(-100, 70),
            keep=True,
            doc="Air temperature at 2 m in degrees Celsius; NULL if no record had a value.",
        ),
    ],
    key=["latitude", "longitude", "observed_at"],
    partition_by=Month("observed_at"),
    base=OpenMeteoFiles(default_folder=Path("data/temperatures/base")),
    references=[
        Reference(
            name="locations",
            file=Path("data/temperatures/locations.jsonl"),
            columns=[
                _LATITUDE,
                _LONGITUDE,
                Column("elevation", "DOUBLE", doc="Metres above sea level."),
                Column("name", "STRING", required=True, doc="Name of the place."),
            ],
            key=["latitude", "longitude"],
            doc="The measured places: one row for each.",
        )
    ],
    rollups=[
        Rollup(
            name="temperatures_by_location",
            by=["latitude", "longitude", "observed_month"],
            doc="Temperatures by place and month. Figures for longer periods can be computed from its rows.",
            measures={
                "rows": Measure("count(*)", "BIGINT", "Number of hours with a row."),
                "readings": Measure("count(temperature_2m)", "BIGINT", "Number of hours with a temperature."),
                "temperature_min": Measure("min(temperature_2m)", "DOUBLE", "Lowest temperature, degrees Celsius."),
                "temperature_max": Measure("max(temperature_2m)", "DOUBLE", "Highest temperature, degrees Celsius."),
                "temperature_sum": Measure(
                    f"sum({_READING})", "DECIMAL(28,6)", "Exact sum of the readings, for averages of longer periods."
                ),
                "temperature_avg": Measure(
                    f"CAST(sum({_READING}) / count(temperature_2m) AS DOUBLE)",
                    "DOUBLE",
                    "Mean temperature, degrees Celsius.",
                ),
                "first_observed_at": Measure("min(observed_at)", "TIMESTAMP", "First hour with a row, UTC."),
                "last_observed_at": Measure("max(observed_at)", "TIMESTAMP", "Last hour with a row, UTC."),
            },
        )
    ],
    samples=TemperatureSamples(),
)
