//===- TileMemoryPatterns.cpp - Lower rings, copies, loads and stores -----===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

//===----------------------------------------------------------------------===//
// Rings
//===----------------------------------------------------------------------===//

/// Time in nanoseconds that a waiting thread may sleep before it polls again.
static constexpr int64_t kWaitHint = 10000000;

namespace {

/// The mbarriers of one use of a ring. In memory, full barriers precede empty
/// barriers.
struct RingUse {
  RingUse(Emitter &emit, RingType type, ValueRange ring, Value use)
      : emit(emit) {
    int64_t stages = type.getStages();
    Type i64 = emit.builder.getI64Type();
    Value slot = emit.rem(use, stages);
    parity = emit.bitAnd(emit.div(use, stages), 1);
    full = emit.step(ring[1], i64, slot);
    empty = emit.step(ring[1], i64, emit.add(slot, emit.i32(stages)));
    bytes = emit.step(ring[0], emit.builder.getI8Type(),
                      emit.mul(slot, emit.i32(type.getBytes())));
  }

  void waitFull() { wait(full, parity); }
  /// A producer's first round waits for the phase before the first one, which
  /// counts as complete.
  void waitEmpty() { wait(empty, getEmptyParity()); }
  Value getEmptyParity() {
    return arith::XOrIOp::create(emit.builder, emit.loc, parity, emit.i32(1));
  }

  Emitter &emit;
  Value parity, full, empty, bytes;

private:
  void wait(Value barrier, Value phase) {
    NVVM::MBarrierTryWaitParityOp::create(emit.builder, emit.loc, barrier,
                                          phase, emit.i32(kWaitHint));
  }
};

template <typename OpT>
struct StatefulPattern : OpConversionPattern<OpT> {
  StatefulPattern(const TypeConverter &converter, MLIRContext *context,
                  TileLoweringState &state)
      : OpConversionPattern<OpT>(converter, context), state(state) {}
  TileLoweringState &state;
};

struct RingCreateLowering : StatefulPattern<RingCreateOp> {
  using StatefulPattern::StatefulPattern;

  LogicalResult
  matchAndRewrite(RingCreateOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    int64_t stages = op.getRing().getType().getStages();
    LLVM::GlobalOp shared = state.getDynamicShared(rewriter);
    Type i64 = rewriter.getI64Type();
    LLVM::GlobalOp barriers =
        state.createShared(rewriter, i64, 2 * stages, /*alignment=*/8);
    Value base = LLVM::AddressOfOp::create(rewriter, loc, shared);
    Value bytes =
        emit.step(base, rewriter.getI8Type(), emit.i32(op.getOffset()));
    Value bars = LLVM::AddressOfOp::create(rewriter, loc, barriers);

    Value first = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                        emit.threadId(), emit.i32(0));
    auto branch = scf::IfOp::create(rewriter, loc, first);
    {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(branch.thenBlock());
      for (int64_t stage = 0; stage < stages; ++stage) {
        // The producer arrives once, with the number of bytes that it expects.
        NVVM::MBarrierInitOp::create(rewriter, loc,
                                     emit.step(bars, i64, emit.i32(stage)),
                                     emit.i32(1), Value());
        NVVM::MBarrierInitOp::create(
            rewriter, loc, emit.step(bars, i64, emit.i32(stages + stage)),
            emit.i32(op.getConsumers()), Value());
      }
      NVVM::FenceMbarrierInitOp::create(rewriter, loc);
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange{bytes, bars}});
    return success();
  }
};

struct RingAcquireLowering : OpConversionPattern<RingAcquireOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(RingAcquireOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    RingType type = op.getRing().getType();
    RingUse use(emit, type, adaptor.getRing(), adaptor.getUse().front());
    use.waitEmpty();
    Value bytes =
        op.getBytes() ? adaptor.getBytes().front() : emit.i32(type.getBytes());
    NVVM::MBarrierArriveExpectTxOp::create(
        rewriter, op.getLoc(), Type(), use.full, bytes, NVVM::MemScopeKind::CTA,
        /*relaxed=*/false, Value());
    rewriter.replaceOpWithMultiple(op, {ValueRange{use.bytes, use.full}});
    return success();
  }
};

