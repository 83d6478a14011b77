# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of a process on the CPU that fuses and unfuses a model.

MiB that are resident: with the model, with the compiler and the exporter of
PyTorch loaded, which the first site of a process does, with all sites fused,
and after unfusing. Blocks of norm and SwiGLU MLP have the widths of a model.

    python3 -m fuse_bench.suites.memory --output out/results/memory-cpu.json
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..common.environment import read_commit, write_json

#: Width, hidden width, blocks, type.
CASES: dict[str, tuple[int, int, int, str]] = {
    "20 blocks of Qwen3-0.6B, bf16": (1024, 3072, 20, "bfloat16"),
    "20 blocks of Qwen3-0.6B, f32": (1024, 3072, 20, "float32"),
    "1 block of Phi-3-mini, bf16": (3072, 8192, 1, "bfloat16"),
}


def resident() -> float:
    """MiB of this process that are in memory."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/smaps_rollup has no line 'Rss:'")


def measure(name: str) -> dict[str, Any]:
    """One case, in this process."""
    import torch
    from torch import nn

    import fuse_mlir

    from ..common.blocks import GatedMLP

    width, hidden, count, kind = CASES[name]
    dtype = getattr(torch, kind)

    class Block(nn.Module):
        def __init__(self, width: int, hidden: int) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(width, eps=1e-6)
            self.mlp = GatedMLP(width, hidden)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.mlp(self.norm(x))

    class Model(nn.Module):
        def __init__(self, width: int, hidden: int, count: int) -> None:
            super().__init__()
            self.layers = nn.ModuleList(
                Block(width, hidden) for _ in range(count)
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    def fuse(model: nn.Module, x: torch.Tensor) -> int:
        sites = fuse_mlir.fuse_modules(model, inputs=x, only_faster=False)
        model(x)
        return len(sites.fused)

    torch.set_default_dtype(dtype)
    model = Model(width, hidden, count).eval()
    x = torch.randn(33, width)
    small = Model(64, 128, 1).eval()
    row: dict[str, Any] = {"case": name}
    with torch.no_grad():
        model(x)
        gc.collect()
        row["weights"] = (
            sum(p.numel() * p.element_size() for p in model.parameters())
            / 2**20
        )
        row["model"] = resident()
        fuse(small, x[:, :64].contiguous())
        fuse_mlir.unfuse_modules(small)
        gc.collect()
        row["with_compiler"] = resident()
        for again in ("", "_again"):
            row["sites"] = fuse(model, x)
            gc.collect()
            row[f"fused{again}"] = resident()
            fuse_mlir.unfuse_modules(model)
            gc.collect()
            row[f"unfused{again}"] = resident()
    return row


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(json.dumps(measure(options.case)))
        return 0
    rows = []
    for name in CASES:
        done = subprocess.run(
            [sys.executable, "-m", "fuse_bench.suites.memory", "--case", name],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(done.stderr)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(rows[-1]), flush=True)
    if options.output is not None:
        import torch

        write_json(
            options.output,
            {
                "commit": read_commit(),
                "torch": torch.__version__,
                "python": platform.python_version(),
                "unit": "MiB",
                "rows": rows,
            },
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
