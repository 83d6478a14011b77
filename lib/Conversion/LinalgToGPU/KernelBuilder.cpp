//===- KernelBuilder.cpp - One loop nest as one GPU kernel ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Affine/Utils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Host side
//===----------------------------------------------------------------------===//

OpFoldResult HostSizes::getDim(OpBuilder &builder, Value buffer, unsigned dim) {
  auto type = cast<MemRefType>(buffer.getType());
  if (!type.isDynamicDim(dim))
    return builder.getIndexAttr(type.getDimSize(dim));
  auto key = std::make_pair(buffer, dim);
  if (auto it = known.find(key); it != known.end())
    return it->second;

  OpFoldResult size;
  if (auto alloc = buffer.getDefiningOp<memref::AllocOp>()) {
    size = alloc.getDynamicSizes()[type.getDynamicDimIndex(dim)];
  } else if (auto cast = buffer.getDefiningOp<memref::CastOp>();
             cast && isa<MemRefType>(cast.getSource().getType())) {
    size = getDim(builder, cast.getSource(), dim);
  } else if (auto expand = buffer.getDefiningOp<memref::ExpandShapeOp>()) {
    size = expand.getMixedOutputShape()[dim];
  } else if (auto view = buffer.getDefiningOp<memref::SubViewOp>();
             view && view.getDroppedDims().none()) {
    size = view.getMixedSizes()[dim];
  } else if (auto collapse = buffer.getDefiningOp<memref::CollapseShapeOp>()) {
    AffineExpr product = builder.getAffineConstantExpr(1);
    SmallVector<OpFoldResult> factors;
    ReassociationIndices sources = collapse.getReassociationIndices()[dim];
    for (int64_t source : sources) {
      product = product * builder.getAffineSymbolExpr(factors.size());
      factors.push_back(getDim(builder, collapse.getSrc(), source));
    }
    size = affine::makeComposedFoldedAffineApply(builder, collapse.getLoc(),
                                                 product, factors);
  } else {
    size = memref::DimOp::create(builder, buffer.getLoc(), buffer, dim)
               .getResult();
  }
  known[key] = size;
  return size;
}

unsigned GPUKernelBuilder::addParameter(Value value) {
  auto [it, isNew] = parameters.insert({value, arguments.size()});
  if (isNew)
    arguments.push_back(value);
  return it->second;
}

Extent GPUKernelBuilder::addExtent(OpFoldResult size) {
  if (std::optional<int64_t> constant = getConstantIntValue(size))
    return {true, *constant};
  return {false, addParameter(cast<Value>(size))};
}

GPUKernelBuilder::Access GPUKernelBuilder::makeAccess(OpOperand &operand) {
  Access access;
  Value value = operand.get();
  auto type = dyn_cast<MemRefType>(value.getType());
  if (!type) {
    if (!matchPattern(value, m_Constant(&access.constant)))
      access.parameter = addParameter(value);
    return access;
  }

  AffineMap map = op.getMatchingIndexingMap(&operand);
  for (auto [dim, expr] : llvm::enumerate(map.getResults())) {
    if (auto loop = dyn_cast<AffineDimExpr>(expr))
      access.sizes.push_back(loopExtents[loop.getPosition()]);
    else
      access.sizes.push_back(addExtent(hostSizes.getDim(host, value, dim)));
  }
  addLayout(access, value);
  return access;
}

void GPUKernelBuilder::addLayout(Access &access, Value buffer) {
  if (cast<MemRefType>(buffer.getType()).getLayout().isIdentity())
    return;
  auto metadata =
      memref::ExtractStridedMetadataOp::create(host, op.getLoc(), buffer);
  access.offset = addExtent(metadata.getConstifiedMixedOffset());
  for (OpFoldResult stride : metadata.getConstifiedMixedStrides())
    access.strides.push_back(addExtent(stride));
}

void GPUKernelBuilder::importCaptures(ArrayRef<Value> used) {
  for (Value value : used) {
    Operation *producer = value.getDefiningOp();
    if (isa<MemRefType>(value.getType()))
      continue;
    if (producer && producer->hasTrait<OpTrait::ConstantLike>())
      constants.push_back({value, producer});
    else
      capturedScalars.push_back({value, addParameter(value)});
  }
}

