//===- NNInterfaces.td - Interfaces of nn ops --------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNINTERFACES_TD
#define NN_IR_NNINTERFACES_TD

include "mlir/IR/OpBase.td"

#endif // NN_IR_NNINTERFACES_TD
