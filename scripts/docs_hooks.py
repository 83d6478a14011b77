# ===- docs_hooks.py - Generate the references of the site ----------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Fill the references of the documentation while mkdocs builds the site.

A function of `GENERATORS` replaces each marker of a page, which is a line
`<!-- generated: NAME ARGUMENTS -->`. Its sources are TableGen files, C headers,
the list of refusals, and the `--help` of built programs. Generated text is
never committed, so it is never out of date. Links to files outside of docs/
become their paths.

Environment:
    FUSE_BIN: the folder of the built programs (default: build/dev/bin).
    FUSE_TBLGEN: the program mlir-tblgen (default: that of LLVM 22).
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import tomllib

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
BINARIES = Path(os.environ.get("FUSE_BIN", ROOT / "build/dev/bin"))
TBLGEN = Path(os.environ.get("FUSE_TBLGEN", "/usr/lib/llvm-22/bin/mlir-tblgen"))
# mkdocs counts warnings of its loggers, and --strict fails on them.
LOG = logging.getLogger("mkdocs.hooks.fuse")
MARK = re.compile(r"^<!-- generated: ([\w-]+)((?: \S+)*) -->$", re.MULTILINE)

#: Lines of help above which a program has all passes of MLIR.
LONGEST_HELP = 300
#: Programs whose interface is not a command line.
NO_COMMAND_LINE = ("fuse-lsp-server",)
#: The headers of the C interface, in reading order.
HEADERS = ("Status.h", "Runtime.h", "Compiler.h", "Kernels.h", "Dialects.h")