struct RingPollLowering : OpConversionPattern<RingPollOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(RingPollOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    RingUse use(emit, op.getRing().getType(), adaptor.getRing(),
                adaptor.getUse().front());
    rewriter.replaceOpWithNewOp<NVVM::MBarrierTestWaitOp>(
        op, rewriter.getI1Type(), use.empty, use.getEmptyParity(),
        NVVM::MemScopeKind::CTA, /*relaxed=*/false);
    return success();
  }
};

struct RingWaitLowering : OpConversionPattern<RingWaitOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(RingWaitOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    RingUse use(emit, op.getRing().getType(), adaptor.getRing(),
                adaptor.getUse().front());
    use.waitFull();
    rewriter.replaceOpWithMultiple(op, {ValueRange{use.bytes, use.full}});
    return success();
  }
};

struct RingReleaseLowering : OpConversionPattern<RingReleaseOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(RingReleaseOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    RingUse use(emit, op.getRing().getType(), adaptor.getRing(),
                adaptor.getUse().front());
    Value empty = use.empty;
    if (op.getRank()) {
      auto cluster = LLVM::LLVMPointerType::get(getContext(), 7);
      empty = NVVM::MapaOp::create(rewriter, op.getLoc(), cluster, empty,
                                   adaptor.getRank().front());
      NVVM::MBarrierArriveOp::create(rewriter, op.getLoc(), Type(), empty,
                                     Value(), NVVM::MemScopeKind::CTA);
      rewriter.eraseOp(op);
      return success();
    }
    NVVM::MBarrierArriveOp::create(rewriter, op.getLoc(), Type(), empty,
                                   Value());
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// The 64-bit cache policy that createpolicy.fractional returns for a fraction
/// of 1.
static Value getHint(Emitter &emit, CachePolicy policy) {
  switch (policy) {
  case CachePolicy::Normal:
    return Value();
  case CachePolicy::EvictFirst:
    return emit.i64(0x12F0000000000000);
  case CachePolicy::EvictLast:
    return emit.i64(0x14F0000000000000);
  }
  return Value();
}

/// The destination of a copy is an address in the shared memory of the cluster.
static Value toCluster(Emitter &emit, Value pointer) {
  auto type = LLVM::LLVMPointerType::get(emit.builder.getContext(), 7);
  return LLVM::AddrSpaceCastOp::create(emit.builder, emit.loc, type, pointer);
}

struct CopyLowering : OpConversionPattern<CopyOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(CopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = getTypeConverter()->convertType(
        op.getSource().getType().getElementType());
    Value source = emit.step(adaptor.getSource().front(), element,
                             adaptor.getOffset().front());
    Value target = adaptor.getStage()[0];
    Value bytes;
    if (!op.getPiece().empty()) {
      target = emit.step(target, rewriter.getI8Type(),
                         adaptor.getPiece()[0].front());
      bytes = adaptor.getPiece()[1].front();
    } else if (op.getAt()) {
      target = emit.step(target, rewriter.getI8Type(), emit.i32(*op.getAt()));
      bytes = emit.i32(*op.getBytes());
    } else {
      bytes = emit.i32(op.getStage().getType().getBytes());
    }
    Value mask;
    if (op.getMulticast())
      mask = arith::ConstantOp::create(
          rewriter, op.getLoc(),
          rewriter.getI16IntegerAttr(*op.getMulticast()));
    NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(
        rewriter, op.getLoc(), toCluster(emit, target), source,
        adaptor.getStage()[1], bytes, mask, getHint(emit, op.getPolicy()));
    rewriter.eraseOp(op);
    return success();
  }
};

struct PrefetchLowering : OpConversionPattern<tile::PrefetchOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::PrefetchOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = getTypeConverter()->convertType(
        op.getSource().getType().getElementType());
    Value source = emit.step(adaptor.getSource().front(), element,
                             adaptor.getOffset().front());
    Value bytes =
        op.getLength() ? adaptor.getLength().front() : emit.i32(*op.getBytes());
    NVVM::CpAsyncBulkPrefetchOp::create(rewriter, op.getLoc(), source, bytes,
                                        Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct CopyTensorLowering : OpConversionPattern<CopyTensorOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(CopyTensorOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
        rewriter, op.getLoc(), toCluster(emit, adaptor.getStage()[0]),
        adaptor.getMap().front(),
        ValueRange{adaptor.getColumn().front(), adaptor.getRow().front()},
        adaptor.getStage()[1], ValueRange{}, Value(),
        getHint(emit, op.getPolicy()), NVVM::TMALoadMode::TILE,
        /*isCTAOnly=*/false, NVVM::CTAGroupKindAttr(), Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct StageBufferLowering : OpConversionPattern<StageBufferOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(StageBufferOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, adaptor.getStage().front());
    return success();
  }
};

