//===- NNDialect.td - The nn dialect -----------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNDIALECT_TD
#define NN_IR_NNDIALECT_TD

include "mlir/IR/DialectBase.td"

def NN_Dialect : Dialect {
  let name = "nn";
  let summary = "Models, their modules, and slots for kernels";
  let description = [{
    The structure of a network. Layers of the `fuse` dialect are its content.

    - *Modules*: a tree of modules with class names and parameters. The forwards
      of modules call each other, and data flows between modules as SSA values.
      Fusion changes calls, never the tree.
    - *Slots*: places in a model that kernels of libraries or files can be bound
      to, and these kernels.

    Attributes of models and functions that passes read begin with `fuse.`.
  }];
  let cppNamespace = "::fuse";
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::fuse::FuseDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif // NN_IR_NNDIALECT_TD
