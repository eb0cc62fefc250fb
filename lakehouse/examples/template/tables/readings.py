"""What sensors measure: an example of a declaration, with every kind of table that follows from one."""

from lakehouse import Column, Measure, Month, Rollup, SampleRecords, StreamTable

_SENSORS = ("roof", "cellar")
_HOURS = [f"2026-03-{day:02d}T{hour:02d}:00:00Z" for day in (30, 31) for hour in range(24)]

readings = StreamTable(
    name="readings",
    topic="readings",
    doc="Air temperatures: one row for each sensor and hour, the newest that was told.",
    file=__file__,
    columns=[
        Column("sensor", "STRING", required=True, doc="Name of the sensor."),
        Column("measured_at", "TIMESTAMP", required=True, source="time", pattern="%Y-%m-%dT%H:%M:%SZ", doc="UTC."),
        Column("celsius", "DECIMAL(5,2)", between=(-90, 60), doc="Degrees Celsius; NULL where it measured none."),
    ],
    key=["sensor", "measured_at"],
    partition_by=Month("measured_at"),
    rollups=[
        Rollup(
            name="readings_by_sensor",
            by=["sensor", "measured_month"],
            doc="Temperatures by sensor and month.",
            measures={
                "readings": Measure("count(celsius)", "BIGINT", "Hours with a temperature."),
                "celsius_max": Measure("max(celsius)", "DECIMAL(5,2)", "Highest."),
            },
        )
    ],
    samples=SampleRecords(
        new=[{"sensor": name, "time": hour, "celsius": 10 + len(name)} for name in _SENSORS for hour in _HOURS],
        changed=[{"sensor": "roof", "time": hour, "celsius": 15.5} for hour in _HOURS[:6]],
    ),
)
