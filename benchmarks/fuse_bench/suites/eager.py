# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user of an eager model waits for: calls, tokens, and the first result.

Copies of a decoder take turns in one process: unfused, with fused MLPs, and with
all sites fused. A fourth copy, whose norms and MLPs do nothing, is a lower bound
of the second. The parts of one fused call
are timed one by one. Other processes are timed from the model to the results of
calls with 1, 33 and 512 rows, with an empty cache on disk and with a full one.
Two more wait for the first token of a model under torch.compile, unfused and
fused.

    python3 -m fuse_bench.suites.eager --device=cuda --output out/eager.json
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.environment import read_commit, write_json

if TYPE_CHECKING:
    import torch
    from transformers import Qwen3ForCausalLM

#: Width, hidden width, layers, heads, tokens to generate.
SIZES = {"cuda": (2048, 6144, 28, 16, 24), "cpu": (256, 512, 8, 4, 8)}
#: Features of the site timed on a CPU: small, so that host overhead dominates.
SMALL = 16
ROUNDS = 30
#: The sites of the copy with fused MLPs.
MLPS = {
    (
        ("RMSNorm", "model.layers.*.post_attention_layernorm"),
        ("MLP", "model.layers.*.mlp"),
    ): "fuse"
}
ROWS = (1, 33, 512)


