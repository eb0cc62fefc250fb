"""Warnings of files that a run cannot read: one for each run, and another one if other files are left out then."""

import logging
from collections.abc import Mapping

from lakehouse.errors import printable
from lakehouse.ledger.positions import first_of

_WARNED: dict[str, tuple[str, Mapping[str, str]]] = {}
"""The run, and the files that its last warning was about, by the URI of the log of files."""
_log = logging.getLogger(__name__)


def warn_of_left_out(log_uri: str, run: str, folder: str, reasons: Mapping[str, str]) -> None:
    """Warn of files and folders that are left out, with the first of their paths, unless this run has done so."""
    if _WARNED.get(log_uri, ("", {})) == (run, reasons):
        return
    _WARNED[log_uri] = (run, reasons)
    if reasons:
        texts = [printable(f"{path} ({reason})") for path, reason in sorted(reasons.items())]
        count, verb = ("1 path", "is") if len(texts) == 1 else (f"{len(texts):,} paths", "are")
        shown_texts = ", ".join(first_of(texts, "paths"))
        _log.warning("%s in the folder %s %s left out: %s", count, printable(folder), verb, shown_texts)
