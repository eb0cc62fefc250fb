"""Draw the results as horizontal bars in an SVG file."""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_LINE_HEIGHT, _LABEL_WIDTH, _BAR_WIDTH, _NUMBER_WIDTH = 26, 250, 480, 70  # pixels
_LAKEHOUSE_COLOR, _OTHER_COLOR = "#0b7a75", "#9aa5b1"


def draw(name: str, title: str, seconds: Mapping[str, float]) -> None:
    """Write ``docs/pictures/NAME.svg``: one bar per contender, as long as its seconds. lakehouse has its own color."""
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
    (_PICTURES / f"{name}.svg").write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
