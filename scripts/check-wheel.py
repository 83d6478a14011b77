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

# Libraries of glibc, which every Linux with its version has (PEP 600).
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


class Library:
    """A shared library of a wheel.

    Args:
        name: in the wheel.
        file: an extracted copy.
    """

    def __init__(self, name: str, file: Path) -> None:
        dynamic = read("--dynamic", file)
        self.name = name
        self.size = file.stat().st_size
        self.needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
        self.paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
        self.stripped = ".symtab" not in read("--sections", file)
        needs = read("--version-info", file).partition("Version needs")[2]
        self.versions = re.findall(r"Name: GLIBC_(\S+)", needs)

    def glibc(self, inside: set[str]) -> tuple[int, int]:
        """The version of glibc that the library needs.

        Args:
            inside: names of the libraries of the wheel.

        Raises:
            ValueError: the library needs something else.
        """
        for library in self.needed:
            if library not in inside and not GLIBC.fullmatch(library):
                raise ValueError(f"{self.name} needs {library}")
        for path in self.paths:
            if path != "$ORIGIN":
                raise ValueError(
                    f"{self.name} searches '{path}', expected '$ORIGIN'"
                )
        if not self.stripped:
            raise ValueError(f"{self.name} is not stripped")
        found = [(2, 17)]
        for version in self.versions:
            match = re.fullmatch(r"(\d+)\.(\d+)(\.\d+)?", version)
            if not match:
                raise ValueError(f"{self.name} needs GLIBC_{version}")
            found.append((int(match[1]), int(match[2])))
        return max(found)


def read_libraries(wheel: Path) -> list[Library]:
    """The libraries of a wheel, in the order of their names."""
    with tempfile.TemporaryDirectory() as directory:
        with zipfile.ZipFile(wheel) as files:
            names = [n for n in files.namelist() if re.search(r"\.so\b", n)]
            return [
                Library(name, Path(files.extract(name, directory)))
                for name in sorted(names)
            ]


def platform_tag(wheel: Path) -> str:
    """The tag of the oldest platform on which a wheel works.

    Raises:
        ValueError: the wheel does not work without other packages.
    """
    size = wheel.stat().st_size
    if size > MAX_SIZE:
        raise ValueError(f"{size} bytes, expected at most {MAX_SIZE}")
    libraries = read_libraries(wheel)
    if not libraries:
        raise ValueError("has no libraries")
    inside = {Path(library.name).name for library in libraries}
    versions = [library.glibc(inside) for library in libraries]
    print(f"{size / 1e6:8.1f} MB  {wheel.name}", file=sys.stderr)
    for library, (major, minor) in zip(libraries, versions):
        print(
            f"{library.size / 1e6:8.1f} MB  {library.name}: "
            f"glibc {major}.{minor}, {' '.join(library.needed)}",
            file=sys.stderr,
        )
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} WHEEL", file=sys.stderr)
        return 2
    try:
        print(platform_tag(Path(sys.argv[1])))
    except (
        OSError,
        ValueError,
        subprocess.SubprocessError,
        zipfile.BadZipFile,
    ) as problem:
        print(f"error: '{sys.argv[1]}': {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
