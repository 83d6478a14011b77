//===- TileLowering.h - Shared parts of the tile lowering ----- -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_CONVERSION_TILETONVVM_TILELOWERING_H
#define FUSE_LIB_CONVERSION_TILETONVVM_TILELOWERING_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Transforms/DialectConversion.h"
#include "tile/IR/TileOps.h"

namespace fuse {

/// An accumulator becomes one value per register. A ring or a stage becomes a
/// pointer to its bytes and one to its mbarriers. Other types become one value.
class TileTypeConverter : public mlir::TypeConverter {
public:
  explicit TileTypeConverter(mlir::MLIRContext *context);
};

/// State that the patterns share during the conversion of one gpu.module.
struct TileLoweringState {
  mlir::gpu::GPUModuleOp module;
  mlir::LLVM::GlobalOp dynamicShared;
  /// Whether the chip has conversions of 8-bit floats, and products of them
  /// with mma.sync.
  bool hasFloat8 = true, multipliesFloat8 = true;
  unsigned nextGlobal = 0;

  /// The array for all dynamic shared memory of a kernel.
  mlir::LLVM::GlobalOp getDynamicShared(mlir::OpBuilder &builder);
  /// Creates an array in static shared memory.
  mlir::LLVM::GlobalOp createShared(mlir::OpBuilder &builder,
                                    mlir::Type element, int64_t count,
                                    int64_t alignment);
};

/// Shorthands for index arithmetic and pointer offsets.
class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value div(mlir::Value lhs, int64_t rhs);
  mlir::Value rem(mlir::Value lhs, int64_t rhs);
  mlir::Value bitAnd(mlir::Value lhs, int64_t rhs);
  mlir::Value shl(mlir::Value lhs, int64_t rhs);
  mlir::Value extend(mlir::Value value);
  mlir::Value bitcast(mlir::Type type, mlir::Value value);
  /// A scalar, or the elements of a vector of 32-bit words.
  llvm::SmallVector<mlir::Value> getWords(mlir::Value words);
  /// Applies `map` to a 32-bit word, or to each element of a vector of them.
  mlir::Value mapWords(mlir::Value words,
                       llvm::function_ref<mlir::Value(mlir::Value)> map);
  /// Pointer to element `index` after `pointer`, in units of `element`.
  mlir::Value step(mlir::Value pointer, mlir::Type element, mlir::Value index);
  mlir::Value threadId();
  mlir::Value laneId();
  /// Index of the warp, made warp-uniform by a shuffle.
  mlir::Value warpId();

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Distance of semaphores in bytes: one L2 cache line, so that no two share
/// one.
constexpr int64_t kSemaphoreBytes = 128;

void populateTileKernelPatterns(const TileTypeConverter &converter,
                                TileLoweringState &state,
                                mlir::RewritePatternSet &patterns);
void populateTileMemoryPatterns(const TileTypeConverter &converter,
                                TileLoweringState &state,
                                mlir::RewritePatternSet &patterns);
void populateTileWarpPatterns(const TileTypeConverter &converter,
                              TileLoweringState &state,
                              mlir::RewritePatternSet &patterns);
void populateTileComputePatterns(const TileTypeConverter &converter,
                                 TileLoweringState &state,
                                 mlir::RewritePatternSet &patterns);

} // namespace fuse

#endif // FUSE_LIB_CONVERSION_TILETONVVM_TILELOWERING_H
