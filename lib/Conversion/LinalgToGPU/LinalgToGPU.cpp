//===- LinalgToGPU.cpp - Linalg on buffers to GPU kernels -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every linalg op becomes one kernel and one launch in its place. First,
// constants that fill the output of a reduction become its initial value, and
// loops that are adjacent in every operand are merged. The structure of a loop
// nest alone selects its kernel. A contraction is tiled, a reduction that can
// be reordered gets a block per result, and all others get a thread per result.
//
//===----------------------------------------------------------------------===//

#include "fuse/Conversion/LinalgToGPU/LinalgToGPU.h"

#include "KernelBuilder.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "tile/IR/TileOps.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_CONVERTLINALGTOGPUPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "convert-linalg-to-gpu"

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// The allocation or argument behind views.
static Value getRoot(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  return buffer;
}

/// Whether `op` or a nested op has a view of `root` as an operand.
static bool touches(Operation *op, Value root) {
  return op
      ->walk([&](Operation *inner) {
        bool found = llvm::any_of(inner->getOperands(), [&](Value operand) {
          return isa<MemRefType>(operand.getType()) && getRoot(operand) == root;
        });
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// The constant with which `op` fills all of `buffer`, or null.
static TypedAttr getFillOf(linalg::GenericOp op, Value buffer) {
  if (op.getNumDpsInits() != 1 || op.getDpsInits()[0] != buffer ||
      op.getNumReductionLoops() != 0 ||
      !op.getIndexingMapsArray().back().isPermutation())
    return {};
  Value value = op.getBody()->getTerminator()->getOperand(0);
  if (auto argument = dyn_cast<BlockArgument>(value);
      argument && argument.getOwner() == op.getBody())
    value = op.getMatchingOpOperand(argument)->get();
  TypedAttr constant;
  matchPattern(value, m_Constant(&constant));
  return constant;
}

/// Folds fills before a reduction into its initial values.
static void foldInits(linalg::GenericOp op) {
  if (op.getNumReductionLoops() == 0)
    return;
  SmallVector<Attribute> inits(op.getNumDpsInits(),
                               UnitAttr::get(op.getContext()));
  bool changed = false;
  for (OpOperand &output : op.getDpsInitsMutable()) {
    // The op must overwrite all elements that the fill wrote.
    AffineMap map = op.getMatchingIndexingMap(&output);
    if (!map.isProjectedPermutation() ||
        map.getNumResults() != op.getNumParallelLoops())
      continue;
    Value root = getRoot(output.get());
    for (Operation *other = op->getPrevNode(); other;
         other = other->getPrevNode()) {
      if (isa<ViewLikeOpInterface, memref::DimOp>(other) ||
          !touches(other, root))
        continue;
      auto fill = dyn_cast<linalg::GenericOp>(other);
      if (TypedAttr init = fill ? getFillOf(fill, output.get()) : TypedAttr()) {
        inits[output.getOperandNumber() - op.getNumDpsInputs()] = init;
        fill.erase();
        changed = true;
      }
      break;
    }
  }
  if (changed)
    op->setAttr(kInitAttrName, ArrayAttr::get(op.getContext(), inits));
}

/// Merges loops that are adjacent in every operand.
static linalg::GenericOp collapseLoops(linalg::GenericOp op,
                                       RewriterBase &rewriter) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  bool plain = llvm::all_of(
      maps, [](AffineMap map) { return map.isProjectedPermutation(); });
  bool contiguous = llvm::all_of(op->getOperandTypes(), [](Type type) {
    auto memref = dyn_cast<MemRefType>(type);
    return !memref || memref.getLayout().isIdentity();
  });
  if (!plain || !contiguous || op.hasIndexSemantics())
    return op;
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  SmallVector<ReassociationIndices> groups;
  for (int64_t loop = 0, e = op.getNumLoops(); loop < e; ++loop) {
    if (loop > 0 && iterators[loop] == iterators[loop - 1]) {
      ReassociationIndices extended = groups.back();
      extended.push_back(loop);
      if (linalg::areDimSequencesPreserved(maps, {extended})) {
        groups.back() = extended;
        continue;
      }
    }
    groups.push_back({loop});
  }
  Attribute inits = op->getAttr(kInitAttrName);
  rewriter.setInsertionPoint(op);
  FailureOr<linalg::CollapseResult> collapsed =
      linalg::collapseOpIterationDims(op, groups, rewriter);
  if (failed(collapsed))
    return op;
  rewriter.replaceOp(op, collapsed->results);
  auto result = cast<linalg::GenericOp>(collapsed->collapsedOp);
  if (inits)
    result->setAttr(kInitAttrName, inits);
  return result;
}

/// Whether a kernel can read or write elements of the buffer.
static bool isBufferOfNumbers(MemRefType type) {
  return type.getElementType().isIntOrIndexOrFloat() && type.isStrided() &&
         !type.getMemorySpace();
}

/// Checks the properties of a loop nest that kernels rely on.
static LogicalResult verify(linalg::GenericOp op) {
  if (!op.hasPureBufferSemantics())
    return op.emitOpError("expected operands in buffers, not tensors");
  for (OpOperand &operand : op->getOpOperands()) {
    Type type = operand.get().getType();
    auto buffer = dyn_cast<MemRefType>(type);
    if (buffer ? isBufferOfNumbers(buffer) : type.isIntOrIndexOrFloat())
      continue;
    return op.emitOpError("expected numbers or strided buffers of numbers in "
                          "the default memory space as operands, but got ")
           << type;
  }
  for (OpOperand &output : op.getDpsInitsMutable()) {
    AffineMap map = op.getMatchingIndexingMap(&output);
    for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray())) {
      bool isParallel = iterator == utils::IteratorType::parallel;
      if (map.isFunctionOfDim(loop) == isParallel)
        continue;
      return op.emitOpError("expected output ")
             << output.getOperandNumber() - op.getNumDpsInputs()
             << (isParallel ? " to vary along parallel loop "
                            : " not to vary along reduction loop ")
             << loop;
    }
  }
  // An input that other threads write is a race.
  for (OpOperand *input : op.getDpsInputOperands())
    for (OpOperand &output : op.getDpsInitsMutable())
      if (input->get() == output.get() &&
          (op.getNumReductionLoops() != 0 ||
           op.getMatchingIndexingMap(input) !=
               op.getMatchingIndexingMap(&output)))
        return op.emitOpError("expected input ")
               << input->getOperandNumber()
               << ", which is an output too, to be read only where it is "
                  "written, by an op without reductions";
  // So is a gather from a buffer that the op writes.
  auto isGather = [&](Operation *bodyOp) {
    auto load = dyn_cast<memref::LoadOp>(bodyOp);
    return load && isBufferOfNumbers(load.getMemRefType()) &&
           llvm::none_of(op.getDpsInits(), [&](Value output) {
             return getRoot(output) == getRoot(load.getMemRef());
           });
  };
  WalkResult result = op.getBody()->walk([&](Operation *bodyOp) {
    if (bodyOp->hasTrait<OpTrait::IsTerminator>() ||
        isMemoryEffectFree(bodyOp) || isGather(bodyOp))
      return WalkResult::advance();
    bodyOp->emitOpError("expected ops without side effects in a kernel, or "
                        "loads from buffers that it does not write");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {

class ConvertLinalgToGPUPass
    : public fuse::impl::ConvertLinalgToGPUPassBase<ConvertLinalgToGPUPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    kernels.clear();
    SmallVector<func::FuncOp> functions;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        functions.push_back(function);
    if (functions.empty())
      return;

    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    gpuModule = gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels");
    SymbolTable(module).insert(gpuModule);
    symbols.emplace(gpuModule);
    for (func::FuncOp function : functions) {
      if (!function.getBody().hasOneBlock()) {
        function.emitOpError("expected one block in a function that launches "
                             "kernels");
        return signalPassFailure();
      }
      if (failed(convert(function.front())))
        return signalPassFailure();
    }
    symbols.reset();
    if (gpuModule.getBody()->empty())
      gpuModule.erase();
    else
      module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                      builder.getUnitAttr());
  }

private:
  LogicalResult convert(Block &body);
  LogicalResult convert(linalg::GenericOp op, HostSizes &sizes);
  gpu::GPUFuncOp deduplicate(gpu::GPUFuncOp kernel);

  gpu::GPUModuleOp gpuModule;
  std::optional<SymbolTable> symbols;
  /// Kernels by name without the number suffix.
  llvm::StringMap<SmallVector<gpu::GPUFuncOp>> kernels;
};

} // namespace

