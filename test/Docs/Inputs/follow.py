"""Follows a page of the documentation literally.

usage: follow.py page.md directory

Writes every block behind a comment `<!-- file: name -->` to that file, runs
every `sh` block with bash in the directory, and compares what it prints with
the `text` block behind it. Fails at the first command that fails or prints
something else.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)```\n", re.S)


def main() -> int:
    page, directory = Path(sys.argv[1]), Path(sys.argv[2])
    directory.mkdir(parents=True)
    # The python3 of the page is the one that has the packages.
    binaries = directory / "bin"
    binaries.mkdir()
    python = binaries / "python3"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    environment = dict(os.environ)
    environment["PATH"] = os.pathsep.join(
        [str(binaries.resolve()), os.environ["PATH"]]
    )
    printed = None
    counts = {"file": 0, "sh": 0, "text": 0}
    for name, language, text in BLOCK.findall(page.read_text()):
        if name:
            (directory / name).write_text(text)
            counts["file"] += 1
        elif language == "sh":
            done = subprocess.run(
                ["bash", "-e", "-c", text],
                cwd=directory,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            printed = done.stdout
            if done.returncode:
                print(f"failed:\n{text}\n{printed}")
                return 1
            print(printed, end="")
            counts["sh"] += 1
        elif language == "text":
            if printed != text:
                print(f"expected:\n{text}\ngot:\n{printed}")
                return 1
            counts["text"] += 1
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
