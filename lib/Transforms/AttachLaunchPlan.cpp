//===- AttachLaunchPlan.cpp - Launches as data ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host code between launches computes sizes from sizes. Each value of type
// index is evaluated to an affine expression over the sizes of arguments; the
// ops that computed it are not needed any more.
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/Inject.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_ATTACHLAUNCHPLANPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-attach-launch-plan"

namespace {

/// Writes the plan of one function.
class PlanBuilder {
public:
  explicit PlanBuilder(func::FuncOp function)
      : function(function), builder(function.getContext()) {}

  /// The plan, or null after an error.
  DictionaryAttr build();

private:
  using Symbol = std::pair<int64_t, int64_t>;

  FailureOr<AffineExpr> evaluate(Value value);
  FailureOr<AffineExpr> evaluate(OpFoldResult value);
  FailureOr<AffineExpr> evaluateDim(Value buffer, unsigned dim);
  FailureOr<AffineExpr> evaluateStride(Value buffer, unsigned dim);
  FailureOr<AffineExpr> evaluateOffset(Value buffer);
  FailureOr<AffineExpr> evaluateMetadata(memref::ExtractStridedMetadataOp op,
                                         Value result);
  FailureOr<AffineExpr> getBytes(memref::AllocOp alloc);
  FailureOr<Attribute> getArgument(Value value);
  FailureOr<DictionaryAttr> getLaunch(gpu::LaunchFuncOp launch);
  AffineExpr getSymbol(Symbol symbol);
  AffineMap getMap(ArrayRef<AffineExpr> results) {
    return AffineMap::get(0, symbols.size(), results, builder.getContext());
  }

  func::FuncOp function;
  Builder builder;
  llvm::SetVector<Symbol> symbols;
  DenseMap<Value, unsigned> workspace;
};

class AttachLaunchPlanPass
    : public fuse::impl::AttachLaunchPlanPassBase<AttachLaunchPlanPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      auto launches = function.getOps<gpu::LaunchFuncOp>();
      if (function.isExternal() || launches.empty())
        continue;
      DictionaryAttr plan = PlanBuilder(function).build();
      if (!plan)
        return signalPassFailure();
      function->setAttr("fuse.launch_plan", plan);
      numLaunches += std::distance(launches.begin(), launches.end());
    }
  }
};

} // namespace

AffineExpr PlanBuilder::getSymbol(Symbol symbol) {
  symbols.insert(symbol);
  const auto *it = llvm::find(symbols, symbol);
  return builder.getAffineSymbolExpr(std::distance(symbols.begin(), it));
}

FailureOr<AffineExpr> PlanBuilder::evaluate(OpFoldResult value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getAffineConstantExpr(*constant);
  return evaluate(cast<Value>(value));
}

/// A view with as many dimensions as what it is a view of, or null.
static memref::SubViewOp getWholeView(Value buffer) {
  auto view = buffer.getDefiningOp<memref::SubViewOp>();
  if (view && view.getSourceType().getRank() == view.getType().getRank())
    return view;
  return nullptr;
}

FailureOr<AffineExpr> PlanBuilder::evaluateDim(Value buffer, unsigned dim) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(dim))
    return builder.getAffineConstantExpr(type.getDimSize(dim));
  if (auto argument = dyn_cast<BlockArgument>(buffer))
    return getSymbol({argument.getArgNumber(), dim});
  Operation *producer = buffer.getDefiningOp();
  if (auto alloc = dyn_cast<memref::AllocOp>(producer))
    return evaluate(alloc.getDynamicSizes()[type.getDynamicDimIndex(dim)]);
  if (auto expand = dyn_cast<memref::ExpandShapeOp>(producer))
    return evaluate(expand.getMixedOutputShape()[dim]);
  if (auto cast = dyn_cast<memref::CastOp>(producer);
      cast && isa<MemRefType>(cast.getSource().getType()))
    return evaluateDim(cast.getSource(), dim);
  if (auto view = getWholeView(buffer))
    return evaluate(view.getMixedSizes()[dim]);
  if (auto collapse = dyn_cast<memref::CollapseShapeOp>(producer)) {
    AffineExpr product = builder.getAffineConstantExpr(1);
    ReassociationIndices sources = collapse.getReassociationIndices()[dim];
    for (int64_t source : sources) {
      FailureOr<AffineExpr> size = evaluateDim(collapse.getSrc(), source);
      if (failed(size))
        return failure();
      product = product * *size;
    }
    return product;
  }
  return producer->emitOpError("hides a size that a launch depends on");
}

