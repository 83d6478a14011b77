# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Self-contained HTML pages of reports: tables and histograms."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fuse_mlir.support.about import About

_STYLE = """
:root{color-scheme:light dark;--good:#1a7f37;--bad:#b02020;--line:#8884}
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;
padding:0 1em;overflow-wrap:anywhere}
h1{font-size:1.5em;margin-bottom:.2em}
h2{font-size:1.15em;margin-top:1.8em}
.summary{font-size:1.1em;margin:.2em 0 1em}
.scroll{overflow-x:auto}
table{border-collapse:collapse}
td,th{text-align:left;padding:.35em .8em;vertical-align:top;
border-bottom:1px solid var(--line);overflow-wrap:normal}
td:last-child{min-width:20em}
th button{all:unset;cursor:pointer;font-weight:bold}
th button:focus-visible{outline:2px solid currentColor;outline-offset:2px}
th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15em 1em;margin:0}
dt{font-weight:bold}
dd{margin:0}
pre{overflow:auto}
figure{display:inline-block;margin:0 1em 1.5em 0;max-width:100%}
figcaption{font-size:12px}
rect{fill:#4878a8}
line{stroke:#c03030}
.refused td:first-child,.FAILED td:first-child{color:var(--bad)}
.fused td:first-child,.could td:first-child,.ok td:first-child{
color:var(--good)}
@media(prefers-color-scheme:dark){:root{--good:#56d364;--bad:#ff7b72}}
@media(max-width:40em){dl{grid-template-columns:1fr}td,th{padding:.3em}}
"""

#: A click on a heading sorts by its column, numbers by value; a second click
#: reverses the order.
_SCRIPT = """
for (const head of document.querySelectorAll("th button"))
  head.addEventListener("click", () => {
    const cell = head.parentElement, table = cell.closest("table");
    const up = cell.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("th"))
      other.setAttribute("aria-sort", "none");
    cell.setAttribute("aria-sort", up ? "ascending" : "descending");
    const column = cell.cellIndex, body = table.tBodies[0];
    const text = row => row.cells[column].textContent;
    [...body.rows].sort((a, b) => (up ? 1 : -1) * text(a).localeCompare(
      text(b), "en", {numeric: true})).forEach(row => body.append(row));
  });
"""


def page(
    title: str,
    parts: Iterable[str],
    heading: str = "",
    *,
    about: About | None = None,
    summary: str = "",
    legend: Mapping[str, str] | None = None,
) -> str:
    """An HTML page.

    Args:
        title: of the window, as text.
        parts: HTML of the body.
        heading: as text; empty for the title.
        about: model, command, date and versions, below the parts.
        summary: a line below the heading, as text.
        legend: terms of the page and their meanings, as text.
    """
    heading = heading or title
    if about is not None:
        title = f"{title}: {about.model}"
        if about.model not in heading:
            heading += f": {about.model}"
    lines = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{html.escape(heading)}</h1>",
    ]
    if summary:
        lines.append(f"<p class='summary'>{html.escape(summary)}</p>")
    lines += parts
    if legend:
        lines.append(
            "<section class='legend'><h2>Legend</h2>"
            + _terms(legend.items())
            + "</section>"
        )
    if about is not None:
        lines.append(
            "<section class='about'><h2>About this report</h2>"
            + _terms(about.rows())
            + "</section>"
        )
    return "\n".join([*lines, f"<script>{_SCRIPT}</script></html>"]) + "\n"


def _terms(pairs: Iterable[tuple[str, str]]) -> str:
    return (
        "<dl>"
        + "".join(
            f"<dt>{html.escape(name)}<dd>{html.escape(text)}"
            for name, text in pairs
        )
        + "</dl>"
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that sorts by its columns.

    The CSS class of a row is the first word of its first cell.
    """
    parts = [
        "<div class='scroll'><table><thead><tr>",
        *(
            "<th scope='col' aria-sort='none'><button type='button'>"
            f"{html.escape(cell)}</button>"
            for cell in head
        ),
        "</thead><tbody>",
    ]
    for row in rows:
        parts.append(f"<tr class='{html.escape(row[0].split()[0])}'>")
        parts += [f"<td>{html.escape(cell)}" for cell in row]
    return "".join([*parts, "</tbody></table></div>"])


def preformatted(text: str) -> str:
    """Preformatted text."""
    return f"<pre>{html.escape(text)}</pre>"


def histogram(
    counts: Sequence[int], caption: str, width: int, mark: float | None = None
) -> str:
    """Bars whose heights are logarithms of counts.

    Args:
        counts: one per bar.
        caption: below the bars, as text.
        width: in pixels; four times the height.
        mark: position of a vertical line, as a fraction of the width.
    """
    height = width // 4
    logs = np.log1p(np.asarray(counts, dtype=np.float64))
    tallest = max(float(logs.max()), 1.0)
    step = width / len(logs)
    bars = "".join(
        f"<rect x='{i * step:.1f}' y='{height * (1 - v / tallest):.1f}' "
        f"width='{step * 0.9:.1f}' height='{height * v / tallest:.1f}'/>"
        for i, v in enumerate(logs)
    )
    if mark is not None:
        x = width * min(mark, 1.0)
        bars += f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{height}'/>"
    return (
        f"<figure style='width:{width}px'>"
        f"<svg viewBox='0 0 {width} {height}' width='100%'>{bars}</svg>"
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )
