# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the results as an SVG without any plotting library.

    python3 -m fuse_bench.reports.plot [RESULTS.json] [PLOT.svg]

One panel per protocol, shape and type: time against M, over the floor or,
where rows have the products of the library alone beside them, over these.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from html import escape
from pathlib import Path
from typing import Any, Callable

from ..common.environment import RAW, existing
from ..common.results import LIBRARY

RESULTS = RAW / "mlp-h200.json"
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 380, 250, 46, 34, 34
_COLORS = {"fuse": "#c0392b", "fuse-relaxed": "#e59866",
           "fuse-exclusive": "#922b21",
           "torch-compile": "#1f618d", "torch-compile-autotune": "#5dade2",
           "torch-eager": "#717d7e", "torch-eager-merged": "#b2babb"}
_DASHES = {"dynamic": "5,3"}
_PER_LINE = 4


def _panels(rows: list[dict[str, Any]]
            ) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    panels: dict[tuple[Any, ...], list[dict[str, Any]]] = {}

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("protocol", "K", "H", "dtype",
                                            "M"))

    library = {place(row): row["median_us"] for row in rows
               if row["system"] == LIBRARY and row.get("median_us")}
    for row in rows:
        if row.get("median_us") and row.get("floor_us") \
                and row["system"] != LIBRARY:
            bound = library.get(place(row), row["floor_us"])
            key = (place(row) in library, *place(row)[:-1])
            panels.setdefault(key, []).append(
                {**row, "ratio": row["median_us"] / bound})
    return dict(sorted(panels.items(), key=lambda item: (
        item[0][0], item[0][1] != "single", item[0][2:])))


class _Panel:
    """Axes and lines of one panel."""

    def __init__(self, title: str, rows: list[dict[str, Any]]) -> None:
        self.title = title
        self.rows = rows
        ratios = [row["ratio"] for row in rows]
        self.top = max(2.0, math.ceil(max(ratios) * 2) / 2)
        self.top = min(self.top, 5.0)
        self.low = min(1.0, math.floor(min(ratios) * 4) / 4)
        self.most = max(row["M"] for row in rows)
        self.least = min(row["M"] for row in rows)

    def x(self, tokens: int) -> float:
        # Logarithmic: decode is about few tokens.
        span = math.log2(max(2, self.most / self.least))
        return _LEFT + (_WIDTH - _LEFT - 14) * math.log2(
            tokens / self.least) / span

    def y(self, ratio: float) -> float:
        height = _HEIGHT - _TOP - _BOTTOM
        share = (min(ratio, self.top) - self.low) / (self.top - self.low)
        return _HEIGHT - _BOTTOM - height * share

    def draw(self) -> str:
        parts = [f'<text x="{_LEFT}" y="18" font-weight="bold">'
                 f'{escape(self.title)}</text>']
        ratio = self.low
        while ratio <= self.top:
            y = self.y(ratio)
            parts.append(
                f'<line x1="{_LEFT}" x2="{_WIDTH - 14}" y1="{y:.1f}" '
                f'y2="{y:.1f}" stroke="#ddd"/><text x="{_LEFT - 6}" '
                f'y="{y + 4:.1f}" text-anchor="end">{ratio:.1f}</text>')
            ratio += 0.5 if self.top > 2.5 else 0.25
        for tokens in sorted({row["M"] for row in self.rows}):
            parts.append(f'<text x="{self.x(tokens):.1f}" '
                         f'y="{_HEIGHT - _BOTTOM + 15}" '
                         f'text-anchor="middle">{tokens}</text>')
        lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in self.rows:
            lines.setdefault((row["system"], row["scales"]), []).append(row)
        for (system, scales), points in lines.items():
            points.sort(key=lambda row: row["M"])
            color = _COLORS.get(system, "#333")
            places = [(self.x(row["M"]),
                       self.y(row["ratio"]))
                      for row in points]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{color}" '
                f'stroke-width="{2.5 if system == "fuse" else 1.5}" '
                f'stroke-dasharray="{_DASHES.get(scales, "none")}"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" '
                      f'fill="{color}"/>' for x, y in places]
        return "\n".join(parts)


def draw(data: dict[str, Any]) -> str:
    """The SVG of a results file."""
    panels = _panels(data["rows"])
    systems = sorted({(row["system"], row["scales"])
                      for rows in panels.values() for row in rows})
    lines = math.ceil(max(1, len(panels)) / _PER_LINE)
    width = _WIDTH * min(_PER_LINE, max(1, len(panels)))
    legend = 24 + 16 * math.ceil(len(systems) / 4)
    height = _HEIGHT * lines + legend
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
             f'height="{height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for index, (key, rows) in enumerate(panels.items()):
        many, protocol, k, h, dtype = key
        bound = "library's products" if many else "floor"
        panel = _Panel(f"{protocol}, {k}/{h}, {dtype}: time / {bound} over M",
                       rows)
        x, y = index % _PER_LINE * _WIDTH, index // _PER_LINE * _HEIGHT
        parts.append(f'<g transform="translate({x},{y})">\n{panel.draw()}'
                     '\n</g>')
    for index, (system, scales) in enumerate(systems):
        x = 20 + index % 4 * (width - 40) // 4
        y = _HEIGHT * lines + 16 + index // 4 * 16
        name = system if scales == "none" else f"{system} ({scales})"
        parts.append(
            f'<line x1="{x}" x2="{x + 26}" y1="{y - 4}" y2="{y - 4}" '
            f'stroke="{_COLORS.get(system, "#333")}" stroke-width="2.5" '
            f'stroke-dasharray="{_DASHES.get(scales, "none")}"/>'
            f'<text x="{x + 32}" y="{y}">{escape(name)}</text>')
    note = f"{data['gpu']}, driver {data['driver']}, commit {data['commit']}"
    parts.append(f'<text x="20" y="{height - 4}" fill="#777">{escape(note)}'
                 '</text>\n</svg>')
    return "\n".join(parts) + "\n"


def write_plot(draw_results: Callable[[dict[str, Any]], str],
               source: Path, description: str) -> int:
    """Draws the file of the first argument, or `source`, into the second."""
    parser = argparse.ArgumentParser(
        prog=f"fuse_bench.reports.{Path(sys.argv[0]).stem}",
        description=description.split("\n")[0])
    parser.add_argument("source", type=existing, nargs="?", default=source,
                        help="results (default: %(default)s)")
    parser.add_argument("target", type=Path, nargs="?",
                        help="default: beside the results, .svg")
    options = parser.parse_args()
    target = options.target or options.source.with_suffix(".svg")
    target.write_text(draw_results(json.loads(options.source.read_text())))
    print(f"written to {target}")
    return 0


if __name__ == "__main__":
    sys.exit(write_plot(draw, RESULTS, __doc__))