/// Whether an op may stay on the host. Launches need only sizes and buffers.
static bool isHostOp(Operation *op) {
  return isa<func::ReturnOp, scf::YieldOp, memref::AllocOp, memref::DeallocOp,
             memref::GetGlobalOp, memref::DimOp, memref::CastOp,
             memref::CollapseShapeOp, memref::ExpandShapeOp, memref::SubViewOp,
             memref::ReinterpretCastOp, memref::ExtractStridedMetadataOp,
             affine::AffineApplyOp, affine::AffineMinOp, affine::AffineMaxOp,
             gpu::LaunchFuncOp, tile::LaunchOp, tile::DispatchOp>(op) ||
         (isa_and_present<arith::ArithDialect>(op->getDialect()) &&
          llvm::all_of(op->getResultTypes(),
                       [](Type type) { return !isa<ShapedType>(type); }));
}

/// Converts the ops of a function, or of a branch in it.
LogicalResult ConvertLinalgToGPUPass::convert(Block &body) {
  IRRewriter rewriter(&getContext());
  for (Operation &op : llvm::make_early_inc_range(body)) {
    rewriter.setInsertionPoint(&op);
    if (auto copy = dyn_cast<memref::CopyOp>(op);
        copy && isa<MemRefType>(copy.getSource().getType()) &&
        isa<MemRefType>(copy.getTarget().getType())) {
      linalg::makeMemRefCopyOp(rewriter, op.getLoc(), copy.getSource(),
                               copy.getTarget());
      rewriter.eraseOp(copy);
    } else if (auto linalgOp = dyn_cast<linalg::LinalgOp>(op);
               linalgOp && !isa<linalg::GenericOp>(op)) {
      if (failed(linalg::generalizeNamedOp(rewriter, linalgOp)))
        return op.emitOpError("has no form as linalg.generic");
    }
  }
  SmallVector<linalg::GenericOp> nests(body.getOps<linalg::GenericOp>());
  for (linalg::GenericOp op : nests)
    if (failed(verify(op)))
      return failure();
  // A fill precedes the op that absorbs it, so the loop has already passed it.
  for (linalg::GenericOp op : nests)
    foldInits(op);

  HostSizes sizes;
  nests.assign(body.op_begin<linalg::GenericOp>(),
               body.op_end<linalg::GenericOp>());
  for (linalg::GenericOp op : nests)
    if (failed(convert(collapseLoops(op, rewriter), sizes)))
      return failure();

  for (Operation &op : body) {
    if (isHostOp(&op))
      continue;
    if (isa<scf::IfOp>(op)) {
      for (Region &branch : op.getRegions())
        if (!branch.empty() && failed(convert(branch.front())))
          return failure();
      continue;
    }
    return op.emitOpError("has no kernel on the portable path, which supports "
                          "linalg ops on buffers");
  }
  return success();
}

