# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One-line texts of errors of PyTorch and of the command line tools."""

from __future__ import annotations

import re

#: Maximum number of characters of a foreign error in a message.
_LIMIT = 160

_DIAGNOSTIC = re.compile(r"(?P<file>[^:\n]+):(?P<line>\d+):\d+: error: (.*)")
_TOOL = re.compile(r"(?:fuse-[\w-]+: )?error: (.*)")


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of its text.

    Texts may be long and contain code.
    """
    text = re.sub(r"\s+", " ", str(error).strip().split("\n")[0])
    if len(text) > _LIMIT:
        text = text[:_LIMIT].rpartition(" ")[0] + " ..."
    kind = type(error).__name__
    return f"{kind}: {text}" if text else kind


def tool_error(output: str) -> str:
    """The error messages in the output of a tool, without lines of IR.

    Text that was piped to the tool has line numbers but no file name. Output
    without an error is returned unchanged.
    """
    found = []
    for line in output.strip().splitlines():
        if match := _DIAGNOSTIC.fullmatch(line):
            file, number, text = match.groups()
            piped = file in ("-", "<stdin>")
            place = f"line {number}" if piped else f"{file}:{number}"
            found.append(text if number == "0" else f"{place}: {text}")
        elif match := _TOOL.fullmatch(line):
            found.append(match[1])
    return "; ".join(dict.fromkeys(found)) or output.strip()
