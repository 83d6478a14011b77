//===- KernelBuilder.h - One loop nest as one GPU kernel --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_CONVERSION_LINALGTOGPU_KERNELBUILDER_H
#define FUSE_LIB_CONVERSION_LINALGTOGPU_KERNELBUILDER_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace fuse {

/// Attribute with the initial values of a reduction, which replace the contents
/// of the output: an array with one typed constant per output.
inline constexpr llvm::StringLiteral kInitAttrName = "fuse.init";

/// Buffer sizes in host code. Each value is computed once.
class HostSizes {
public:
  /// Size of dimension `dim` of a buffer. If views hide it, it is an expression
  /// of the sizes of function arguments.
  mlir::OpFoldResult getDim(mlir::OpBuilder &builder, mlir::Value buffer,
                            unsigned dim);

private:
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, mlir::OpFoldResult> known;
};

/// A size inside a kernel: a constant or a parameter number.
struct Extent {
  bool isStatic;
  int64_t value;
};

/// Builds the kernel of one `linalg.generic` on buffers and its launch.
///
/// Parameters are, in this order: one pointer per buffer, as a memref of rank
/// 0, which the bare-pointer convention passes as one address (operands precede
/// buffers that the body loads from); one value per scalar that is not a
/// constant; and one index per size, stride and offset that is not static.
class GPUKernelBuilder {
public:
  GPUKernelBuilder(mlir::linalg::GenericOp op, HostSizes &sizes);

  mlir::linalg::GenericOp getOp() { return op; }
  mlir::OpBuilder &getHost() { return host; }

  /// Loop sizes in host code, as constants or values.
  llvm::ArrayRef<mlir::OpFoldResult> getLoopSizes() { return loopSizes; }
  /// The static size of a loop, or ShapedType::kDynamic.
  int64_t getStaticSize(unsigned loop);
  llvm::SmallVector<unsigned> getLoops(mlir::utils::IteratorType type);

  /// Creates the detached kernel and moves the builder into it.
  void begin(llvm::StringRef name, int64_t numThreads,
             llvm::ArrayRef<mlir::MemRefType> workgroup = {});
  /// Creates the return op. The caller then owns the kernel.
  mlir::gpu::GPUFuncOp finish();

  /// The builder inside the kernel.
  mlir::ImplicitLocOpBuilder &get() { return *builder; }
  mlir::Value getSize(unsigned loop);
  mlir::Value getWorkgroup(unsigned index);
  mlir::Value getIndex(int64_t value);
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  mlir::Value lessThan(mlir::Value lhs, mlir::Value rhs);
  /// The number of points of the given loops.
  mlir::Value getNumPoints(llvm::ArrayRef<unsigned> loops);
  /// Sets the `ivs` of `loops` from a row-major point number.
  void delinearize(mlir::Value number, llvm::ArrayRef<unsigned> loops,
                   llvm::MutableArrayRef<mlir::Value> ivs);

  /// Loads the element of an operand at a point of the loops.
  mlir::Value load(mlir::OpOperand &operand, llvm::ArrayRef<mlir::Value> ivs);
  /// The buffer of an operand.
  mlir::Value getView(mlir::OpOperand &operand);
  /// The indices of an operand at a point of the loops.
  llvm::SmallVector<mlir::Value> getIndices(mlir::OpOperand &operand,
                                            llvm::ArrayRef<mlir::Value> ivs);
  void store(mlir::Value value, mlir::OpOperand &operand,
             llvm::ArrayRef<mlir::Value> ivs);
  /// Initial value of an output at a point of the loops.
  mlir::Value getInit(unsigned output, llvm::ArrayRef<mlir::Value> ivs);
  /// Zero of any scalar type.
  mlir::Value getZero(mlir::Type type);

  /// Copies an op of the body with mapped operands.
  void cloneOp(mlir::Operation &bodyOp, mlir::IRMapping &mapping,
               llvm::ArrayRef<mlir::Value> ivs);
  /// Copies the whole body for one point and returns the yielded values. Inputs
  /// are loaded; `accumulators` are the values of outputs.
  llvm::SmallVector<mlir::Value>
  cloneBody(llvm::ArrayRef<mlir::Value> ivs,
            llvm::ArrayRef<mlir::Value> accumulators);
  /// The mapping of values that the body captures.
  mlir::IRMapping getCaptures() { return captures; }

