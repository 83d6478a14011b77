# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reports which sites of a program are fused, what that saves, and refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuse_mlir.errors import ExplainError
from fuse_mlir.support.messages import tool_error


@dataclass(frozen=True)
class Chain:
    """The layers of one kernel. They say nothing about what it saves.

    Attributes:
        layers: number of layer ops.
        bytes: bytes that layers write for others of them, and that these read.
        flops: operations of its linears; None without bodies of functions to
            count them in.
    """

    layers: int
    bytes: int
    flops: int | None = None


@dataclass(frozen=True)
class Cost:
    """What a call costs, counted in the plan for a target.

    Attributes:
        launches: number of launches; on a CPU, of phases or loop nests.
        bytes: bytes of the buffers that the launches take.
    """

    launches: int
    bytes: int


@dataclass(frozen=True)
class FunctionCost:
    """The costs of a function without and with fused ops."""

    name: str
    unfused: Cost
    fused: Cost


@dataclass(frozen=True)
class Site:
    """A site where a pattern matches, or almost does.

    Attributes:
        id: stable id, for `fuse-unfuse` and `disable`.
        level: "modules" or "ops".
        fused: whether it is fused.
        kernel: kernel of a fused site.
        reason: of a refused site, the id of the predicate that failed, such
            as FUSE-N208.
        detail: names and values of the failure.
        suggestion: advice to the user.
        location: of the op.
        members: paths of the modules.
        chain: the layers of the kernel, or those that it would have at a
            refused site; None if unknown.
        saved: what a call costs less than without this kernel; None if
            unknown, and without a target.
    """

    id: str
    level: str
    fused: bool
    kernel: str | None
    reason: str | None
    detail: str | None
    suggestion: str | None
    location: str
    members: tuple[str, ...]
    chain: Chain | None
    saved: Cost | None = None


@dataclass(frozen=True)
class Explanation:
    """The sites of a program and one line about them.

    Attributes:
        summary: the line.
        sites: all sites.
        functions: the costs of each function on the target, if there is one.
        problem: reason why they could not be counted there, or None.
    """

    summary: str
    sites: tuple[Site, ...]
    functions: tuple[FunctionCost, ...] = ()
    problem: str | None = None

    @property
    def fused(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if site.fused)

    @property
    def refused(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if not site.fused)


def explain_ir(
    source: str | Path,
    patterns: Sequence[str] = (),
    *,
    libraries: Sequence[str | Path] = (),
    target: str = "",
    chip: str = "",
    cpu: str = "",
    tokens: int = 1,
    html: str | Path | None = None,
    tools: str | Path | None = None,
) -> Explanation:
    """Reports for all sites of a program whether they are fused, or why not.

    The program is raised first, as by all tools that fuse a file.

    Args:
        source: IR as text, or the path of a file with it.
        patterns: patterns of modules, as for `fuse-match-modules`. Without
            patterns, only ops are fused.
        libraries: files with patterns and kernels from outside of the model.
        target: chip that declared kernels must support; empty for any.
        chip: GPU for whose plans savings are counted, such as "sm_90a".
        cpu: CPU for whose plans they are counted instead, such as "native".
        tokens: value of dynamic dimensions.
        html: file to which the report is also written as a page.
        tools: directory of `fuse-explain`. None uses the search path.

    Raises:
        ExplainError: the program or a pattern cannot be used, or
            `fuse-explain` is missing.

    Examples:
        >>> found = fuse_mlir.explain_ir("func.func @f() { return }", tools=tools)
        >>> found.sites
        ()
    """
    where = None if tools is None else str(tools)
    tool = shutil.which("fuse-explain", path=where)
    if tool is None:
        raise ExplainError(f"no fuse-explain in {where or 'the search path'}")
    options = [f"--patterns={pattern}" for pattern in patterns]
    options += [f"--libraries={path}" for path in libraries]
    options.append(f"--tokens={tokens}")
    chosen = {"target": target, "chip": chip, "cpu": cpu}
    options += [f"--{name}={value}" for name, value in chosen.items() if value]
    text = None if isinstance(source, Path) else source
    command = [tool, str(source) if text is None else "-", *options]
    if html is not None:
        _run([*command, "--format=html", "-o", str(html)], text)
    return _parse(json.loads(_run([*command, "--format=json"], text)))


def _run(command: list[str], text: str | None) -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ExplainError(tool_error(done.stderr))
    return done.stdout


def _parse(report: dict[str, Any]) -> Explanation:
    sites = []
    for row in report["sites"]:
        chain = row.get("chain") or row.get("predicted_chain")
        saved = row.get("saved")
        sites.append(
            Site(
                id=row["site"],
                level=row["level"],
                fused=row["fused"],
                kernel=row.get("kernel"),
                reason=row.get("id"),
                detail=row.get("detail"),
                suggestion=row.get("suggestion"),
                location=row["location"],
                members=tuple(row["members"]),
                chain=Chain(**chain) if chain else None,
                saved=Cost(**saved) if saved else None,
            )
        )
    functions = tuple(
        FunctionCost(row["name"], Cost(**row["unfused"]), Cost(**row["fused"]))
        for row in report.get("functions", ())
    )
    return Explanation(
        report["summary"], tuple(sites), functions, report.get("problem")
    )
