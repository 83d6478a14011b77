# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results file: rows that later runs replace one by one, and tables.

`fuse_bench.reports.show` prints the tables.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .environment import write_json

Row = dict[str, Any]
#: By case, tile and digest of a kernel, the numbers of tokens that are good.
Known = dict[tuple[str, int, str], set[int]]
#: The system that is the products of the library alone.
LIBRARY = "cublas-products"
_ROW_KEY = ("K", "H", "M", "act", "dtype", "scales", "system", "protocol")
_CHECK_KEY = ("case", "tile", "M")
#: Ratios hold among rows of one run on one GPU.
_RUN = ("run", "gpu")


def _key(row: Row, names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in names)


class Results:
    """Reads, extends and writes the file; an interrupted run loses a row."""

    def __init__(self, path: Path, start: Path | None = None) -> None:
        self.path = path
        self.data: dict[str, Any] = {
            "gpu": "",
            "driver": "",
            "clocks": {},
            "versions": {},
            "commit": "",
            "ceilings": {},
            "gpus": {},
            "rows": [],
            "checks": [],
        }
        for source in (start, path):
            if source is not None and source.exists():
                self.data.update(json.loads(source.read_text()))
        self._rows = {_key(row, _ROW_KEY): row for row in self.data["rows"]}
        self._checks = {
            _key(row, _CHECK_KEY): row for row in self.data["checks"]
        }

    def gpu(self, name: str) -> dict[str, dict[str, float]]:
        """Clocks and upper bounds of one of the GPUs of the rows."""
        found: dict[str, dict[str, float]] = self.data["gpus"].setdefault(
            name, {"clocks": {}, "ceilings": {}}
        )
        return found

    def add_row(self, row: Row) -> None:
        self._rows[_key(row, _ROW_KEY)] = row

    def add_check(self, row: Row) -> None:
        self._checks[_key(row, _CHECK_KEY)] = row

    def remove(self, rows: Iterable[Row]) -> None:
        """Removes rows and checks."""
        for row in rows:
            if "case" in row:
                del self._checks[_key(row, _CHECK_KEY)]
            else:
                del self._rows[_key(row, _ROW_KEY)]

    def has_check(self, case: str, tile: int, tokens: int, digest: str) -> bool:
        """Whether there is a check of this very kernel."""
        return (
            self._checks.get((case, tile, tokens), {}).get("digest") == digest
        )

    @property
    def rows(self) -> list[Row]:
        return list(self._rows.values())

    @property
    def checks(self) -> list[Row]:
        return list(self._checks.values())

    def save(self) -> None:
        def order(row: Row) -> tuple[Any, ...]:
            return tuple(
                str(value).rjust(8)
                for value in _key(
                    row,
                    ("K", "H", "dtype", "protocol", "M", "scales", "system"),
                )
            )

        self._sum_up_gpus()
        self.data["rows"] = sorted(self.rows, key=order)
        self.data["checks"] = sorted(
            self.checks, key=lambda row: (row["case"], row["tile"], row["M"])
        )
        write_json(self.path, self.data)

    def _sum_up_gpus(self) -> None:
        """Clocks are those of all GPUs, ceilings those of the first."""
        gpus = list(self.data["gpus"].values())
        for name, pick in (("sm_mhz_min", min), ("sm_mhz_max", max)):
            seen = [
                gpu["clocks"][name] for gpu in gpus if name in gpu["clocks"]
            ]
            if seen:
                self.data["clocks"][name] = pick(seen)
        if gpus:
            self.data["ceilings"] = dict(gpus[0]["ceilings"])


def read_known(paths: Iterable[Path], repeats: int) -> Known:
    """The good checks of files of results, with `repeats` launches at least."""
    known: Known = defaultdict(set)
    for path in paths:
        data = json.loads(path.read_text())
        for row in [*data.get("checks", []), *data.get("kernels", [])]:
            if (
                row["ok"]
                and row.get("digest")
                and row.get("repeats", 0) >= repeats
            ):
                known[row["case"], row["tile"], row["digest"]].update(
                    row["tokens"] if "tokens" in row else [row["M"]]
                )
    return known


def best_peer(rows: list[Row], ours: Row | None = None) -> Row | None:
    """The fastest system that is not ours, and of the same run."""
    peers = [
        row
        for row in rows
        if row["system"].startswith("torch")
        and row.get("median_us")
        and (ours is None or _key(row, _RUN) == _key(ours, _RUN))
    ]
    return min(peers, key=lambda row: row["median_us"], default=None)


