"""Comparison of rows in Spark SQL. Spark cannot compare maps, so they are compared as their sorted entries."""

from collections.abc import Mapping

from lakehouse.decoding.nested_types import nested

_MAP = "MAP<"


def comparable(value: str, type_: str) -> str:
    """Return SQL that is equal for equal values and has an order: the value itself if it contains no map."""
    nested_type = nested(type_) if _MAP in type_ else None
    if nested_type is None:
        return value
    types = [inner_type for _, inner_type in nested_type.inner]
    item = f"_{type_.count('<')}"  # a unique name at each level
    if nested_type.kind == "ARRAY":
        return f"transform({value}, {item} -> {comparable(item, types[0])})"
    if nested_type.kind == "MAP":
        entry = f"struct({item}.key AS key, {comparable(f'{item}.value', types[1])} AS value)"
        return f"array_sort(transform(map_entries({value}), {item} -> {entry}))"
    fields = (f"'{name}', {comparable(f'{value}.`{name}`', inner_type)}" for name, inner_type in nested_type.inner)
    return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def comparable_row(row: str, types: Mapping[str, str]) -> str:
    """Return the comparable form of a row, a struct of columns of these types."""
    if not any(_MAP in type_ for type_ in types.values()):
        return row
    return f"IF({row} IS NULL, NULL, {struct_of(row, types)})"


def struct_of(side: str, types: Mapping[str, str]) -> str:
    """Return the comparable form of the columns of one side of a join, as a struct."""
    return f"struct({', '.join(comparable(f'{side}.`{name}`', type_) for name, type_ in types.items())})"
