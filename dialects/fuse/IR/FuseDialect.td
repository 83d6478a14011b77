//===- FuseDialect.td - The fuse dialect -------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEDIALECT_TD
#define FUSE_IR_FUSEDIALECT_TD

include "mlir/IR/DialectBase.td"

def Fuse_Dialect : Dialect {
  let name = "fuse";
  let summary = "Layers of neural networks and their fused kernels";
  let description = [{
    Modules and slots, which contain layers, are the dialect `nn`. This dialect
    has ops at two levels:

    - *Layer ops* describe the computation of a module: norms, linear maps,
      activations, residual adds, quantization. A layer op computes in f32 and
      rounds once, to the element type of its result. A chain of layer ops
      therefore states every rounding point of the network. *Function ops* are
      at the same level: rotary embedding, cross entropy, the experts of a
      mixture. Each defines its own roundings, and `fuse.group` is the only
      fused op that can contain one.
    - *Fused ops* are one kernel each. The meaning of a fused op is its
      decomposition into layer ops. The op keeps the data to restore that chain
      exactly: types of intermediates, operand order, member order, locations
      and discardable attributes.

    Tensors have any number of leading dimensions, static or dynamic. The last
    dimension is the feature dimension, which is static.

    A scale maps stored values to real values:
    `real value = scale * stored value`. Scales are rounded to f32 before use.

    **Versions.** `fuse.version = 1 : i32` on a module is the version of the IR
    in a text that is kept, such as the IR of an artifact. Bytecode has the same
    number. A text of an older version is upgraded when it is read. A newer
    version is an error.
  }];
  let cppNamespace = "::fuse";
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::tensor::TensorDialect"
  ];
  let useDefaultAttributePrinterParser = 1;
  let hasCanonicalizer = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif // FUSE_IR_FUSEDIALECT_TD
