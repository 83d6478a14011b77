#!/usr/bin/env python3
# ===- bundle.py - Pack the compiler with all of its libraries -------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Make a compiler that runs without MLIR or a recent C library.

    cmake --build build/dev
    scripts/bundle.py out/bundle --strip
    scp -r out/bundle host: && ssh host bundle/unpack.sh /opt/fuse
    ssh host /opt/fuse/fx fuse-compile layer.mlir --chip=sm_90a -o layer.fuse

The folder has the programs of BUILD, the libraries that they load and the C
library that they were linked with. It has about 45 MB, which unpack.sh extracts
to 280 MB in about ten seconds. The target needs Linux on the same architecture,
tar, and xz or Python.

    bin/     the programs
    lib/     libfuse, libfuse-rt, the extension of Python, MLIR, LLVM and their
             libraries: a program on the target with a C library as new as that
             of the build may load these, with LD_LIBRARY_PATH=/opt/fuse/lib
    libc/    loader, C library and C++ library of the build
    fx       starts a program of bin/, or any other, with lib/ and libc/
    bin-fx/  the programs, started by fx: FUSE_BIN for the Python package

LLVM depends on libraries that the compiler never calls: a solver, an XML parser
and a command-line editor. With their own dependencies they have 60 MB. They are
replaced by stubs that abort when they are called; --whole packs the real
libraries. A second call keeps archives whose libraries did not change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
TOOLS = (
    "fuse-artifact",
    "fuse-compile",
    "fuse-device-run",
    "fuse-opt",
    "fuse-run",
)
# Libraries that belong to the C library and must not be mixed with those of the
# target machine.
LIBC = re.compile(
    r"(ld-linux-.*|lib(c|m|pthread|dl|rt|resolv|stdc\+\+|gcc_s))"
    r"\.so\.\d+$"
)
STAND_INS = ("libedit.so.2", "libxml2.so.2", "libxml2.so.16", "libz3.so.4")
# Size in bytes from which a library gets its own archive, since such libraries
# hardly ever change.
LARGE = 1 << 25

FX = """\
#!/bin/sh
# usage: fx PROGRAM ARGUMENT... - starts a program with the packed libraries.
# PROGRAM is a name of bin/ or a path; FX_LIBRARY_PATH names more folders.
here=$(dirname "$(readlink -f "$0")")
program=$1; shift
case $program in */*) ;; *) program=$here/bin/$program ;; esac
driver=/usr/local/nvidia/lib64:/usr/local/nvidia/lib
driver=$driver:/usr/lib/x86_64-linux-gnu:/usr/lib/aarch64-linux-gnu:/usr/lib64
exec "$here"/libc/ld-linux-* --library-path \\
  "$here/lib:$here/libc:$driver${FX_LIBRARY_PATH:+:$FX_LIBRARY_PATH}" \\
  "$program" "$@"
"""

UNPACK = """\
#!/bin/sh
# usage: unpack.sh [FOLDER] - unpacks the compiler; nothing where it is already.
set -e
here=$(dirname "$(readlink -f "$0")")
to=${1:-PREFIX}
[ ! -e "$to/ready" ] || exit 0
mkdir -p "$to/lib"
# Of calls side by side, a second one would write over libraries that programs
# of the first have loaded, which ends them with a bus error.
exec 9>"$to/lock"
flock 9
[ ! -e "$to/ready" ] || exit 0
unxz() {
  if command -v xz >/dev/null; then
    xz -dc "$1"
  else
    python3 -c 'import lzma, shutil, sys
shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer, 1 << 20)' "$1"
  fi
}
for archive in "$here"/*.xz; do
  case $archive in
  *.tar.xz) unxz "$archive" | tar -C "$to" -xf - & ;;
  *) unxz "$archive" >"$to/lib/$(basename "$archive" .xz)" & ;;
  esac
  jobs="$jobs $!"
done
for job in $jobs; do wait "$job"; done
mkdir -p "$to/bin-fx"
for program in "$to"/bin/*; do
  name=$(basename "$program")
  printf '#!/bin/sh\\nexec "%s/fx" %s "$@"\\n' \\
    "$(readlink -f "$to")" "$name" >"$to/bin-fx/$name"
  chmod +x "$to/bin-fx/$name"
done
touch "$to/ready"
"""


