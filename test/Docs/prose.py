# RUN: python3 %s %fuse_src_root
# RUN: rm -rf %t && mkdir -p %t/docs %t/lib
# RUN: echo 'It can not be. The artefact is there.' > %t/docs/page.md
# RUN: echo '// Whoever waits.' > %t/lib/Wait.cpp
# RUN: git -C %t init -q && git -C %t add .
# RUN: not python3 %s %t | FileCheck %s
# CHECK: docs/page.md:1: 'artefact': write 'artifact'
# CHECK-NEXT: docs/page.md:1: 'can not': write 'cannot'
# CHECK-NEXT: lib/Wait.cpp:1: 'Whoever': name who it is
"""Phrases that native readers stumble over do not come back.

docs/contributing/style.md has the rules; codespell finds spelling mistakes.
"""

import pathlib
import re
import subprocess
import sys

PHRASES = {
    r"can not": "write 'cannot'",
    r"artefacts?": "write 'artifact'",
    r"(?:so many|as many again)": "name the number or the quantity",
    r"on (?:its|their) way": "write 'in flight'",
    r"(?:nobody|somebody|whoever)": "name who it is",
    r"(?:become|became|becomes|comes) of": "name the outcome",
    r"(?:neighbour|behaviour|colour|favour|honour)\w*": "spell as in American",
}
PATTERN = re.compile(
    "|".join(rf"\b({phrase})\b" for phrase in PHRASES), re.IGNORECASE
)
KINDS = (
    ".md",
    ".py",
    ".cpp",
    ".c",
    ".h",
    ".hpp",
    ".td",
    ".def",
    ".mlir",
    ".test",
    ".sh",
    ".toml",
    ".cmake",
)
# Quotes of phrases, lists of experiments, and the code of others.
LEFT_OUT = (
    "docs/contributing/style.md",
    "docs/appendix/",
    "third_party/",
    "test/Docs/prose.py",
)


def find_phrases(root):
    listed = subprocess.run(
        ["git", "ls-files"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in listed.split():
        if not name.endswith(KINDS) or name.startswith(LEFT_OUT):
            continue
        text = (root / name).read_text(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            for found in PATTERN.finditer(line):
                advice = list(PHRASES.values())[found.lastindex - 1]
                yield f"{name}:{number}: '{found[0]}': {advice}"


def main(root):
    problems = sorted(find_phrases(pathlib.Path(root)))
    print("\n".join(problems))
    return len(problems) > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
