"""A picture of figures: horizontal bars, as SVG."""

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
_LINE, _LABELS, _BARS, _FIGURES = 26, 250, 480, 70  # pixels
_OURS, _OTHERS = "#0b7a75", "#9aa5b1"


def draw(name: str, title: str, seconds: Mapping[str, float]) -> None:
    """Write ``docs/pictures/NAME.svg``: one bar per contender, as long as its seconds; lakehouse has its own color."""
    width, height = _LABELS + _BARS + _FIGURES, _LINE * (len(seconds) + 2)
    most = max(seconds.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="12" y="22" font-weight="bold">{escape(title)}: seconds</text>',
    ]
    for line, (who, took) in enumerate(seconds.items()):
        top, length = _LINE * (line + 1) + 12, _BARS * took / most
        fill = _OURS if who.startswith("lakehouse") else _OTHERS
        parts += [
            f'<text x="{_LABELS - 8}" y="{top + 14}" text-anchor="end">{escape(who)}</text>',
            f'<rect x="{_LABELS}" y="{top}" width="{max(length, 1):.1f}" height="18" fill="{fill}"/>',
            f'<text x="{_LABELS + length + 6:.1f}" y="{top + 14}">{took:.2f}</text>',
        ]
    (_PICTURES / f"{name}.svg").write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")
