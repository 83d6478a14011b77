# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Advice of refusals in the words of the command line."""

from __future__ import annotations

#: Arguments of Python functions in messages, and the same as options.
_OPTIONS = (
    ("rounding='relaxed'", "--rounding relaxed"),
    (
        'a pattern such as (("*Experts", "**.experts"),) asks for it',
        "--pattern '*Experts=**.experts' asks for it",
    ),
)


def for_commands(text: str) -> str:
    """A message of the package with options in place of arguments."""
    for argument, option in _OPTIONS:
        text = text.replace(argument, option)
    return text
