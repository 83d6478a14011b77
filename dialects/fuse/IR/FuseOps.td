//===- FuseOps.td - Operations of the fuse dialect ---------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEOPS_TD
#define FUSE_IR_FUSEOPS_TD

include "FuseLayerOps.td"
include "FuseFunctionOps.td"
include "FuseFusedOps.td"
include "FuseModuleOps.td"
include "FuseSlotOps.td"

#endif // FUSE_IR_FUSEOPS_TD
