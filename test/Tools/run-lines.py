# RUN: %python %s %fuse_src_root/test
# RUN: not %python %s %S/Inputs/run-lines \
# RUN:   --exceptions Tools/ten.mlir Tools/gone.test \
# RUN:   | FileCheck %s --implicit-check-not=Inputs
# CHECK: Tools/gone.test: is an exception, and does not exist
# CHECK: Tools/many.test: has 11 RUN lines, expected at most 10; split it
# CHECK: Tools/ten.mlir: is an exception, and has only 10 RUN lines
"""A test of lit has at most ten RUN lines, so that it has one subject.

Lines that continue a command do not count. Commands that must fail can be rows
of one table, see test/Inputs/check-errors.py.
"""

import argparse
import pathlib
import re
import sys

MOST = 10
SUFFIXES = (".c", ".mlir", ".py", ".test")
# A ratchet: tests that still have more. Remove a line when its test is split,
# and add none.
EXCEPTIONS = (
    "Slots/Binding/bind-slots/errors.mlir",
    "Slots/Lowering/lower-slots-code.test",
    "Transforms/Lowering/pack-weights-errors.mlir",
    "Transforms/Lowering/select-schedules-table-errors.test",
    "Transforms/Modules/fuse-models.test",
    "Transforms/Modules/list-modules-errors.mlir",
    "Transforms/Modules/list-modules.mlir",
    "Transforms/Modules/match-modules-errors.mlir",
    "Transforms/Modules/match-modules-libraries.mlir",
    "Transforms/Modules/match-modules.mlir",
    "Transforms/Modules/unfuse-modules.mlir",
)


def count_commands(text):
    """The number of RUN lines without those that continue another."""
    # Not written as lit reads it, which looks for these lines here too.
    lines = re.findall(r"(?<![\w-])RUN[:](.*)$", text, re.MULTILINE)
    continued = [line.rstrip().endswith("\\") for line in lines[:-1]]
    return len(lines) - sum(continued)


def find_problems(root, exceptions):
    numbers = {
        path.as_posix(): count_commands((root / path).read_text())
        for path in (path.relative_to(root) for path in root.rglob("*"))
        if path.suffix in SUFFIXES and "Inputs" not in path.parts
    }
    for name, number in numbers.items():
        if number > MOST and name not in exceptions:
            yield (
                f"{name}: has {number} RUN lines, expected at most {MOST}; "
                "split it"
            )
    for name in exceptions:
        if name not in numbers:
            yield f"{name}: is an exception, and does not exist"
        elif numbers[name] <= MOST:
            yield (
                f"{name}: is an exception, and has only {numbers[name]} RUN "
                "lines"
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--exceptions", nargs="*", default=EXCEPTIONS)
    options = parser.parse_args()
    problems = sorted(find_problems(options.root, options.exceptions))
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main())
