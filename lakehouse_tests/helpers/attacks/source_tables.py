"""Tables for attacks on sources other than topics: one follows another table, one reads files and has rules."""

from datetime import timedelta
from pathlib import Path
from typing import Literal

from lakehouse.declaration import Column, Csv, Deletes, FieldIs, Files, Reference, Reject, StreamTable, TableRows

SourceForm = Literal["changes", "log of changes", "rules"]
SOURCE_FORMS: tuple[SourceForm, ...] = "changes", "log of changes", "rules"
AREAS_FILE = "areas.csv"
HIGHEST = 99
"""The highest valid amount of a balance."""


def source_table(form: SourceForm, name: str, place: str, max_records: int = 0) -> StreamTable:
    """Return the table of a form; ``place`` is the folder of its files, or the path of the table that it reads."""
    if form == "rules":
        return _judged_readings(name, Path(place))
    options = dict(key=["id"], deletes=Deletes(when=FieldIs("_change_type", ["delete", "former"])))
    kind = Column("kind", "STRING", "What happened.", source="_change_type")
    return StreamTable(
        name=name,
        doc="Balances: one row per account, or each change of one.",
        columns=[
            Column("id", "INT", "Account.", required=True),
            Column("amount", "INT", "Balance.", between=(0, HIGHEST)),
            *([kind] if form == "log of changes" else []),
        ],
        source=TableRows(place, former_rows=True),
        max_records=max_records or 1_000_000,
        **(options if form == "changes" else {"key": []}),  # type: ignore[arg-type]
    )


def _judged_readings(name: str, folder: Path) -> StreamTable:
    """Readings with an amount that is not negative, of an area in the file of areas; a batch has one file."""
    areas = Reference(
        name=f"{name}_areas",
        doc="Areas.",
        file=folder / AREAS_FILE,
        format=Csv(columns=["area"]),
        header="area",
        columns=[Column("area", "INT", "Number of the area.", required=True)],
        key=["area"],
    )
    return StreamTable(
        name=name,
        doc="Readings: one row per device.",
        columns=[
            Column("id", "INT", "Device.", required=True),
            Column("amount", "INT", "Amount.", required=True),
            Column("area", "INT", "Area."),
        ],
        key=["id"],
        references=[areas],
        rejects=[Reject("negative", when="amount < 0"), Reject("no_area", unknown=areas.name, by=["area"])],
        source=Files(str(folder), names="*.json", settle=timedelta(0), batch_bytes=1),
    )
