//===- Passes.td - Conversion passes -----------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CONVERSION_PASSES_TD
#define FUSE_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFuseToLinalgPass : Pass<"convert-fuse-to-linalg"> {
  let summary = "Lower layers and fused kernels to linalg on tensors";
  let description = [{
    Replaces every fused op by its decomposition and every layer op by
    `linalg.generic` ops whose bodies compute in f32 and round once to the
    element type of the result. Layer ops that were never fused are lowered in
    the same way, so a fused chain and the unfused one become the same code.

    Every `linalg.generic` works on a rank-2 view, tokens times features:
    leading dimensions are collapsed before a layer and expanded after it, and
    `canonicalize` removes the pairs between neighbours. A linear is

    - `linalg.fill` with 0 and one reduction over `(token, output, input)`
      with both operands contiguous along `input`: `math.fma` in f32, or
      integer multiply-add in i32 for i8 operands;
    - one elementwise op for scale, bias and rounding, where any is needed.

    Norm statistics are row reductions in f32, again with `math.fma`; the sum
    is divided by the feature size and the reciprocal square root is taken
    with `math.rsqrt`. Conversions to 8-bit floats and i8 clamp to the finite
    range first and therefore saturate on every path below.

    Declines nothing: each op that verifies is lowered.

    After this pass no op of the fuse dialect remains.

    Example:

    ```mlir
    %y = fuse.residual_add %x, %r
      : (tensor<?x8xbf16>, tensor<?x8xbf16>) -> tensor<?x8xbf16>
    ```

    becomes

    ```mlir
    %y = linalg.generic ... ins(%x, %r) outs(%empty) {
    ^bb0(%a: bf16, %b: bf16, %out: bf16):
      %0 = arith.extf %a : bf16 to f32
      %1 = arith.extf %b : bf16 to f32
      %2 = arith.addf %0, %1 : f32
      %3 = arith.truncf %2 : f32 to bf16
      linalg.yield %3 : bf16
    } -> tensor<?x8xbf16>
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect",
    "::mlir::tensor::TensorDialect"
  ];
}

#endif // FUSE_CONVERSION_PASSES_TD
