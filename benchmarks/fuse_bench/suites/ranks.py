# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor parallelism on the GPUs of one host: one call, in parts.

Each part starts if the budget allows it, and the file is written after each, so
that a short call has the first ones. Multicast of NVLink stays off.

    python3 -m fuse_bench.suites.ranks out/ranks.json --ranks 2 --budget 240

    checks       a distributed block: equal bits on all ranks, over replays with
                 inputs changed in place, in growing and shrinking numbers of
                 rows, and with ranks that come late; two MLPs that are verified
    block        norm and MLP of one rank: the kernel alone, with its sum in f32
                 and in the type of the model, and the members, eager and
                 compiled, all in graphs
    collectives  all_reduce by bytes, in graphs
    model        a decoder of eight layers with a static cache, one token at a
                 time, unfused, compiled and fused
    symmetric    one-shot and two-shot sums in symmetric memory of PyTorch
    killed       a rank ends, and the others have to

`--dry` runs all parts on the CPU with gloo, in small sizes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.environment import read_commit, write_json

if TYPE_CHECKING:
    import torch
    import transformers

    from fuse_mlir.fusion.results import FusionResult

PARTS = ("checks", "block", "collectives", "model", "symmetric", "killed")
#: Seconds that a part may take, for the budget.
NEEDS = {
    "checks": 25,
    "collectives": 15,
    "block": 60,
    "model": 60,
    "symmetric": 15,
    "killed": 45,
}
#: Bytes of one all-reduced tensor.
SIZES = tuple(1 << n for n in range(13, 27))
#: Numbers of rows of blocks and of checks.
ROWS = (1, 16, 128, 512, 4096)
CHECKED = (1, 2, 7, 16, 17, 128, 129, 512, 129, 16, 1)
BATCHES = (1, 16)
#: Seconds that a collective waits for a rank.
PATIENCE = 30
QUIET = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