GPUKernelBuilder::GPUKernelBuilder(linalg::GenericOp op, HostSizes &sizes)
    : op(op), hostSizes(sizes), host(op) {
  // Several operands with one buffer share one pointer parameter.
  SmallVector<std::optional<unsigned>> pointers;
  for (OpOperand &operand : op->getOpOperands()) {
    pointers.emplace_back();
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    pointers.back() = addParameter(operand.get());
  }
  llvm::SetVector<Value> used;
  getUsedValuesDefinedAbove(op.getRegion(), used);
  for (Value value : used)
    if (isa<MemRefType>(value.getType()))
      addParameter(value);
  for (unsigned loop = 0, e = op.getNumLoops(); loop < e; ++loop) {
    // The size of a loop can be read from any operand. A static size is
    // preferred, then the size of an input, which the host knows before it
    // allocates results.
    OpFoldResult size;
    for (OpOperand &operand : op->getOpOperands()) {
      AffineMap map = op.getMatchingIndexingMap(&operand);
      std::optional<unsigned> position =
          map.getResultPosition(host.getAffineDimExpr(loop));
      if (!position || !isa<MemRefType>(operand.get().getType()))
        continue;
      auto type = cast<MemRefType>(operand.get().getType());
      if (!size || !type.isDynamicDim(*position))
        size = hostSizes.getDim(host, operand.get(), *position);
    }
    loopSizes.push_back(size);
  }
  // Pointers precede scalars, which precede sizes.
  for (OpOperand &operand : op->getOpOperands())
    if (!isa<MemRefType>(operand.get().getType()))
      makeAccess(operand);
  importCaptures(used.getArrayRef());
  for (OpFoldResult size : loopSizes)
    loopExtents.push_back(addExtent(size));
  for (auto [operand, pointer] : llvm::zip(op->getOpOperands(), pointers)) {
    accesses.push_back(makeAccess(operand));
    if (pointer)
      accesses.back().parameter = pointer;
  }
  for (Value value : used) {
    auto type = dyn_cast<MemRefType>(value.getType());
    if (!type)
      continue;
    Access access;
    access.parameter = addParameter(value);
    for (unsigned dim = 0, e = type.getRank(); dim < e; ++dim)
      access.sizes.push_back(addExtent(hostSizes.getDim(host, value, dim)));
    addLayout(access, value);
    capturedBuffers.push_back({value, access});
  }
}

int64_t GPUKernelBuilder::getStaticSize(unsigned loop) {
  return loopExtents[loop].isStatic ? loopExtents[loop].value
                                    : ShapedType::kDynamic;
}

SmallVector<unsigned> GPUKernelBuilder::getLoops(utils::IteratorType type) {
  SmallVector<unsigned> loops;
  for (auto [loop, iterator] : llvm::enumerate(op.getIteratorTypesArray()))
    if (iterator == type)
      loops.push_back(loop);
  return loops;
}

OpFoldResult GPUKernelBuilder::getNumBlocks(ArrayRef<unsigned> loops,
                                            int64_t perBlock) {
  AffineExpr points = host.getAffineConstantExpr(1);
  SmallVector<OpFoldResult> sizes;
  for (unsigned loop : loops) {
    points = points * host.getAffineSymbolExpr(sizes.size());
    sizes.push_back(loopSizes[loop]);
  }
  return affine::makeComposedFoldedAffineApply(host, op.getLoc(),
                                               points.ceilDiv(perBlock), sizes);
}

void GPUKernelBuilder::createLaunch(SymbolRefAttr kernelName,
                                    OpFoldResult gridX, OpFoldResult gridY,
                                    int64_t numThreads) {
  Location loc = op.getLoc();
  auto get = [&](OpFoldResult value) {
    return getValueOrCreateConstantIndexOp(host, loc, value);
  };
  Value one = get(host.getIndexAttr(1));
  Value threads = get(host.getIndexAttr(numThreads));
  SmallVector<Value> operands;
  for (Value argument : arguments) {
    if (auto type = dyn_cast<MemRefType>(argument.getType())) {
      auto pointerType = MemRefType::get({}, type.getElementType());
      argument = memref::ReinterpretCastOp::create(
          host, loc, pointerType, argument, /*offset=*/host.getIndexAttr(0),
          ArrayRef<OpFoldResult>(), ArrayRef<OpFoldResult>());
    }
    operands.push_back(argument);
  }
  gpu::LaunchFuncOp::create(
      host, loc, kernelName, gpu::KernelDim3{get(gridX), get(gridY), one},
      gpu::KernelDim3{threads, one, one}, /*dynamicSharedMemorySize=*/Value(),
      operands, /*asyncTokenType=*/Type(), /*asyncDependencies=*/ValueRange());
}

//===----------------------------------------------------------------------===//
// Kernel side
//===----------------------------------------------------------------------===//

