# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forwards with some of their expressions replaced.

A function that a forward calls by a global name, or an operator between the
results of two members, is not an attribute of a module. To replace it for one
instance, the source of the forward is compiled again with another expression.
The new function reads the globals of the old one, so that nothing else in the
process changes. Tracebacks show the lines of the old function.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType


class NoSource(Exception):
    """The source of a forward cannot be compiled again; with the reason."""


def parse(function: Callable[..., object]) -> ast.FunctionDef:
    """The definition of a function or method, decorators included.

    Raises:
        NoSource: the source is missing, or is not a plain `def`.
    """
    plain = inspect.unwrap(function)
    name = getattr(plain, "__qualname__", repr(plain))
    if not isinstance(plain, FunctionType):
        raise NoSource(
            f"'{name}' is a {type(plain).__name__}, whose source is not at hand"
        )
    try:
        lines, first = inspect.getsourcelines(plain)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError) as error:
        raise NoSource(
            f"the source of '{name}' is not at hand: {error}"
        ) from error
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or not definition.args.args:
        raise NoSource(f"'{name}' is not defined by 'def' with 'self'")
    ast.increment_lineno(definition, first - 1)
    return definition


def compile_definition(
    function: Callable[..., object], definition: ast.FunctionDef
) -> FunctionType:
    """The function of a definition that `parse` returned and a caller changed.

    Args:
        function: the original function; the new one uses its globals and the
            variables of its closure.
        definition: with another body.
    """
    plain = inspect.unwrap(function)
    assert isinstance(plain, FunctionType)
    outer = "_fuse_make"
    names = plain.__code__.co_freevars
    cells = [cell.cell_contents for cell in plain.__closure__ or ()]
    # Variables of the closure, such as __class__, become parameters.
    maker = ast.FunctionDef(
        name=outer,
        args=ast.arguments(
            posonlyargs=[],
            args=[ast.arg(arg=name) for name in names],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[],
        ),
        body=[definition, ast.Return(ast.Name(definition.name, ast.Load()))],
        decorator_list=[],
    )
    if hasattr(maker, "type_params"):
        maker.type_params = []
    tree = ast.fix_missing_locations(ast.Module([maker], type_ignores=[]))
    made: dict[str, FunctionType] = {}
    exec(
        compile(
            tree,
            plain.__code__.co_filename,
            "exec",
            dont_inherit=True,
            flags=plain.__code__.co_flags & _FUTURE,
        ),
        plain.__globals__,
        made,
    )
    result = made[outer](*cells)
    result.__qualname__ = plain.__qualname__
    return result


#: Compiler flag of `from __future__ import annotations`.
_FUTURE = 0x1000000
