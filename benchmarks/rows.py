# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the kernels of the other fused ops.

    python3 -m benchmarks.rows compile      # compiler's machine
    python3 -m benchmarks.rows measure      # GPU's machine

`fuse.norm_quantize` and `fuse.act_quantize` beside a copy of as many bytes,
`fuse.norm_linear` beside a read of its weights. `measure` writes
benchmarks/results/rows-h200.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .cases import CHECKED_TOKENS
from .environment import (read_commit, require_gpu, require_tools,
                          write_json)
from .kernels import (ROOT, CompileError, _run, add_compiler_options,
                      assemble)
from .plan import Plan, digest, read_launches
from .problem import BF16, FP8, NORMS, Problem

HEAD = Problem("mlp", 4096, 4096, FP8, "silu", NORMS["rms0"])
#: Widths of norm_linear, and M that the largest tiles are checked with.
_WIDTHS = (256, 784, 2048, 2064, 1024)
_LINEAR_TOKENS = {128: CHECKED_TOKENS,
                  1000: (129, 200, 256, 300, 384, 511, 512, 1000)}
#: Tokens of kernels that take rows one by one.
_ROW_TOKENS = (1, 33, 512, 1024, 2048, 8192)
RESULTS = ROOT / "benchmarks/results/rows-h200.json"


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
        types = {"x": wide, "residual": wide, "factor": wide,
                 "norm_weight": f"tensor<{self.width}xbf16>",
                 "norm_bias": f"tensor<{self.width}xbf16>"}
        for index, rows in enumerate(self.rows):
            types[f"weight{index}"] = \
                f"tensor<{rows}x{self.width}x{self.dtype}>"
        norm = NORMS[self.norm]
        clause = norm.clause() if norm else ""
        residual = "residual(%residual) " if "residual" in self.roles else ""
        also = f"also([{', '.join(self.extras)}]) " if self.extras else ""
        narrow = wide.replace("bf16", FP8)
        if self.family == "norm_linear":
            scales = ", ".join(f"{name} = 1.0" for name in self.scales())
            linears = ", ".join(f"%weight{i}" for i in range(len(self.rows)))
            body = (f"fuse.norm_linear %x {residual}{clause} "
                    f"linear({linears}) {also}")
            if self.dtype == FP8:
                body += f"scales({FP8}, {scales}) "
            results = [f"tensor<{count}x{rows}xbf16>" for rows in self.rows]
        elif self.family == "norm_quantize":
            body = (f"fuse.norm_quantize %x {residual}{clause} {also}"
                    f"scales({FP8}, input = 1.0) ")
            results = [narrow]
        else:
            times = "times(%factor) " if "factor" in self.roles else ""
            body = (f"fuse.act_quantize %x {times}act({self.act}) {also}"
                    f"scales({FP8}, hidden = 1.0) ")
            results = [narrow]
        results += [wide] * len(self.extras)
        inputs = ", ".join(f"%{role}: {types[role]}" for role in self.roles)
        names = ", ".join(f"%y{i}" for i in range(len(results)))
        return (f"func.func @f({inputs}) -> ({', '.join(results)}) {{\n"
                f"  {names} = {body}rounding(exact)\n    : "
                f"({', '.join(types[role] for role in self.roles)}) -> "
                f"({', '.join(results)})\n"
                f"  return {names} : {', '.join(results)}\n}}\n")

    def scales(self) -> list[str]:
        if self.dtype != FP8:
            return []
        return ["input", *(f"weight{i}" for i in range(len(self.rows)))]


def cases() -> list[Case]:
    head = ("x", "norm_weight")
    found = [
        Case("norm_quantize-4096", "norm_quantize", 4096, head),
        Case("norm_quantize-4096-residual", "norm_quantize", 4096,
             ("x", "residual", "norm_weight"), extras=("stream",)),
        Case("norm_quantize-1040-layer", "norm_quantize", 1040,
             ("x", "norm_weight", "norm_bias"), norm="layer",
             extras=("normed",)),
        Case("act_quantize-12288", "act_quantize", 12288, ("x", "factor")),
        Case("act_quantize-4096-gelu", "act_quantize", 4096, ("x",),
             act="gelu_tanh"),
        Case("act_quantize-4096-product", "act_quantize", 4096,
             ("x", "factor"), extras=("product",)),
    ]
    for dtype, label in ((FP8, "fp8"), (BF16, "bf16")):
        for tokens in (16, 56, 128, 512, 4096):
            found.append(Case(
                f"norm_linear-4096-{label}-t{tokens}", "norm_linear", 4096,
                (*head, "weight0", "weight1", "weight2"),
                rows=(4096, 1024, 1024), dtype=dtype, tokens=tokens))
    # Every norm, at widths in turn, with few and many tokens.
    for index, (dtype, label) in enumerate(((FP8, "fp8"), (BF16, "bf16"))):
        for turn, norm in enumerate(("rms0", "rms1", "layer")):
            width = _WIDTHS[(turn + 2 * index) % len(_WIDTHS)]
            roles = (*head, *(("norm_bias",) if norm == "layer" else ()),
                     "weight0", "weight1")
            for tokens in (128, 1000):
                found.append(Case(
                    f"norm_linear-{width}-{label}-{norm}-t{tokens}",
                    "norm_linear", width, roles, rows=(width, 272),
                    norm=norm, dtype=dtype, tokens=tokens))
    found.append(Case("norm_linear-784-bf16-t56", "norm_linear", 784,
                      (*head, "weight0", "weight1"), rows=(784, 272),
                      dtype=BF16, extras=("normed",), tokens=56))
    found.append(Case("norm_linear-784-fp8-t300", "norm_linear", 784,
                      (*head, "weight0", "weight1"), rows=(784, 272),
                      dtype=FP8, tokens=300))
    return found


