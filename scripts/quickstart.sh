#!/usr/bin/env bash
#===- quickstart.sh - Fuse a block of a real model -------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/quickstart.sh
#
# Installs missing packages and builds. Extracts a norm and an MLP from a Qwen3
# decoder layer of Hugging Face transformers, and fuses them into one kernel.
# Undoes the fusion, compares fused, unfused and PyTorch on the CPU, and writes
# PTX. The last lines are the verdict and the paths of the files; the exit
# status is nonzero if a claim did not hold.
#
#===------------------------------------------------------------------------===#

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
bin=$root/build/dev/bin
out=out/quickstart
chip=sm_90a
tokens=33
problems=()

say() { printf '\n== %s\n\n' "$*"; }
indent() { sed 's/^/    /'; }

problem() {
  printf 'FAILED: %s\n' "$*"
  problems+=("$*")
}

stop() {
  printf 'error: %s\n' "$*" >&2
  printf '\nVerdict: not finished, because %s. Files so far: %s\n' "$*" "$out"
  exit 1
}

# Runs a step that later steps need.
step() { "$@" || stop "'$(basename "$1") ${2:-}' failed"; }

fuse_python() {
  PYTHONPATH=$root/python .venv/bin/python -m fuse_mlir "$@"
}

# Prints the IR without the long names of the weights, for reading.
show() {
  "$bin/fuse-opt" "$1" |
    sed -E -e 's/ \{fuse.parameter = "[^"]*"\}//g' -e '/^$/d' | indent
}

say "1/9 Setting up"
step scripts/setup.sh

say "2/9 Building"
step cmake --preset dev >/dev/null
step cmake --build build/dev --target fuse-opt fuse-run

mkdir -p "$out"

say "3/9 Importing post_attention_layernorm and mlp of a Qwen3 decoder layer"
step fuse_python import --architecture qwen3 \
  --set hidden_size=1024 --set intermediate_size=3072 \
  --set num_hidden_layers=1 --parent model.layers.0 \
  --members post_attention_layernorm,mlp --residual \
  --shape tokens,1024 --dtype bfloat16 --seed 0 --sample tokens="$tokens" \
  --name qwen3_mlp -o "$out/imported.mlir"

say "4/9 Recognizing the layers and forming kernels"
step "$bin/fuse-opt" "$out/imported.mlir" --fuse-raise-layers \
  --mlir-print-debuginfo -o "$out/layers.mlir"
"$bin/fuse-opt" "$out/layers.mlir" --fuse-form-kernels \
  --mlir-print-debuginfo --remarks-filter='.*' \
  --remark-format=emitRemark -o "$out/kernels.mlir" 2>"$out/remarks.txt" || {
  cat "$out/remarks.txt" >&2
  stop "fuse-form-kernels failed"
}
printf 'Before:\n\n'
show "$out/layers.mlir"
printf '\nAfter:\n\n'
show "$out/kernels.mlir"
printf '\nWhy:\n\n'
sed '/^$/d' "$out/remarks.txt" | indent
grep -q 'fuse.gated_mlp' "$out/kernels.mlir" ||
  problem "the block did not become a gated MLP kernel"

say "5/9 Taking the fusion back"
step "$bin/fuse-opt" "$out/kernels.mlir" --fuse-unfuse \
  --mlir-print-debuginfo -o "$out/unfused.mlir"
if diff "$out/layers.mlir" "$out/unfused.mlir" >"$out/unfuse.diff" &&
  "$bin/fuse-opt" "$out/layers.mlir" --fuse-check-unfuse -o /dev/null; then
  echo "Identical: unfusing gives back the same text, locations included."
else
  problem "unfusing does not give back the input, see $out/unfuse.diff"
fi

say "6/9 Running fused, unfused and PyTorch on the CPU, $tokens tokens"
step "$bin/fuse-run" "$out/kernels.mlir" --verify \
  --weights="$out/imported.safetensors"
for kind in layers kernels; do
  step "$bin/fuse-run" "$out/$kind.mlir" --entry=qwen3_mlp \
    --weights="$out/imported.safetensors" \
    --input="$out/imported.input.npy" --output="$out/$kind.output.npy"
done
echo
echo "Fused against unfused:"
fuse_python compare "$out/layers.output.npy" \
  fused="$out/kernels.output.npy" --identical ||
  problem "the fused kernel does not give the bits of the unfused chain"
echo
echo "Against PyTorch in bf16, whose sums run in another order, so that some"
echo "intermediates round to a neighboring value:"
fuse_python compare "$out/imported.output.npy" \
  fused="$out/kernels.output.npy" ||
  problem "the result and that of PyTorch are not both finite"
echo
echo "Both against PyTorch in f32, which is free of the roundings to bf16:"
fuse_python compare "$out/imported.output-f32.npy" \
  pytorch="$out/imported.output.npy" fused="$out/kernels.output.npy" \
  --yardstick pytorch ||
  problem "the fused kernel is farther from the f32 result than PyTorch"

say "7/9 Writing PTX for $chip"
step "$bin/fuse-opt" "$out/kernels.mlir" --fuse-gpu-pipeline=chip="$chip" \
  --fuse-emit-ptx="output=$out/kernels.ptx plan=$out/plan.json" -o /dev/null
echo "$(grep -c '\.entry' "$out/kernels.ptx") kernels in" \
  "$(wc -l <"$out/kernels.ptx") lines:"
grep -oE '\.entry [A-Za-z0-9_$]+' "$out/kernels.ptx" | indent

say "8/9 Assembling the PTX"
if command -v ptxas >/dev/null; then
  if ptxas -v -arch="$chip" "$out/kernels.ptx" -o "$out/kernels.cubin" \
    >"$out/ptxas.log" 2>&1; then
    awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
         /spill stores/ { spills = $5 + $9 }
         /Used .* registers/ {
           printf "%-32s %3d registers, %d bytes of spills\n", name,
             $5, spills }' "$out/ptxas.log" | indent
  else
    head -5 "$out/ptxas.log" | indent
    problem "ptxas refuses the PTX, see $out/ptxas.log"
  fi
else
  echo "ptxas is not installed; it is part of the CUDA toolkit."
fi

say "9/9 Running the one kernel that a Hopper GPU gets, on an emulator of one"
step "$bin/fuse-run" "$out/kernels.mlir" --verify --chip=sm_90a --dim=4 \
  --orders=1 --weights="$out/imported.safetensors" | grep '^V2' -A1 | indent

say "Result"
printf 'Files: %s\n' "$out"
if [ "${#problems[@]}" -eq 0 ]; then
  echo "Verdict: fused, reversible, bit-equal to the unfused chain on the" \
    "CPU, as close to exact as PyTorch, PTX written, right on the emulator."
else
  printf 'Verdict: %d claims failed: %s\n' "${#problems[@]}" \
    "$(IFS=';' && echo "${problems[*]}")"
  exit 1
fi
