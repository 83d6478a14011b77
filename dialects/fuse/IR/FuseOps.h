//===- FuseOps.h - Operations of the fuse dialect ---------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSEOPS_H
#define FUSE_IR_FUSEOPS_H

#include "fuse/IR/FuseAttrs.h"
#include "fuse/IR/FuseInterfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fuse {

/// What ranks exchange, as a resource of memory effects.
struct CollectiveResource
    : mlir::SideEffects::Resource::Base<CollectiveResource> {
  llvm::StringRef getName() final { return "Collective"; }
};

} // namespace fuse

#define GET_OP_CLASSES
#include "fuse/IR/FuseOps.h.inc"

namespace fuse {

/// Whether `op` is a layer op, which rounds once.
bool isLayerOp(mlir::Operation *op);

/// The `quant` attribute of a fused op whose family has one, or null.
template <typename OpTy>
QuantAttr getQuantOf(OpTy op) {
  if constexpr (std::is_same_v<OpTy, GatedMLPOp> ||
                std::is_same_v<OpTy, MLPOp> ||
                std::is_same_v<OpTy, NormLinearOp> ||
                std::is_same_v<OpTy, FusedLinearOp>)
    return op.getQuantAttr();
  return {};
}

/// `type` with another element type.
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type element);

/// The location of a fused op with these members. It keeps the location of each
/// member, so that unfusing can restore them.
mlir::Location getFusedLocation(mlir::MLIRContext *context,
                                llvm::ArrayRef<mlir::Location> members);

} // namespace fuse

#endif // FUSE_IR_FUSEOPS_H
