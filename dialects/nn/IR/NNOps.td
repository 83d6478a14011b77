//===- NNOps.td - Operations of the nn dialect -------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNOPS_TD
#define NN_IR_NNOPS_TD

include "nn/IR/NNModuleOps.td"
include "nn/IR/NNSlotOps.td"

#endif // NN_IR_NNOPS_TD
