# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Other fused ops than MLPs, as text: what `rows.py` checks and times."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import CHECKED_TOKENS
from .problem import BF16, FP8, NORMS

#: Widths of norm_linear, and M that the largest tiles are checked with.
_WIDTHS = (256, 784, 2048, 2064, 1024)
_LINEAR_TOKENS = {
    128: CHECKED_TOKENS,
    1000: (129, 200, 256, 300, 384, 511, 512, 1000),
}
#: Numbers of tokens for kernels whose rows are independent.
_ROW_TOKENS = (1, 33, 512, 1024, 2048, 8192)


@dataclass(frozen=True)
class Case:
    """A fused op as text, and how its operands are called."""

    name: str
    family: str
    width: int
    roles: tuple[str, ...]
    rows: tuple[int, ...] = ()
    norm: str = "rms0"
    act: str = "silu"
    dtype: str = FP8
    extras: tuple[str, ...] = ()
    tokens: int | None = None

    def to_mlir(self) -> str:
        count = "?" if self.tokens is None else str(self.tokens)
        wide = f"tensor<{count}x{self.width}xbf16>"
        types = {
            "x": wide,
            "residual": wide,
            "factor": wide,
            "norm_weight": f"tensor<{self.width}xbf16>",
            "norm_bias": f"tensor<{self.width}xbf16>",
        }
        for index, rows in enumerate(self.rows):
            types[f"weight{index}"] = (
                f"tensor<{rows}x{self.width}x{self.dtype}>"
            )
        norm = NORMS[self.norm]
        clause = norm.clause() if norm else ""
        residual = "residual(%residual) " if "residual" in self.roles else ""
        also = f"also([{', '.join(self.extras)}]) " if self.extras else ""
        narrow = wide.replace("bf16", FP8)
        if self.family == "norm_linear":
            scales = ", ".join(f"{name} = 1.0" for name in self.scales())
            linears = ", ".join(f"%weight{i}" for i in range(len(self.rows)))
            body = (
                f"fuse.norm_linear %x {residual}{clause} "
                f"linear({linears}) {also}"
            )
            if self.dtype == FP8:
                body += f"scales({FP8}, {scales}) "
            results = [f"tensor<{count}x{rows}xbf16>" for rows in self.rows]
        elif self.family == "norm_quantize":
            body = (
                f"fuse.norm_quantize %x {residual}{clause} {also}"
                f"scales({FP8}, input = 1.0) "
            )
            results = [narrow]
        else:
            times = "times(%factor) " if "factor" in self.roles else ""
            body = (
                f"fuse.act_quantize %x {times}act({self.act}) {also}"
                f"scales({FP8}, hidden = 1.0) "
            )
            results = [narrow]
        results += [wide] * len(self.extras)
        inputs = ", ".join(f"%{role}: {types[role]}" for role in self.roles)
        names = ", ".join(f"%y{i}" for i in range(len(results)))
        return (
            f"func.func @f({inputs}) -> ({', '.join(results)}) {{\n"
            f"  {names} = {body}rounding(exact)\n    : "
            f"({', '.join(types[role] for role in self.roles)}) -> "
            f"({', '.join(results)})\n"
            f"  return {names} : {', '.join(results)}\n}}\n"
        )

    def scales(self) -> list[str]:
        if self.dtype != FP8:
            return []
        return ["input", *(f"weight{i}" for i in range(len(self.rows)))]

    def checked_tokens(self) -> tuple[int, ...]:
        """Numbers of tokens that the kernel is run with."""
        if self.tokens is None:
            return _ROW_TOKENS
        return _LINEAR_TOKENS.get(
            self.tokens, (max(1, self.tokens - 7), self.tokens - 3, self.tokens)
        )


def cases() -> list[Case]:
    head = ("x", "norm_weight")
    found = [
        Case("norm_quantize-4096", "norm_quantize", 4096, head),
        Case(
            "norm_quantize-4096-residual",
            "norm_quantize",
            4096,
            ("x", "residual", "norm_weight"),
            extras=("stream",),
        ),
        Case(
            "norm_quantize-1040-layer",
            "norm_quantize",
            1040,
            ("x", "norm_weight", "norm_bias"),
            norm="layer",
            extras=("normed",),
        ),
        Case("act_quantize-12288", "act_quantize", 12288, ("x", "factor")),
        Case(
            "act_quantize-4096-gelu",
            "act_quantize",
            4096,
            ("x",),
            act="gelu_tanh",
        ),
        Case(
            "act_quantize-4096-product",
            "act_quantize",
            4096,
            ("x", "factor"),
            extras=("product",),
        ),
    ]
    for dtype, label in ((FP8, "fp8"), (BF16, "bf16")):
        for tokens in (16, 56, 128, 512, 4096):
            found.append(
                Case(
                    f"norm_linear-4096-{label}-t{tokens}",
                    "norm_linear",
                    4096,
                    (*head, "weight0", "weight1", "weight2"),
                    rows=(4096, 1024, 1024),
                    dtype=dtype,
                    tokens=tokens,
                )
            )
    # All norms, at alternating widths, with few and many tokens.
    for index, (dtype, label) in enumerate(((FP8, "fp8"), (BF16, "bf16"))):
        for turn, norm in enumerate(("rms0", "rms1", "layer")):
            width = _WIDTHS[(turn + 2 * index) % len(_WIDTHS)]
            roles = (
                *head,
                *(("norm_bias",) if norm == "layer" else ()),
                "weight0",
                "weight1",
            )
            for tokens in (128, 1000):
                found.append(
                    Case(
                        f"norm_linear-{width}-{label}-{norm}-t{tokens}",
                        "norm_linear",
                        width,
                        roles,
                        rows=(width, 272),
                        norm=norm,
                        dtype=dtype,
                        tokens=tokens,
                    )
                )
    found.append(
        Case(
            "norm_linear-784-bf16-t56",
            "norm_linear",
            784,
            (*head, "weight0", "weight1"),
            rows=(784, 272),
            dtype=BF16,
            extras=("normed",),
            tokens=56,
        )
    )
    found.append(
        Case(
            "norm_linear-784-fp8-t300",
            "norm_linear",
            784,
            (*head, "weight0", "weight1"),
            rows=(784, 272),
            dtype=FP8,
            tokens=300,
        )
    )
    return found


def memcheck_cases() -> list[Case]:
    """Small kernels of all forms that the cost model chooses."""
    found = [case for case in cases() if sum(case.rows) * case.width < 2e6]
    for width, dtype, tokens in (
        (4096, BF16, 192),
        (1024, BF16, 192),
        (8192, BF16, 512),
        (256, FP8, 4096),
    ):
        label = "fp8" if dtype == FP8 else "bf16"
        found.append(
            Case(
                f"norm_linear-{width}-{label}-1024-t{tokens}",
                "norm_linear",
                width,
                ("x", "norm_weight", "weight0"),
                rows=(1024,),
                dtype=dtype,
                tokens=tokens,
            )
        )
    return found
