#!/usr/bin/env bash
#===- walkthrough.sh - A compiler engineer's walk through the tools --------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: walkthrough.sh [DIR]
#
# Reads a model, adds a custom pattern, and explains why a site is refused.
# Checks the result in three ways, turns it into a test, and shows the code.
# PATH must have build/dev/bin and the directory of LLVM's tools
# (/usr/lib/llvm-22/bin). Files are written to DIR (default: out/walkthrough).
#
#===------------------------------------------------------------------------===#

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:-out/walkthrough}
model=$here/../decoder-model.mlir
for tool in fuse-opt FileCheck; do
  if ! command -v "$tool" >/dev/null; then
    echo "error: no $tool in PATH; expected build/dev/bin and LLVM's tools," \
      "such as /usr/lib/llvm-22/bin, in it" >&2
    exit 1
  fi
done
mkdir -p "$out"

# %% A model is a tree of modules. List them.
fuse-opt "$model" --fuse-list-modules='paths=layers.*.*' -o /dev/null

# %% Write patterns to a separate file. They belong to no model, and are
# declared in each model whose class matches. The second one lists its members
# in the wrong order.
cat >"$out/patterns.mlir" <<'PATTERNS'
nn.model @mine class "Decoder*" {
  nn.fusion_pattern @norm_then_mlp [("*Norm", "**.norm"), ("*MLP", "**.mlp")]
  nn.fusion_pattern @mlp_then_norm [("*MLP", "**.mlp"), ("*Norm", "**.norm")]
}
PATTERNS

# %% Preview the fusion: a table of sites, with reasons and gains.
fuse-explain "$model" --libraries="$out/patterns.mlir" \
  --patterns='@norm_then_mlp->gated_mlp'

# %% Ask for the reason of a refusal. It is the first predicate that failed;
# docs/reference/refusals.md has a section for each.
fuse-explain "$model" --libraries="$out/patterns.mlir" \
  --patterns='@mlp_then_norm->group'

# %% Fuse: match, copy the members into a function per site, form the kernels.
fuse-opt "$model" -o "$out/fused.mlir" \
  --fuse-match-modules="libraries=$out/patterns.mlir patterns=@norm_then_mlp->gated_mlp" \
  --fuse-inline-modules --fuse-form-kernels --fuse-check-contracts
grep 'fuse.gated_mlp ' "$out/fused.mlir"

# %% Verify. Undoing the fusion gives the input, character by character; fused
# and unfused give the same bits; kernels are close to the exact result.
fuse-opt "$model" -o "$out/input.mlir"
fuse-opt "$out/fused.mlir" --fuse-unfuse | diff "$out/input.mlir" -
fuse-run "$out/fused.mlir" --verify

# %% Write a test: a file with its command and the expected output.
cat >"$out/test.mlir" <<'TEST'
// RUN: fuse-opt %s --fuse-form-kernels | FileCheck %s

// One kernel computes the norm and both linears.
// CHECK-LABEL: @block
// CHECK-NEXT: fuse.mlp {{.*}} norm(rms
// CHECK-NEXT: return
func.func @block(%x: tensor<?x64xbf16>, %n: tensor<64xbf16>,
                 %u: tensor<128x64xbf16>, %d: tensor<64x128xbf16>)
    -> tensor<?x64xbf16> {
  %0 = fuse.rms_norm %x weight(%n) eps 1.0e-6
    : (tensor<?x64xbf16>, tensor<64xbf16>) -> tensor<?x64xbf16>
  %1 = fuse.linear %0, %u
    : (tensor<?x64xbf16>, tensor<128x64xbf16>) -> tensor<?x128xbf16>
  %2 = fuse.activation gelu_tanh %1 : tensor<?x128xbf16> -> tensor<?x128xbf16>
  %3 = fuse.linear %2, %d
    : (tensor<?x128xbf16>, tensor<64x128xbf16>) -> tensor<?x64xbf16>
  return %3 : tensor<?x64xbf16>
}
TEST
fuse-opt "$out/test.mlir" --fuse-form-kernels | FileCheck "$out/test.mlir"
echo "the test passes"

# %% Lower to a GPU step by step: the schedule of the cost model, the kernel in
# the tile dialect, and PTX.
fuse-opt "$out/test.mlir" --fuse-form-kernels -o "$out/formed.mlir"
fuse-opt "$out/formed.mlir" --fuse-select-schedules | grep -o '#tile.schedule<[^>]*' | head -1
fuse-opt "$out/formed.mlir" --fuse-hopper-pipeline=stage=tile >"$out/tile.mlir"
grep -c 'tile\.' "$out/tile.mlir"
fuse-opt "$out/formed.mlir" --fuse-gpu-pipeline=chip=sm_90 \
  --fuse-emit-ptx="output=$out/test.ptx plan=$out/test.json" -o /dev/null
grep '^.target' "$out/test.ptx"
