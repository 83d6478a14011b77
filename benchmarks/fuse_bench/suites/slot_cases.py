# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One numerical case per registered kernel: its slot, inputs and references.

The reference is the code of the model in PyTorch, rounding where it rounds.
`wrong` is the nearest other variant: code that is easily mistaken for the
right one. The tolerance of a case separates the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

BF16, F16, F32, I64 = (
    torch.bfloat16,
    torch.float16,
    torch.float32,
    torch.int64,
)
TYPE_NAMES = {BF16: "bf16", F16: "f16", F32: "f32", I64: "i64"}

#: A size that is not known when the kernel is compiled.
TOKENS = "?"
Shape = tuple[int | str, ...]


@dataclass(frozen=True)
class Error:
    """The difference between a result and a reference.

    `largest` is relative to the largest reference, `differing` the share of
    elements that are not equal.
    """

    largest: float
    differing: float

    def within(self, tolerance: Error) -> bool:
        # Written so that NaN exceeds the tolerance.
        return (
            self.largest <= tolerance.largest
            and self.differing <= tolerance.differing
        )


#: Sums in another order, functions of math: a few units in the last place of
#: f32, and about one bf16 value in a hundred that rounds the other way.
CLOSE = {BF16: Error(2**-7, 0.02), F16: Error(2**-9, 0.1), F32: Error(2e-6, 1)}


@dataclass(frozen=True)
class Case:
    """A kernel of a slot with the sizes and types of its operands."""

    op: str
    variant: str
    params: str
    args: tuple[tuple[Shape, torch.dtype], ...]
    results: tuple[tuple[Shape, torch.dtype], ...]
    make: Callable[[int, torch.Generator], list[Tensor]]
    reference: Callable[..., Tensor | tuple[Tensor, ...]]
    wrong: Callable[..., Tensor | tuple[Tensor, ...]]
    tolerance: Error
    has_kernel: bool = True

    def name(self) -> str:
        return f"{self.op}-{self.variant}-{TYPE_NAMES[self.args[0][1]]}"

    def text(self) -> str:
        """The slot and a function that calls it."""
        args = [_type(*arg) for arg in self.args]
        results = ", ".join(_type(*result) for result in self.results)
        if len(self.results) > 1:
            results = f"({results})"
        signature = f"({', '.join(args)}) -> {results}"
        names = [f"%x{i}" for i in range(len(args))]
        count = f":{len(self.results)}" if len(self.results) > 1 else ""
        values = ", ".join(
            f"%y#{i}" if count else "%y" for i in range(len(self.results))
        )
        types = ", ".join(_type(*result) for result in self.results)
        params = f" params {{{self.params}}}" if self.params else ""
        return (
            f'nn.slot @slot op "{self.op}" variant "{self.variant}"{params}\n'
            f"    : {signature} {{}}\n"
            f"func.func @main("
            + ", ".join(f"{n}: {t}" for n, t in zip(names, args))
            + f") -> {results} {{\n"
            f"  %y{count} = nn.call_slot @slot({', '.join(names)})\n"
            f"    : {signature}\n"
            f"  return {values} : {types}\n"
            f"}}\n"
        )

    def inputs(self, tokens: int, seed: int = 0) -> list[Tensor]:
        return self.make(tokens, torch.Generator().manual_seed(seed))

    def expected(self, inputs: list[Tensor]) -> list[Tensor]:
        return _list(self.reference(*inputs))

    def mistaken(self, inputs: list[Tensor]) -> list[Tensor]:
        return _list(self.wrong(*inputs))


def _type(shape: Shape, dtype: torch.dtype) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{TYPE_NAMES[dtype]}>"


def _list(values: Tensor | tuple[Tensor, ...]) -> list[Tensor]:
    return [values] if isinstance(values, Tensor) else list(values)


