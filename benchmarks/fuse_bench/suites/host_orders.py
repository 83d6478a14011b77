# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Odd orders of calls on a GPU, each with what has to come of it.

    python3 benchmarks/host_orders.py test/Runtime/Inputs/block.mlir out.json

Compiles a module in process, launches it in invalid and in barely valid
orders, and compares results with the CPU's. Writes a list of
{"order", "ok", "text"}. The text is an error message, or the largest
difference relative to the largest value. Exits with 1 if any check fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import torch

from fuse_mlir import native

TOKENS = 16
#: Tolerance, as in examples/embed: the order of summation differs.
TOLERANCE = 0.03


class Host:
    """A module on the CPU and on the GPU, with the same random weights."""

    def __init__(self, text: str) -> None:
        torch.manual_seed(1)
        self.cpu = self._artifact(text, "").load_on(torch.device("cpu"))
        self.gpu = self._artifact(text, "sm_90a").load_on(
            torch.device("cuda:0")
        )
        signature = self.cpu.signature()
        self.weights = {
            a.parameter: torch.randn(a.shape)
            .mul_(1.7 / a.shape[-1] ** 0.5 if len(a.shape) == 2 else 1)
            .to(a.dtype)
            for a in signature.arguments
            if a.parameter
        }
        (first,) = (a for a in signature.arguments if not a.parameter)
        self.input = torch.randn(TOKENS, *first.shape[1:]).to(first.dtype)
        result = signature.results[0]
        self.expected = torch.empty(
            TOKENS, *result.shape[1:], dtype=result.dtype
        )
        self.bind(self.cpu).launch([self.input], [self.expected])

    @staticmethod
    def _artifact(text: str, chip: str) -> native.Artifact:
        module = native.Module(text)
        module.run("builtin.module(fuse-kernel-formation-pipeline)")
        return module.compile(chip=chip, tokens=64 if chip else 0)

    def bind(
        self, program: native.Program, prepared: bool = True
    ) -> native.Instance:
        instance = program.instance()
        for name, weight in self.weights.items():
            instance.bind(name, weight)
        if prepared:
            instance.prepare()
        return instance

    def make(self) -> tuple[torch.Tensor, torch.Tensor]:
        """An input on the GPU, and a result that no kernel returns."""
        return (
            self.input.cuda(),
            torch.full_like(self.expected, float("nan"), device="cuda"),
        )

    def differs(self, *outputs: torch.Tensor) -> float:
        """The largest difference from the CPU, over the largest value."""
        torch.cuda.synchronize()
        expected = self.expected.double()
        worst = 0.0
        for output in outputs:
            delta = (output.cpu().double() - expected).abs().max()
            share = (delta / expected.abs().max()).item()
            # True for NaN too.
            worst = worst if share <= worst else share
        return worst


def expect_refusal(text: str, body: Callable[[], object]) -> str:
    """The message of a failure, which must contain `text`."""
    try:
        body()
    except native.NativeError as error:
        found = f"{error} ({error.status})"
        if text in found:
            return found
        raise AssertionError(f"expected '{text}', got '{found}'") from error
    raise AssertionError(f"expected '{text}', got no error")


def expect_close(host: Host, *outputs: torch.Tensor) -> str:
    """The difference from the CPU, which must be small."""
    found = host.differs(*outputs)
    if not found < TOLERANCE:
        raise AssertionError(f"differs by {found:.2g} from the CPU")
    return f"{found:.2g}"


def launch_before_preparing(host: Host) -> str:
    x, y = host.make()
    instance = host.bind(host.gpu, prepared=False)
    return expect_refusal("is not prepared", lambda: instance.launch([x], [y]))


def launch_on_the_cpu(host: Host) -> str:
    _, y = host.make()
    instance = host.bind(host.gpu)
    return expect_refusal(
        "FUSE_ERROR_TENSOR", lambda: instance.launch([host.input], [y])
    )


def launch_from_an_odd_address(host: Host) -> str:
    x, y = host.make()
    odd = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")
    odd[1:].copy_(x.flatten())
    instance = host.bind(host.gpu)
    return expect_refusal(
        "after a multiple of 16",
        lambda: instance.launch([odd[1:].view_as(x)], [y]),
    )