  /// Builds nested loops with loop-carried values `carried`, innermost last.
  llvm::SmallVector<mlir::Value>
  buildLoops(llvm::ArrayRef<unsigned> loops,
             llvm::MutableArrayRef<mlir::Value> ivs,
             llvm::ArrayRef<mlir::Value> carried,
             llvm::function_ref<
                 llvm::SmallVector<mlir::Value>(llvm::ArrayRef<mlir::Value>)>
                 body);

  /// The number of blocks in host code, if one thread computes each point of
  /// `loops` and a block computes `perBlock` points.
  mlir::OpFoldResult getNumBlocks(llvm::ArrayRef<unsigned> loops,
                                  int64_t perBlock);
  /// Creates the launch before the op.
  void createLaunch(mlir::SymbolRefAttr kernel, mlir::OpFoldResult gridX,
                    mlir::OpFoldResult gridY, int64_t numThreads);

private:
  /// How the kernel accesses one operand.
  struct Access {
    /// Number of the pointer or scalar parameter; not set for constants.
    std::optional<unsigned> parameter;
    mlir::TypedAttr constant;
    llvm::SmallVector<Extent> sizes;
    llvm::SmallVector<Extent> strides;
    Extent offset = {true, 0};
    mlir::Value view;
  };

  unsigned addParameter(mlir::Value value);
  Extent addExtent(mlir::OpFoldResult size);
  Access makeAccess(mlir::OpOperand &operand);
  /// Adds the strides and the offset of a buffer that is not row-major.
  void addLayout(Access &access, mlir::Value buffer);
  void importCaptures(llvm::ArrayRef<mlir::Value> used);
  mlir::OpFoldResult materialize(Extent extent);
  mlir::Value createView(Access &access, mlir::MemRefType type);
  llvm::SmallVector<mlir::Value> getIndices(mlir::AffineMap map,
                                            llvm::ArrayRef<mlir::Value> ivs);

  mlir::linalg::GenericOp op;
  HostSizes &hostSizes;
  mlir::OpBuilder host;
  llvm::SmallVector<mlir::OpFoldResult> loopSizes;
  llvm::SmallVector<Extent> loopExtents;
  llvm::MapVector<mlir::Value, unsigned> parameters;
  llvm::SmallVector<mlir::Value> arguments;
  llvm::SmallVector<Access> accesses;
  llvm::SmallVector<std::pair<mlir::Value, mlir::Operation *>> constants;
  llvm::SmallVector<std::pair<mlir::Value, unsigned>> capturedScalars;
  /// Buffers that the body loads from with explicit indices.
  llvm::SmallVector<std::pair<mlir::Value, Access>> capturedBuffers;
  mlir::IRMapping captures;
  mlir::gpu::GPUFuncOp kernel;
  std::optional<mlir::ImplicitLocOpBuilder> builder;
};

/// A detached kernel with its launch sizes.
struct Kernel {
  mlir::gpu::GPUFuncOp func;
  mlir::OpFoldResult gridX;
  mlir::OpFoldResult gridY;
  int64_t numThreads = 0;
};

/// One thread per point of the parallel loops; each thread reduces alone.
/// Supports every loop nest.
Kernel buildPointwiseKernel(GPUKernelBuilder &builder);
/// One block per point of the parallel loops; its threads share the reduction.
/// Returns nothing if the reduction cannot be reordered.
std::optional<Kernel> buildReduceKernel(GPUKernelBuilder &builder);
/// Each block computes a tile of two parallel loops, with operands in workgroup
/// memory. Returns nothing if the nest is not a contraction.
std::optional<Kernel> buildContractionKernel(GPUKernelBuilder &builder);

} // namespace fuse

#endif // FUSE_LIB_CONVERSION_LINALGTOGPU_KERNELBUILDER_H
