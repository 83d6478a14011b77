"""Check the errors of a command, one for each row of a table in a test.

    option_errors.py TEST COMMAND...

The table is in the comments of the test. Each row is one run of the command:

    // OPTIONS: layouts=w=concat
    // ERROR: layout 'w=concat': expected name=concat(1:a,1:b)
    // NOTE(file.mlir:1:1): a note there, also with {{regular expressions}}
    // NOT: a text that the output must lack

The options replace `{}` in the command; `%S` in them is the folder of the test.
The command must fail. Its lines with `error: ` and `note: ` must contain the
texts in this order, after the location if one is given. A row lists all errors,
but not all notes. If a row fails, its line, its command and the output are
printed.
"""

import pathlib
import re
import shlex
import subprocess
import sys
from typing import NamedTuple

ROW = re.compile(
    r"(?://|#)?\s*(OPTIONS|ERROR|NOTE|NOT)(?:\(([^)]*)\))?:\s*(.*)"
)


class Row(NamedTuple):
    """A run of the command, and texts that it must print, or must not."""

    line: int
    options: str
    expected: list[str]
    absent: list[str]


def read_rows(test: pathlib.Path) -> list[Row]:
    """The rows of the table in the comments of `test`."""
    rows: list[Row] = []
    for number, line in enumerate(test.read_text().splitlines(), 1):
        found = ROW.match(line)
        if not found:
            continue
        kind, location, text = found.groups()
        if kind == "OPTIONS":
            text = text.replace("%S", str(test.parent))
            rows.append(Row(number, text, [], []))
        elif not rows:
            raise ValueError(f"{test}:{number}: {kind} without OPTIONS")
        elif kind == "NOT":
            rows[-1].absent.append(text)
        else:
            place = f"{location}: " if location else ""
            rows[-1].expected.append(f"{place}{kind.lower()}: {text}")
    return rows


def to_pattern(text: str) -> str:
    """The regular expression of a text with expressions in {{}}."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    parts[::2] = map(re.escape, parts[::2])
    return "".join(parts)


def find_problem(
    row: Row, result: subprocess.CompletedProcess[str]
) -> str | None:
    """What is wrong with the run of a row, if anything."""
    errors = [text for text in row.expected if "error: " in text]
    if not errors:
        return "the row has no ERROR"
    if result.returncode == 0:
        return "the command succeeds"
    if result.returncode < 0:
        return f"the command ends by signal {-result.returncode}"
    position = 0
    for text in row.expected:
        pattern = re.compile(to_pattern(text), re.MULTILINE)
        found = pattern.search(result.stderr, position)
        if not found:
            return f"expected '{text}'"
        position = found.end()
    for text in row.absent:
        if re.search(to_pattern(text), result.stderr):
            return f"unexpected '{text}'"
    number = len(re.findall(r"\berror: ", result.stderr))
    if number != len(errors):
        return f"expected {len(errors)} errors, got {number}"
    return None


def make_command(command: tuple[str, ...], options: str) -> list[str]:
    """The command of a row; an argument `{}` becomes several."""
    words: list[str] = []
    for word in command:
        if word == "{}":
            words += shlex.split(options)
        else:
            words.append(word.replace("{}", options))
    return words


def main(test: str, *command: str) -> int:
    """Run all rows; the result is the exit status."""
    rows = read_rows(pathlib.Path(test))
    if not rows:
        print(f"{test}: no OPTIONS")
        return 1
    failed = 0
    for row in rows:
        arguments = make_command(command, row.options)
        result = subprocess.run(
            arguments, capture_output=True, text=True, check=False
        )
        problem = find_problem(row, result)
        if problem:
            failed += 1
            print(f"{test}:{row.line}: OPTIONS: {row.options}: {problem}")
            print(f"command: {shlex.join(arguments)}")
            print(f"output: {result.stderr}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
