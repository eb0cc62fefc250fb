"""Where the repository and its sample data are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "temperatures"
