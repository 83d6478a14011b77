//===- KernelBuilder.h - What emitters of kernels share ------- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CODEGEN_HOPPER_EMIT_KERNELBUILDER_H
#define FUSE_CODEGEN_HOPPER_EMIT_KERNELBUILDER_H

#include "IndexBuilder.h"
#include "fuse/Codegen/Hopper/DecodeKernel.h"

namespace fuse {

/// Lays out a workspace: its parts are whole lines of 256 bytes.
class WorkspaceLayout {
public:
  /// Returns where the next `bytes` begin.
  int64_t reserve(int64_t bytes) {
    int64_t offset = end;
    end += llvm::alignTo(bytes, 256);
    return offset;
  }
  int64_t getEnd() const { return end; }

private:
  int64_t end = 0;
};

/// Tile ops in short, and the arguments of a kernel with their plan.
class KernelBuilder : protected IndexBuilder {
public:
  using Value = mlir::Value;
  using Values = llvm::SmallVector<Value>;

  KernelBuilder(mlir::Operation *op, mlir::OpBuilder &builder)
      : IndexBuilder(builder, op->getLoc()), op(op),
        narrowType(llvm::cast<mlir::ShapedType>(op->getOperand(0).getType())
                       .getElementType()),
        f32(builder.getF32Type()) {}

protected:
  // Arguments. Each has a slot that gets the block argument when the kernel
  // is made.
  /// `plan` tells a host what the argument is.
  void addArgument(Value &slot, mlir::Type type, mlir::Attribute plan) {
    types.push_back(type);
    plans.push_back(plan);
    slots.push_back(&slot);
  }
  mlir::Type bufferOf(mlir::Type element) {
    return tile::BufferType::get(builder.getContext(), element,
                                 tile::Memory::Global);
  }
  /// Index of an operand of the fused op.
  int64_t indexOf(Value operand);
  /// An operand as it is; none when the fused op has none.
  void addOperand(Value &slot, Value operand);
  void addResult(Value &slot, int64_t index);
  void addWorkspace(Value &slot, mlir::Type element, int64_t offset) {
    addArgument(
        slot, bufferOf(element),
        tile::PlaceAttr::get(builder.getContext(), offset, 0, 0, mlir::Type()));
  }
  void addTokens(Value &slot) {
    addArgument(slot, builder.getI32Type(),
                tile::TokensAttr::get(builder.getContext()));
  }
  /// The product of static scales, rounded to f32 after each factor.
  void addProduct(Value &slot, llvm::StringRef name,
                  llvm::ArrayRef<float> scales);
  /// Makes the kernel with these arguments; the builder moves into its body.
  tile::KernelOp begin(llvm::StringRef name, int64_t blocks, int64_t threads,
                       int64_t sharedBytes, bool cooperative);
  /// What a plan has besides the arguments and the shape of its kernel.
  struct PlanParts {
    int64_t maxTokens;
    tile::WorkspaceAttr workspace = nullptr;
    bool sharesWorkspace = false;
    bool dependent = false;
    std::optional<int64_t> carveout = std::nullopt;
  };
  tile::PlanAttr getPlan(tile::KernelOp kernel, const PlanParts &parts);

  // Ops.
  Value id(tile::IdKind kind) {
    return tile::IdOp::create(builder, loc, builder.getI32Type(), kind);
  }
  Value load(mlir::Type type, Value buffer, Value index, bool early = false) {
    return tile::LoadOp::create(builder, loc, type, buffer, index, early);
  }
  void store(Value value, Value buffer, Value index) {
    tile::StoreOp::create(builder, loc, value, buffer, index);
  }
  Value makeScratch(mlir::Type type, int64_t count) {
    return tile::ScratchOp::create(
        builder, loc,
        tile::BufferType::get(builder.getContext(), type, tile::Memory::Shared),
        count);
  }
  Value pack(mlir::Type type, mlir::ValueRange values) {
    auto count = static_cast<int64_t>(values.size());
    return tile::PackOp::create(builder, loc,
                                mlir::VectorType::get(count, type), values);
  }
  Values unpack(Value vector) {
    int64_t count =
        llvm::cast<mlir::VectorType>(vector.getType()).getNumElements();
    return llvm::to_vector_of<Value>(
        tile::UnpackOp::create(
            builder, loc, llvm::SmallVector<mlir::Type>(count, f32), vector)
            .getResults());
  }
  /// The factor that quantizes with the scale of that name: its reciprocal,
  /// rounded to f32, unless the contract divides.
  void addQuantizer(Value &slot, ScaleName name, StaticScalesAttr scales);
  /// Values over a scale in the storage type; without scales, in the type of
  /// tokens.
  Value quantize(llvm::ArrayRef<Value> values, Value scale,
                 StaticScalesAttr scales, mlir::Type element);
  /// The activation of one value in f32.
  Value activate(Activation activation, Value v);

  // Lists of values.
  Values each(llvm::ArrayRef<Value> values,
              llvm::function_ref<Value(Value)> map) {
    return llvm::map_to_vector(values, map);
  }
  Values zip(llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs,
             llvm::function_ref<Value(Value, Value)> map) {
    Values results;
    for (auto [x, y] : llvm::zip_equal(lhs, rhs))
      results.push_back(map(x, y));
    return results;
  }
  Values addEach(llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs) {
    return zip(lhs, rhs, [&](Value x, Value y) { return fadd(x, y); });
  }
  Values mulEach(llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs) {
    return zip(lhs, rhs, [&](Value x, Value y) { return fmul(x, y); });
  }

  mlir::Operation *op;
  /// Type of tokens, bf16 or f16.
  mlir::Type narrowType, f32;
  llvm::SmallVector<mlir::Type> types;
  llvm::SmallVector<mlir::Attribute> plans;
  llvm::SmallVector<Value *> slots;
};

} // namespace fuse

#endif // FUSE_CODEGEN_HOPPER_EMIT_KERNELBUILDER_H