def error(results: list[Tensor], expected: list[Tensor]) -> Error:
    """The largest difference over all results."""
    worst = Error(0.0, 0.0)
    for result, reference in zip(results, expected, strict=True):
        result, reference = result.double().cpu(), reference.double().cpu()
        if result.shape != reference.shape:
            raise ValueError(
                f"a result is {tuple(result.shape)}, expected "
                f"{tuple(reference.shape)}"
            )
        if not reference.numel():
            continue
        off = (result - reference).abs()
        off[result.isnan() & reference.isnan()] = 0
        scale = reference.nan_to_num().abs().max().clamp_min(1e-30)
        largest = (off / scale).nan_to_num(nan=float("inf")).max().item()
        worst = Error(
            max(worst.largest, largest),
            max(worst.differing, (off != 0).double().mean().item()),
        )
    return worst


def normal(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    generator: torch.Generator,
    scale: float = 1.0,
) -> Tensor:
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


# Norms.


def rms_norm(x: Tensor, weight: Tensor | None = None) -> Tensor:
    """As in Llama: the weight multiplies the rounded value."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return wide.to(x.dtype) if weight is None else weight * wide.to(x.dtype)


def rms_norm_offset(x: Tensor, weight: Tensor) -> Tensor:
    """As in Gemma and Qwen 3.5: all in f32."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * (1.0 + weight.float())).type_as(x)


def rms_norm_offset_early(x: Tensor, weight: Tensor) -> Tensor:
    """The offset added and the weight multiplied in the type of x."""
    return rms_norm(x, 1 + weight)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(
        x.float(), x.shape[-1:], weight.float(), bias.float(), 1e-5
    ).to(x.dtype)


def norm_cases() -> Iterator[Case]:
    width = 576
    x = ((TOKENS, width), BF16)
    weight = ((width,), BF16)

    def make(tokens: int, generator: torch.Generator) -> list[Tensor]:
        return [
            normal((tokens, width), BF16, generator, 3),
            normal((width,), BF16, generator),
        ]

    eps = "eps = 1.0e-6 : f32"
    yield Case(
        "rms_norm",
        "standard",
        eps,
        (x, weight),
        (x,),
        make,
        rms_norm,
        rms_norm_offset,
        CLOSE[BF16],
    )
    yield Case(
        "rms_norm",
        "unweighted",
        eps,
        (x,),
        (x,),
        lambda *args: make(*args)[:1],
        rms_norm,
        lambda x: layer_norm(x, torch.ones(width), torch.zeros(width)),
        CLOSE[BF16],
    )
    yield Case(
        "rms_norm",
        "offset1_f32",
        eps,
        (x, weight),
        (x,),
        make,
        rms_norm_offset,
        rms_norm_offset_early,
        CLOSE[BF16],
    )
    yield Case(
        "layer_norm",
        "standard",
        "eps = 1.0e-5 : f32",
        (x, weight, weight),
        (x,),
        lambda tokens, generator: [
            *make(tokens, generator),
            normal((width,), BF16, generator),
        ],
        layer_norm,
        lambda x, weight, bias: rms_norm(x, weight) + bias,
        CLOSE[BF16],
    )


