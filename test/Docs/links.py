# RUN: python3 %s %fuse_src_root
# RUN: not python3 %s %S/Inputs/dead-links | FileCheck %s
# CHECK-DAG: README.md: there is no 'nowhere.md'
# CHECK-DAG: README.md: 'README.md#no-heading' is no heading
# CHECK-DAG: docs/Page.md: there is no `docs/gone.md`
"""Links of pages outside of the site lead to files and headings that exist, and
so do the names of files in all pages. mkdocs checks the links of the site."""

import pathlib
import re
import sys


def read(page):
    """The text of a page without code."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.S | re.M)
    return re.sub(
        r"`[^`\n]*`", lambda code: re.sub(r"[][()#]", "", code[0]), text
    )


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


def pages_of(root):
    return sorted([*root.glob("*.md"), *root.glob("*/README.md")])


def dead_links(root):
    for page in pages_of(root):
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


def dead_files(root):
    """Files of the tree that code names from its root, `test/lit.cfg.py`."""
    folders = {path.name for path in root.iterdir() if path.is_dir()}
    # Notebooks name the files of their day.
    pages = [
        page
        for page in root.glob("docs/**/*.md")
        if page.parent.name != "appendix"
    ]
    for page in sorted([*pages_of(root), *pages]):
        for name in re.findall(r"`(\w+/[\w./-]+\.\w+)`", page.read_text()):
            if (
                name.split("/")[0] in folders - {"out", "build"}
                and not (root / name).exists()
            ):
                yield f"{page.relative_to(root)}: there is no `{name}`"


root = pathlib.Path(sys.argv[1])
problems = [*dead_links(root), *dead_files(root)]
print("\n".join(problems))
sys.exit(len(problems) > 0)
