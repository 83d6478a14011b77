#!/usr/bin/env python3
# ===- check-wheel.py - Check that a wheel stands alone --------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Print the platform tag of a wheel whose libraries need only glibc.

    scripts/check-wheel.py dist/fuse_mlir-0.1.0-py3-none-linux_x86_64.whl

The tag is on stdout, and a table of the libraries on stderr. It is an error if
the wheel is too large, or if a library needs one that is neither in the wheel
nor part of glibc, searches folders outside of the wheel, or has debug symbols.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# Maximum size of the wheel in bytes. PyPI refuses more than 100 MB.
MAX_SIZE = 60_000_000

# Libraries of glibc, which each Linux with its version has (PEP 600).
GLIBC = re.compile(
    r"lib(c|dl|m|pthread|rt)\.so\.\d+|ld-linux-[a-z0-9_-]+\.so\.\d+"
)


def read(option: str, file: Path) -> str:
    """What readelf prints about a file."""
    done = subprocess.run(
        ["readelf", "--wide", option, str(file)],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def check(name: str, file: Path, inside: set[str]) -> tuple[int, int]:
    """The version of glibc that a library needs.

    Raises:
        ValueError: the library needs something else.
    """
    dynamic = read("--dynamic", file)
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    for library in needed:
        if library not in inside and not GLIBC.fullmatch(library):
            raise ValueError(f"{name} needs {library}")
    for paths in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        if paths != "$ORIGIN":
            raise ValueError(f"{name} searches '{paths}', expected '$ORIGIN'")
    if ".symtab" in read("--sections", file):
        raise ValueError(f"{name} is not stripped")
    sections = read("--version-info", file).split("Version needs section")
    versions = {
        version
        for section in sections[1:]
        for version in re.findall(r"Name: (\S+)", section)
    }
    glibc = []
    for version in versions:
        match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
        if not match:
            raise ValueError(f"{name} needs version {version} of a library")
        glibc.append((int(match[1]), int(match[2])))
    newest = max(glibc, default=(2, 17))
    print(
        f"{file.stat().st_size / 1e6:8.1f} MB  glibc {newest[0]}.{newest[1]}"
        f"  {name}: {', '.join(needed)}",
        file=sys.stderr,
    )
    return newest


def platform_tag(wheel: Path) -> str:
    """The tag of the oldest platform on which a wheel works.

    Raises:
        ValueError: the wheel does not work without other packages.
    """
    size = wheel.stat().st_size
    print(f"{size / 1e6:8.1f} MB  {wheel.name}", file=sys.stderr)
    if size > MAX_SIZE:
        raise ValueError(f"{size} bytes, expected at most {MAX_SIZE}")
    newest = []
    with (
        tempfile.TemporaryDirectory() as directory,
        zipfile.ZipFile(wheel) as files,
    ):
        libraries = [n for n in files.namelist() if re.search(r"\.so\b", n)]
        inside = {Path(n).name for n in libraries}
        for name in sorted(libraries):
            newest.append(
                check(name, Path(files.extract(name, directory)), inside)
            )
    if not newest:
        raise ValueError("has no libraries")
    major, minor = max(newest)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} WHEEL", file=sys.stderr)
        return 2
    try:
        print(platform_tag(Path(sys.argv[1])))
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        print(f"error: {sys.argv[1]}: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