# Rotary embeddings.


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_pairs(x: Tensor) -> Tensor:
    """The other convention, that of neighboring features."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def rotary(
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    rotate: Callable[[Tensor], Tensor] = rotate_half,
) -> tuple[Tensor, ...]:
    cos, sin, results = cos.unsqueeze(1), sin.unsqueeze(1), []
    width = cos.shape[-1]
    for x in (q, k):
        part = x[..., :width]
        y = part * cos + rotate(part) * sin
        results.append(torch.cat((y, x[..., width:]), dim=-1))
    return tuple(results)


def rotary_cases() -> Iterator[Case]:
    for variant, features, turned in (("full", 64, 64), ("partial", 80, 32)):
        q, k = (
            ((2, 6, TOKENS, features), BF16),
            ((2, 2, TOKENS, features), BF16),
        )
        angles = ((1, TOKENS, turned), BF16)

        def make(
            tokens: int,
            generator: torch.Generator,
            features: int = features,
            turned: int = turned,
        ) -> list[Tensor]:
            speed = 1e4 ** -(torch.arange(0, turned, 2) / turned)
            angle = torch.arange(tokens)[:, None] * speed
            angle = torch.cat((angle, angle), dim=-1)[None]
            return [
                normal((2, 6, tokens, features), BF16, generator),
                normal((2, 2, tokens, features), BF16, generator),
                angle.cos().to(BF16),
                angle.sin().to(BF16),
            ]

        # No sum is long and no function is approximated: all bits are equal.
        yield Case(
            "apply_rotary_pos_emb",
            variant,
            "",
            (q, k, angles, angles),
            (q, k),
            make,
            rotary,
            partial(rotary, rotate=rotate_pairs),
            Error(0.0, 0.0),
        )


# Activations and MLPs.

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
}
#: The activation that is most easily mistaken for each one.
TWINS = {"silu": "gelu_tanh", "gelu": "gelu_tanh", "gelu_tanh": "gelu"}


def gated_mlp(act: str) -> Callable[..., Tensor]:
    def run(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        return functional.linear(
            ACTIVATIONS[act](functional.linear(x, gate))
            * functional.linear(x, up),
            down,
        )

    return run


def act_and_mul(act: str) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda gate, up: ACTIVATIONS[act](gate) * up


def activation_cases() -> Iterator[Case]:
    for act in ("silu", "gelu_tanh", "gelu"):
        for dtype in (BF16, F32):
            # The two forms of gelu are less than a step of bf16 apart.
            if dtype == BF16 and act != "silu":
                continue
            x = ((TOKENS, 320), dtype)

            def make(
                tokens: int,
                generator: torch.Generator,
                dtype: torch.dtype = dtype,
            ) -> list[Tensor]:
                return [
                    normal((tokens, 320), dtype, generator, 2) for _ in range(2)
                ]

            yield Case(
                "act_and_mul",
                act,
                "",
                (x, x),
                (x,),
                make,
                act_and_mul(act),
                act_and_mul(TWINS[act]),
                CLOSE[dtype],
            )


def mlp_cases() -> Iterator[Case]:
    width, hidden = 192, 320
    for op, variant, act, dtype in (
        ("swiglu_mlp", "standard", "silu", BF16),
        ("geglu_mlp", "gelu_tanh", "gelu_tanh", F32),
        ("geglu_mlp", "gelu", "gelu", F32),
    ):
        x, inner = ((TOKENS, width), dtype), ((hidden, width), dtype)

        def make(
            tokens: int, generator: torch.Generator, dtype: torch.dtype = dtype
        ) -> list[Tensor]:
            return [
                normal((tokens, width), dtype, generator, 2),
                *(
                    normal((hidden, width), dtype, generator, width**-0.5)
                    for _ in range(2)
                ),
                normal((width, hidden), dtype, generator, hidden**-0.5),
            ]

        # A value in the middle that rounds the other way moves a sum of bf16.
        yield Case(
            op,
            variant,
            "",
            (x, inner, inner, ((width, hidden), dtype)),
            (x,),
            make,
            gated_mlp(act),
            gated_mlp(TWINS[act]),
            Error(2**-7, 0.2) if dtype == BF16 else CLOSE[F32],
        )


# Losses.


def causal_loss(
    logits: Tensor,
    labels: Tensor,
    items: Tensor | None = None,
    ignore: int = -100,
) -> Tensor:
    """ForCausalLMLoss of transformers."""
    labels = functional.pad(labels, (0, 1), value=ignore)[..., 1:]
    return unshifted_loss(logits, labels, items, ignore)


def unshifted_loss(
    logits: Tensor,
    labels: Tensor,
    items: Tensor | None = None,
    ignore: int = -100,
) -> Tensor:
    loss = functional.cross_entropy(
        logits.float().view(-1, logits.shape[-1]),
        labels.reshape(-1),
        ignore_index=ignore,
        reduction="mean" if items is None else "sum",
    )
    return loss if items is None else loss / items


def loss_cases() -> Iterator[Case]:
    vocabulary = 4099
    for dtype, with_items in ((BF16, False), (F32, True)):

        def make(
            tokens: int,
            generator: torch.Generator,
            dtype: torch.dtype = dtype,
            with_items: bool = with_items,
        ) -> list[Tensor]:
            # Exponentials overflow unless the maximum is subtracted.
            logits = normal((2, tokens, vocabulary), dtype, generator, 30)
            labels = torch.randint(
                0, vocabulary, (2, tokens), generator=generator
            )
            hidden = torch.rand((2, tokens), generator=generator) < 0.25
            labels[hidden] = -100
            return [logits, labels, *([torch.tensor(17)] if with_items else [])]

        yield Case(
            "cross_entropy_loss",
            "causal",
            "ignore_index = -100 : i64",
            (
                ((2, TOKENS, vocabulary), dtype),
                ((2, TOKENS), I64),
                *([((), I64)] if with_items else []),
            ),
            (((), F32),),
            make,
            causal_loss,
            unshifted_loss,
            CLOSE[F32],
        )


# Mixtures of experts.


def experts(
    x: Tensor,
    index: Tensor,
    weights: Tensor,
    gate_up: Tensor,
    down: Tensor,
    swapped: bool = False,
) -> Tensor:
    """MixtralExperts of transformers; an index of `len(down)` is skipped."""
    y = torch.zeros_like(x)
    for expert in range(len(down)):
        token, choice = torch.where(index == expert)
        gate, up = functional.linear(x[token], gate_up[expert]).chunk(2, -1)
        if swapped:
            gate, up = up, gate
        out = functional.linear(functional.silu(gate) * up, down[expert])
        out = out * weights[token, choice, None]
        y.index_add_(0, token, out.to(y.dtype))
    return y


def load_balancing(
    *logits: Tensor, top_k: int = 2, normalized: bool = True
) -> Tensor:
    """load_balancing_loss_func of transformers, without a mask."""
    count = logits[0].shape[-1]
    tokens, sums, rows = torch.zeros(count), torch.zeros(count), 0.0
    for layer in logits:
        probabilities = functional.softmax(layer, dim=-1)
        _, selected = torch.topk(probabilities, top_k, dim=-1)
        tokens += torch.bincount(selected.reshape(-1), minlength=count)
        sums += probabilities.float().sum(0)
        rows += len(layer) * (1 if normalized else top_k)
    return (tokens / rows * (sums / rows)).sum() * count


def expert_cases() -> Iterator[Case]:
    count, width, hidden, top_k = 6, 160, 96, 3
    for dtype in (BF16, F32):
        x, chosen = ((TOKENS, width), dtype), (TOKENS, top_k)

        def make(
            tokens: int, generator: torch.Generator, dtype: torch.dtype = dtype
        ) -> list[Tensor]:
            scores = torch.rand((tokens, count + 1), generator=generator)
            weights, index = scores.topk(top_k)
            weights = weights / weights.sum(-1, keepdim=True)
            return [
                normal((tokens, width), dtype, generator, 2),
                index,
                weights.to(dtype),
                normal(
                    (count, 2 * hidden, width), dtype, generator, width**-0.5
                ),
                normal((count, width, hidden), dtype, generator, hidden**-0.5),
            ]

        # Eager bf16 rounds the sum after each expert, the kernel once.
        yield Case(
            "moe_experts",
            "standard",
            'act = "silu"',
            (
                x,
                (chosen, I64),
                (chosen, dtype),
                ((count, 2 * hidden, width), dtype),
                ((count, width, hidden), dtype),
            ),
            (x,),
            make,
            experts,
            partial(experts, swapped=True),
            Error(2**-7, 0.5) if dtype == BF16 else CLOSE[F32],
        )
    logits = ((TOKENS, 8), F32)
    yield Case(
        "moe_load_balancing_loss",
        "standard",
        "top_k = 2 : i64",
        (logits, logits),
        (((), F32),),
        lambda tokens, generator: [
            normal((tokens, 8), F32, generator) for _ in range(2)
        ],
        load_balancing,
        lambda *args: load_balancing(*args, normalized=False),
        CLOSE[F32],
        has_kernel=False,
    )


def all_cases() -> list[Case]:
    return [
        *norm_cases(),
        *rotary_cases(),
        *activation_cases(),
        *mlp_cases(),
        *loss_cases(),
        *expert_cases(),
    ]