def _groups(rows: list[Row]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = _key(row, ("protocol", "K", "H", "act", "dtype", "M"))
        groups.setdefault(key, []).append(row)
    return dict(
        sorted(
            groups.items(),
            key=lambda item: tuple(str(part).rjust(8) for part in item[0]),
        )
    )


def _us(row: Row | None) -> str:
    if row is None:
        return "-"
    return f"{row['median_us']:.1f}" if row.get("median_us") else "none"


def at_most(ours: Row, best: Row | None) -> float | None:
    """Speed of the lower bound, relative to the best peer.

    The bound reads the weights, or multiplies at the clock of our row.
    """
    bound = max(ours.get("floor_us") or 0, ours.get("tensor_us") or 0)
    return best["median_us"] / bound if best and bound else None


def _by_rounds(row: Row) -> str:
    text = f"{row['over_fuse']:.3f}"
    if "over_fuse_95" in row:
        text += " ({:.3f}-{:.3f})".format(*row["over_fuse_95"])
    return text


def summary(rows: list[Row]) -> str:
    """One line per shape, type and M: ours, the best peer, the floor."""
    lines = [
        "| protocol | K/H | dtype | M | fuse us (min-max) | best peer | "
        "x faster | by rounds (95 %) | at most | floor us | x floor | "
        "TB/s | rel err |",
        "|---" * 13 + "|",
    ]
    for (protocol, k, h, _, dtype, m), group in _groups(rows).items():
        ours = next((row for row in group if row["system"] == "fuse"), None)
        best = best_peer(group, ours)
        cells = [protocol, f"{k}/{h}", dtype, str(m)]
        if ours is None or not ours.get("median_us"):
            note = ours.get("note", "no row") if ours else "no row"
            cells += [
                note,
                f"{best['system']} {_us(best)}" if best else "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
            ]
        else:
            time, floor = ours["median_us"], ours["floor_us"]
            size = ours["weight_bytes"]
            cells += [
                f"{time:.1f} ({ours['min_us']:.1f}-{ours['max_us']:.1f})",
                f"{best['system']} {best['scales']} {_us(best)}"
                if best
                else "-",
                f"{best['median_us'] / time:.3f}" if best else "-",
                _by_rounds(best) if best and "over_fuse" in best else "-",
                f"{most:.3f}" if (most := at_most(ours, best)) else "-",
                *(
                    (f"{floor:.1f}", f"{time / floor:.2f}")
                    if floor
                    else ("-", "-")
                ),
                f"{size / time / 1e6:.2f}",
                f"{ours['rel_err']:.1e}",
            ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def side_by_side(rows: list[Row]) -> str:
    """All systems in one row: median, minimum and maximum in us, and percent
    of the lower bound; the last column is the clock after the row."""
    groups = _groups(rows)
    columns = sorted(
        {(row["system"], row["scales"]) for row in rows},
        key=lambda c: (not c[0].startswith("fuse"), c),
    )
    names = [
        f"{system} {scales}".replace(" none", "") for system, scales in columns
    ]
    lines = [
        "| protocol | K/H | dtype | M | floor us | "
        + " | ".join(names)
        + " | MHz |",
        "|---" * (6 + len(names)) + "|",
    ]
    for (protocol, k, h, _, dtype, m), group in groups.items():
        floor = next(
            (row["floor_us"] for row in group if row.get("floor_us")), None
        )
        cells = [
            protocol,
            f"{k}/{h}",
            dtype,
            str(m),
            f"{floor:.1f}" if floor else "-",
        ]
        for column in columns:
            row = next(
                (
                    row
                    for row in group
                    if (row["system"], row["scales"]) == column
                ),
                None,
            )
            text = _us(row)
            if row and row.get("median_us") and floor:
                text += (
                    f" ({row['min_us']:.1f}-{row['max_us']:.1f}) "
                    f"{100 * row['median_us'] / floor:.0f} %"
                )
            elif row and protocol == "sustained":
                text += "".join(
                    f", {row[key]:.0f} {unit}"
                    for key, unit in (("sm_mhz", "MHz"), ("power_w", "W"))
                    if row.get(key)
                )
            cells.append(text)
        clocks = {row["sm_mhz"] for row in group if row.get("sm_mhz")}
        cells.append(", ".join(f"{clock:.0f}" for clock in sorted(clocks)))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def checks_summary(checks: list[Row]) -> str:
    """The number of passed checks, and the failed ones."""
    bad = [row for row in checks if not row["ok"]]
    lines = [f"{len(checks) - len(bad)} of {len(checks)} checks passed"]
    for row in bad:
        details = ", ".join(
            f"{name} {value}"
            for name, value in row.items()
            if name not in ("case", "tile", "M", "ok")
        )
        lines.append(
            f"FAILED {row['case']} tile {row['tile']} M={row['M']}: {details}"
        )
    return "\n".join(lines)


def tables(results: Results) -> str:
    """All tables of a file."""
    parts = []
    for dtype in ("fp8", "bf16"):
        rows = [row for row in results.rows if row["dtype"] == dtype]
        if rows:
            parts.append(side_by_side(rows))
    parts.append(summary(results.rows))
    if results.checks:
        parts.append(checks_summary(results.checks))
    return "\n\n".join(parts)
