# RUN: %python %s %fuse_src_root %fuse_obj_root/bin | FileCheck %s
# CHECK-NOT: has no test
# CHECK: {{^[1-9][0-9]+}} options of {{1[0-9]}} tools
"""Every option that a tool of fuse shows with --help stands in some test.

What LLVM adds to tools is not theirs: an option is a tool's own when its name
stands in the sources of the tool.
"""

import pathlib
import re
import subprocess
import sys

# Those of every tool.
COMMON = {"help", "version"}


def read_help(*program):
    return subprocess.run(
        [*program, "--help"], capture_output=True, text=True, check=False
    ).stdout


def main(root, programs):
    root = pathlib.Path(root)
    tests = "\n".join(
        path.read_text(errors="replace")
        for folder in ("test", "python/tests")
        for path in (root / folder).rglob("*")
        if path.suffix in (".c", ".mlir", ".py", ".test", ".txt")
    )
    number = tools = 0
    for folder in sorted((root / "tools").iterdir()):
        program = pathlib.Path(programs) / folder.name
        if not program.exists():
            continue
        sources = "\n".join(path.read_text() for path in folder.glob("*.cpp"))
        help_text = read_help(program)
        if "<command>" in help_text:
            help_text = "".join(
                read_help(program, command)
                for command in re.findall(r"^  (\w+) ", help_text, re.MULTILINE)
            )
        options = (
            set(
                re.findall(
                    r"(?:^|[\s[])--?([a-z][\w-]*)", help_text, re.MULTILINE
                )
            )
            - COMMON
        )
        options = {
            name
            for name in options
            if re.search(
                r"(?:cl::(?:opt|list|bits)<[^;]*?[({]\s*\"|--)"
                rf"{re.escape(name)}(?![\w-])",
                sources,
            )
        }
        tools += 1
        number += len(options)
        for name in sorted(options):
            if not re.search(rf"-{re.escape(name)}\b", tests):
                print(f"--{name} of {folder.name} has no test")
    print(f"{number} options of {tools} tools")


main(*sys.argv[1:])
