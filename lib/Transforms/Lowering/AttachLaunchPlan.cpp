//===- AttachLaunchPlan.cpp - Record launches in an attribute -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host code between launches computes sizes from other sizes. The launch
// plan represents these computations as affine expressions. The ops that
// performed them are then dead. Launches of scheduled kernels and of portable
// ones are in one list, in the order of the function.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Transforms/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
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

class AttachLaunchPlanPass
    : public fuse::impl::AttachLaunchPlanPassBase<AttachLaunchPlanPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      FailureOr<std::vector<HostStep>> steps = getHostSteps(function);
      if (failed(steps))
        return signalPassFailure();
      // A host may call a public function on tensors without elements.
      if (steps->empty() && !function.isPublic())
        continue;
      DictionaryAttr plan = PlanBuilder(function, *steps).build();
      if (!plan)
        return signalPassFailure();
      function->setAttr(kLaunchPlanAttrName, plan);
      numLaunches += steps->size();
    }
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The portable path
//===----------------------------------------------------------------------===//

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
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument)
    if (Attribute scalar =
            function.getArgAttr(argument.getArgNumber(), kScalarAttrName))
      return scalar;
  if (argument)
    return Attribute(
        builder.getStringAttr("arg" + Twine(argument.getArgNumber())));
  return value.getDefiningOp()->emitOpError(
      "makes an argument of a kernel that a host cannot know");
}

FailureOr<Attribute> PlanBuilder::getLaunch(gpu::LaunchFuncOp launch) {
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
  NamedAttrList entries(ArrayRef<NamedAttribute>{
      entry("args", builder.getArrayAttr(arguments)),
      entry("block", builder.getDenseI64ArrayAttr(block)),
      entry("grid", AffineMapAttr::get(getMap(grid))),
      entry("kernel", launch.getKernelAttr())});
  if (Value bytes = launch.getDynamicSharedMemorySize()) {
    std::optional<int64_t> constant = getConstantIntValue(bytes);
    if (!constant)
      return launch.emitOpError("expected a constant amount of shared memory");
    entries.push_back(entry("shared", *constant));
  }
  return Attribute(entries.getDictionary(builder.getContext()));
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

DictionaryAttr PlanBuilder::build() {
  bool hasTile = llvm::any_of(
      steps, [](const HostStep &step) { return step.tile.has_value(); });
  if (hasTile)
    buffers.push_back(builder.getAffineConstantExpr(0));
  for (auto alloc : function.getOps<memref::AllocOp>()) {
    workspace[alloc] = buffers.size();
    FailureOr<AffineExpr> bytes = getBytes(alloc);
    if (failed(bytes))
      return {};
    buffers.push_back(*bytes);
  }
  if (failed(layOut()))
    return {};
  NamedAttrList plan;
  if (hasTile) {
    findBounds();
    buffers[0] = builder.getAffineConstantExpr(zeroed);
    SmallVector<Attribute> ranges, tokens;
    bool hasRanges =
        bounds.size() > 1 || (isWhole && steps[0].tile->isDispatch);
    for (int64_t upTo : bounds) {
      NamedAttrList range;
      if (failed(addRange(upTo, hasRanges ? range : plan)))
        return {};
      range.push_back(entry("upto", upTo));
      ranges.push_back(range.getDictionary(builder.getContext()));
    }
    if (hasRanges)
      plan.push_back(entry("ranges", builder.getArrayAttr(ranges)));
    for (AffineExpr number : limited)
      tokens.push_back(AffineMapAttr::get(getMap(number)));
    plan.push_back(entry("max_tokens", *bounds.rbegin()));
    plan.push_back(entry("packed", builder.getArrayAttr(packed.getArrayRef())));
    plan.push_back(entry("tokens", builder.getArrayAttr(tokens)));
    plan.push_back(entry("zeroed", zeroed));
  } else if (failed(addRange(/*upTo=*/0, plan))) {
    return {};
  }
  SmallVector<Attribute> symbolAttrs;
  for (LaunchSizes::Symbol symbol : sizes.getSymbols())
    symbolAttrs.push_back(
        builder.getDenseI64ArrayAttr({symbol.first, symbol.second}));
  plan.push_back(entry("symbols", builder.getArrayAttr(symbolAttrs)));
  if (!constants.empty())
    plan.push_back(
        entry("constants", builder.getArrayAttr(constants.getArrayRef())));
  // Extend every map to the final list of symbols.
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](AffineMapAttr attr) -> Attribute {
    return AffineMapAttr::get(getMap(attr.getValue().getResults()));
  });
  return cast<DictionaryAttr>(
      replacer.replace(plan.getDictionary(builder.getContext())));
}
