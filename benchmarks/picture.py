"""Draw the results as horizontal bars in an SVG file."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks import report

_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_LINE_HEIGHT, _LABEL_WIDTH, _BAR_WIDTH, _NUMBER_WIDTH = 26, 250, 480, 70  # pixels
_LAKEHOUSE_COLOR, _OTHER_COLOR = "#0b7a75", "#9aa5b1"


def draw(name: str) -> None:
    """Write ``docs/pictures/NAME.svg`` from ``results/NAME.json``."""
    content = json.loads((report.RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    (_PICTURES / f"{name}.svg").write_text(render(content), encoding="utf-8")


def render(content: Mapping[str, Any]) -> str:
    """Return one bar per contender of the first row, as long as its median seconds. lakehouse has its own color."""
    title, contenders = content["title"], next(iter(content["figures"].values()))
    seconds = {name: statistics.median(turns["seconds"]) for name, turns in contenders.items()}
    width, height = _LABEL_WIDTH + _BAR_WIDTH + _NUMBER_WIDTH, _LINE_HEIGHT * (len(seconds) + 2)
    longest = max(seconds.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="12" y="22" font-weight="bold">{escape(title)}: seconds</text>',
    ]
    for line, (contender, duration) in enumerate(seconds.items()):
        top, length = _LINE_HEIGHT * (line + 1) + 12, _BAR_WIDTH * duration / longest
        fill = _LAKEHOUSE_COLOR if contender.startswith("lakehouse") else _OTHER_COLOR
        parts += [
            f'<text x="{_LABEL_WIDTH - 8}" y="{top + 14}" text-anchor="end">{escape(contender)}</text>',
            f'<rect x="{_LABEL_WIDTH}" y="{top}" width="{max(length, 1):.1f}" height="18" fill="{fill}"/>',
            f'<text x="{_LABEL_WIDTH + length + 6:.1f}" y="{top + 14}">{duration:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