def make_model(device: str) -> Qwen3ForCausalLM:
    """A decoder with drawn weights in bf16."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    width, hidden, layers, heads, _ = SIZES[device]
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Qwen3ForCausalLM(
            Qwen3Config(
                hidden_size=width,
                intermediate_size=hidden,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                num_key_value_heads=heads // 2,
                head_dim=128 if device == "cuda" else 64,
                vocab_size=32000,
            )
        )
    torch.set_default_dtype(torch.float32)
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None
    return model.eval().requires_grad_(False)


def draw(rows: int, device: str) -> torch.Tensor:
    import torch

    return torch.randint(0, 32000, (1, rows), device=device)


def wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def measure_host(
    device: str, run: Callable[[], object], calls: int = 50
) -> float:
    """Host microseconds per call: the median of 15 loops.

    The loops are short enough not to fill the launch queue of a GPU.
    """
    for _ in range(calls):
        run()
    times = []
    for _ in range(15):
        wait(device)
        start = time.perf_counter()
        for _ in range(calls):
            run()
        times.append((time.perf_counter() - start) / calls * 1e6)
    wait(device)
    return statistics.median(times)


def measure_parts(device: str) -> dict[str, float]:
    """Microseconds of the host for one call of a norm and a gated MLP with one
    row, and for its parts."""
    import torch
    from torch import nn

    import fuse_mlir
    from fuse_mlir import native
    from fuse_mlir.fusion.fused_module import FusedModule

    from ..common.blocks import GatedMLP

    class Block(nn.Module):
        def __init__(self, width: int, hidden: int) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(width, eps=1e-6)
            self.mlp = GatedMLP(width, hidden)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.mlp(self.norm(x))

    width, hidden = (SMALL, SMALL) if device == "cpu" else SIZES[device][:2]
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    unfused = Block(width, hidden).to(device, dtype).eval()
    unfused.requires_grad_(False)
    fused = copy.deepcopy(unfused)
    x = torch.randn(1, 1, width, device=device, dtype=dtype)
    out = torch.empty_like(x)
    fuse_mlir.fuse_modules(fused, inputs=x, only_faster=False)
    for _ in range(3):
        fused(x)
    place = next(m for m in fused.modules() if isinstance(m, FusedModule))
    kernel, call, ambient = place._kernel, place._fast, native.ambient()
    watch = place._watch
    assert kernel is not None and call is not None and ambient is not None
    assert watch is not None and watch.guard is not None
    assert kernel.instance is not None
    launcher = kernel.instance.launcher(x.device)
    assert launcher is not None
    rows, result = (
        (x.view(1, -1), out.view(1, -1)) if kernel.by_rows else (x, out)
    )
    weight = unfused.mlp.gate.weight
    runs: dict[str, Callable[[], object]] = {
        "F.linear": lambda: nn.functional.linear(x, weight),
        "unfused": lambda: unfused(x),
        "fused": lambda: fused(x),
        "first place": lambda: fused.norm(x),
        "call object": lambda: call((x,), {}),
        "modes of PyTorch": ambient.holds,
        "modules": watch.guard.same,
        "result": lambda: torch.empty_like(x),
        "launch": lambda: launcher.launch([rows], [result]),
    }
    return {name: measure_host(device, run) for name, run in runs.items()}


def measure_model(device: str) -> dict[str, Any]:
    """Milliseconds of a forward with one token, and tokens per second."""
    from torch import nn

    import fuse_mlir

    class Nothing(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    unfused = make_model(device)
    models = {
        "unfused": unfused,
        "mlps": copy.deepcopy(unfused),
        "fused": copy.deepcopy(unfused),
        "nothing": copy.deepcopy(unfused),
    }
    for layer in models["nothing"].model.layers:
        layer.post_attention_layernorm = layer.mlp = Nothing()
    one, prompt = draw(1, device), draw(32, device)
    new = SIZES[device][4]
    forward: dict[str, list[float]] = {name: [] for name in models}
    tokens: dict[str, list[float]] = {name: [] for name in models}
    fuse_mlir.fuse_modules(models["mlps"], MLPS, only_faster=True, strict=False)
    result = fuse_mlir.fuse_modules(models["fused"])
    for model in models.values():
        for _ in range(5):
            model(one, use_cache=False)
    for _ in range(ROUNDS):
        for name, model in models.items():
            wait(device)
            start = time.perf_counter()
            model(one, use_cache=False)
            wait(device)
            forward[name].append((time.perf_counter() - start) * 1e3)
    for _ in range(6):
        for name, model in models.items():
            wait(device)
            start = time.perf_counter()
            model.generate(  # type: ignore[misc]
                prompt, max_new_tokens=new, min_new_tokens=new, do_sample=False
            )
            wait(device)
            tokens[name].append(new / (time.perf_counter() - start))
    return {
        "sites": [len(result.fused), len(result)],
        "forward_ms": {n: statistics.median(v) for n, v in forward.items()},
        # The first rounds warm up the key-value cache.
        "tokens_per_s": {
            n: statistics.median(v[1:]) for n, v in tokens.items()
        },
    }


def get_compiled(device: str, way: str) -> None:
    """One process: prints seconds until the first token of a compiled model."""
    import torch

    model = make_model(device)
    prompt = draw(ROWS[1], device)
    with torch.inference_mode():
        model(prompt, use_cache=False)
        wait(device)
        start = time.perf_counter()
        times = [0.0]
        if way == "compile_fused":
            import fuse_mlir

            fuse_mlir.fuse_modules(model)
            wait(device)
            times = [time.perf_counter() - start]
        compiled = torch.compile(model)
        compiled(prompt, use_cache=False).logits[:, -1].argmax().item()
        times.append(time.perf_counter() - start - times[0])
    print("times", *times)


def get_ready(device: str, way: str) -> None:
    """One process: prints seconds of fusing and of the first calls."""
    import torch

    import fuse_mlir

    model = make_model(device)
    with torch.inference_mode():
        for rows in ROWS:
            model(draw(rows, device), use_cache=False)
        wait(device)
        start = time.perf_counter()
        if way == "calibrate":
            batch = {"input_ids": draw(32, device), "use_cache": False}
            fuse_mlir.calibrate(model, [batch])
        else:
            fuse_mlir.fuse_modules(model)
        wait(device)
        times = [time.perf_counter() - start]
        for rows in ROWS:
            ids = draw(rows, device)
            wait(device)
            start = time.perf_counter()
            model(ids, use_cache=False)
            wait(device)
            times.append(time.perf_counter() - start)
    print("times", *times)


def measure_ready(device: str) -> list[dict[str, Any]]:
    """Seconds of the first and the second process."""
    found = []
    for way in ("fuse_modules", "calibrate", "compile", "compile_fused"):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "XDG_CACHE_HOME": folder,
                "FUSE_CACHE_DIR": f"{folder}/fuse",
                # The driver has a separate cache.
                "CUDA_CACHE_PATH": f"{folder}/nv",
                "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
                "TRITON_CACHE_DIR": f"{folder}/triton",
            }
            for process in ("first", "second"):
                done = subprocess.run(
                    [sys.executable, "-m", __spec__.name]
                    + [f"--device={device}", f"--ready={way}"],
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=150,
                    check=True,
                )
                line = next(
                    text
                    for text in done.stdout.splitlines()
                    if text.startswith("times ")
                )
                seconds = [float(word) for word in line.split()[1:]]
                found.append(
                    {"way": way, "process": process, "seconds": seconds}
                )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=SIZES, default="cuda")
    parser.add_argument("--ready", help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.ready:
        compiles = options.ready.startswith("compile")
        get = get_compiled if compiles else get_ready
        get(options.device, options.ready)
        return
    import torch
    import transformers

    raw: dict[str, Any] = {
        "commit": read_commit(),
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "sizes": list(SIZES[options.device][:3]),
    }
    if options.device == "cuda":
        query = "name,driver_version,clocks.max.sm"
        raw["gpu"] = subprocess.run(
            ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()
    with torch.inference_mode():
        raw["parts_us"] = measure_parts(options.device)
        # On a CPU the widths decide, see models_cpu.
        if options.device == "cuda":
            raw |= measure_model(options.device)
    # The processes last for minutes, so that the models are printed before.
    print(raw, flush=True)
    raw["ready"] = measure_ready(options.device)
    print(raw["ready"])
    if options.output:
        write_json(options.output, raw)


if __name__ == "__main__":
    main()
