//===- TileWarpPatterns.cpp - Lower copies and products of warps ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

namespace {

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

struct SharedBufferLowering : OpConversionPattern<SharedBufferOp> {
  SharedBufferLowering(const TypeConverter &converter, MLIRContext *context,
                       TileLoweringState &state)
      : OpConversionPattern(converter, context), state(state) {}

  LogicalResult
  matchAndRewrite(SharedBufferOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value base = LLVM::AddressOfOp::create(rewriter, op.getLoc(),
                                           state.getDynamicShared(rewriter));
    rewriter.replaceOp(
        op, emit.step(base, rewriter.getI8Type(), emit.i32(op.getOffset())));
    return success();
  }

  TileLoweringState &state;
};

struct AsyncCopyLowering : OpConversionPattern<AsyncCopyOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(AsyncCopyOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    constexpr int64_t bytes = 16;
    Emitter emit(rewriter, op.getLoc());
    Type element = getTypeConverter()->convertType(
        op.getSource().getType().getElementType());
    Value source = emit.step(adaptor.getSource().front(), element,
                             adaptor.getOffset().front());
    Value target = emit.step(adaptor.getTarget().front(), element,
                             adaptor.getIndex().front());
    NVVM::CpAsyncOp::create(rewriter, op.getLoc(), target, source,
                            rewriter.getI32IntegerAttr(bytes),
                            NVVM::LoadCacheModifierKindAttr::get(
                                getContext(), NVVM::LoadCacheModifierKind::CG),
                            /*cpSize=*/Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct AsyncCopyCommitLowering : OpConversionPattern<AsyncCopyCommitOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(AsyncCopyCommitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncCommitGroupOp>(op);
    return success();
  }
};

struct AsyncCopyWaitLowering : OpConversionPattern<AsyncCopyWaitOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(AsyncCopyWaitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::CpAsyncWaitGroupOp>(op, op.getPending());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

struct LoadMatrixLowering : OpConversionPattern<LoadMatrixOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(LoadMatrixOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    MLIRContext *context = getContext();
    Emitter emit(rewriter, loc);
    auto type = cast<VectorType>(op.getFragments().getType());
    Value pointer =
        emit.step(adaptor.getBuffer().front(), type.getElementType(),
                  adaptor.getIndex().front());
    Type i32 = rewriter.getI32Type();
    int64_t count = type.getNumElements() / 2;
    Type loaded = count == 1 ? i32
                             : Type(LLVM::LLVMStructType::getLiteral(
                                   context, SmallVector<Type>(count, i32)));
    Value words = NVVM::LdMatrixOp::create(
        rewriter, loc, loaded, pointer, rewriter.getI32IntegerAttr(count),
        NVVM::MMALayoutAttr::get(context, NVVM::MMALayout::row),
        NVVM::LdStMatrixShapeAttr::get(context, 8, 8),
        NVVM::LdStMatrixEltTypeAttr::get(context,
                                         NVVM::LdStMatrixEltType::B16));
    if (count == 1) {
      rewriter.replaceOp(op, emit.bitcast(type, words));
      return success();
    }
    Value vector =
        LLVM::PoisonOp::create(rewriter, loc, VectorType::get(count, i32));
    for (int64_t index = 0; index < count; ++index)
      vector = LLVM::InsertElementOp::create(
          rewriter, loc, vector,
          LLVM::ExtractValueOp::create(rewriter, loc, words, index),
          emit.i32(index));
    rewriter.replaceOp(op, emit.bitcast(type, vector));
    return success();
  }
};

struct MmaSyncLowering : OpConversionPattern<MmaSyncOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(MmaSyncOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type element = cast<VectorType>(op.getLhs().getType()).getElementType();
    auto kind = element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
    SmallVector<Value> lhs = getPairs(emit, adaptor.getLhs().front(), element);
    SmallVector<Value> rhs;
    for (ValueRange fragments : adaptor.getRhs())
      llvm::append_range(rhs, getPairs(emit, fragments.front(), element));
    Type f32 = rewriter.getF32Type();
    Type sums = LLVM::LLVMStructType::getLiteral(getContext(),
                                                 SmallVector<Type>(4, f32));
    SmallVector<Value> results;
    ValueRange acc = adaptor.getAcc();
    for (size_t group = 0; 4 * group < acc.size(); ++group) {
      Value result = NVVM::MmaOp::create(
          rewriter, loc, sums, lhs, ArrayRef(rhs).slice(2 * group, 2),
          acc.slice(4 * group, 4), ArrayRef<int64_t>{16, 8, 16}, std::nullopt,
          std::nullopt, std::array{kind, kind},
          std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
      for (int64_t index = 0; index < 4; ++index)
        results.push_back(
            LLVM::ExtractValueOp::create(rewriter, loc, result, index));
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange(results)});
    return success();
  }

private:
  /// Registers with two elements each, in the type that upstream's op expects.
  static SmallVector<Value> getPairs(Emitter &emit, Value fragments,
                                     Type element) {
    OpBuilder &builder = emit.builder;
    int64_t count = cast<VectorType>(fragments.getType()).getNumElements() / 2;
    Value words =
        emit.bitcast(VectorType::get(count, builder.getI32Type()), fragments);
    SmallVector<Value> pairs = emit.getWords(words);
    if (element.isF16())
      for (Value &pair : pairs)
        pair = emit.bitcast(VectorType::get(2, element), pair);
    return pairs;
  }
};

} // namespace

void fuse::populateTileWarpPatterns(const TileTypeConverter &converter,
                                    TileLoweringState &state,
                                    RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<SharedBufferLowering>(converter, context, state);
  patterns.add<AsyncCopyLowering, AsyncCopyCommitLowering,
               AsyncCopyWaitLowering, LoadMatrixLowering, MmaSyncLowering>(
      converter, context);
}
