//===- SlotCode.h - Lower slots that are bound to code in files -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_LOWERING_SLOTCODE_H
#define FUSE_SLOTS_LOWERING_SLOTCODE_H

#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "nn/IR/NNOps.h"
#include "llvm/ADT/DenseMap.h"

namespace fuse {

/// The text for a slot's call in messages.
std::string describeBinding(CallSlotOp call, SlotOp slot);

/// Replaces calls of slots that are bound to code in files by launches and
/// calls of this code.
class SlotCodeLowering {
public:
  SlotCodeLowering(mlir::ModuleOp module, llvm::StringRef chip,
                   mlir::SymbolTableCollection &tables)
      : module(module), chip(chip), tables(tables) {}

  /// Launches a kernel of a PTX or cubin file. Each file is read once.
  llvm::LogicalResult lower(CallSlotOp call, SlotOp slot, GPUCodeAttr code);
  /// Calls a function of a shared library.
  llvm::LogicalResult lower(CallSlotOp call, SlotOp slot, CPUCodeAttr code);

private:
  llvm::FailureOr<mlir::SymbolRefAttr> getBinary(CallSlotOp call,
                                                 GPUCodeAttr code);
  /// Creates buffers for the operands and results of a call.
  void createBuffers(mlir::OpBuilder &builder, CallSlotOp call, SlotOp slot);
  /// Creates the arguments of the code, in order.
  llvm::SmallVector<mlir::Value>
  createArguments(mlir::OpBuilder &builder, mlir::Location loc, SlotOp slot,
                  mlir::ArrayAttr sizes, mlir::ArrayAttr args);
  mlir::Value createSize(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::ArrayAttr sizes, mlir::AffineMap map,
                         unsigned result);
  void replaceByBuffers(mlir::OpBuilder &builder, CallSlotOp call);

  mlir::ModuleOp module;
  llvm::StringRef chip;
  mlir::SymbolTableCollection &tables;
  llvm::SmallVector<mlir::Value> operandBuffers, resultBuffers;
  llvm::DenseMap<mlir::Attribute, mlir::SymbolRefAttr> binaries;
};

} // namespace fuse

#endif // FUSE_SLOTS_LOWERING_SLOTCODE_H
