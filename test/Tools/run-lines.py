# RUN: %python %s %fuse_src_root/test
# RUN: not %python %s %S/Inputs/run-lines \
# RUN:   | FileCheck %s --implicit-check-not=Inputs --implicit-check-not=ten.mlir
# CHECK: Tools/many.test: has 11 RUN lines, expected at most 10; split it
"""A test of lit has at most ten RUN lines, so that it has one subject.

Lines that continue a command do not count. Commands that must fail can be rows
of one table, see test/Inputs/check-errors.py.
"""

import pathlib
import re
import sys

MOST = 10
SUFFIXES = (".c", ".mlir", ".py", ".test")


def count_commands(text):
    """The number of RUN lines without those that continue another."""
    # Not written as lit reads it, which looks for these lines here too.
    lines = re.findall(r"(?<![\w-])RUN[:](.*)$", text, re.MULTILINE)
    continued = [line.rstrip().endswith("\\") for line in lines[:-1]]
    return len(lines) - sum(continued)


def find_problems(root):
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.suffix not in SUFFIXES or "Inputs" in name.parts:
            continue
        number = count_commands(path.read_text())
        if number > MOST:
            yield (
                f"{name}: has {number} RUN lines, expected at most {MOST}; "
                "split it"
            )


def main(root):
    problems = list(find_problems(pathlib.Path(root)))
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
