"""Heart rates of patients, from monthly files of JSON arrays, and a file of the patients."""

from pathlib import Path

from lakehouse.declaration import Column, Computed, Csv, Files, Measure, Reference, Reject, Rollup, StreamTable, Time

_MRN = Column("mrn", "BIGINT", required=True, written="text", doc="Medical record number of the patient.")
_RATE = "CAST(heartrate AS DECIMAL(18,10))"

heart_rates = StreamTable(
    name="heart_rates",
    source=Files("data/heart_rates/readings", names="*.json*", each="element"),
    doc="Heart rates: one row for each device and time.",
    file=__file__,
    columns=[
        Column("device_id", "INT", required=True, written="text", doc="Number of the device."),
        Column(
            "recorded_at",
            "TIMESTAMP",
            required=True,
            source="time",
            written=Time(epoch="seconds", written="text"),
            doc="Time of the reading, UTC.",
        ),
        _MRN,
        Column("heartrate", "DOUBLE", required=True, written="text", doc="Beats per minute."),
        Computed("recorded_on", "DATE", sql="CAST(recorded_at AS DATE)", doc="Day of the reading, UTC."),
    ],
    key=["device_id", "recorded_at"],
    rejects=[
        Reject("no_rate", when="heartrate <= 0"),
        Reject("unknown_patient", unknown="patients", by=["mrn"]),
    ],
    references=[
        Reference(
            name="patients",
            file=Path("data/heart_rates/patients.csv"),
            format=Csv(columns=["mrn", "name"]),
            header="mrn,name",
            columns=[
                Column("mrn", "BIGINT", required=True, doc="Medical record number."),
                Column("name", "STRING", required=True, doc="Name of the patient."),
            ],
            key=["mrn"],
            doc="The patients: one row for each.",
        )
    ],
    rollups=[
        Rollup(
            name="heart_rates_by_device",
            by=["device_id"],
            doc="Number of readings of each device.",
            measures={"readings": Measure("count(*)", "BIGINT", "Number of readings.")},
        ),
        Rollup(
            name="heart_rates_by_day",
            by=["mrn", "recorded_on"],
            doc="Heart rates of each patient by day, UTC.",
            measures={
                "readings": Measure("count(*)", "BIGINT", "Number of readings."),
                "heartrate_avg": Measure(
                    f"CAST(sum({_RATE}) / count(*) AS DOUBLE)", "DOUBLE", "Mean rate, beats per minute."
                ),
            },
        ),
    ],
)
