"""One part that ``doctor`` examines, and its state."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Part:
    """One part: ``ok``, ``broken`` (needed, but does not work) or ``note`` (worth knowing, not needed)."""

    part: str
    version: str
    state: Literal["ok", "broken", "note"]
    detail: str = ""