def run(*command: str | Path) -> str:
    """Return the output of a command. A failure is a warning of the build."""
    environment = {
        **os.environ,
        "COLUMNS": "80",
        "PYTHONPATH": str(ROOT / "python"),
    }
    done = subprocess.run(
        [str(part) for part in command],
        text=True,
        capture_output=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        LOG.warning(
            "'%s' failed: %s",
            " ".join(map(str, command)),
            done.stderr.strip() or done.stdout.strip(),
        )
    return done.stdout


# Refusals.


def read_refusals() -> Iterator[tuple[str, str, str, str]]:
    """Id, name, reason and suggestion of every entry of Refusals.def."""
    text = (ROOT / "include/fuse/Analysis/Refusals.def").read_text()
    text = re.sub(r"^//.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r'"\s*\n\s*"', "", text)
    string = r'"((?:[^"\\]|\\.)*)"'
    entry = (
        rf"FUSE_REFUSAL\(\w+,\s*{string},\s*{string},\s*{string},\s*"
        rf"{string}\)"
    )
    for match in re.findall(entry, text):
        yield tuple(part.replace('\\"', '"') for part in match)


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def refusals(*_: str) -> str:
    """Generate a section for each refusal."""
    with open(ROOT / "docs/reference/refusals.toml", "rb") as file:
        texts = tomllib.load(file)
    where = texts.pop("reported")
    table = ["| id | name | reason |", "|---|---|---|"]
    sections = []
    for id_, name, reason, suggestion in read_refusals():
        entry = texts.pop(id_, None)
        if entry is None:
            LOG.warning("docs/reference/refusals.toml has no [%s]", id_)
            continue
        table.append(f"| [{id_}](#{id_.lower()}) | {name} | {reason} |")
        parts = [
            f"## {id_} {name} {{#{id_.lower()}}}",
            sentence(reason),
            entry.get("text", "").strip(),
            "\n".join(
                (
                    f"- Reported of {where[entry['reported']]}.",
                    f"- Example: {entry['example']}.",
                    f"- What to do: {entry.get('advice', suggestion)}.",
                )
            ),
        ]
        sections.append("\n\n".join(part for part in parts if part))
    for id_ in texts:
        LOG.warning(
            "docs/reference/refusals.toml has [%s], Refusals.def does not", id_
        )
    return "\n".join(table) + "\n\n" + "\n\n".join(sections)


# Dialects and passes.


def tblgen(generator: str, file: Path, *options: str) -> str:
    """Generate Markdown for a TableGen file, without its first heading."""
    text = run(
        TBLGEN,
        generator,
        *options,
        "-I",
        file.parent,
        "-I",
        ROOT / "dialects",
        "-I",
        ROOT / "include",
        "-I",
        TBLGEN.parent.parent / "include",
        file,
    )
    text = re.sub(r"^<!--.*?-->\n", "", text)
    text = re.sub(r"^# .*\n", "", text, count=1, flags=re.MULTILINE)
    # Remove the generator's table of contents, which is for sites without one.
    text = text.replace("[TOC]\n", "")
    return re.sub(
        r"^(\s*)```(mlir|tablegen)?$", r"\1```\2", text, flags=re.MULTILINE
    )


def definitions(name: str, what: str) -> Path:
    prefix = "NN" if name == "nn" else name.capitalize()
    return ROOT / f"dialects/{name}/IR/{prefix}{what}.td"


def dialect(name: str) -> str:
    file = definitions(name, "Ops")
    return tblgen("-gen-dialect-doc", file, f"-dialect={name}")


def attributes(name: str) -> str:
    file = definitions(name, "Attrs")
    text = tblgen("-gen-attrdef-doc", file, f"-attrdefs-dialect={name}")
    return re.sub(r"^### ", "## ", text, flags=re.MULTILINE)


def passes(folder: str) -> str:
    text = tblgen("-gen-pass-doc", ROOT / f"include/fuse/{folder}/Passes.td")
    return re.sub(r"^###(#?) ", r"##\1 ", text, flags=re.MULTILINE)


# Command lines.


def fenced(text: str) -> str:
    return f"```text\n{textwrap.dedent(text.rstrip()).strip()}\n```"


def shorten(text: str) -> str:
    """Remove the passes from the help of a program with all passes of MLIR."""
    if text.count("\n") < LONGEST_HELP:
        return text
    lines, depth = [], 0
    for line in text[text.find("OPTIONS:") :].splitlines():
        indent = len(line) - len(line.lstrip())
        if re.match(r"\s+--fuse-[\w-]+-pipeline\b", line):
            depth = indent
        elif indent <= depth:
            depth = 0
        if depth:
            lines.append(line)
    head = text[: text.find("OPTIONS:")]
    return f"{head}PIPELINES OF FUSE:\n\n" + "\n".join(lines)


def subcommands(text: str) -> list[str]:
    """The subcommands that a help text lists."""
    listed = re.search(r"^SUBCOMMANDS:\n\n((?:  .*\n)+)", text, re.MULTILINE)
    if listed:
        return re.findall(r"^  ([\w-]+) +- ", listed[1], re.MULTILINE)
    braced = re.search(r"^  \{([\w,-]+)\}$", text, re.MULTILINE)
    return braced[1].split(",") if braced else []


def command_line(heading: str, *command: str | Path) -> Iterator[str]:
    text = run(*command, "--help")
    yield f"## {heading}\n\n{fenced(shorten(text))}"
    for name in subcommands(text):
        yield f"### {heading} {name}\n\n" + fenced(
            run(*command, name, "--help")
        )


def cli(*_: str) -> str:
    """Generate the help of the Python commands and all programs of tools/."""
    found = [
        *command_line("python -m fuse_mlir", sys.executable, "-m", "fuse_mlir")
    ]
    for folder in sorted((ROOT / "tools").iterdir()):
        program = BINARIES / folder.name
        if not folder.is_dir() or folder.name in NO_COMMAND_LINE:
            continue
        if not program.exists():
            # The program is a script in this folder, or it was not built.
            program = folder / folder.name
        if not program.exists():
            LOG.warning(
                "there is no '%s' in '%s': build it, or set FUSE_BIN",
                folder.name,
                BINARIES,
            )
            continue
        found += command_line(folder.name, program)
    return "\n\n".join(found)


# The C interface.


def plain(comment: str) -> str:
    """The text of a C comment."""
    comment = re.sub(r"^/\*+|\*+/$", "", comment.strip())
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.splitlines()]
    return "\n".join(lines).strip()


def declarations(text: str) -> Iterator[tuple[str, str]]:
    """Comments of a header, each with the declarations that follow it."""
    comment, code, depth = "", "", 0
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("/*") and depth == 0:
            if code.strip():
                yield comment, code
            comment, code = line, ""
            while "*/" not in line:
                line = next(lines)
                comment += f"\n{line}"
            continue
        if line.startswith("#"):
            # A macro may have several lines.
            while line.endswith("\\"):
                line = next(lines)
            continue
        if 'extern "C"' in line or line == "}":
            continue
        depth += line.count("{") - line.count("}")
        code += f"{line}\n"
        if not line and depth == 0 and code.strip():
            yield comment, code
            comment = code = ""
    if code.strip():
        yield comment, code


def names(code: str) -> str:
    """The declared names, for a heading."""
    found = re.findall(
        r"\b(fuse_\w+)\s*\(|^typedef \w+ \w+ (\w+);|"
        r"^\} (\w+);",
        code,
        re.MULTILINE,
    )
    flat = [name for match in found for name in match if name]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(flat))


