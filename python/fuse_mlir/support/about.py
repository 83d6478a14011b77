# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The head of a report: the model, the time, the versions, the command."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path


@dataclass(frozen=True)
class About:
    """The head of a report.

    Args:
        model: the name that the user gave.
        command: the command that made the report.
        date: in UTC, to the minute.
        versions: of packages, and the processor or GPU with its driver.
    """

    model: str
    command: str = ""
    date: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    def rows(self) -> list[tuple[str, str]]:
        """Names and values; unknown values are left out."""
        rows = [
            ("model", self.model),
            ("command", self.command),
            ("date", self.date),
            *self.versions.items(),
        ]
        return [(name, value) for name, value in rows if value]

    def text(self) -> str:
        """One line for each row, and an empty line."""
        lines = [f"{name}: {value}" for name, value in self.rows()]
        return "\n".join([*lines, "", ""])


def about(model: str, command: str = "", device: str = "cpu") -> About:
    """The head of a report that is made now.

    Args:
        model: a path, a type or the name of a class.
        command: a command line or a call in Python.
        device: cpu or cuda, where the model is.
    """
    import torch

    import fuse_mlir

    versions = {
        "fuse": fuse_mlir.__version__,
        "Python": platform.python_version(),
        "torch": str(torch.__version__),
    }
    for package in ("transformers", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    versions["processor"] = _processor()
    if torch.device(device).type == "cuda" and torch.cuda.is_available():
        versions["GPU"] = torch.cuda.get_device_name()
        versions["driver"] = _driver()
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return About(model, command, now, versions)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [
        line.partition(":")[2].strip()
        for line in lines
        if line.startswith("model name")
    ]
    name = names[0] if names else platform.processor() or platform.machine()
    return f"{name}, {len(names)} cores" if names else name


def _driver() -> str:
    path = Path("/proc/driver/nvidia/version")
    try:
        first = path.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return ""
    return next(
        (
            word
            for word in first.split()
            if word.count(".") >= 1 and word[0].isdigit()
        ),
        "",
    )
