"""A flow of AUTO CDC, with what of it decides the rows of the target."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakehouse.declaration.delete_conditions import FieldIs
from lakehouse.errors import LakehouseError

_MAX_SHOWN = 200  # characters of an expression in an error
OF_NAMES = 'Write a list of the names of fields, for example ["id"], or (id) in SQL.'


@dataclass(frozen=True)
class AutoCdcFlow:
    """A flow of AUTO CDC. Names are those of fields of its source.

    ``place`` is the file and the line of the flow. ``included`` is ``None`` if the flow selects no columns. ``source``
    is ``None`` if the file does not contain its name, for example because it is computed.
    """

    target: str
    place: str
    keys: tuple[str, ...]
    sequence: str
    source: str | None = None
    deletes: FieldIs | None = None
    truncates: FieldIs | None = None
    included: tuple[str, ...] | None = None
    excluded: tuple[str, ...] = ()
    ignores_nulls: bool = False
    scd_type: int = 1
    tracks_some: bool = False
    is_once: bool = False

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields that are columns in any case: the key and the sequence."""
        return tuple(dict.fromkeys((*self.keys, self.sequence)))

    def selects(self, name: str) -> bool:
        """Whether the flow stores this field in its target."""
        return (self.included is None or name in self.included) and name not in self.excluded

    @property
    def topic(self) -> str:
        """The last part of the source, which may be the name of a topic; empty if the source is unknown."""
        return last_part(self.source or "")


class FlowPlace(NamedTuple):
    """A flow in a file. Only ``read`` translates it: of other flows, nothing needs a translation.

    ``target`` is empty if the file does not contain the name of the target.
    """

    target: str
    place: str
    read: Callable[[], AutoCdcFlow]


def last_part(name: str) -> str:
    """The name of a table without its catalog and schema."""
    return name.rpartition(".")[2].strip("`")


def flow_from(target: str, place: str, options: dict[str, Any]) -> AutoCdcFlow:
    """The flow with these options; raises ``LakehouseError`` if its keys or its sequence are missing."""
    for option, name, argument in (("keys", "KEYS", "keys="), ("sequence", "SEQUENCE BY", "sequence_by=")):
        if not options.get(option):
            what = f"The flow of AUTO CDC has no {option}"
            raise LakehouseError(what, where=place, action=f"Add {name} in SQL, or {argument} in Python.")
    return AutoCdcFlow(target, place, **options)


def untranslated(option: str, text: str, place: str, action: str) -> LakehouseError:
    """The error about an option that no declaration can express."""
    shown_text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
    return LakehouseError(f"{option} cannot be translated: {shown_text}", where=place, action=action)


def scd_type(text: str, place: str) -> int:
    """The SCD type that a flow names."""
    if text not in ("1", "2"):
        raise untranslated("The SCD type", text, place, "Write 1 or 2.")
    return int(text)
