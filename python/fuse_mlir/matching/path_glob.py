# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Globs that select modules by their path (docs/reference/path-globs.md)."""

from __future__ import annotations

import re
from functools import lru_cache

from fuse_mlir.errors import GlobError

#: Maximum number of alternatives of one segment.
MAX_ALTERNATIVES = 1024
#: The body of a bracket that is a range of numbers.
_NUMBERS = re.compile(r"([0-9]+)-([0-9]+)")
#: The body of a bracket that looks like numbers. As a class of characters, it
#: would silently select single digits.
_MEANT = re.compile(r"(?=.*[0-9])(?=.*[-,])[0-9,\- ]*")


class PathGlob:
    """A compiled glob.

    Args:
        text: such as `model.layers.[0-3].mlp`.

    Raises:
        GlobError: the glob breaks a rule.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._whole = _path_pattern([self._segment(s) for s in self._split()])

    def _fail(self, what: str) -> GlobError:
        return GlobError(f"path glob '{self.text}': {what}")

    def match(self, path: str) -> bool:
        """Whether the glob selects the module at `path`."""
        return self._whole.fullmatch(path + ".") is not None

    def _split(self) -> list[str]:
        segments, current, closing, i = [], "", "", 0
        while i < len(self.text):
            c = self.text[i]
            if c == "\\" and i + 1 < len(self.text):
                current += c + self.text[i + 1]
                i += 2
                continue
            if closing and c == ".":
                opening = "{" if closing == "}" else "["
                raise self._fail(
                    f"'.' between '{opening}' and '{closing}'; "
                    "alternatives are parts of one segment"
                )
            if closing:
                closing = "" if c == closing else closing
            elif c in "{[":
                closing = "}" if c == "{" else "]"
            if c == "." and not closing:
                segments.append(current)
                current = ""
            else:
                current += c
            i += 1
        return [*segments, current]

    def _segment(self, segment: str) -> str | None:
        """The regular expression of a segment; None for `**`."""
        if not segment:
            raise self._fail(
                "has an empty segment" if self.text else "is empty"
            )
        if segment == "**":
            return None
        if "**" in segment:
            raise self._fail(f"'**' must be a whole segment, got '{segment}'")
        return self._pattern(segment)

    def _pattern(self, segment: str) -> str:
        out, i, depth = "", 0, 0
        while i < len(segment):
            c = segment[i]
            i += 1
            if c == "\\":
                if i == len(segment):
                    raise self._fail("invalid glob pattern, stray '\\'")
                out += re.escape(segment[i])
                i += 1
            elif c == "*":
                out += "[^.]*"
            elif c == "?":
                out += "[^.]"
            elif c == "[":
                close = segment.find("]", i + 1)
                if close < 0:
                    raise self._fail("invalid glob pattern, unmatched '['")
                # Numbers become alternatives, which cannot be nested in an
                # alternative of braces.
                whole = segment[i - 2] in "{," and segment[close + 1 :][:1] in (
                    ",",
                    "}",
                )
                if depth and not whole and _NUMBERS.fullmatch(segment[i:close]):
                    raise self._fail(
                        "nested brace expansions are not supported"
                    )
                out += self._bracket(segment[i:close])
                i = close + 1
            elif c == "{":
                if depth:
                    raise self._fail(
                        "nested brace expansions are not supported"
                    )
                if segment[i : i + 1] == "}":
                    raise self._fail(
                        "empty or singleton brace expansions are not supported"
                    )
                depth, out = 1, out + "(?:"
            elif c == "}" and depth:
                depth, out = 0, out + ")"
            elif c == "," and depth:
                out += "|"
            else:
                out += re.escape(c)
        if depth:
            raise self._fail("incomplete brace expansion")
        return out

    def _bracket(self, body: str) -> str:
        numbers = _NUMBERS.fullmatch(body)
        if (
            _MEANT.fullmatch(body)
            if not numbers
            else max(map(int, numbers.groups())) >= 1 << 64
        ):
            raise self._fail(
                f"'[{body}]' is not a range of numbers; expected "
                "[first-last], or {a,b} for single ones"
            )
        if numbers:
            first, last = int(numbers[1]), int(numbers[2])
            if first > last:
                raise self._fail(f"range [{body}] ends before it begins")
            if last - first >= MAX_ALTERNATIVES:
                raise self._fail(
                    f"range [{body}] has more than {MAX_ALTERNATIVES} numbers"
                )
            return "(?:" + "|".join(map(str, range(first, last + 1))) + ")"
        negated = body[:1] in ("!", "^")
        characters = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[negated:])
        try:
            re.compile(f"[{characters}]")
        except re.error as error:
            raise self._fail(f"invalid glob pattern, {error}") from error
        # Names never contain a dot, which separates segments.
        return f"(?!\\.)[{'^' if negated else ''}{characters}]"


def _path_pattern(segments: list[str | None]) -> re.Pattern[str]:
    """The pattern of a path, with a dot after each name."""
    return re.compile(
        "".join(
            r"(?:[^.]+\.)*" if s is None else f"(?:{s})\\." for s in segments
        )
    )


@lru_cache(maxsize=1024)
def compile_glob(text: str) -> PathGlob:
    """`PathGlob(text)`, cached."""
    return PathGlob(text)


def match(glob: str, path: str) -> bool:
    """Whether `glob` selects `path`."""
    return compile_glob(glob).match(path)


def escape(path: str) -> str:
    """A glob that matches a path itself."""
    return "".join(f"\\{c}" if c in "*?[]{},\\" else c for c in path)