struct ViewLowering : OpConversionPattern<ViewOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(ViewOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    // K-major, 128-byte swizzle, stride of 1024 bytes between groups of 8 rows.
    constexpr int64_t kDescriptor =
        (int64_t(1) << 62) | (int64_t(64) << 32) | (int64_t(1) << 16);
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Value address = LLVM::PtrToIntOp::create(
        rewriter, loc, rewriter.getI32Type(), adaptor.getStage()[0]);
    address = emit.add(address, adaptor.getOffset().front());
    Value units = arith::ShRUIOp::create(rewriter, loc, address, emit.i32(4));
    rewriter.replaceOpWithNewOp<arith::OrIOp>(op, emit.extend(units),
                                              emit.i64(kDescriptor));
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

struct ScratchLowering : StatefulPattern<ScratchOp> {
  using StatefulPattern::StatefulPattern;

  LogicalResult
  matchAndRewrite(ScratchOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Type element = getTypeConverter()->convertType(
        op.getBuffer().getType().getElementType());
    LLVM::GlobalOp global =
        state.createShared(rewriter, element, op.getCount(), /*alignment=*/16);
    rewriter.replaceOpWithNewOp<LLVM::AddressOfOp>(op, global);
    return success();
  }
};

/// The type for accesses to memory of `type`. Vectors become 32-bit words,
/// because vectors of narrow floats may not be lowered to one access.
static Type getAccessType(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return type;
  int64_t bits = vector.getNumElements() * vector.getElementTypeBitWidth();
  if (bits <= 32)
    return IntegerType::get(type.getContext(), bits);
  return VectorType::get(bits / 32, IntegerType::get(type.getContext(), 32));
}

static unsigned getAlignment(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements() * vector.getElementTypeBitWidth() / 8;
  return type.getIntOrFloatBitWidth() / 8;
}

/// Pointer to element `index` of a buffer. A trailing constant addend becomes a
/// separate step, which PTX folds into the address. Accesses to neighbors then
/// share a register. Indices do not overflow.
static Value stepTo(Emitter &emit, Value buffer, Type element, Value index) {
  APInt offset;
  auto sum = index.getDefiningOp<arith::AddIOp>();
  if (!sum || !matchPattern(sum.getRhs(), m_ConstantInt(&offset)))
    return emit.step(buffer, element, index);
  return emit.step(emit.step(buffer, element, sum.getLhs()), element,
                   emit.i32(offset.getSExtValue()));
}

struct LoadLowering : OpConversionPattern<tile::LoadOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::LoadOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = getTypeConverter()->convertType(
        op.getBuffer().getType().getElementType());
    Type type = getTypeConverter()->convertType(op.getValue().getType());
    Value pointer = stepTo(emit, adaptor.getBuffer().front(), element,
                           adaptor.getIndex().front());
    Value value =
        LLVM::LoadOp::create(rewriter, op.getLoc(), getAccessType(type),
                             pointer, getAlignment(type), op.getEarly());
    rewriter.replaceOp(op, emit.bitcast(type, value));
    return success();
  }
};

struct StoreLowering : OpConversionPattern<tile::StoreOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::StoreOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = getTypeConverter()->convertType(
        op.getBuffer().getType().getElementType());
    Value value = adaptor.getValue().front();
    Type type = value.getType();
    Value pointer = stepTo(emit, adaptor.getBuffer().front(), element,
                           adaptor.getIndex().front());
    LLVM::StoreOp::create(rewriter, op.getLoc(),
                          emit.bitcast(getAccessType(type), value), pointer,
                          getAlignment(type), op.getPolled());
    rewriter.eraseOp(op);
    return success();
  }
};