LogicalResult ConvertLinalgToGPUPass::convert(linalg::GenericOp op,
                                              HostSizes &sizes) {
  GPUKernelBuilder builder(op, sizes);
  std::optional<Kernel> kernel = buildContractionKernel(builder);
  if (kernel)
    ++numContractions;
  else if ((kernel = buildReduceKernel(builder)))
    ++numReductions;
  else
    kernel = buildPointwiseKernel(builder);

  // The element types in the name help readers of the IR.
  std::string name = kernel->func.getName().str();
  llvm::raw_string_ostream os(name);
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<MemRefType>(operand.getType()))
      os << "_" << type.getElementType();
  kernel->func.setName(name);
  gpu::GPUFuncOp func = deduplicate(kernel->func);
  builder.createLaunch(
      SymbolRefAttr::get(gpuModule.getNameAttr(), FlatSymbolRefAttr::get(func)),
      kernel->gridX, kernel->gridY, kernel->numThreads);
  op.erase();
  return success();
}

/// Inserts a kernel, or erases it and returns an equal one.
gpu::GPUFuncOp ConvertLinalgToGPUPass::deduplicate(gpu::GPUFuncOp kernel) {
  SmallVector<gpu::GPUFuncOp> &candidates = kernels[kernel.getName()];
  std::string name = kernel.getName().str();
  for (gpu::GPUFuncOp candidate : candidates) {
    kernel.setName(candidate.getName());
    if (!OperationEquivalence::isEquivalentTo(
            kernel, candidate, OperationEquivalence::IgnoreLocations))
      continue;
    ++numDuplicates;
    kernel.erase();
    return candidate;
  }
  kernel.setName(name);
  ++numKernels;
  candidates.push_back(kernel);
  symbols->insert(kernel);
  return kernel;
}
