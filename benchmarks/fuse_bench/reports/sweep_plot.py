# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the time of an artefact over the number of tokens as an SVG.

    python3 -m fuse_bench.reports.sweep_plot [RESULTS.json] [PLOT.svg]

One panel per shape and type: what a launch takes, the best of all schedules
that serve the number, and the library's products alone. Vertical lines are the
borders of ranges.
"""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from ..common.environment import RAW
from .plot import write_plot

RESULTS = RAW / "sweep-h200.json"
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 520, 300, 46, 30, 30
_LINES = {"fuse": ("#c0392b", 2.5, "what the launch picks"),
          "best": ("#27ae60", 1.5, "best schedule at this number"),
          "cublas-products": ("#1f618d", 1.5, "the library's products alone")}

Rows = list[dict[str, Any]]


def lines_of(rows: Rows) -> dict[str, dict[int, float]]:
    """Microseconds by number of tokens."""
    lines: dict[str, dict[int, float]] = {name: {} for name in _LINES}
    for row in rows:
        m, time = row["M"], row["median_us"]
        if row["system"] in lines:
            lines[row["system"]][m] = time
        if row["system"] != "cublas-products":
            lines["best"][m] = min(lines["best"].get(m, time), time)
    return lines


def _panel(title: str, rows: Rows) -> str:
    lines = lines_of(rows)
    most = max(row["M"] for row in rows)
    top = max(max(line.values()) for line in lines.values()) * 1.05

    def x(m: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - 14) * m / most

    def y(time: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * time / top

    parts = [f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}'
             '</text>']
    step = next(s for s in (10, 20, 50, 100, 200, 500) if top / s < 8)
    for time in range(0, int(top) + 1, step):
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 14}" '
                     f'y1="{y(time):.1f}" y2="{y(time):.1f}" stroke="#ddd"/>'
                     f'<text x="{_LEFT - 6}" y="{y(time) + 4:.1f}" '
                     f'text-anchor="end">{time}</text>')
    for m in range(128, most + 1, 128):
        parts.append(f'<text x="{x(m):.1f}" y="{_HEIGHT - _BOTTOM + 15}" '
                     f'text-anchor="middle">{m}</text>')
    for bound in sorted({row["range"] for row in rows if row["range"] < most}):
        parts.append(f'<line x1="{x(bound):.1f}" x2="{x(bound):.1f}" '
                     f'y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#bbb" '
                     'stroke-dasharray="3,3"/>')
    for name, line in reversed(lines.items()):
        color, width, _ = _LINES[name]
        path = " ".join(f"{x(m):.1f},{y(time):.1f}"
                        for m, time in sorted(line.items()))
        parts.append(f'<polyline points="{path}" fill="none" '
                     f'stroke="{color}" stroke-width="{width}"/>')
    return "\n".join(parts)


def draw(data: dict[str, Any]) -> str:
    """The SVG of a results file."""
    panels: dict[tuple[int, int, str], Rows] = {}
    for row in data["rows"]:
        panels.setdefault((row["K"], row["H"], row["dtype"]), []).append(row)
    height = _HEIGHT * ((len(panels) + 1) // 2) + 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * _WIDTH}" '
             f'height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{2 * _WIDTH}" height="{height}" fill="white"/>']
    for index, ((k, h, dtype), rows) in enumerate(sorted(panels.items())):
        title = f"{k}/{h}, {dtype}: us over the number of tokens"
        parts.append(f'<g transform="translate({index % 2 * _WIDTH},'
                     f'{index // 2 * _HEIGHT})">\n{_panel(title, rows)}\n</g>')
    for index, (color, width, text) in enumerate(_LINES.values()):
        x = 20 + index * 260
        parts.append(f'<line x1="{x}" x2="{x + 26}" y1="{height - 28}" '
                     f'y2="{height - 28}" stroke="{color}" '
                     f'stroke-width="{width}"/><text x="{x + 32}" '
                     f'y="{height - 24}">{text}</text>')
    note = (f"{data['gpu']}, driver {data['device']['driver_version']}, "
            f"commit {data['commit']}; {data['protocol']}")
    parts.append(f'<text x="20" y="{height - 6}" fill="#777">{escape(note)}'
                 '</text>\n</svg>')
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(write_plot(draw, RESULTS, __doc__))
