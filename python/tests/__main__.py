# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs all tests: `python -m tests [REPORT [FOLDER [NAMES]]]`.

REPORT gets one line, the number of tests that passed and that failed. FOLDER
is another folder of tests than this one, which `tests` stands for. NAMES is a
pattern of the names of tests, such as `*.test_threads_*`.
"""

import sys
import unittest
from pathlib import Path


def main() -> int:
    here = Path(__file__).parent
    folder, top = here, here.parent
    if len(sys.argv) > 2 and sys.argv[2] != "tests":
        folder = top = Path(sys.argv[2])
    loader = unittest.TestLoader()
    if len(sys.argv) > 3:
        loader.testNamePatterns = sys.argv[3:]
    suite = loader.discover(str(folder), top_level_dir=str(top))
    result = unittest.TextTestRunner(buffer=True).run(suite)
    # A test whose subtests fail appears once for each of them.
    broken = {
        getattr(test, "test_case", test).id()
        for test, _ in result.failures + result.errors
    }
    broken |= {test.id() for test in result.unexpectedSuccesses}
    if len(sys.argv) > 1:
        passed = result.testsRun - len(broken) - len(result.skipped)
        Path(sys.argv[1]).write_text(f"{max(0, passed)} {len(broken)}\n")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
