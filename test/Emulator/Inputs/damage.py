"""Puts a mistake into the PTX of an artifact.

usage: damage.py in.fuse out.fuse pattern replacement [number]

The pattern is a regular expression. The number selects one of its matches,
counted from 1. Without it, all matches are replaced.
"""

import hashlib
import re
import struct
import sys
from pathlib import Path

HEADER, ENTRY, ALIGNMENT = 56, 24, 64


def read(data):
    (count,) = struct.unpack_from("<I", data, 12)
    for i in range(count):
        kind, _, offset, size = struct.unpack_from(
            "<IIQQ", data, HEADER + i * ENTRY
        )
        yield kind, data[offset : offset + size]


def write(version, sections):
    body, entries = b"", b""
    begin = HEADER + len(sections) * ENTRY
    for kind, content in sections:
        body += bytes(-(begin + len(body)) % ALIGNMENT)
        entries += struct.pack(
            "<IIQQ", kind, 0, begin + len(body), len(content)
        )
        body += content
    head = (
        b"FUSEART\0"
        + version
        + struct.pack("<IQ", len(sections), begin + len(body))
    )
    digest = hashlib.sha256(head + entries + body).digest()
    return head + digest + entries + body


def main(source, target, pattern, replacement, number=None):
    data = Path(source).read_bytes()
    matches = 0

    def replace(match):
        nonlocal matches
        matches += 1
        return (
            match.expand(replacement)
            if number is None or matches == int(number)
            else match[0]
        )

    sections = []
    for kind, content in read(data):
        if b".version" in content[:200]:
            content = re.sub(pattern, replace, content.decode()).encode()
        sections.append((kind, content))
    least = int(number or 1)
    if matches < least:
        sys.exit(
            f"'{pattern}' has {matches} matches, expected at least {least}"
        )
    Path(target).write_bytes(write(data[8:12], sections))


if __name__ == "__main__":
    main(*sys.argv[1:])