def call(*command: object) -> str:
    return subprocess.run(
        [str(part) for part in command],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def needed(path: Path) -> list[str]:
    """Names of the libraries on which a program or library depends."""
    return re.findall(r"\(NEEDED\).*\[(.+)\]", call("readelf", "-d", path))


def collect(files: Iterable[Path], whole: bool) -> dict[str, Path | None]:
    """All libraries that files load, by name; None for a stub."""
    found: dict[str, Path | None] = {}
    queue = list(files)
    while queue:
        path = queue.pop()
        places = dict(
            re.findall(r"^\s*(\S+) => (/\S+)", call("ldd", path), re.MULTILINE)
        )
        for name in needed(path):
            if name in found:
                continue
            if name.startswith("ld-linux"):
                places[name] = call(
                    "readelf", "-p", ".interp", "/bin/sh"
                ).split()[-1]
            if name not in places:
                raise SystemExit(
                    f"error: '{path}' needs {name}, which is not installed"
                )
            if name in STAND_INS and not whole:
                found[name] = None
                continue
            place = Path(places[name]).resolve()
            found[name] = place
            queue.append(place)
    return found


def symbols(path: Path, undefined: bool) -> dict[str, str]:
    """Dynamic symbols and their versions."""
    found = {}
    for line in call("objdump", "-T", path).splitlines():
        match = re.match(
            r"[0-9a-f]+ .{7} (\S+)\s+[0-9a-f]+\s+"
            r"(?:\(?([\w.]+)\)?\s+)?(\S+)$",
            line,
        )
        if match and (match[1] == "*UND*") == undefined:
            found[match[3]] = match[2] or "Base"
    return found


def make_stand_in(
    name: str, real: Path, users: Iterable[Path], target: Path
) -> None:
    """Makes a library of stubs for symbols of `real` that `users` need."""
    taken = {}
    for user in users:
        taken.update(symbols(user, undefined=True))
    taken = {
        symbol: taken[symbol]
        for symbol in symbols(real, undefined=False)
        if symbol in taken
    }
    with tempfile.TemporaryDirectory() as folder:
        source, script = Path(folder, "source.c"), Path(folder, "versions")
        source.write_text(
            "void abort(void);\n"
            + "".join(
                f"void {symbol}(void) {{ abort(); }}\n" for symbol in taken
            )
        )
        versions = sorted(set(taken.values()) - {"Base"})
        script.write_text(
            "".join(
                f"{version} {{ global: "
                + "".join(
                    f"{symbol}; "
                    for symbol in taken
                    if taken[symbol] == version
                )
                + "};\n"
                for version in versions
            )
        )
        options = [f"-Wl,--version-script={script}"] if versions else []
        call(
            "clang-22",
            "-shared",
            "-fPIC",
            "-Os",
            "-w",
            "-fno-builtin",
            f"-Wl,-soname,{name}",
            *options,
            source,
            "-o",
            target,
        )


def compress(write: Callable[[IO[bytes]], None], target: Path) -> None:
    """Compresses the output of `write` to `target`, which is replaced
    atomically."""
    partial = target.with_suffix(".partial")
    with (
        partial.open("wb") as file,
        subprocess.Popen(
            ["xz", "-T1", "--x86", "--lzma2=preset=9e,dict=192MiB"],
            stdin=subprocess.PIPE,
            stdout=file,
        ) as xz,
    ):
        assert xz.stdin
        with xz.stdin:
            write(xz.stdin)
    if xz.returncode:
        raise SystemExit(f"error: xz could not write '{partial}'")
    partial.rename(target)


def write_tar(file: IO[bytes], folder: Path) -> None:
    """Writes an archive that only depends on the contents of the files."""

    def reset(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = info.mtime = 0
        info.uname = info.gname = ""
        return info

    with tarfile.open(fileobj=file, mode="w|") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name, filter=reset)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("output", type=Path, help="folder for the archives")
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "build/dev",
        help="build to pack (default: build/dev)",
    )
    parser.add_argument(
        "--tool",
        action="append",
        default=[],
        metavar="NAME",
        help="another program of BUILD, besides " + ", ".join(TOOLS),
    )
    parser.add_argument(
        "--prefix",
        default="fuse",
        metavar="FOLDER",
        help="where unpack.sh unpacks unless it is told (default: fuse)",
    )
    parser.add_argument(
        "--strip",
        action="store_true",
        help="leave symbols out of what BUILD made",
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="no stand-ins for libraries that are never called",
    )
    options = parser.parse_args(arguments)
    options.programs = [
        options.build / "bin" / name
        for name in dict.fromkeys((*TOOLS, *options.tool))
    ]
    options.own = [
        options.build / "lib" / name
        for name in ("libfuse.so.0", "libfuse-rt.so.0", "fuse_call.abi3.so")
    ]
    for path in (*options.programs, *options.own):
        if not path.exists():
            parser.error(
                f"'{path}' does not exist: build it, or name a build "
                "with --build"
            )
    return options