class Bench:
    """One rank of a run."""

    def __init__(self, options: argparse.Namespace, rank: int, store: str):
        import torch
        import torch.distributed as dist

        self.options, self.rank = options, rank
        self.dry = options.dry
        self.world = options.ranks
        backend = "gloo" if self.dry else "nccl"
        if self.dry:
            torch.set_num_threads(1)
            self.device = torch.device("cpu")
        else:
            self.device = torch.device("cuda", rank)
            torch.cuda.set_device(self.device)
        os.environ.update(
            RANK=str(rank), WORLD_SIZE=str(self.world), LOCAL_RANK=str(rank)
        )
        dist.init_process_group(
            backend,
            store=dist.FileStore(store, self.world),
            rank=rank,
            world_size=self.world,
            timeout=datetime.timedelta(seconds=PATIENCE),
            device_id=None if self.dry else self.device,
        )
        self.group: Any = dist.group.WORLD
        self.rows: list[dict[str, Any]] = []

    def agree(self, value: float) -> float:
        """The value of the first rank."""
        import torch
        import torch.distributed as dist

        held = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(held, 0)
        return float(held)

    def slowest(self, value: float) -> float:
        """The largest value of all ranks."""
        import torch
        import torch.distributed as dist

        held = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.all_reduce(held, op=dist.ReduceOp.MAX)
        return float(held)

    def wait(self) -> None:
        import torch
        import torch.distributed as dist

        if not self.dry:
            torch.cuda.synchronize()
        dist.barrier()

    def say(self, **row: object) -> None:
        self.rows.append(row)
        if self.rank == 0:
            print(
                " ".join(
                    f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v}"
                    for k, v in row.items()
                ),
                flush=True,
            )

    def us(self, function: Callable[[], Any], per: int = 1) -> float:
        """Microseconds of a call on the slowest rank, in a graph on a GPU.

        Args:
            function: the call, which all ranks make equally often.
            per: number of items that it computes.
        """
        import torch

        batches, calls = (3, 1) if self.dry else (12, 5)
        times = []
        if self.dry:
            function()
            for _ in range(batches):
                self.wait()
                begin = time.perf_counter()
                function()
                times.append(1e6 * (time.perf_counter() - begin))
            return self.slowest(statistics.median(times)) / per
        run = self.capture(function).replay
        run()
        for _ in range(batches):
            self.wait()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
            start.record()
            for _ in range(calls):
                run()
            end.record()
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end) / calls)
        return self.slowest(statistics.median(times)) / per

    def capture(self, function: Callable[[], Any]) -> torch.cuda.CUDAGraph:
        """A graph of a call, after three others."""
        import torch

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                function()
        torch.cuda.current_stream().wait_stream(side)
        self.wait()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            function()
        self.wait()
        return graph

    # Models.

    def config(self, layers: int) -> transformers.Qwen3Config:
        import transformers

        width, hidden = self.options.width, self.options.hidden
        head = 128 if width >= 1024 else 8
        heads = max(width // head, self.world)
        return transformers.Qwen3Config(
            hidden_size=width,
            intermediate_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=min(8, heads),
            head_dim=head,
            vocab_size=32768 if width >= 1024 else 64,
            tie_word_embeddings=False,
            max_position_embeddings=4096,
        )

    def model(self, layers: int) -> transformers.Qwen3ForCausalLM:
        """A decoder with drawn weights, distributed over all ranks."""
        import torch
        import transformers
        from transformers.distributed.configuration_utils import (
            DistributedConfig,
        )

        transformers.logging.set_verbosity_error()
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            with torch.device(self.device):
                model = transformers.Qwen3ForCausalLM(self.config(layers))
        finally:
            torch.set_default_dtype(before)
        config, _, mesh = type(model).prepare_distribute_model(
            DistributedConfig(tp_size=self.world)
        )
        model = model.maybe_distribute_model(model, config, mesh)
        return model.eval().requires_grad_(False)

    def draw(self, *shape: int) -> torch.Tensor:
        """Equal numbers on all ranks."""
        import torch

        generator = torch.Generator().manual_seed(sum(shape))
        values = torch.randn(shape, generator=generator)
        return values.to(self.device, torch.bfloat16)

    def fuse(
        self, model: transformers.Qwen3ForCausalLM, partials: str
    ) -> FusionResult:
        import fuse_mlir

        return fuse_mlir.fuse_modules(
            model, only_faster=False, strict=False, partials=partials
        )

    # Parts.

    def collectives(self) -> None:
        import torch
        import torch.distributed as dist

        for size in SIZES[:4] if self.dry else SIZES:
            for dtype in (torch.bfloat16, torch.float32):
                held = torch.zeros(
                    size // dtype.itemsize, dtype=dtype, device=self.device
                )

                def run(held=held) -> None:
                    for _ in range(10):
                        dist.all_reduce(held)

                self.say(
                    part="collectives",
                    system="nccl" if not self.dry else "gloo",
                    dtype=str(dtype)[6:],
                    bytes=size,
                    us=self.us(run, per=10),
                )

    def symmetric(self) -> None:
        import torch

        if self.dry:
            self.say(part="symmetric", skipped="needs GPUs")
            return
        import torch.distributed._symmetric_memory as symm

        name = self.group.group_name
        ops = torch.ops.symm_mem
        for size in SIZES:
            for dtype in (torch.bfloat16, torch.float32):
                count = size // dtype.itemsize
                held = symm.empty(count, dtype=dtype, device=self.device)
                held.zero_()
                symm.rendezvous(held, name)
                for system, call in (
                    ("one_shot", ops.one_shot_all_reduce),
                    ("two_shot", ops.two_shot_all_reduce_),
                ):
                    if system == "one_shot" and size > 4 << 20:
                        continue

                    def run(call=call, held=held) -> None:
                        for _ in range(10):
                            call(held, "sum", name)

                    self.say(
                        part="symmetric",
                        system=system,
                        dtype=str(dtype)[6:],
                        bytes=size,
                        us=self.us(run, per=10),
                    )

    def sites(self, model: transformers.Qwen3ForCausalLM) -> list[Any]:
        """The norm and the MLP of each layer."""
        return [
            (layer.post_attention_layernorm, layer.mlp)
            for layer in model.model.layers
        ]

    def block(self) -> None:
        """Blocks one after the other, on weights that do not fit in the L2."""
        import torch

        from fuse_mlir.fusion.places import fused_sites

        width, hidden = self.options.width, self.options.hidden
        shard = 6 * width * hidden // self.world
        layers = 2 if self.dry else max(1, -(-(200 << 20) // shard))
        model = self.model(layers)
        sites = self.sites(model)
        rows = (1, 5) if self.dry else ROWS
        inputs = {m: self.draw(m, width) for m in rows}

        def members(x: torch.Tensor) -> list[torch.Tensor]:
            return [mlp(norm(x)) for norm, mlp in sites]

        systems: dict[str, Callable[[torch.Tensor], Any]] = {"members": members}
        if not self.dry:
            systems["compiled members"] = torch.compile(members, dynamic=False)

        def measure(system: str, function: Callable[..., Any]) -> None:
            for m in rows:
                try:
                    us = self.us(partial(function, inputs[m]), per=layers)
                # What one rank cannot run, none can.
                except Exception as error:
                    self.say(
                        part="block",
                        system=system,
                        M=m,
                        error=f"{type(error).__name__}: {error}"[:200],
                    )
                    continue
                self.say(
                    part="block",
                    system=system,
                    M=m,
                    K=width,
                    H=hidden,
                    bytes=2 * m * width,
                    us=us,
                )

        with torch.no_grad():
            for system, function in systems.items():
                measure(system, function)
            for partials in ("model", "float32"):
                self.fuse(model, partials)
                sites = self.sites(model)
                measure(f"fused, sum in {partials}", members)
                kernels = [
                    module._kernel
                    for _, module in fused_sites(model)
                    if getattr(module, "reduces", False)
                ]

                def alone(x: torch.Tensor, kernels=kernels) -> list[Any]:
                    return [k.run([x], k.weights()) for k in kernels]

                measure(f"kernel alone, {partials}", alone)
                self.unfuse(model)
                sites = self.sites(model)

    def unfuse(self, model: transformers.Qwen3ForCausalLM) -> None:
        import fuse_mlir

        fuse_mlir.unfuse_modules(model)

    def decode(
        self, model: transformers.Qwen3ForCausalLM, batch: int
    ) -> tuple[Callable, Any]:
        """A step of one token, and its input."""
        import torch
        import transformers

        cache = transformers.StaticCache(config=model.config, max_cache_len=512)
        ids = torch.ones((batch, 1), dtype=torch.long, device=self.device)
        position = torch.full((batch, 1), 7, device=self.device)

        def step() -> torch.Tensor:
            return model(
                ids,
                past_key_values=cache,
                position_ids=position,
                use_cache=True,
            ).logits

        return step, ids

    def model_steps(self) -> None:
        import torch

        layers = 2 if self.dry else 8
        model = self.model(layers)

        def measure(system: str, run: transformers.Qwen3ForCausalLM) -> None:
            for batch in (1, 2) if self.dry else BATCHES:
                step, _ = self.decode(run, batch)
                self.say(
                    part="model",
                    system=system,
                    layers=layers,
                    B=batch,
                    us=self.us(step),
                )

        with torch.no_grad():
            measure("members", model)
            self.fuse(model, "float32")
            measure("fused, sum in float32", model)
            self.unfuse(model)
            self.fuse(model, "model")
            measure("fused, sum in model", model)
            self.unfuse(model)
            if self.dry:
                return
            for system, partials in (
                ("compiled members", ""),
                ("compiled, fused", "model"),
            ):
                if self.left() < 60:
                    self.say(part="model", system=system, skipped="no time")
                    return
                if partials:
                    self.fuse(model, partials)
                try:
                    compiled: Any = torch.compile(model, dynamic=False)
                    measure(system, compiled)
                except Exception as error:
                    self.say(
                        part="model",
                        system=system,
                        error=f"{type(error).__name__}: {error}"[:400],
                    )
                torch._dynamo.reset()
                self.unfuse(model)

    def equal(self, tensor: torch.Tensor) -> bool:
        """Whether all ranks have the same bits, finite ones."""
        import torch
        import torch.distributed as dist

        found = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(found, tensor.contiguous())
        return all(torch.equal(t, found[0]) for t in found) and bool(
            tensor.isfinite().all()
        )

    def checks(self) -> None:
        import torch

        import fuse_mlir

        model = self.model(2)
        width = self.options.width
        with torch.no_grad():
            result = self.fuse(model, "float32")
            self.say(
                part="checks",
                what="sites",
                fused=len(result.fused),
                refused=len(result.refused),
                passed=len(result.fused) == 4,
                families=",".join(f for r in result for f in r.families),
            )
            verified = fuse_mlir.verify(model)
            self.say(
                part="checks",
                what="verify",
                passed=bool(verified),
                failed="; ".join(
                    f"{c.rung} {c.site} {c.detail}"
                    for c in verified.checks
                    if not c.passed
                ),
            )
            norm, mlp = self.sites(model)[0]
            same = repeats = replays = True
            for m in CHECKED[:4] if self.dry else CHECKED:
                x = self.draw(m, width)
                y = mlp(norm(x))
                same &= self.equal(y)
                # One rank comes late.
                if self.rank == m % self.world:
                    time.sleep(0.02)
                repeats &= torch.equal(mlp(norm(x)), y)
                if self.dry:
                    continue
                held: list[Any] = []

                def step(x=x, held=held) -> None:
                    held.append(mlp(norm(x)))

                graph = self.capture(step)
                for turn in range(20):
                    x.copy_(self.draw(m, width) * (1 + turn))
                    if self.rank == turn % self.world:
                        time.sleep(0.002)
                    graph.replay()
                    replayed = held[-1].clone()
                    replays &= torch.equal(replayed, mlp(norm(x)))
                    if turn % 5 == 0:
                        replays &= self.equal(replayed)
            for what, passed in (
                ("equal bits on all ranks", same),
                ("equal bits of late ranks", repeats),
                ("equal bits of 20 replays", replays),
            ):
                self.say(part="checks", what=what, passed=bool(passed))
            self.unfuse(model)

    def left(self) -> float:
        """Seconds of the budget that are left, on all ranks."""
        used = time.time() - self.options.started
        return self.agree(self.options.budget - used)

    def run(self) -> list[dict[str, Any]]:
        functions = {
            "checks": self.checks,
            "collectives": self.collectives,
            "block": self.block,
            "model": self.model_steps,
            "symmetric": self.symmetric,
        }
        for part in self.options.parts:
            if part not in functions:
                continue
            left = self.left()
            if left < NEEDS[part]:
                self.say(part=part, skipped=f"{left:.0f} s left")
                continue
            begin = time.time()
            try:
                functions[part]()
            except Exception as error:
                self.say(
                    part=part, error=f"{type(error).__name__}: {error}"[:400]
                )
                # Another rank may wait in a collective of this part.
                raise
            finally:
                self.say(part=part, seconds=time.time() - begin)
                if self.rank == 0:
                    self.save()
        return self.rows

    def save(self) -> None:
        import torch

        name = "cpu" if self.dry else torch.cuda.get_device_name(self.device)
        nccl = "" if self.dry else ".".join(map(str, torch.cuda.nccl.version()))
        path = Path(self.options.output)
        before = json.loads(path.read_text())["rows"] if path.exists() else []
        mine = {row["part"] for row in self.rows}
        write_json(
            path,
            {
                "gpu": name,
                "ranks": self.world,
                "versions": {"torch": torch.__version__, "nccl": nccl},
                "commit": read_commit(),
                "rows": [r for r in before if r["part"] not in mine]
                + self.rows,
            },
        )


def work(options: argparse.Namespace, rank: int, store: str) -> None:
    os.environ.update(QUIET)
    import torch.distributed as dist

    bench = Bench(options, rank, store)
    bench.run()
    dist.destroy_process_group()


def wait_for_death(options: argparse.Namespace, rank: int, store: str) -> None:
    """The last rank ends between two calls of a fused block."""
    os.environ.update(QUIET)
    import torch

    bench = Bench(options, rank, store)
    model = bench.model(1)
    bench.fuse(model, "float32")
    ((norm, mlp),) = bench.sites(model)
    x = bench.draw(4, options.width)
    with torch.no_grad():
        mlp(norm(x))
        bench.wait()
        if rank == options.ranks - 1:
            os._exit(17)
        mlp(norm(x))
        if not options.dry:
            torch.cuda.synchronize()


def start(
    function: Callable[..., None], options: argparse.Namespace, limit: float
) -> list[int | None]:
    """Exit codes of processes for all ranks; None for those killed here."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            context.Process(
                target=function, args=(options, rank, f"{folder}/store")
            )
            for rank in range(options.ranks)
        ]
        for process in processes:
            process.start()
        end = time.time() + limit
        for process in processes:
            process.join(max(0.0, end - time.time()))
        codes = [p.exitcode for p in processes]
        for process in processes:
            if process.is_alive():
                process.kill()
                process.join()
        return codes


def killed(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds until all ranks have ended after one was killed."""
    begin = time.time()
    codes = start(wait_for_death, options, limit=4 * PATIENCE)
    return {
        "part": "killed",
        "codes": codes,
        "seconds": time.time() - begin,
        "passed": None not in codes and 0 not in codes[:-1],
    }


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("output", help="JSON file with the rows")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument(
        "--budget", type=float, default=240.0, help="seconds in all"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=12288)
    parser.add_argument(
        "--dry", action="store_true", help="on the CPU, in small sizes"
    )
    options = parser.parse_args(arguments)
    if options.dry:
        options.width, options.hidden = 32, 64
    options.started = time.time()
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    os.environ.update(QUIET)
    path = Path(options.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    codes = start(work, options, limit=options.budget + 60)
    left = options.budget - (time.time() - options.started)
    rows = []
    if "killed" in options.parts:
        rows.append(
            killed(options)
            if left >= NEEDS["killed"]
            else {"part": "killed", "skipped": f"{left:.0f} s left"}
        )
        print(rows[-1], flush=True)
    data = json.loads(path.read_text()) if path.exists() else {"rows": []}
    data["rows"] += rows
    write_json(path, data)
    bad = [r for r in data["rows"] if r.get("passed") is False]
    for row in bad:
        print("FAILED", row, flush=True)
    return int(bool(bad) or any(code != 0 for code in codes))


if __name__ == "__main__":
    raise SystemExit(main())
