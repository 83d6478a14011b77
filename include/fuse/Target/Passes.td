//===- Passes.td - Passes that write code ------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TARGET_PASSES_TD
#define FUSE_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitPTXPass : Pass<"fuse-emit-ptx", "::mlir::ModuleOp"> {
  let summary = "Write kernels as PTX, and launch plans as JSON";
  let description = [{
    Compiles every `gpu.module` that has a target, in this process and without
    the CUDA toolkit. Writes the PTX text of all kernels to the file `output`.
    With `plan`, writes the launch plans of all functions as JSON:

    ```json
    {"chip": "sm_90",
     "functions": [
       {"name": "scale",
        "arguments": [{"type": "f32", "shape": [-1], "result": false},
                      {"type": "f32", "shape": [-1], "result": true} ],
        "symbols": [[0, 0]],
        "workspace": [],
        "launches": [
          {"kernel": "map_f32_f32", "block": [256, 1, 1],
           "grid": [["ceildiv", "s0", 256], 1, 1],
           "args": [{"arg": 0}, {"arg": 1}, {"size": "s0"} ]} ]} ]}
    ```

    An expression is a number, a symbol, or an operator (`add`, `mul`, `mod`,
    `floordiv`, `ceildiv`) with two expressions. Symbol `s<i>` is the size of
    the argument and dimension in `symbols[i]`. Kernel arguments are `arg`,
    `workspace` (pointers), `size` (a 64-bit integer) or `value` with its
    `type`. `fuse-attach-launch-plan` describes the rest.

    A launch of a registered kernel names its `module`, and `shared_bytes` if it
    needs shared memory. `modules` at the top level contains the code of these
    kernels, as text in `ptx` or in base 64 in `cubin`.

    The pass fails if there is no kernel, if a `gpu.module` does not have
    exactly one target or has one for an unknown chip, if a launch plan is
    malformed, or if a file cannot be written.

    After this pass every `gpu.module` is a `gpu.binary`.

    Example: `fuse-opt mlp.mlir --fuse-gpu-pipeline=chip=sm_80
    --fuse-emit-ptx="output=mlp.ptx plan=mlp.json" -o /dev/null`
  }];
  let options = [
    Option<"output", "output", "std::string", /*default=*/"\"-\"",
           "File for the PTX text, - for the standard output">,
    Option<"plan", "plan", "std::string", /*default=*/"\"\"",
           "File for the launch plans, - for the standard output, empty for "
           "none">
  ];
  let statistics = [
    Statistic<"numCompiled", "modules-compiled", "GPU modules compiled">,
    Statistic<"numBytes", "ptx-bytes", "Size of the PTX text">
  ];
}

#endif // FUSE_TARGET_PASSES_TD