def copy_build(options: argparse.Namespace, folder: Path) -> None:
    """Copies the files of BUILD into the folder that is packed."""
    for part in ("bin", "lib", "libc"):
        (folder / part).mkdir()
    for path in options.programs:
        shutil.copy(path, folder / "bin")
    for path in options.own:
        shutil.copy(path.resolve(), folder / "lib" / path.name)
    if options.strip:
        for path in (*folder.glob("bin/*"), *folder.glob("lib/*")):
            call("strip", "-s", path)
    (folder / "fx").write_text(FX)
    (folder / "fx").chmod(0o755)


def pack_large(path: Path, packed: Path, before: dict[str, str]) -> str:
    """Compresses a library to its own archive, unless `before` has its digest.

    Returns:
        Its digest.
    """
    now = digest(path)
    if not packed.exists() or before.get(packed.name) != now:
        with path.open("rb") as file:
            compress(lambda out: shutil.copyfileobj(file, out), packed)
    return now


def copy_libraries(
    libraries: dict[str, Path | None],
    folder: Path,
    output: Path,
    before: dict[str, str],
) -> dict[str, str]:
    """Copies libraries of the system, or stubs, into the folder.

    Returns:
        Digests of libraries with their own archive, by archive.
    """
    large: dict[str, str] = {}
    users = [path for path in libraries.values() if path]
    for library, path in libraries.items():
        place = "libc" if LIBC.match(library) else "lib"
        target = folder / place / library
        if path and path.stat().st_size > LARGE and place == "lib":
            packed = output / (library + ".xz")
            large[packed.name] = pack_large(path, packed, before)
        elif path:
            shutil.copy(path, target)
            target.chmod(0o755)
        else:
            real = re.search(
                rf"{re.escape(library)} => (/\S+)",
                "".join(call("ldd", user) for user in users),
            )
            if real is None:
                raise SystemExit(f"error: ldd names no file of {library}")
            make_stand_in(library, Path(real[1]), users, target)
    return large


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    found = collect([*options.programs, *options.own], options.whole)
    # Libraries of the build are not system libraries.
    libraries = {
        name: path
        for name, path in found.items()
        if name not in [path.name for path in options.own]
    }
    record = options.output / "archives.json"
    before = json.loads(record.read_text()) if record.exists() else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_build(options, folder)
        after = copy_libraries(libraries, folder, options.output, before)
        target = options.output / "fuse.tar.xz"
        compress(lambda out: write_tar(out, folder), target)
        after[target.name] = digest(target)
    for old in set(before) - set(after):
        (options.output / old).unlink(missing_ok=True)
    record.write_text(json.dumps(after, indent=1) + "\n")
    unpack = options.output / "unpack.sh"
    unpack.write_text(UNPACK.replace("PREFIX", options.prefix))
    unpack.chmod(0o755)
    for path in sorted(options.output.iterdir()):
        print(f"{path.stat().st_size:10} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
