//===- FuseOps.td - Operations of the fuse dialect ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEOPS_TD
#define FUSE_IR_FUSEOPS_TD

include "fuse/IR/FuseLayerOps.td"
include "fuse/IR/FuseFunctionOps.td"
include "fuse/IR/FuseFusedOps.td"

#endif // FUSE_IR_FUSEOPS_TD
