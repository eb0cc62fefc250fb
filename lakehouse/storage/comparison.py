"""Whether rows are the same, in Spark's SQL, which compares no maps: they stand as their entries, in order."""

from collections.abc import Mapping

from lakehouse.decoding.nested_types import nested

_MAP = "MAP<"


def comparable(value: str, type_: str) -> str:
    """SQL of what is equal where values are, and has an order: the value itself where no map is in it."""
    found = nested(type_) if _MAP in type_ else None
    if found is None:
        return value
    types = [inner for _, inner in found.inner]
    each = f"_{type_.count('<')}"  # a name of its own at each level
    if found.kind == "ARRAY":
        return f"transform({value}, {each} -> {comparable(each, types[0])})"
    if found.kind == "MAP":
        entry = f"struct({each}.key AS key, {comparable(f'{each}.value', types[1])} AS value)"
        return f"array_sort(transform(map_entries({value}), {each} -> {entry}))"
    fields = (f"'{name}', {comparable(f'{value}.`{name}`', inner)}" for name, inner in found.inner)
    return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def comparable_row(row: str, types: Mapping[str, str]) -> str:
    """The same of a row, a struct of columns of these types."""
    if not any(_MAP in type_ for type_ in types.values()):
        return row
    return f"IF({row} IS NULL, NULL, {struct_of(row, types)})"


def struct_of(side: str, types: Mapping[str, str]) -> str:
    """The same of the columns of one side of a join, as a struct."""
    return f"struct({', '.join(comparable(f'{side}.`{name}`', type_) for name, type_ in types.items())})"
