# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Panels with axes, lines and bars as SVG, without a plotting library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

#: Colors that readers with color blindness tell apart (Okabe and Ito).
COLORS = {
    "fuse": "#d55e00",
    "torch-compile-autotune": "#0072b2",
    "torch-compile": "#56b4e9",
    "torch-eager": "#555555",
    "torch-eager-merged": "#999999",
    "cublas-products": "#009e73",
    "read": "#000000",
}
LABELS = {
    "torch-compile-autotune": "torch.compile, max-autotune",
    "torch-compile": "torch.compile",
    "torch-eager": "eager",
    "torch-eager-merged": "eager, gate and up merged",
    "cublas-products": "matrix products of the library alone",
    "read": "read of the weights",
}
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 30, 34


def label(system: str) -> str:
    """The name of a system in legends."""
    name = system.removesuffix(" dynamic")
    return LABELS.get(name, name) + (
        ", dynamic scales" if name != system else ""
    )


def color(system: str) -> str:
    """The color of a system, whatever its scales."""
    return COLORS.get(system.removesuffix(" dynamic"), "#333333")


@dataclass
class Panel:
    """One diagram: a title, labels of both axes, and marks."""

    title: str
    x_label: str
    y_label: str
    width: int = 430
    height: int = 280
    parts: list[str] = field(default_factory=list)

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        more: str = "",
    ) -> None:
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor='
            f'"{anchor}"{more}>{escape(text)}</text>'
        )

    def rule(self, y: float, text: str) -> None:
        """A horizontal line with its value."""
        self.parts.append(
            f'<line x1="{_LEFT}" x2="{self.right}" y1="{y:.1f}" '
            f'y2="{y:.1f}" stroke="#dddddd"/>'
        )
        self.text(_LEFT - 5, y + 4, text, "end")

    def line(
        self,
        points: Iterable[tuple[float, float]],
        system: str,
        dashes: str = "",
    ) -> None:
        """A line with a mark at each point."""
        places = list(points)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color(system)}" '
            f'stroke-width="{2.5 if system == "fuse" else 1.5}"{dashed}/>'
        )
        self.parts += [
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{color(system)}"/>'
            for x, y in places
        ]

    def draw(self) -> str:
        self.text(_LEFT, 16, self.title, more=' font-weight="bold"')
        self.text(
            (_LEFT + self.right) / 2, self.height - 5, self.x_label, "middle"
        )
        middle = (_TOP + self.bottom) / 2
        self.text(
            11,
            middle,
            self.y_label,
            "middle",
            f' transform="rotate(-90 11 {middle:.0f})"',
        )
        return "\n".join(self.parts)


def log_lines(panel: Panel, lines: Mapping[str, Mapping[int, float]]) -> None:
    """Lines over two logarithmic axes."""
    numbers = sorted({m for line in lines.values() for m in line})
    times = [time for line in lines.values() for time in line.values()]
    low, high = (math.log10(pick(times)) for pick in (min, max))
    low, high = math.floor(low * 4) / 4, math.ceil(high * 4) / 4
    span = math.log2(numbers[-1] / numbers[0]) or 1

    def x(m: float) -> float:
        return _LEFT + (panel.right - _LEFT) * math.log2(m / numbers[0]) / span

    def y(time: float) -> float:
        return panel.bottom - (panel.bottom - _TOP) * (
            math.log10(time) - low
        ) / (high - low)

    for power in range(math.floor(low), math.ceil(high) + 1):
        for step in (1, 2, 5):
            value = step * 10.0**power
            if low <= math.log10(value) <= high:
                panel.rule(y(value), f"{value:g}")
    for m in numbers:
        if m & (m - 1) == 0 and m.bit_length() % 2:
            panel.text(x(m), panel.bottom + 14, str(m), "middle")
    for system, line in reversed([*lines.items()]):
        panel.line(
            ((x(m), y(time)) for m, time in sorted(line.items())),
            system,
            "5,3" if system.endswith("dynamic") else "",
        )


def step_for(top: float) -> int:
    """The distance of rules for values up to `top`: seven at most."""
    return next(
        step
        for power in range(7)
        for step in (10**power, 2 * 10**power, 5 * 10**power)
        if top / step < 8
    )