def header(name: str) -> Iterator[str]:
    text = (ROOT / "include/fuse-c" / name).read_text()
    top, rest = re.split(
        r"^#ifndef \w+\n", text, maxsplit=1, flags=re.MULTILINE
    )
    prose = plain(top).split("\n\n")
    yield f"## fuse-c/{name}"
    yield "\n\n".join(
        fenced(part) if re.search(r"^\s+\w+ {2,}", part, re.MULTILINE) else part
        for part in prose
        if "===" not in part and "SPDX" not in part
    )
    for comment, code in declarations(rest):
        # Keep parameters aligned.
        code = re.sub(r"^ {14}( +)", r"\1", code, flags=re.MULTILINE)
        code = code.replace("FUSE_C_EXPORT ", "").strip()
        words = plain(comment)
        if "===-" in words:
            words = ""
        heading = names(code)
        if heading:
            yield f"### {heading}"
        yield f"```c\n{code}\n```"
        if words:
            yield words


def c_api(*_: str) -> str:
    return "\n\n".join(part for name in HEADERS for part in header(name))


GENERATORS: dict[str, Callable[..., str]] = {
    "refusals": refusals,
    "dialect": dialect,
    "attributes": attributes,
    "passes": passes,
    "cli": cli,
    "c-api": c_api,
}


# What mkdocs calls.


def leave_docs(text: str, page: Path) -> str:
    """Replace links to files outside of docs/, which a site does not have."""

    def replace(match: re.Match[str]) -> str:
        title, target = match[1], match[2].partition("#")[0]
        file = (page.parent / target).resolve()
        if (
            re.match(r"\w+:", target)
            or not target
            or file.is_relative_to(ROOT / "docs")
        ):
            return match[0]
        if not file.exists():
            LOG.warning(
                "'%s' has a link to '%s', which does not exist",
                page.relative_to(ROOT),
                match[2],
            )
        path = f"`{file.relative_to(ROOT)}`"
        return path if path.strip("`") in title else f"{title} ({path})"

    return re.sub(r"(?<!!)\[([^]]+)\]\(([^)\s]+)\)", replace, text)


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Replace the markers of a page by generated text."""

    def replace(match: re.Match[str]) -> str:
        if match[1] not in GENERATORS:
            LOG.warning(
                "'%s' asks for '%s': expected one of %s",
                page.file.src_uri,
                match[1],
                ", ".join(GENERATORS),
            )
            return ""
        return GENERATORS[match[1]](*match[2].split())

    assert page.file.abs_src_path is not None
    markdown = leave_docs(markdown, Path(page.file.abs_src_path))
    return MARK.sub(replace, markdown)
