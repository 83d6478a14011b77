//===- FuseInterfaces.td - Interfaces of fuse ops ----------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEINTERFACES_TD
#define FUSE_IR_FUSEINTERFACES_TD

include "mlir/IR/Interfaces.td"

def Fuse_FusedOpInterface : OpInterface<"FusedOpInterface"> {
  let cppNamespace = "::fuse";
  let description = [{
    An op that stands for a chain of layer ops as one kernel. Its meaning is
    what `decompose` builds: unfuse, the CPU reference and every numerical
    check use that method, and nothing else defines what the op computes.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the unfused chain at the insertion point and returns its members
      in canonical order with the values that replace the results of this op.
      Leaves this op in place. Locations and discardable attributes of the
      members are restored; their places are the caller's business.
    }], "::fuse::Decomposition", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
    InterfaceMethod<"Stable id of the site in its model, or null.",
      "::mlir::StringAttr", "getSiteAttr">,
    InterfaceMethod<"Dotted paths of the modules the members came from.",
      "::mlir::ArrayAttr", "getOriginsAttr">,
    InterfaceMethod<"Rounding contract of the kernel.",
      "::fuse::RoundingAttr", "getRounding">,
    InterfaceMethod<"What differs from the canonical text, or null.",
      "::fuse::ProvenanceAttr", "getProvenanceAttr">
  ];
}

#endif // FUSE_IR_FUSEINTERFACES_TD