FailureOr<AffineExpr> PlanBuilder::evaluateStride(Value buffer, unsigned dim) {
  auto type = cast<MemRefType>(buffer.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  if (!ShapedType::isDynamic(strides[dim]))
    return builder.getAffineConstantExpr(strides[dim]);
  FailureOr<AffineExpr> stride = builder.getAffineConstantExpr(1);
  if (auto view = getWholeView(buffer)) {
    FailureOr<AffineExpr> own = evaluate(view.getMixedStrides()[dim]);
    stride = evaluateStride(view.getSource(), dim);
    if (failed(own) || failed(stride))
      return failure();
    return *stride * *own;
  }
  if (!type.getLayout().isIdentity())
    return buffer.getDefiningOp()->emitOpError(
        "hides a stride that a launch depends on");
  for (unsigned inner = dim + 1; inner < type.getRank(); ++inner) {
    FailureOr<AffineExpr> size = evaluateDim(buffer, inner);
    if (failed(size))
      return failure();
    stride = *stride * *size;
  }
  return stride;
}

FailureOr<AffineExpr> PlanBuilder::evaluateOffset(Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  auto [strides, constant] = type.getStridesAndOffset();
  if (!ShapedType::isDynamic(constant))
    return builder.getAffineConstantExpr(constant);
  auto view = getWholeView(buffer);
  if (!view)
    return buffer.getDefiningOp()->emitOpError(
        "hides an offset that a launch depends on");
  FailureOr<AffineExpr> offset = evaluateOffset(view.getSource());
  if (failed(offset))
    return failure();
  for (auto [dim, start] : llvm::enumerate(view.getMixedOffsets())) {
    FailureOr<AffineExpr> own = evaluate(start);
    FailureOr<AffineExpr> stride = evaluateStride(view.getSource(), dim);
    if (failed(own) || failed(stride))
      return failure();
    offset = *offset + *own * *stride;
  }
  return offset;
}

/// What a kernel is told of a view: where it begins, and how far its rows are
/// from each other.
FailureOr<AffineExpr>
PlanBuilder::evaluateMetadata(memref::ExtractStridedMetadataOp op,
                              Value result) {
  if (result == op.getOffset())
    return evaluateOffset(op.getSource());
  for (auto [dim, size] : llvm::enumerate(op.getSizes()))
    if (result == size)
      return evaluateDim(op.getSource(), dim);
  for (auto [dim, stride] : llvm::enumerate(op.getStrides()))
    if (result == stride)
      return evaluateStride(op.getSource(), dim);
  llvm_unreachable("unknown part of the metadata");
}

FailureOr<AffineExpr> PlanBuilder::evaluate(Value value) {
  if (std::optional<int64_t> constant = getConstantIntValue(value))
    return builder.getAffineConstantExpr(*constant);
  Operation *op = value.getDefiningOp();
  if (!op)
    return function.emitOpError("cannot launch kernels whose sizes depend on "
                                "the value of argument ")
           << cast<BlockArgument>(value).getArgNumber();
  if (auto dim = dyn_cast<memref::DimOp>(op)) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if (index && isa<MemRefType>(dim.getSource().getType()))
      return evaluateDim(dim.getSource(), *index);
  }

  if (auto metadata = dyn_cast<memref::ExtractStridedMetadataOp>(op);
      metadata && value != metadata.getBaseBuffer())
    return evaluateMetadata(metadata, value);

  SmallVector<AffineExpr> operands;
  if (isa<affine::AffineApplyOp, arith::AddIOp, arith::SubIOp, arith::MulIOp,
          arith::DivUIOp, arith::DivSIOp, arith::CeilDivUIOp,
          arith::CeilDivSIOp, arith::FloorDivSIOp, arith::RemUIOp>(op)) {
    for (Value operand : op->getOperands()) {
      FailureOr<AffineExpr> expr = evaluate(operand);
      if (failed(expr))
        return failure();
      operands.push_back(*expr);
    }
  }
  if (auto apply = dyn_cast<affine::AffineApplyOp>(op)) {
    AffineMap map = apply.getAffineMap();
    ArrayRef<AffineExpr> all = operands;
    return map.getResult(0).replaceDimsAndSymbols(
        all.take_front(map.getNumDims()), all.drop_front(map.getNumDims()));
  }
  // Sizes are not negative, so signed and unsigned division agree.
  if (isa<arith::AddIOp>(op))
    return operands[0] + operands[1];
  if (isa<arith::SubIOp>(op))
    return operands[0] - operands[1];
  if (isa<arith::MulIOp>(op))
    return operands[0] * operands[1];
  if (isa<arith::DivUIOp, arith::DivSIOp, arith::FloorDivSIOp>(op))
    return operands[0].floorDiv(operands[1]);
  if (isa<arith::CeilDivUIOp, arith::CeilDivSIOp>(op))
    return operands[0].ceilDiv(operands[1]);
  if (isa<arith::RemUIOp>(op))
    return operands[0] % operands[1];
  return op->emitOpError("computes a size of a launch and is no expression of "
                         "sizes of arguments");
}

