# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A picture of what runs when, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

#: Colors of the kinds of bars, on light and on dark pages.
COLORS: Mapping[str, str] = {
    "fused": "#2da44e",
    "product": "#4878a8",
    "attention": "#b07aa1",
    "norm": "#e0a03c",
    "copy": "#9c755f",
    "other": "#8c959f",
}
#: Width of the picture, height of a lane and of the text above it, in pixels.
WIDTH, LANE, TEXT = 1100, 34, 20


@dataclass(frozen=True)
class Bar:
    """Something that runs for some time.

    Attributes:
        name: is shown under the pointer.
        kind: a key of `COLORS`.
        start: in microseconds.
        us: duration in microseconds.
    """

    name: str
    kind: str
    start: float
    us: float


def timeline(lanes: Mapping[str, Sequence[Bar]]) -> str:
    """Lanes below each other with one axis, and the colors of kinds.

    Args:
        lanes: bars by the name of their lane, as text.
    """
    end = max(
        (bar.start + bar.us for bars in lanes.values() for bar in bars),
        default=0.0,
    )
    scale = WIDTH / max(end, 1e-9)
    parts, top = [], 0
    for name, bars in lanes.items():
        parts.append(f"<text x='0' y='{top + TEXT - 6}'>{escape(name)}</text>")
        top += TEXT
        for bar in bars:
            # Shorter bars would be invisible.
            width = max(bar.us * scale, 0.6)
            parts.append(
                f"<rect x='{bar.start * scale:.2f}' y='{top}' "
                f"width='{width:.2f}' height='{LANE}' "
                f"style='fill:{COLORS[bar.kind]}'>"
                f"<title>{escape(bar.name)}: {bar.us:.1f} us</title></rect>"
            )
        top += LANE + 8
    parts += [
        f"<text x='0' y='{top + 12}'>0</text>",
        f"<text x='{WIDTH}' y='{top + 12}' text-anchor='end'>{end:.0f} us"
        "</text>",
    ]
    present = {bar.kind for bars in lanes.values() for bar in bars}
    for number, kind in enumerate(k for k in COLORS if k in present):
        x = 160 + 120 * number
        parts.append(
            f"<rect x='{x}' y='{top + 2}' width='12' height='12' "
            f"style='fill:{COLORS[kind]}'/>"
            f"<text x='{x + 18}' y='{top + 12}'>{kind}</text>"
        )
    height = top + TEXT
    return (
        f"<svg viewBox='0 0 {WIDTH} {height}' width='100%' role='img' "
        "style='font:12px system-ui,sans-serif;fill:currentColor'>"
        + "".join(parts)
        + "</svg>"
    )