def linear_lines(
    panel: Panel,
    lines: Mapping[str, Mapping[int, float]],
    tick: int,
    borders: Iterable[int] = (),
) -> None:
    """Lines over two linear axes; vertical lines at `borders`."""
    most = max(m for line in lines.values() for m in line)
    top = max(max(line.values()) for line in lines.values()) * 1.05

    def x(m: float) -> float:
        return _LEFT + (panel.right - _LEFT) * m / most

    def y(time: float) -> float:
        return panel.bottom - (panel.bottom - _TOP) * time / top

    for value in range(0, int(top) + 1, step_for(top)):
        panel.rule(y(value), str(value))
    for m in range(tick, most + 1, tick):
        panel.text(x(m), panel.bottom + 14, str(m), "middle")
    for border in borders:
        panel.parts.append(
            f'<line x1="{x(border):.1f}" x2="{x(border):.1f}" y1="{_TOP}" '
            f'y2="{panel.bottom}" stroke="#bbbbbb" stroke-dasharray="3,3"/>'
        )
    for system, line in reversed([*lines.items()]):
        panel.line(
            ((x(m), y(time)) for m, time in sorted(line.items())), system
        )


def bars(
    panel: Panel,
    groups: Mapping[str, Mapping[str, float]],
    systems: Sequence[str],
    marks: Mapping[str, float],
) -> None:
    """Groups of bars, one bar for each system; `marks` are lower bounds."""
    top = max(max(group.values()) for group in groups.values()) * 1.08

    def y(value: float) -> float:
        return panel.bottom - (panel.bottom - _TOP) * value / top

    for value in range(0, int(top) + 1, step_for(top)):
        panel.rule(y(value), str(value))
    wide = (panel.right - _LEFT) / len(groups)
    bar = wide * 0.84 / len(systems)
    for place, (name, group) in enumerate(groups.items()):
        left = _LEFT + wide * (place + 0.08)
        for index, system in enumerate(systems):
            if system in group:
                height = panel.bottom - y(group[system])
                panel.parts.append(
                    f'<rect x="{left + bar * index:.1f}" '
                    f'y="{y(group[system]):.1f}" width="{bar * 0.92:.1f}" '
                    f'height="{height:.1f}" fill="{color(system)}"/>'
                )
        panel.text(left + wide * 0.42, panel.bottom + 14, name, "middle")
        if name in marks:
            panel.parts.append(
                f'<line x1="{left - 3:.1f}" x2="{left + wide * 0.84 + 3:.1f}" '
                f'y1="{y(marks[name]):.1f}" y2="{y(marks[name]):.1f}" '
                'stroke="#000000" stroke-dasharray="4,2"/>'
            )


def sheet(
    panels: Sequence[Panel], systems: Sequence[str], note: str, columns: int = 2
) -> str:
    """A file with panels, their legend and a note."""
    width, height = panels[0].width, panels[0].height
    lines = math.ceil(len(panels) / columns)
    per_line = max(1, columns * width // 230)
    legend = 16 * math.ceil(len(systems) / per_line)
    total = (width * columns, height * lines + legend + 30)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total[0]}" '
        f'height="{total[1]}" viewBox="0 0 {total[0]} {total[1]}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{total[0]}" height="{total[1]}" fill="white"/>',
    ]
    for index, panel in enumerate(panels):
        parts.append(
            f'<g transform="translate({index % columns * width},'
            f'{index // columns * height})">\n{panel.draw()}\n</g>'
        )
    for index, system in enumerate(systems):
        x = 20 + index % per_line * 230
        y = height * lines + 16 + index // per_line * 16
        parts.append(
            f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" '
            f'stroke="{color(system)}" stroke-width="3"'
            + (
                ' stroke-dasharray="5,3"'
                if system.endswith("dynamic") or system == "read"
                else ""
            )
            + f'/><text x="{x + 28}" y="{y}">{escape(label(system))}</text>'
        )
    parts.append(
        f'<text x="20" y="{total[1] - 6}" fill="#666666">'
        f"{escape(note)}</text>\n</svg>"
    )
    return "\n".join(parts) + "\n"
