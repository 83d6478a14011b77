# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs that check and time; see README.md."""

import sys
from types import TracebackType

_FROM = {
    "torch": "scripts/setup.sh installs it in .venv",
    "transformers": "scripts/setup.sh installs it in .venv",
    "safetensors": "scripts/setup.sh installs it in .venv",
    "numpy": "scripts/setup.sh installs it in .venv",
    "fuse_mlir": "install it, or set PYTHONPATH=python",
}


def _say_what_is_missing(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Names the missing package; other errors are shown as by Python."""
    if isinstance(error, ModuleNotFoundError) and error.name in _FROM:
        print(
            f"error: there is no package '{error.name}' for "
            f"{sys.executable}: {_FROM[error.name]}",
            file=sys.stderr,
        )
    else:
        sys.__excepthook__(kind, error, trace)


# `python -m` has this package looked up before it knows the program's file.
if sys.argv[0] == "-m":
    sys.excepthook = _say_what_is_missing
