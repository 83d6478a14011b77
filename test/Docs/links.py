# RUN: python3 %s %fuse_src_root
# RUN: not python3 %s %S/Inputs/dead-links | FileCheck %s
# CHECK-DAG: README.md: there is no 'nowhere.md'
# CHECK-DAG: README.md: 'README.md#no-heading' is no heading
"""Links of the documentation lead to files and headings that exist."""

import pathlib
import re
import sys


def read(page):
    """The text of a page without code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[][()#]", "", code[0]),
                  text)


def anchors(page):
    """What GitHub calls the headings of a page."""
    found = set()
    for heading in re.findall(r"^#+ (.*)", read(page), flags=re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        count = 0
        while (unique := f"{name}-{count}" if count else name) in found:
            count += 1
        found.add(unique)
    return found


def dead_links(root):
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"),
             *root.glob("*/README.md")]
    for page in sorted(pages):
        for target in re.findall(r"\]\(([^)\s]+)\)", read(page)):
            if re.match(r"\w+:", target):
                continue
            path, _, heading = target.partition("#")
            file = page.parent / path if path else page
            name = page.relative_to(root)
            if not file.exists():
                yield f"{name}: there is no '{path}'"
            elif heading and heading not in anchors(file):
                yield f"{name}: '{file.name}#{heading}' is no heading"


problems = list(dead_links(pathlib.Path(sys.argv[1])))
print("\n".join(problems))
sys.exit(len(problems) > 0)
