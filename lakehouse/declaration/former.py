"""Former spellings of declarations, and what to write now: ``refuse_former`` raises an error that says it."""

from collections.abc import Mapping
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from lakehouse.errors import DeclarationError

FORMER_NAMES = {
    "AvroSamples": "lakehouse.declaration.samples",
    "BaseSamples": "lakehouse.declaration.samples",
    "Choice": "lakehouse.declaration.sources",
    "Counter": "lakehouse.declaration.sources",
    "Hash": "lakehouse.declaration.sources",
}
"""The modules of names that the package had at its top."""

_OF_TOPICS = ("start", "gaps", "order", "partitions", "replay_from", "may_forget")
FORMER_OPTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "StreamTable": {
        "topics": ("source=Topics", ""),
        **{name: ("source=Topic", name) for name in _OF_TOPICS},
        "apply_as_deletes": ("deletes=Deletes", "when"),
        "apply_as_truncates": ("deletes=Deletes", "truncates"),
        "purge_deletes": ("deletes=Deletes", "purge"),
        "single_object": ("rows_from=Explode", "single_object"),
        "fresh": ("promise=Promise", "fresh"),
        "max_lag": ("promise=Promise", "max_lag"),
        "retention": ("upkeep=Upkeep", "retention"),
        "maintain_every": ("upkeep=Upkeep", "every"),
        "cluster_by": ("upkeep=Upkeep", "cluster_by"),
    },
    "Column": {
        "pattern": ("written=Time", "pattern"),
        "epoch": ("written=Time", "epoch"),
        "zone": ("written=Time", "zone"),
        "sql": ("Computed", "sql"),
    },
}
"""The former options of each class: what has each of them now, and the name that it has there."""
_MAX_SHOWN = 60  # characters of a value
T = TypeVar("T")


def refuse_former(declared_class: type[T]) -> type[T]:
    """Let a class refuse its former options with an error that says what to write."""
    former_options, init = FORMER_OPTIONS[declared_class.__name__], declared_class.__init__
    positions = [field.name for field in fields(declared_class)]  # type: ignore[arg-type]

    @wraps(init)
    def checked_init(self: T, *arguments: Any, **options: Any) -> None:
        names = [name for name in options if name in former_options]
        if names:
            values = {**dict(zip(positions, arguments, strict=False)), **options}
            kind = declared_class.__name__
            message = f"{', '.join(names)} {'is not an option' if len(names) == 1 else 'are not options'} of {kind}"
            new_lines = " and ".join(_new_lines({name: former_options[name] for name in names}, values))
            subject = f"{kind.removeprefix('Stream')} {values.get('name')!r}"
            raise DeclarationError(f"{subject}: {message}", action=f"Write {new_lines}.")
        init(self, *arguments, **options)

    setattr(declared_class, "__init__", checked_init)  # noqa: B010 - a type checker keeps the arguments of the dataclass
    return declared_class


def _new_lines(former_options: Mapping[str, tuple[str, str]], values: Mapping[str, Any]) -> list[str]:
    """What to write in place of these options, with the values that are given."""
    lines: dict[str, list[str]] = {}
    for option, (former_group, argument) in former_options.items():
        group = former_group
        first = values.get("rows_from") if group == "rows_from=Explode" else None
        if group.startswith("source="):
            source = values.get("topics") or values.get("source")
            kind = "Topics" if isinstance(source, list | tuple) else type(source).__name__ if source else "Topic"
            group, first = f"source={kind}", source or values.get("topic", ...)
        parts = lines.setdefault(group, [] if first is None else [_show(first)])
        parts += [f"{argument}={_show(values[option])}"] if argument else []
    if "Computed" in lines:
        return [f"Computed({values['name']!r}, {values.get('type')!r}, {', '.join(lines['Computed'])}, doc=...)"]
    return [f"{group}({', '.join(parts)})" for group, parts in lines.items()]


def _show(value: object) -> str:
    text = repr(getattr(value, "pattern", value))
    return "..." if value is ... or len(text) > _MAX_SHOWN else text
