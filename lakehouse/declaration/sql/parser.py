"""The parser of SQL. It is slow to import, and most declarations have no SQL, so its first use imports it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["exp", "sqlglot"]

if TYPE_CHECKING:
    import sqlglot
    from sqlglot import exp
else:

    class _LazyModule:
        """A module that is imported when one of its names is used."""

        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, name: str) -> Any:
            return getattr(import_module(self._name), name)

    sqlglot, exp = _LazyModule("sqlglot"), _LazyModule("sqlglot.expressions")