void GPUKernelBuilder::begin(StringRef name, int64_t numThreads,
                             ArrayRef<MemRefType> workgroup) {
  MLIRContext *context = op.getContext();
  SmallVector<Type> types;
  for (Value argument : arguments) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    types.push_back(type ? MemRefType::get({}, type.getElementType())
                         : argument.getType());
  }
  OpBuilder detached(context);
  kernel = gpu::GPUFuncOp::create(
      detached, op.getLoc(), name, FunctionType::get(context, types, {}),
      SmallVector<Type>(workgroup.begin(), workgroup.end()));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                  UnitAttr::get(context));
  kernel.setKnownBlockSizeAttr(DenseI32ArrayAttr::get(
      context, {static_cast<int32_t>(numThreads), 1, 1}));
  builder.emplace(
      ImplicitLocOpBuilder::atBlockBegin(op.getLoc(), &kernel.front()));

  for (auto [value, producer] : constants)
    captures.map(value, builder->clone(*producer)->getResult(
                            cast<OpResult>(value).getResultNumber()));
  for (auto [value, parameter] : capturedScalars)
    captures.map(value, kernel.getArgument(parameter));
  for (auto &[value, access] : capturedBuffers)
    captures.map(value, createView(access, cast<MemRefType>(value.getType())));
  for (auto [operand, access] : llvm::zip(op->getOpOperands(), accesses)) {
    if (auto type = dyn_cast<MemRefType>(operand.get().getType()))
      access.view = createView(access, type);
    else if (access.constant)
      access.view = arith::ConstantOp::create(*builder, access.constant);
    else
      access.view = kernel.getArgument(*access.parameter);
  }
}

gpu::GPUFuncOp GPUKernelBuilder::finish() {
  builder->setInsertionPointToEnd(&kernel.front());
  gpu::ReturnOp::create(*builder);
  return kernel;
}

OpFoldResult GPUKernelBuilder::materialize(Extent extent) {
  if (extent.isStatic)
    return builder->getIndexAttr(extent.value);
  return kernel.getArgument(extent.value);
}

Value GPUKernelBuilder::createView(Access &access, MemRefType type) {
  SmallVector<OpFoldResult> sizes, strides;
  for (Extent size : access.sizes)
    sizes.push_back(materialize(size));
  if (type.getLayout().isIdentity()) {
    // Row-major strides; a stride that is static in the type must stay static.
    SmallVector<int64_t> staticStrides;
    int64_t offset;
    if (failed(type.getStridesAndOffset(staticStrides, offset)))
      return Value();
    strides.resize(sizes.size());
    Value running = getIndex(1);
    for (int64_t dim = sizes.size() - 1; dim >= 0; --dim) {
      strides[dim] = staticStrides[dim] == ShapedType::kDynamic
                         ? OpFoldResult(running)
                         : builder->getIndexAttr(staticStrides[dim]);
      if (dim > 0)
        running = mul(running, getValueOrCreateConstantIndexOp(
                                   *builder, builder->getLoc(), sizes[dim]));
    }
  } else {
    for (Extent stride : access.strides)
      strides.push_back(materialize(stride));
  }
  return memref::ReinterpretCastOp::create(
      *builder, type, kernel.getArgument(*access.parameter),
      materialize(access.offset), sizes, strides);
}

Value GPUKernelBuilder::getSize(unsigned loop) {
  return getValueOrCreateConstantIndexOp(*builder, builder->getLoc(),
                                         materialize(loopExtents[loop]));
}

Value GPUKernelBuilder::getWorkgroup(unsigned index) {
  return kernel.getWorkgroupAttributions()[index];
}

Value GPUKernelBuilder::getIndex(int64_t value) {
  return arith::ConstantIndexOp::create(*builder, value);
}

Value GPUKernelBuilder::add(Value lhs, Value rhs) {
  return builder->createOrFold<arith::AddIOp>(lhs, rhs);
}

Value GPUKernelBuilder::mul(Value lhs, Value rhs) {
  return builder->createOrFold<arith::MulIOp>(lhs, rhs);
}

Value GPUKernelBuilder::lessThan(Value lhs, Value rhs) {
  return arith::CmpIOp::create(*builder, arith::CmpIPredicate::slt, lhs, rhs);
}

Value GPUKernelBuilder::getNumPoints(ArrayRef<unsigned> loops) {
  Value points = getIndex(1);
  for (unsigned loop : loops)
    points = mul(points, getSize(loop));
  return points;
}

