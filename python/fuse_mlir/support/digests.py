# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files whose SHA-256 the caller knows.

The content is read once, and the checked bytes are those that are used later.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from fuse_mlir.errors import NativeError
from fuse_mlir.support.arguments import require

_DIGITS = re.compile(r"[0-9a-fA-F]{64}")


def require_digest(path: str | Path, sha256: str) -> str:
    """The digest of a file in lower case.

    Args:
        path: of the file, for messages.
        sha256: what the caller expects.

    Raises:
        NativeError: it is not 64 hexadecimal digits.
    """
    require(sha256, str, f"the SHA-256 of '{path}'", "its hexadecimal digits")
    if _DIGITS.fullmatch(sha256) is None:
        raise NativeError(
            f"{path}: '{sha256}' is not a SHA-256, expected 64 hexadecimal "
            "digits"
        )
    return sha256.lower()


def read_checked(path: str | Path, sha256: str) -> bytes:
    """The content of a file with the expected digest.

    Args:
        path: of the file.
        sha256: 64 hexadecimal digits.

    Raises:
        NativeError: the digest is malformed or another one.
        OSError: the file cannot be read.
    """
    expected = require_digest(path, sha256)
    content = Path(path).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise NativeError(
            f"{path}: its SHA-256 is {found}, expected {expected}"
        )
    return content


def _remove(path: Path, process: int) -> None:
    # A forked process ends without the folder of its parent.
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


class CheckedFolder:
    """Copies of files with the expected digests, for code that opens paths.

    The folder belongs to this user alone and ends with this object.

    Args:
        directory: of the files.
        digests: SHA-256 by the path below `directory`, with `/`.

    Raises:
        NativeError: a digest is malformed or another one, or a path is absolute
            or has `..`.
        OSError: a file cannot be read.
    """

    def __init__(self, directory: Path, digests: Mapping[str, str]) -> None:
        require(
            digests, Mapping, "argument 'sha256'", "digests by names of files"
        )
        for name in digests:
            require(name, str, "the name of a file", "a path")
            parts = PurePosixPath(name)
            if parts.is_absolute() or ".." in parts.parts or not parts.parts:
                raise NativeError(
                    f"'{name}' is not a path of a file below '{directory}'"
                )
        self.names = frozenset(str(PurePosixPath(name)) for name in digests)
        self.path = Path(tempfile.mkdtemp(prefix="fuse-checked-")).resolve()
        weakref.finalize(self, _remove, self.path, os.getpid())
        for name, sha256 in digests.items():
            target = self.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read_checked(directory / name, sha256))

    def name_of(self, path: str) -> str | None:
        """The name of a copy, or None for another file."""
        prefix = f"{self.path}/"
        name = str(PurePosixPath(path.removeprefix(prefix)))
        known = path.startswith(prefix) and name in self.names
        return name if known else None
