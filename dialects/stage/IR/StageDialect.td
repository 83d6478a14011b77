//===- StageDialect.td - The stage dialect -----------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef STAGE_IR_STAGEDIALECT_TD
#define STAGE_IR_STAGEDIALECT_TD

include "mlir/IR/DialectBase.td"

def Stage_Dialect : Dialect {
  let name = "stage";
  let summary = "Graphs of the stages of a fused op, and their mapping";
  let description = [{
    The level between a fused op and the kernels of a GPU. A `stage.graph` has
    the stages of one fused op:

    - `stage.rows` passes once over token rows: residual add, norm,
      quantization;
    - `stage.product` is a matrix product with one or several weights and an
      epilogue of elementwise ops;
    - `stage.reduce` adds the sums of the K-slices of a product in a named
      order, and has the epilogue instead of it.

    Stages work on tensors. An edge between stages is an SSA value, and its type
    states what it carries. The ops inside of a stage are layer ops of the
    `fuse` dialect, which state every rounding.

    **Mapping.** The attribute `mapping` of a graph names its target, and those
    of its stages have their tiles, the launch that they are in, and the place
    of their results: registers, shared memory, the workspace, another launch,
    or a result of the graph. Either all stages are mapped or none.

    **Meaning.** `fuse-lower-stages` replaces a graph by its layer ops. A graph
    without K-slices means exactly the decomposition of its fused op.
  }];
  let cppNamespace = "::stage";
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = [
    "::fuse::FuseDialect",
    "::mlir::tensor::TensorDialect"
  ];
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif // STAGE_IR_STAGEDIALECT_TD
