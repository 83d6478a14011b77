# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sites of a model and the outcome for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fuse_mlir.errors import Refusal
from fuse_mlir.matching.sites import join


@dataclass
class SiteResult:
    """A site that a pattern selects, and its outcome."""

    id: str
    parent: str
    members: list[str]
    #: "fused", "could fuse" or "refused".
    status: str
    families: tuple[str, ...] = ()
    refusal: Refusal | None = None
    #: Conditions under which the members run instead of the kernel.
    note: str = ""

    @property
    def reason(self) -> str:
        return str(self.refusal) if self.refusal else ""


class FusionResult(list[SiteResult]):
    """Sites in the order of the model; prints as a table."""

    #: The scales and measured ranges, if `calibrate` made the result.
    calibration: Any = None
    #: A note on all sites: a sentence without a period.
    note: str = ""

    @property
    def fused(self) -> list[SiteResult]:
        return [s for s in self if s.status == "fused"]

    @property
    def refused(self) -> list[SiteResult]:
        return [s for s in self if s.status == "refused"]

    def __str__(self) -> str:
        return sites_text(self)


def sites_text(results: Sequence[SiteResult]) -> str:
    """A line per site, and a line with totals."""
    lines = []
    for site in results:
        what = site.reason or ", ".join(site.families)
        what += f" {site.note}" if site.note else ""
        lines.append(
            _line(f"{site.status:10}  {join(site.parent, site.id)}  {what}")
        )
    lines.append(counted(results))
    if isinstance(results, FusionResult) and results.note:
        lines.append(results.note)
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    """Text without line ends and control characters, which names of modules
    may contain."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode()
        for c in text
    )


def counted(results: Sequence[SiteResult]) -> str:
    """The number of sites of each status."""
    count = {
        status: sum(s.status == status for s in results) for status in STATUSES
    }
    return (
        ", ".join(f"{n} {status}" for status, n in count.items() if n)
        or "no sites"
    )


#: Explanations of the statuses on HTML pages.
STATUSES = {
    "fused": "the chain runs as one kernel",
    "could fuse": "fuse_modules would fuse the chain",
    "refused": "the chain stays as it is, for the reason given",
}
