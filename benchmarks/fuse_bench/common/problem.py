# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Problems of kernels, and their text in the fuse dialect."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FP8 = "f8E4M3FN"
BF16 = "bf16"
#: Operands that have a row for each token.
ROW_OPERANDS = ("x", "residual", "then_add")
ACTIVATIONS = ("silu", "gelu", "gelu_tanh", "relu", "relu2", "quick_gelu")


@dataclass(frozen=True)
class Norm:
    """The norm at the head of a fused op."""

    kind: str = "rms"
    eps: float = 1e-6
    offset: int = 0
    cast: str = "before_weight"

    @property
    def has_bias(self) -> bool:
        return self.kind == "layer"

    def label(self) -> str:
        return f"rms{self.offset}" if self.kind == "rms" else self.kind

    def clause(self) -> str:
        eps = f"{self.eps:.1e}"
        if self.kind == "layer":
            return f"norm(layer %norm_weight, %norm_bias eps {eps})"
        offset = f" offset {self.offset}" if self.offset else ""
        cast = "" if self.cast == "before_weight" else f" cast {self.cast}"
        return f"norm(rms %norm_weight eps {eps}{offset}{cast})"


#: The norms by the names that tables and file names use.
NORMS: dict[str, Norm | None] = {
    "rms0": Norm(),
    "rms1": Norm(offset=1, cast="after_weight"),
    "layer": Norm(kind="layer", eps=1e-5),
    "none": None,
}


@dataclass(frozen=True)
class Problem:
    """An MLP block as one fused op."""

    family: str
    width: int
    hidden: int
    dtype: str
    act: str
    norm: Norm | None
    residual: bool = False
    biases: bool = False
    then_add: bool = False
    add_stream: bool = False
    returns_stream: bool = False
    mode: str = "exact"
    skip: tuple[str, ...] = ()
    order: str = "reciprocal"

    def __post_init__(self) -> None:
        for name, value, valid in (
            ("family", self.family, ("gated_mlp", "mlp")),
            ("dtype", self.dtype, (BF16, FP8)),
            ("act", self.act, ACTIVATIONS),
            ("mode", self.mode, ("exact", "relaxed")),
            ("order", self.order, ("reciprocal", "divide")),
        ):
            if value not in valid:
                raise ValueError(
                    f"{name} is '{value}': expected one of {', '.join(valid)}"
                )

    @property
    def gated(self) -> bool:
        return self.family == "gated_mlp"

    @property
    def fp8(self) -> bool:
        return self.dtype == FP8

    @property
    def weight_bytes(self) -> int:
        matrices = 3 if self.gated else 2
        return matrices * self.width * self.hidden * (1 if self.fp8 else 2)

    def flop(self, tokens: int) -> float:
        """Operations of the products."""
        matrices = 3 if self.gated else 2
        return 2.0 * matrices * self.width * self.hidden * tokens

    def rounds(self, point: str) -> bool:
        """Whether the value at a rounding point is rounded to bf16."""
        return self.mode == "exact" or point not in self.skip

    def operands(self) -> list[str]:
        """Roles of the operands of the fused op, in the op's order."""
        roles = ["x"]
        if self.residual:
            roles.append("residual")
        if self.norm:
            roles.append("norm_weight")
            if self.norm.has_bias:
                roles.append("norm_bias")
        for linear in (("gate",) if self.gated else ()) + ("up", "down"):
            roles.append(linear)
            if self.biases:
                roles.append(f"{linear}_bias")
        if self.then_add:
            roles.append("then_add")
        return roles

    def scales(self) -> list[str]:
        """Names of the static scales."""
        if not self.fp8:
            return []
        gate = ["gate"] if self.gated else []
        return ["input", *gate, "up", "hidden", "down"]

    def label(self) -> str:
        """A name without the number of tokens."""
        parts = [
            self.family,
            f"{self.width}x{self.hidden}",
            "fp8" if self.fp8 else "bf16",
            self.act,
            self.norm.label() if self.norm else "none",
        ]
        for flag in (
            "residual",
            "biases",
            "then_add",
            "add_stream",
            "returns_stream",
        ):
            if getattr(self, flag):
                parts.append(flag)
        if self.mode == "relaxed":
            parts.append("relaxed")
        if self.order == "divide":
            parts.append("divide")
        return "-".join(parts)

    def shape(self, role: str) -> tuple[int, ...]:
        """Shape of a weight-like operand."""
        return {
            "norm_weight": (self.width,),
            "norm_bias": (self.width,),
            "gate": (self.hidden, self.width),
            "up": (self.hidden, self.width),
            "down": (self.width, self.hidden),
            "gate_bias": (self.hidden,),
            "up_bias": (self.hidden,),
            "down_bias": (self.width,),
        }[role]

    def to_mlir(
        self,
        tokens: int | None,
        attributes: str = "",
        scales: Mapping[str, float] | None = None,
    ) -> str:
        """A module with one function around the fused op.

        Scales are one by default: kernels get them when they are launched.
        """
        count = "?" if tokens is None else str(tokens)
        rows = f"tensor<{count}x{self.width}xbf16>"

        def type_of(role: str) -> str:
            if role in ROW_OPERANDS:
                return rows
            element = self.dtype if role in ("gate", "up", "down") else BF16
            return f"tensor<{'x'.join(map(str, self.shape(role)))}x{element}>"

        def linear(role: str) -> str:
            bias = f" bias %{role}_bias" if self.biases else ""
            return f"{role}(%{role}{bias})"

        roles = self.operands()
        clauses = ["residual(%residual)"] if self.residual else []
        if self.norm:
            clauses.append(self.norm.clause())
        if self.gated:
            clauses.append(linear("gate"))
        clauses += [linear("up"), linear("down"), f"act({self.act})"]
        if self.then_add:
            clauses.append("then_add(%then_add)")
        if self.add_stream:
            clauses.append("add_stream")
        if self.returns_stream:
            clauses.append("also([stream])")
        if self.fp8:
            chosen = scales or {}
            values = ", ".join(
                f"{name} = {chosen.get(name, 1.0):e}" for name in self.scales()
            )
            order = ", order = divide" if self.order == "divide" else ""
            clauses.append(f"scales({self.dtype}, {values}{order})")
        skip = f" skip [{', '.join(self.skip)}]" if self.skip else ""
        clauses.append(f"rounding({self.mode}{skip})")
        results = [rows] * (2 if self.returns_stream else 1)
        returned = ", ".join(results)
        inputs = ", ".join(f"%{role}: {type_of(role)}" for role in roles)
        types = ", ".join(type_of(role) for role in roles)
        names = "%y:2" if self.returns_stream else "%y"
        values = "%y#0, %y#1" if self.returns_stream else "%y"
        return (
            f"func.func @mlp({inputs}) -> ({returned}) {{\n"
            f"  {names} = fuse.{self.family} %x {' '.join(clauses)}"
            f"{' ' + attributes if attributes else ''}\n"
            f"    : ({types}) -> ({returned})\n"
            f"  return {values} : {returned}\n}}\n"
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Problem:
        norm = data.get("norm")
        return Problem(
            **{
                **data,
                "norm": Norm(**norm) if norm else None,
                "skip": tuple(data.get("skip", ())),
            }
        )