struct CollectLowering : OpConversionPattern<CollectOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(CollectOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type element = getTypeConverter()->convertType(
        op.getBuffer().getType().getElementType());
    SmallVector<Value> pointers, conditions;
    SmallVector<Type> types, accesses;
    for (auto [index, condition, value] : llvm::zip_equal(
             adaptor.getIndices(), adaptor.getConditions(), op.getValues())) {
      pointers.push_back(
          stepTo(emit, adaptor.getBuffer().front(), element, index.front()));
      conditions.push_back(condition.front());
      types.push_back(getTypeConverter()->convertType(value.getType()));
      accesses.push_back(getAccessType(types.back()));
    }

    SmallVector<Value> values = waitFor(emit, pointers, accesses, types,
                                        conditions, adaptor.getEpoch().front());
    SmallVector<Value> results;
    for (auto [value, type] : llvm::zip_equal(values, types))
      results.push_back(
          emit.bitcast(type, emit.mapWords(value, [&](Value word) {
            return emit.bitAnd(word, ~1);
          })));
    rewriter.replaceOp(op, results);
    return success();
  }

private:
  /// Loads vectors in a loop until all words of those with a true condition
  /// have the tag of the epoch.
  static SmallVector<Value> waitFor(Emitter &emit, ValueRange pointers,
                                    TypeRange accesses, TypeRange types,
                                    ValueRange conditions, Value epoch) {
    OpBuilder &b = emit.builder;
    // The lowest bit of a word that was stored in this epoch differs from the
    // lowest bit of the epoch.
    Value other = emit.bitAnd(epoch, 1);
    auto loop = scf::WhileOp::create(b, emit.loc, accesses, ValueRange{});
    OpBuilder::InsertionGuard guard(b);
    b.createBlock(&loop.getBefore());
    SmallVector<Value> values;
    for (auto [pointer, type, access] :
         llvm::zip_equal(pointers, types, accesses))
      values.push_back(LLVM::LoadOp::create(b, emit.loc, access, pointer,
                                            getAlignment(type),
                                            /*isVolatile=*/true));
    Value missing;
    for (auto [value, condition] : llvm::zip_equal(values, conditions)) {
      Value all;
      for (Value word : emit.getWords(value)) {
        Value flipped = arith::XOrIOp::create(b, emit.loc, word, other);
        all = all ? arith::AndIOp::create(b, emit.loc, all, flipped) : flipped;
      }
      Value old = arith::CmpIOp::create(b, emit.loc, arith::CmpIPredicate::eq,
                                        emit.bitAnd(all, 1), emit.i32(0));
      Value both = arith::AndIOp::create(b, emit.loc, old, condition);
      missing =
          missing ? arith::OrIOp::create(b, emit.loc, missing, both) : both;
    }
    scf::ConditionOp::create(b, emit.loc, missing, values);
    b.createBlock(&loop.getAfter(), {}, accesses,
                  SmallVector<Location>(accesses.size(), emit.loc));
    scf::YieldOp::create(b, emit.loc);
    return llvm::to_vector_of<Value>(loop.getResults());
  }
};

struct FenceAsyncLowering : OpConversionPattern<FenceAsyncOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(FenceAsyncOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (op.getShared())
      rewriter.replaceOpWithNewOp<NVVM::FenceProxyOp>(
          op, NVVM::ProxyKind::async_shared,
          NVVM::SharedSpaceAttr::get(getContext(),
                                     NVVM::SharedSpace::shared_cta));
    else
      rewriter.replaceOpWithNewOp<NVVM::FenceProxyOp>(
          op, NVVM::ProxyKind::async_global, NVVM::SharedSpaceAttr());
    return success();
  }
};

} // namespace

void fuse::populateTileMemoryPatterns(const TileTypeConverter &converter,
                                      TileLoweringState &state,
                                      RewritePatternSet &patterns) {
  patterns.add<RingCreateLowering, ScratchLowering>(
      converter, patterns.getContext(), state);
  patterns.add<RingAcquireLowering, RingPollLowering, RingWaitLowering,
               CollectLowering, RingReleaseLowering, CopyLowering,
               PrefetchLowering, CopyTensorLowering, StageBufferLowering,
               ViewLowering, LoadLowering, StoreLowering, FenceAsyncLowering>(
      converter, patterns.getContext());
}
