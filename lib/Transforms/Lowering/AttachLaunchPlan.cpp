//===- AttachLaunchPlan.cpp - Record launches in an attribute -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host code between launches computes sizes from other sizes. The launch
// plan represents these computations as affine expressions. The ops that
// performed them are then dead.
//
//===----------------------------------------------------------------------===//

#include "LaunchSizes.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fuse;

namespace fuse {
#define GEN_PASS_DEF_ATTACHLAUNCHPLANPASS
#include "fuse/Transforms/Passes.h.inc"
} // namespace fuse

#define DEBUG_TYPE "fuse-attach-launch-plan"

/// Checks that launches are not under control flow: a plan is a flat list.
static LogicalResult checkFlow(func::FuncOp function) {
  WalkResult result = function.walk([&](gpu::LaunchFuncOp launch) {
    if (launch->getParentOp() == function && function.getBody().hasOneBlock())
      return WalkResult::advance();
    launch.emitOpError("is under control flow, which a plan does not have");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

namespace {

/// Writes the plan of one function.
class PlanBuilder {
public:
  explicit PlanBuilder(func::FuncOp function)
      : function(function), builder(function.getContext()), sizes(function) {}

  /// The plan, or null after an error.
  DictionaryAttr build();

private:
  FailureOr<AffineExpr> getBytes(memref::AllocOp alloc);
  FailureOr<Attribute> getArgument(Value value);
  FailureOr<DictionaryAttr> getLaunch(gpu::LaunchFuncOp launch);
  AffineMap getMap(ArrayRef<AffineExpr> results) {
    return AffineMap::get(0, sizes.getSymbols().size(), results,
                          builder.getContext());
  }

  func::FuncOp function;
  Builder builder;
  LaunchSizes sizes;
  DenseMap<Value, unsigned> workspace;
  /// The globals that launches read.
  llvm::SetVector<Attribute> constants;
};

class AttachLaunchPlanPass
    : public fuse::impl::AttachLaunchPlanPassBase<AttachLaunchPlanPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      auto launches = function.getOps<gpu::LaunchFuncOp>();
      if (function.isExternal())
        continue;
      if (failed(checkFlow(function)))
        return signalPassFailure();
      // A host may call a public function on tensors without elements.
      if (launches.empty() && !function.isPublic())
        continue;
      DictionaryAttr plan = PlanBuilder(function).build();
      if (!plan)
        return signalPassFailure();
      function->setAttr(kLaunchPlanAttrName, plan);
      numLaunches += std::distance(launches.begin(), launches.end());
    }
  }
};

} // namespace

FailureOr<AffineExpr> PlanBuilder::getBytes(memref::AllocOp alloc) {
  MemRefType type = alloc.getType();
  if (!type.getElementType().isIntOrFloat() || !type.getLayout().isIdentity())
    return alloc.emitOpError("cannot be a workspace buffer");
  AffineExpr bytes = builder.getAffineConstantExpr(
      llvm::divideCeil(type.getElementTypeBitWidth(), 8));
  for (unsigned dim = 0, e = type.getRank(); dim < e; ++dim) {
    FailureOr<AffineExpr> size = sizes.evaluateDim(alloc, dim);
    if (failed(size))
      return failure();
    bytes = bytes * *size;
  }
  return bytes;
}

FailureOr<Attribute> PlanBuilder::getArgument(Value value) {
  Attribute constant;
  if (isa<MemRefType>(value.getType())) {
    // The offset of a view is a separate kernel argument.
    while (auto view = value.getDefiningOp<ViewLikeOpInterface>())
      value = view.getViewSource();
    if (auto it = workspace.find(value); it != workspace.end())
      return Attribute(builder.getStringAttr("ws" + Twine(it->second)));
    if (auto read = value.getDefiningOp<memref::GetGlobalOp>()) {
      Attribute name = read.getNameAttr();
      auto global = SymbolTable::lookupNearestSymbolFrom<memref::GlobalOp>(
          read, read.getNameAttr());
      if (!global || !global.getConstantInitValue())
        return read.emitOpError("reads a global that is not a constant");
      constants.insert(name);
      const auto *it = llvm::find(constants, name);
      return Attribute(
          builder.getStringAttr("const" + Twine(it - constants.begin())));
    }
  } else if (matchPattern(value, m_Constant(&constant))) {
    return constant;
  } else if (value.getType().isIndex()) {
    FailureOr<AffineExpr> expr = sizes.evaluate(value);
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
    FailureOr<AffineExpr> expr = sizes.evaluate(size);
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
  // Later launches may add symbols. `build` updates all maps at the end.
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
  if (Attribute index = launch->getAttr(kTilePlanAttrName))
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
  for (LaunchSizes::Symbol symbol : sizes.getSymbols())
    symbolAttrs.push_back(
        builder.getDenseI64ArrayAttr({symbol.first, symbol.second}));
  SmallVector<NamedAttribute> entries = {
      builder.getNamedAttr("launches", builder.getArrayAttr(launches)),
      builder.getNamedAttr("symbols", builder.getArrayAttr(symbolAttrs)),
      builder.getNamedAttr("workspace", builder.getArrayAttr(buffers))};
  if (!constants.empty())
    entries.push_back(builder.getNamedAttr(
        "constants", builder.getArrayAttr(constants.getArrayRef())));
  auto plan = builder.getDictionaryAttr(entries);
  // Extend every map to the final list of symbols.
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](AffineMapAttr attr) -> Attribute {
    return AffineMapAttr::get(getMap(attr.getValue().getResults()));
  });
  return cast<DictionaryAttr>(replacer.replace(plan));
}