FailureOr<AffineExpr> PlanBuilder::getBytes(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  if (!type.getElementType().isIntOrFloat() || !type.getLayout().isIdentity())
    return alloc.emitOpError("cannot be a workspace buffer");
  AffineExpr bytes = builder.getAffineConstantExpr(
      llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  for (unsigned dim = 0, e = type.getRank(); dim < e; ++dim) {
    FailureOr<AffineExpr> size = evaluateDim(alloc, dim);
    if (failed(size))
      return failure();
    bytes = bytes * *size;
  }
  return bytes;
}

FailureOr<Attribute> PlanBuilder::getArgument(Value value) {
  Attribute constant;
  if (isa<MemRefType>(value.getType())) {
    // Kernels get the offset of a view as an argument of its own.
    while (auto view = value.getDefiningOp<ViewLikeOpInterface>())
      value = view.getViewSource();
    if (auto it = workspace.find(value); it != workspace.end())
      return Attribute(builder.getStringAttr(
          "ws" + Twine(isInjected("plan-workspace") ? 0 : it->second)));
  } else if (matchPattern(value, m_Constant(&constant))) {
    return constant;
  } else if (value.getType().isIndex()) {
    FailureOr<AffineExpr> expr = evaluate(value);
    if (failed(expr))
      return failure();
    return Attribute(AffineMapAttr::get(getMap(*expr)));
  }
  if (auto argument = dyn_cast<BlockArgument>(value))
    return Attribute(
        builder.getStringAttr("arg" + Twine(argument.getArgNumber())));
  return value.getDefiningOp()->emitOpError(
      "makes an argument of a kernel that a host cannot know");
}

FailureOr<DictionaryAttr> PlanBuilder::getLaunch(gpu::LaunchFuncOp launch) {
  SmallVector<AffineExpr> grid;
  gpu::KernelDim3 blocks = launch.getGridSizeOperandValues();
  for (Value size : {blocks.x, blocks.y, blocks.z}) {
    FailureOr<AffineExpr> expr = evaluate(size);
    if (failed(expr))
      return failure();
    grid.push_back(*expr);
  }
  SmallVector<int64_t> block;
  gpu::KernelDim3 threads = launch.getBlockSizeOperandValues();
  for (Value size : {threads.x, threads.y, threads.z}) {
    std::optional<int64_t> constant = getConstantIntValue(size);
    if (!constant)
      return launch.emitOpError("expected constant numbers of threads");
    block.push_back(*constant);
  }
  SmallVector<Attribute> arguments;
  for (Value operand : launch.getKernelOperands()) {
    FailureOr<Attribute> argument = getArgument(operand);
    if (failed(argument))
      return failure();
    arguments.push_back(*argument);
  }
  // Symbols may have been found since; maps are completed at the end.
  SmallVector<NamedAttribute> entries = {
      builder.getNamedAttr("args", builder.getArrayAttr(arguments)),
      builder.getNamedAttr("block", builder.getDenseI64ArrayAttr(block)),
      builder.getNamedAttr("grid", AffineMapAttr::get(getMap(grid))),
      builder.getNamedAttr("kernel", launch.getKernelAttr())};
  if (Value bytes = launch.getDynamicSharedMemorySize()) {
    std::optional<int64_t> constant = getConstantIntValue(bytes);
    if (!constant)
      return launch.emitOpError("expected a constant amount of shared memory");
    entries.push_back(
        builder.getNamedAttr("shared", builder.getI64IntegerAttr(*constant)));
  }
  if (Attribute index = launch->getAttr("fuse.tile_plan"))
    entries.push_back(builder.getNamedAttr("tile", index));
  return builder.getDictionaryAttr(entries);
}

DictionaryAttr PlanBuilder::build() {
  SmallVector<Attribute> buffers, launches;
  for (auto alloc : function.getOps<memref::AllocOp>()) {
    workspace[alloc] = buffers.size();
    FailureOr<AffineExpr> bytes = getBytes(alloc);
    if (failed(bytes))
      return {};
    buffers.push_back(AffineMapAttr::get(getMap(*bytes)));
  }
  for (auto launch : function.getOps<gpu::LaunchFuncOp>()) {
    FailureOr<DictionaryAttr> entry = getLaunch(launch);
    if (failed(entry))
      return {};
    launches.push_back(*entry);
  }
  SmallVector<Attribute> symbolAttrs;
  for (Symbol symbol : symbols)
    symbolAttrs.push_back(
        builder.getDenseI64ArrayAttr({symbol.first, symbol.second}));
  auto plan = builder.getDictionaryAttr(
      {builder.getNamedAttr("launches", builder.getArrayAttr(launches)),
       builder.getNamedAttr("symbols", builder.getArrayAttr(symbolAttrs)),
       builder.getNamedAttr("workspace", builder.getArrayAttr(buffers))});
  // All maps are over all symbols, whenever they were found.
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](AffineMapAttr attr) -> Attribute {
    return AffineMapAttr::get(getMap(attr.getValue().getResults()));
  });
  return cast<DictionaryAttr>(replacer.replace(plan));
}
