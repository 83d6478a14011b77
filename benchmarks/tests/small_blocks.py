# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small blocks that tests of the benchmarks share."""

from fuse_bench.common import data
from fuse_bench.common.problem import NORMS, Problem


def small(family: str, dtype: str, norm: str, **others) -> Problem:
    return Problem(family, 48, 96, dtype, "silu", NORMS[norm], **others)


def operands(problem: Problem, tokens: int = 5):
    tensors, scales = data.make_weights(problem, 3, "cpu")
    tensors |= data.make_activations(problem, tokens, 4, "cpu")
    return tensors, data.calibrate(problem, tensors, scales)
