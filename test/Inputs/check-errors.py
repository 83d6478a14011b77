"""Runs commands that must fail, and compares their messages.

usage: check-errors.py FILE

The file is a table, whose commands run in its folder:

    # A comment.
    $ fuse-run some.mlir --entry=h
    error: no public function 'h'; there are {{.*}}

A command must end with a status from 1 to 127: a crash is not a refusal. Below
it is everything that it prints to both streams. As in FileCheck, a regular
expression is in `{{}}`, and more spaces in a line do not matter. A line `...`
is any number of lines. Each row that fails is printed with its line number and
the output of its command.
"""

import pathlib
import re
import subprocess
import sys

TIMEOUT_SECONDS = 300


def read_rows(text):
    """Line number, command and printed lines of each row."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("$ "):
            rows.append((number, line[2:], []))
        elif line.startswith("#") or not line.strip():
            continue
        elif not rows:
            sys.exit(f"line {number}: expected a command, got '{line}'")
        else:
            rows[-1][2].append(line)
    return rows


def make_pattern(lines):
    """The regular expression of a whole output."""
    pattern = ""
    for line in lines:
        if line == "...":
            pattern += r"(?:.*\n)*"
            continue
        words = re.split(r"\{\{(.*?)\}\}", " ".join(line.split()))
        words[::2] = map(re.escape, words[::2])
        words[1::2] = [f"(?:{word})" for word in words[1::2]]
        pattern += "".join(words) + r"\n"
    return pattern


def run(command, folder):
    """The status of a command and the lines of both of its streams."""
    try:
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None, []
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    return done.returncode, [line for line in lines if line]


def main(name):
    path = pathlib.Path(name)
    rows = read_rows(path.read_text())
    failed = 0
    for number, command, expected in rows:
        status, lines = run(command, path.parent)
        if status is None:
            problem = f"did not end in {TIMEOUT_SECONDS} s"
        elif not 0 < status < 128:
            problem = f"ended with status {status}, expected a refusal"
        elif not expected:
            problem = "has no message in the table"
        elif not re.fullmatch(
            make_pattern(expected), "".join(f"{line}\n" for line in lines)
        ):
            problem = "printed another message"
        else:
            continue
        failed += 1
        print(f"{path.name}:{number}: {problem}", f"$ {command}", sep="\n")
        for line in expected:
            print(f"  expected: {line}")
        for line in lines:
            print(f"  printed:  {line}")
    print(f"{len(rows)} commands, {failed} wrong")
    return failed > 0 or not rows


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
