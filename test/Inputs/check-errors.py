"""Runs commands that must fail, and compares their messages.

usage: check-errors.py FILE [COMMAND...]

The file has a table of commands, which run in its folder:

    $ fuse-run some.mlir --entry=h
    error: no public function 'h'; there are {{.*}}

A row ends at an empty line. Other text of the file is not part of the table.
The table may be in comments beside IR, and then a row ends with its comment. If
COMMAND is given, a row has only the text that replaces `{}` in it:

    // RUN: %check_errors %s fuse-opt %s --fuse-vectorize-reductions='{}'

    // $ lanes=12
    // error: expected 'lanes' to be a power of two up to 64, got 12

A command must end with a status from 1 to 127: a crash is not a refusal. Below
it is everything that it prints to both streams. As in FileCheck, a regular
expression is in `{{}}`, and more spaces in a line do not matter. A line `...`
is any number of lines.

Two things are left out of the output: the source line that a message quotes,
and a location in FILE, which each new row would move. Each row that fails is
printed with its line number and the output of its command.
"""

import pathlib
import re
import shlex
import subprocess
import sys

TIMEOUT_SECONDS = 300


def read_rows(text):
    """Line number, command and printed lines of each row."""
    rows = []
    prefix = None  # of the lines of the row, if inside one
    for number, line in enumerate(text.splitlines(), 1):
        start = re.fullmatch(r"(// )?\$(?: (.*))?", line.rstrip())
        if start:
            prefix = start[1] or ""
            rows.append((number, start[2] or "", []))
            continue
        if prefix is not None and line.startswith(prefix):
            printed = line.removeprefix(prefix).strip()
            if printed:
                rows[-1][2].append(printed)
                continue
        prefix = None
        if re.match(r"(// )?error: ", line):
            sys.exit(f"line {number}: '{line}' belongs to no command")
    return rows


def make_command(words, row):
    """The command of a row; a word `{}` becomes all words of the row."""
    if not words:
        return row
    return " ".join(
        row if word == "{}" else shlex.quote(word.replace("{}", row))
        for word in words
    )


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


def clean(output, path):
    """The lines of an output, without quoted lines and locations in a file."""
    quote = r"^(.+:\d+:\d+: \w+: .*\n).*\n[ \t]*\^[ ~]*\n"
    output = re.sub(quote, r"\1", output, flags=re.MULTILINE)
    location = rf"^{re.escape(str(path))}:\d+:\d+: "
    output = re.sub(location, "", output, flags=re.MULTILINE)
    lines = [" ".join(line.split()) for line in output.splitlines()]
    return [line for line in lines if line]


def run(command, path):
    """The status of a command and the lines of both of its streams."""
    try:
        done = subprocess.run(
            command,
            shell=True,
            cwd=path.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None, []
    return done.returncode, clean(done.stdout, path)


def main(name, *words):
    path = pathlib.Path(name)
    rows = read_rows(path.read_text())
    failed = 0
    for number, row, expected in rows:
        command = make_command(words, row)
        status, lines = run(command, path)
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
