# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `doctor`, which examines an installation."""

from __future__ import annotations

import argparse


def add_doctor(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> None:
    """Adds the command to a parser."""
    command = commands.add_parser(
        "doctor",
        help="examine this installation",
        description="Prints a line for each part that fuse can use: packages, "
        "the CUDA driver, GPUs, libraries, caches and environment variables. A "
        "sentence below it states what a missing part prevents. The exit "
        "status is 1 if nothing can be fused.",
    )
    command.add_argument(
        "--json", action="store_true", help="print JSON for programs"
    )
    command.set_defaults(run=_run_doctor)


def _run_doctor(options: argparse.Namespace) -> int:
    from fuse_mlir.reports.doctor import diagnose

    found = diagnose()
    print(found.json() if options.json else found, end="")
    return 0 if found else 1
