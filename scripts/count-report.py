#!/usr/bin/env python3
# ===- count-report.py - Count the tests in a report -----------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Print the numbers of passed and failed tests in a report.

    lit --output lit.json ... ; scripts/count-report.py lit.json
    FuseXTests --gtest_output=json:x.json ; scripts/count-report.py x.json

Tests that did not run count as neither. A file that is missing, damaged or from
another runner is an error, because a crashed runner has not passed.
"""

from __future__ import annotations

import json
import sys

PASSED = ("PASS", "XFAIL", "FLAKYPASS")
QUIET = ("UNSUPPORTED", "SKIPPED", "EXCLUDED")


def count(report: object) -> tuple[int, int]:
    """Numbers of passed and failed tests in JSON of lit or GoogleTest."""
    if not isinstance(report, dict) or "tests" not in report:
        raise ValueError("has no tests: expected JSON of lit or GoogleTest")
    tests = report["tests"]
    if isinstance(tests, list):
        codes = [test["code"] for test in tests]
        passed = sum(code in PASSED for code in codes)
        return passed, len(codes) - passed - sum(
            code in QUIET for code in codes
        )
    failed = report["failures"] + report["errors"]
    skipped = sum(
        case.get("result") == "SKIPPED"
        for suite in report.get("testsuites", [])
        for case in suite["testsuite"]
    )
    return tests - report.get("disabled", 0) - skipped - failed, failed


def main() -> int:
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} REPORT", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            print(*count(json.load(file)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"error: '{sys.argv[1]}': {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
