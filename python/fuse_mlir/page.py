# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports as one self-contained HTML page each: tables and histograms."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

import numpy as np

_STYLE = """
body{font:14px system-ui;margin:2em auto;max-width:80em}
td,th{text-align:left;padding:.2em .8em;vertical-align:top}
pre{overflow:auto}
figure{display:inline-block;margin:0 1em 1.5em 0}
figcaption{font-size:12px}
rect{fill:#4878a8}
line{stroke:#c03030}
.refused td:first-child,.FAILED td:first-child{color:#b02020}
.fused td:first-child,.could td:first-child,.ok td:first-child{color:#208020}
"""


def page(title: str, parts: Iterable[str], heading: str = "") -> str:
    """A page.

    Args:
        title: of the window, as text.
        parts: HTML.
        heading: as text; the title when empty.
    """
    return "\n".join([
        "<!doctype html><meta charset='utf-8'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(heading or title)}</h1>", *parts]) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Texts as a table; the class of a row is the first word of its first
    cell."""
    parts = ["<table><tr>", *(f"<th>{html.escape(cell)}" for cell in head)]
    for row in rows:
        parts.append(f"<tr class='{html.escape(row[0].split()[0])}'>")
        parts += [f"<td>{html.escape(cell)}" for cell in row]
    return "".join([*parts, "</table>"])


def preformatted(text: str) -> str:
    """Text as it is."""
    return f"<pre>{html.escape(text)}</pre>"


def histogram(counts: Sequence[int], caption: str, width: int,
              mark: float | None = None) -> str:
    """Bars as high as the logarithm of counts.

    Args:
        counts: of the bars.
        caption: below them, as text.
        width: in pixels; four times the height.
        mark: where a line stands, as a part of the width.
    """
    height = width // 4
    logs = np.log1p(np.asarray(counts, dtype=np.float64))
    tallest = max(float(logs.max()), 1.0)
    step = width / len(logs)
    bars = "".join(
        f"<rect x='{i * step:.1f}' y='{height * (1 - v / tallest):.1f}' "
        f"width='{step * 0.9:.1f}' height='{height * v / tallest:.1f}'/>"
        for i, v in enumerate(logs))
    if mark is not None:
        x = width * min(mark, 1.0)
        bars += f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{height}'/>"
    return (f"<figure style='width:{width}px'>"
            f"<svg viewBox='0 0 {width} {height}' width='100%'>{bars}</svg>"
            f"<figcaption>{html.escape(caption)}</figcaption></figure>")
