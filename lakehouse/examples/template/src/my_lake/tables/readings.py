"""Air temperatures from sensors: an example declaration of a table, its rollup and sample records."""

from lakehouse import Column, Measure, Month, Rollup, SampleRecords, StreamTable, Time

_SENSORS = ("roof", "cellar")
_HOURS = [f"2026-03-{day:02d}T{hour:02d}:00:00Z" for day in (30, 31) for hour in range(24)]

readings = StreamTable(
    name="readings",
    topic="readings",
    doc="Air temperatures: the latest value for each sensor and hour.",
    file=__file__,
    columns=[
        Column("sensor", "STRING", required=True, doc="Name of the sensor."),
        Column("measured_at", "TIMESTAMP", required=True, source="time", written=Time("iso8601"), doc="UTC time."),
        Column("celsius", "DECIMAL(5,2)", between=(-90, 60), doc="Temperature in degrees Celsius; NULL if missing."),
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
                "celsius_max": Measure("max(celsius)", "DECIMAL(5,2)", "Highest temperature, degrees Celsius."),
            },
        )
    ],
    samples=SampleRecords(
        new=[{"sensor": name, "time": hour, "celsius": 10 + len(name)} for name in _SENSORS for hour in _HOURS],
        changed=[{"sensor": "roof", "time": hour, "celsius": 15.5} for hour in _HOURS[:6]],
    ),
)
