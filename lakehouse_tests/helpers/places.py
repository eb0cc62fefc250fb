"""The folders of the repository and of its sample data."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "temperatures"