def compile_all(options: argparse.Namespace) -> int:
    require_tools(options.bin, "fuse-opt", "fuse-translate")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for case in cases():
        try:
            lowered = _run([str(options.bin / "fuse-opt"), *options.pipeline],
                           case.to_mlir())
            compiled = json.loads(_run(
                [str(options.bin / "fuse-translate"),
                 "--mlir-to-launch-plan"], lowered))
            if not read_launches(compiled):
                raise CompileError("no launch")
            module, = compiled["modules"].values()
            ptx = options.out / f"{case.name}.ptx"
            ptx.write_text(module["ptx"])
            plan = options.out / f"{case.name}.json"
            plan.write_text(json.dumps(
                {"version": compiled["version"], "binary": ptx.name,
                 "commit": options.commit or read_commit(),
                 "digest": digest(module["ptx"], compiled["launches"]),
                 "launches": compiled["launches"]}, indent=1))
            if options.ptxas:
                assemble(plan, options.ptxas)
            print(f"{case.name}: ok", flush=True)
        except CompileError as error:
            failed += 1
            print(f"{case.name}: {error}", flush=True)
    return 1 if failed else 0


def measure_all(options: argparse.Namespace) -> int:
    require_gpu()
    import torch

    from .checks import short
    from .device import DeviceReader, describe_device
    from .driver import Module, Runner, Weights
    from .reference import E4M3_MAX, Chain, Range
    from .timing import Floor, Timer, capture

    class Head(Chain):
        """The members up to the quantized input, and linears after it."""

        def __init__(self, problem: Problem, tensors: dict[str, Any],
                     scalars: dict[str, float]) -> None:
            self.problem = problem
            self.tensors = tensors
            self.scalars = scalars
            self.stream = self._stream()
            self.input = self._input()

    timer, floor, reader = Timer(), Floor(), DeviceReader()
    rows: list[dict[str, Any]] = []
    good = True

    def judge(case: Case, runner: Runner, tensors: dict[str, Any],
              scalars: dict[str, float]) -> int:
        """Elements outside of what the chain can give."""
        outside = 0
        if case.family == "act_quantize":
            act = Range.exact(tensors["x"]).activated(case.act).bf16()
            if "factor" in case.roles:
                act = act.times(Range.exact(tensors["factor"])).bf16()
            outside += act.quantized(scalars["hidden"], False).outside(
                runner.results[0])
            if case.extras:
                outside += act.outside(runner.results[1])
            return outside
        fake = Problem("mlp", case.width, case.width, case.dtype, "silu",
                       NORMS[case.norm], residual="residual" in case.roles)
        head = Head(fake, tensors, scalars)
        if case.family == "norm_quantize":
            outside += head.input.outside(runner.results[0])
        else:
            stored = runner.intermediate(0)
            outside += head.input.outside(stored)
            for index in range(len(case.rows)):
                outside += head.linear(
                    Range.exact(stored), f"weight{index}").bf16().outside(
                        runner.results[index])
        for name, result in zip(case.extras, runner.results[
                max(1, len(case.rows)):]):
            expected = head.stream if name == "stream" else head._normed()
            outside += expected.bf16().outside(result)
        return outside

    def run(case: Case, tokens: int) -> None:
        nonlocal good
        stored = json.loads((options.out / f"{case.name}.json").read_text())
        roles = list(case.roles)
        plan = Plan(SimpleNamespace(  # type: ignore[arg-type]
            operands=lambda: roles, width=case.width, returns_stream=False),
            options.out / stored["binary"], read_launches(stored))
        generator = torch.Generator("cuda").manual_seed(
            options.seed * 1000 + tokens)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator, device="cuda")

        tensors: dict[str, torch.Tensor] = {
            role: normal(tokens, case.width).bfloat16()
            for role in ("x", "residual", "factor") if role in case.roles}
        scales: dict[str, float] = {"input": 3.5 / E4M3_MAX,
                                    "hidden": 3.0 / E4M3_MAX}
        for role in case.roles:
            if role == "norm_weight":
                tensors[role] = (1 + 0.1 * normal(case.width)).bfloat16()
            elif role == "norm_bias":
                tensors[role] = (0.1 * normal(case.width)).bfloat16()
        for index, count in enumerate(case.rows):
            weight = normal(count, case.width) / case.width**0.5
            if case.dtype == FP8:
                scale = weight.abs().max().item() / E4M3_MAX
                scales[f"weight{index}"] = scale
                tensors[f"weight{index}"] = (weight / scale).to(
                    torch.float8_e4m3fn)
            else:
                tensors[f"weight{index}"] = weight.bfloat16()
        f32 = {name: torch.tensor(value, dtype=torch.float32)
               for name, value in scales.items()}
        scalars = {name: (1 / f32[name]).item()
                   for name in ("input", "hidden")}
        for index in range(len(case.rows)):
            if case.dtype == FP8:
                name = f"weight{index}"
                scalars[name] = (f32["input"] * f32[name]).item()
        if case.family == "norm_linear":
            results = [torch.empty(tokens, count, device="cuda",
                                   dtype=torch.bfloat16)
                       for count in case.rows]
        else:
            results = [torch.empty(tokens, case.width, device="cuda",
                                   dtype=torch.float8_e4m3fn)]
        results += [torch.empty(tokens, case.width, device="cuda",
                                dtype=torch.bfloat16) for _ in case.extras]
        module = Module(plan.binary)
        runner = Runner(plan, module, Weights(tensors), {"x": tensors["x"]},
                        scalars, Runner.make_workspace(plan), results)
        views = [result.view(torch.uint8) for result in results]
        first: list[torch.Tensor] = []
        differing = 0
        for repeat in range(options.repeats):
            for view in views:
                view.fill_(0xff)
            runner()
            now = [view.clone() for view in views]
            if repeat == 0:
                first = now
            differing += any(not torch.equal(a, b)
                             for a, b in zip(first, now))
        outside = judge(case, runner, tensors, scalars)
        read = sum(tensor.numel() * tensor.element_size()
                   for tensor in tensors.values())
        written = sum(view.numel() for view in views)
        raw = torch.empty(read + written, dtype=torch.uint8, device="cuda")
        half = (read + written) // 2
        source, target = raw[:half], raw[half:2 * half]
        other: Callable[[], Any] = lambda: target.copy_(source)
        if case.family == "norm_linear":
            other = floor.read(raw[:read])
        samples = timer.interleave({"ours": capture(runner),
                                    "other": capture(other)}, options.rounds)
        ours = samples["ours"].per(1)
        base = samples["other"].per(1)["median_us"]
        ok = outside == 0 and differing == 0
        good &= ok
        rows.append({"case": case.name, "M": tokens, "ok": ok,
                     "outside": outside, "differing_repeats": differing,
                     "mbytes": short((read + written) / 1e6), **ours,
                     ("floor_us" if case.family == "norm_linear"
                      else "copy_us"): base, "sm_mhz": reader.clock(),
                     "commit": stored["commit"],
                     "digest": stored["digest"]})
        print(f"{case.name} M={tokens}: {'ok' if ok else 'FAILED'}, outside "
              f"{outside}, {ours['median_us']:.1f} us, "
              f"{(read + written) / 1e6:.1f} MB, "
              f"{base / ours['median_us']:.2f} of the other's rate",
              flush=True)

    def save() -> None:
        write_json(options.output, {**head, "rows": rows})

    head = describe_device()
    for case in cases():
        tile = case.tokens
        for tokens in _ROW_TOKENS if tile is None else _LINEAR_TOKENS.get(
                tile, (max(1, tile - 7), tile - 3, tile)):
            run(case, tokens)
        save()
    return 0 if good else 1


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.rows",
                                     description=__doc__.split("\n")[0])
    steps = parser.add_subparsers(required=True)
    first = steps.add_parser("compile", help="compile the kernels")
    add_compiler_options(first)
    first.set_defaults(run=compile_all)
    second = steps.add_parser("measure", help="check and time them")
    second.add_argument("--rounds", type=int, default=30)
    second.add_argument("--repeats", type=int, default=50)
    second.add_argument("--seed", type=int, default=1)
    second.add_argument("--output", type=Path, default=RESULTS)
    second.set_defaults(run=measure_all)
    for step in (first, second):
        step.add_argument("--out", type=Path, default=ROOT / "out/rows")
    options = parser.parse_args(arguments)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main())
