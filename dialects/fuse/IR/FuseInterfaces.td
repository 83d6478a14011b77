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
    An op that represents a chain of layer ops as one kernel. `decompose` builds
    that chain and is the only definition of the op's meaning: unfusing, the CPU
    reference and all numerical checks use it.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the unfused chain at the insertion point and returns its members
      in canonical order with the values that replace the results of this op.
      Leaves this op in place. Restores locations and discardable attributes of
      the members, but not their places in the block.
    }], "::fuse::Decomposition", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
    InterfaceMethod<"Stable id of the site in its model, or null.",
      "::mlir::StringAttr", "getSiteAttr">,
    InterfaceMethod<"Changes the id of the site.",
      "void", "setSiteAttr", (ins "::mlir::StringAttr":$site)>,
    InterfaceMethod<"Dotted paths of the modules of the members.",
      "::mlir::ArrayAttr", "getOriginsAttr">,
    InterfaceMethod<"Rounding contract of the kernel.",
      "::fuse::RoundingAttr", "getRounding">,
    InterfaceMethod<"Differences from the canonical chain, or null.",
      "::fuse::ProvenanceAttr", "getProvenanceAttr">,
    InterfaceMethod<"Sets the differences from the canonical chain.",
      "void", "setProvenanceAttr", (ins "::fuse::ProvenanceAttr":$provenance)>,
    InterfaceMethod<"The norm of the chain, or null.",
      "::fuse::NormAttr", "getNormAttr", (ins), "", "return {};">,
    InterfaceMethod<"The activation of the chain, or null.",
      "::fuse::ActivationAttr", "getActivationAttr", (ins), "", "return {};">,
    InterfaceMethod<"The static scales of the chain, or null.",
      "::fuse::StaticScalesAttr", "getScalesAttr", (ins), "", "return {};">
  ];
}

def Fuse_TokenOpInterface : OpInterface<"TokenOpInterface"> {
  let cppNamespace = "::fuse";
  let description = [{
    An op on tokens: all dimensions of its first operand but the last, which
    has the features. Other operands and the results can have the same tokens;
    their leading dimensions are then equal at run time, even if the static type
    of one of them has a dynamic size. The canonicalizer of the dialect makes
    these sizes static in all of them, and folds `tensor.cast` ops into the op.
  }];
  let methods = [
    InterfaceMethod<"Operands whose leading dimensions are the tokens.",
      "::llvm::SmallVector<::mlir::OpOperand *>", "getTokenOperands", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return {&$_op->getOpOperand(0)};
      }]>,
    InterfaceMethod<"Results whose leading dimensions are the tokens.",
      "::llvm::SmallVector<::mlir::OpResult>", "getTokenResults", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/[{
        return ::llvm::to_vector($_op->getOpResults());
      }]>
  ];
  let extraSharedClassDeclaration = [{
    /// Number of dimensions of the tokens.
    unsigned getNumTokenDims() {
      return ::llvm::cast<::mlir::RankedTensorType>(
                 $_op->getOperand(0).getType())
                 .getRank() -
             1;
    }
  }];
}

#endif // FUSE_IR_FUSEINTERFACES_TD