def launch_beyond_the_limit(host: Host) -> str:
    x, y = host.make()
    instance = host.bind(host.gpu, prepared=False)
    instance.limit_tokens(TOKENS // 2)
    instance.prepare()
    text = expect_refusal("is limited to", lambda: instance.launch([x], [y]))
    # And then the limit is raised.
    instance.limit_tokens(TOKENS)
    instance.launch([x], [y])
    return f"{text}; then differs by {expect_close(host, y)}"


def launch_into_the_input(host: Host) -> str:
    x, _ = host.make()
    instance = host.bind(host.gpu)
    return expect_refusal("overlaps", lambda: instance.launch([x], [x]))


def give_back_while_it_runs(host: Host) -> str:
    x, y = host.make()
    instance = host.bind(host.gpu)
    for _ in range(50):
        instance.launch([x], [y])
    del instance
    return expect_close(host, y)


def launch_from_threads(host: Host) -> str:
    instance = host.bind(host.gpu)
    pairs = [host.make() for _ in range(8)]
    torch.cuda.synchronize()
    failures: list[BaseException] = []

    def run(x: torch.Tensor, y: torch.Tensor) -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(200):
                    instance.launch([x], [y])
        except BaseException as error:  # Shown by the caller.
            failures.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return expect_close(host, *(y for _, y in pairs))


def change_streams_of_an_exclusive_device(host: Host) -> str:
    x, y = host.make()
    instance = host.bind(host.gpu)
    torch.cuda.synchronize()
    native.set_exclusive("cuda:0")
    try:
        # Creating a workspace waits for the default stream, so use another one.
        with torch.cuda.stream(torch.cuda.Stream()):
            instance.launch([x], [y])
        with torch.cuda.stream(torch.cuda.Stream()):
            text = expect_refusal(
                "is exclusive", lambda: instance.launch([x], [y])
            )
            torch.cuda.synchronize()
            native.set_exclusive("cuda:0")
            y.fill_(float("nan"))
            instance.launch([x], [y])
    finally:
        torch.cuda.synchronize()
        native.set_exclusive("cuda:0", False)
    return f"{text}; then differs by {expect_close(host, y)}"


def capture(host: Host, exclusive: bool, body: Callable[..., None]) -> str:
    """Replays what `body` captures with an instance, an input and a result."""
    x, y = host.make()
    instance = host.bind(host.gpu)
    torch.cuda.synchronize()
    native.set_exclusive("cuda:0", exclusive)
    try:
        instance.launch([x], [y])
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            body(instance, x, y)
        y.fill_(float("nan"))
        for _ in range(20):
            graph.replay()
        found = expect_close(host, y)
        # Launches go on beside the graph.
        y.fill_(float("nan"))
        instance.launch([x], [y])
        return f"{found}, then {expect_close(host, y)}"
    finally:
        torch.cuda.synchronize()
        native.set_exclusive("cuda:0", False)


def launch_often(
    instance: native.Instance, x: torch.Tensor, y: torch.Tensor
) -> None:
    for _ in range(10):
        instance.launch([x], [y])


def launch_with_a_refusal(
    instance: native.Instance, x: torch.Tensor, y: torch.Tensor
) -> None:
    expect_refusal("overlaps", lambda: instance.launch([x], [x]))
    instance.launch([x], [y])


ORDERS: dict[str, Callable[[Host], str]] = {
    "a launch before weights are prepared": launch_before_preparing,
    "an input that is on the CPU": launch_on_the_cpu,
    "an input at an odd address": launch_from_an_odd_address,
    "more tokens than the limit, which is then raised": launch_beyond_the_limit,
    "a result in place of the input": launch_into_the_input,
    "an instance given back while 50 launches run": give_back_while_it_runs,
    "8 threads with a stream each, 200 launches of one instance": launch_from_threads,
    "another stream of an exclusive device": change_streams_of_an_exclusive_device,
    "a graph": lambda host: capture(host, False, launch_often),
    "a graph of an exclusive device": lambda host: capture(
        host, True, launch_often
    ),
    "a launch that is refused while a graph is captured": lambda host: capture(
        host, False, launch_with_a_refusal
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("module", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    host = Host(options.module.read_text())
    rows = []
    for order, body in ORDERS.items():
        try:
            ok, text = True, body(host)
        except Exception as error:  # Try every order.
            ok, text = False, f"{type(error).__name__}: {error}"
        rows.append({"order": order, "ok": ok, "text": text})
        print(f"{order}: {'ok' if ok else 'FAILED'}: {text}", flush=True)
        options.output.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
