# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launch plans: the data that a host needs to launch compiled kernels.

`fuse-translate --mlir-to-launch-plan` writes the PTX and the launches of a
module as one JSON object. `fuse_bench.common.kernels` stores it with the
compiled problem and the name of the assembled binary. This module reads that
file.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from .problem import Problem

#: A number, a symbol such as `s0`, or an operation and its two operands.
Expression: TypeAlias = "int | str | list[Expression]"

COMPILED_VERSION = 1
ARGUMENT_KINDS = (
    "operand",
    "result",
    "packed",
    "workspace",
    "tensor_map",
    "tokens",
    "scalar",
    "i32",
    "f32",
)
_LINE = 256


class PlanError(ValueError):
    """A plan that cannot be read or used."""


def evaluate(expr: Expression, symbols: list[int]) -> int:
    """The value of a size in a launch plan of the portable path."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, str):
        return symbols[int(expr[1:])]
    operation, *operands = expr
    lhs, rhs = (evaluate(part, symbols) for part in operands)
    return {
        "add": lambda: lhs + rhs,
        "mul": lambda: lhs * rhs,
        "mod": lambda: lhs % rhs,
        "floordiv": lambda: lhs // rhs,
        "ceildiv": lambda: -(-lhs // rhs),
    }[str(operation)]()


@dataclass
class Launch:
    """One kernel launch; `arguments` in the order of the parameters."""

    kernel: str
    blocks: int
    threads: int
    shared_bytes: int
    dependent: bool
    max_tokens: int
    workspace_bytes: int
    zeroed_bytes: int
    arguments: list[dict[str, Any]]
    #: Blocks wait for each other, so that all have to be resident.
    cooperative: bool = True
    #: Blocks of a cluster; the kernel itself asks for it.
    cluster: int = 1
    #: Shared memory that the kernel prefers to L1, in per cent of the most.
    carveout: int | None = None
    #: The workspace is that of the launch before, which this one waits for.
    shares_workspace: bool = False
    #: Matrices with a row for each token, the end of the workspace.
    token_buffers: list[dict[str, int]] = field(default_factory=list)

    @staticmethod
    def from_json(entry: dict[str, Any]) -> Launch:
        name = entry.get("kernel", "?")
        try:
            launch = Launch(kernel=entry["kernel"], **entry["plan"])
        except (KeyError, TypeError) as error:
            raise PlanError(f"the plan of {name}: {error}") from error
        if launch.carveout not in (None, *range(101)):
            raise PlanError(
                f"{name} has a carveout of {launch.carveout}: "
                "expected 0 to 100 per cent"
            )
        for index, argument in enumerate(launch.arguments):
            kind = argument.get("kind")
            if kind not in ARGUMENT_KINDS:
                raise PlanError(
                    f"argument {index} of {name} has kind '{kind}': expected "
                    f"one of {', '.join(ARGUMENT_KINDS)}"
                )
        return launch


def read_launches(compiled: dict[str, Any]) -> list[Launch]:
    """The launches of a file of fuse-translate."""
    version = compiled.get("version")
    if version != COMPILED_VERSION:
        raise PlanError(
            f"launch plan of version {version}, expected {COMPILED_VERSION}"
        )
    return [Launch.from_json(entry) for entry in compiled["launches"]]


@dataclass
class Plan:
    """A compiled problem: a binary and its launches in order."""

    problem: Problem
    binary: Path
    launches: list[Launch]
    commit: str = ""
    #: Of the PTX and the launches, see `digest`.
    digest: str = ""
    #: Scales of a binary that was compiled for fixed scales.
    fixed_scales: dict[str, float] = field(default_factory=dict)

    @property
    def max_tokens(self) -> int:
        return min(launch.max_tokens for launch in self.launches)

    @property
    def dependent(self) -> bool:
        return all(launch.dependent for launch in self.launches)

    @property
    def bases(self) -> list[int]:
        """Offsets of the workspace of each launch."""
        bases: list[int] = []
        end = 0
        for launch in self.launches:
            if launch.shares_workspace:
                bases.append(bases[-1])
                continue
            bases.append(end)
            end += -(-launch.workspace_bytes // _LINE) * _LINE
        return bases

    @property
    def workspace_bytes(self) -> int:
        return self.bases[-1] + self.launches[-1].workspace_bytes

    @staticmethod
    def load(path: Path) -> Plan:
        """Reads a file that `fuse_bench.common.kernels` wrote."""
        try:
            data = json.loads(path.read_text())
            problem = Problem.from_json(data["problem"])
            launches = read_launches(
                {"version": data["version"], "launches": data["launches"]}
            )
            if not launches:
                raise PlanError("no launch")
            return Plan(
                problem,
                path.parent / data["binary"],
                launches,
                data.get("commit", ""),
                data.get("digest", ""),
                data.get("fixed_scales", {}),
            )
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise PlanError(f"{path}: {error}") from error


def digest(ptx: str, launches: list[dict[str, Any]]) -> str:
    """A digest that identifies a compiled kernel.

    Results contain it, to check whether a later compiler still makes the
    measured kernel.
    """
    text = ptx + json.dumps(launches, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_plans(folder: Path) -> list[Plan]:
    """All plans of a folder, by name."""
    return [
        Plan.load(path)
        for path in sorted(folder.glob("*.json"))
        if not path.name.startswith("_")
    ]