void GPUKernelBuilder::delinearize(Value number, ArrayRef<unsigned> loops,
                                   MutableArrayRef<Value> ivs) {
  for (unsigned i = loops.size(); i-- > 1;) {
    Value size = getSize(loops[i]);
    ivs[loops[i]] = arith::RemUIOp::create(*builder, number, size);
    number = arith::DivUIOp::create(*builder, number, size);
  }
  if (!loops.empty())
    ivs[loops[0]] = number;
}

SmallVector<Value> GPUKernelBuilder::getIndices(AffineMap map,
                                                ArrayRef<Value> ivs) {
  SmallVector<Value> indices;
  for (AffineExpr expr : map.getResults()) {
    if (auto loop = dyn_cast<AffineDimExpr>(expr))
      indices.push_back(ivs[loop.getPosition()]);
    else
      indices.push_back(
          affine::expandAffineExpr(*builder, builder->getLoc(), expr, ivs, {}));
  }
  return indices;
}

SmallVector<Value> GPUKernelBuilder::getIndices(OpOperand &operand,
                                                ArrayRef<Value> ivs) {
  return getIndices(op.getMatchingIndexingMap(&operand), ivs);
}

Value GPUKernelBuilder::getView(OpOperand &operand) {
  return accesses[operand.getOperandNumber()].view;
}

Value GPUKernelBuilder::load(OpOperand &operand, ArrayRef<Value> ivs) {
  Value view = getView(operand);
  if (!isa<MemRefType>(view.getType()))
    return view;
  return memref::LoadOp::create(*builder, view, getIndices(operand, ivs));
}

void GPUKernelBuilder::store(Value value, OpOperand &operand,
                             ArrayRef<Value> ivs) {
  memref::StoreOp::create(*builder, value, getView(operand),
                          getIndices(operand, ivs));
}

Value GPUKernelBuilder::getInit(unsigned output, ArrayRef<Value> ivs) {
  OpOperand *operand = op.getDpsInitOperand(output);
  if (auto inits = op->getAttrOfType<ArrayAttr>(kInitAttrName))
    if (auto init = dyn_cast<TypedAttr>(inits[output]))
      return arith::ConstantOp::create(*builder, init);
  if (!op.payloadUsesValueFromOperand(operand))
    return getZero(getElementTypeOrSelf(operand->get().getType()));
  return load(*operand, ivs);
}

Value GPUKernelBuilder::getZero(Type type) {
  return arith::ConstantOp::create(*builder, builder->getZeroAttr(type));
}

void GPUKernelBuilder::cloneOp(Operation &bodyOp, IRMapping &mapping,
                               ArrayRef<Value> ivs) {
  if (auto index = dyn_cast<linalg::IndexOp>(bodyOp)) {
    mapping.map(index.getResult(), ivs[index.getDim()]);
    return;
  }
  Operation *copy = builder->clone(bodyOp, mapping);
  copy->walk([&](linalg::IndexOp index) {
    index.replaceAllUsesWith(ivs[index.getDim()]);
    index.erase();
  });
}

SmallVector<Value> GPUKernelBuilder::cloneBody(ArrayRef<Value> ivs,
                                               ArrayRef<Value> accumulators) {
  IRMapping mapping = captures;
  for (OpOperand *input : op.getDpsInputOperands())
    if (op.payloadUsesValueFromOperand(input))
      mapping.map(op.getMatchingBlockArgument(input), load(*input, ivs));
  mapping.map(op.getRegionOutputArgs(), accumulators);
  for (Operation &bodyOp : op.getBody()->without_terminator())
    cloneOp(bodyOp, mapping, ivs);
  SmallVector<Value> results;
  for (Value value : op.getBody()->getTerminator()->getOperands())
    results.push_back(mapping.lookupOrDefault(value));
  return results;
}

SmallVector<Value> GPUKernelBuilder::buildLoops(
    ArrayRef<unsigned> loops, MutableArrayRef<Value> ivs,
    ArrayRef<Value> carried,
    function_ref<SmallVector<Value>(ArrayRef<Value>)> body) {
  if (loops.empty())
    return body(carried);
  Value size = getSize(loops[0]);
  auto loop =
      scf::ForOp::create(*builder, getIndex(0), size, getIndex(1), carried);
  OpBuilder::InsertionGuard guard(*builder);
  builder->setInsertionPointToStart(loop.getBody());
  ivs[loops[0]] = loop.getInductionVar();
  SmallVector<Value> inner(loop.getRegionIterArgs());
  SmallVector<Value> results = buildLoops(loops.drop_front(), ivs, inner, body);
  scf::YieldOp::create(*builder, results);
  return SmallVector<Value>(loop.getResults());
}
