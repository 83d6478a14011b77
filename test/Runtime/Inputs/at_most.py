"""at_most.py NUMBER REGEX FILE: fails if more lines of the file match."""

import re
import sys


def main() -> int:
    limit, pattern, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    with open(path, encoding="utf-8", errors="replace") as file:
        count = sum(bool(re.search(pattern, line)) for line in file)
    print(f"{count} lines match '{pattern}', expected 1 to {limit}")
    return not 1 <= count <= limit


sys.exit(main())
