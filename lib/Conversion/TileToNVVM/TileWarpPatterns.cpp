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
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type element = getTypeConverter()->convertType(
        op.getSource().getType().getElementType());
    Value source = emit.step(adaptor.getSource().front(), element,
                             adaptor.getOffset().front());
    Value target = emit.step(adaptor.getTarget().front(), element,
                             adaptor.getIndex().front());
    if (op.getCondition()) {
      Value address = LLVM::PtrToIntOp::create(rewriter, loc,
                                               rewriter.getI32Type(), target);
      rewriter.replaceOpWithNewOp<LLVM::InlineAsmOp>(
          op, TypeRange(),
          ValueRange{adaptor.getCondition().front(), address, source},
          "@$0 cp.async.cg.shared.global [$1], [$2], 16;", "b,r,l",
          /*has_side_effects=*/true, /*is_align_stack=*/false,
          LLVM::tailcallkind::TailCallKind::None,
          LLVM::AsmDialectAttr::get(getContext(), LLVM::AsmDialect::AD_ATT),
          ArrayAttr());
      return success();
    }
    NVVM::CpAsyncOp::create(rewriter, loc, target, source,
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
    auto type = cast<VectorType>(
        getTypeConverter()->convertType(op.getFragments().getType()));
    Value pointer =
        emit.step(adaptor.getBuffer().front(), type.getElementType(),
                  adaptor.getIndex().front());
    Type i32 = rewriter.getI32Type();
    int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / 32;
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

/// The bytes of `word` at 8 and 24 as halves, exactly. Their exponents have
/// another bias, which the product corrects. NaN has all bits of its magnitude
/// set, so that adding one carries into the bit that completes the exponent of
/// a NaN of f16.
static Value widenPair(Emitter &emit, Value word) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Value magnitude = emit.bitAnd(word, 0x7f007f00);
  Value carry =
      emit.bitAnd(emit.add(magnitude, emit.i32(0x01000100)), 0x80008000);
  Value bits = arith::ShRUIOp::create(
      builder, loc, arith::OrIOp::create(builder, loc, magnitude, carry),
      emit.i32(1));
  bits =
      arith::OrIOp::create(builder, loc, bits, emit.bitAnd(word, 0x80008000));
  auto type = VectorType::get(2, builder.getF16Type());
  Value scale = arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(type, APFloat(APFloat::IEEEhalf(), "256")));
  return arith::MulFOp::create(builder, loc, emit.bitcast(type, bits), scale);
}

/// The halves of a word of four 8-bit floats: neighbors with an instruction,
/// and otherwise those of odd bytes first. Both operands of a product have the
/// same order, so the sum has the same terms.
static std::array<Value, 2> widen(Emitter &emit, Value word, bool hasFloat8) {
  if (!hasFloat8)
    return {widenPair(emit, word), widenPair(emit, emit.shl(word, 8))};
  OpBuilder &builder = emit.builder;
  auto convert = [&](Value bits) -> Value {
    Value pair =
        arith::TruncIOp::create(builder, emit.loc, builder.getI16Type(), bits);
    return NVVM::ConvertF8x2ToF16x2Op::create(
        builder, emit.loc, VectorType::get(2, builder.getF16Type()),
        emit.bitcast(VectorType::get(2, builder.getI8Type()), pair),
        /*relu=*/false, Float8E4M3FNType::get(builder.getContext()));
  };
  return {convert(word), convert(arith::ShRUIOp::create(builder, emit.loc, word,
                                                        emit.i32(16)))};
}

struct MmaSyncLowering : OpConversionPattern<MmaSyncOp> {
  MmaSyncLowering(const TypeConverter &converter, MLIRContext *context,
                  TileLoweringState &state)
      : OpConversionPattern(converter, context), state(state) {}

  LogicalResult
  matchAndRewrite(MmaSyncOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Type element = cast<VectorType>(op.getLhs().getType()).getElementType();
    bool isF8 = isa<Float8E4M3FNType>(element);
    SmallVector<Value> lhs = getWords(emit, adaptor.getLhs().front());
    SmallVector<Value> rhs;
    for (ValueRange fragments : adaptor.getRhs())
      llvm::append_range(rhs, getWords(emit, fragments.front()));
    SmallVector<Value> sums = llvm::to_vector(adaptor.getAcc());
    if (!isF8 || state.multipliesFloat8) {
      if (element.isF16())
        for (SmallVector<Value> *words : {&lhs, &rhs})
          for (Value &word : *words)
            word = emit.bitcast(VectorType::get(2, element), word);
      multiply(emit, element, lhs, rhs, sums);
    } else {
      // A word of four columns is the first and the second half of an operand.
      for (int64_t half : {0, 1}) {
        SmallVector<Value> wideLhs, wideRhs;
        auto first = widen(emit, lhs[2 * half], state.hasFloat8),
             second = widen(emit, lhs[2 * half + 1], state.hasFloat8);
        wideLhs = {first[0], second[0], first[1], second[1]};
        for (size_t index = half; index < rhs.size(); index += 2)
          llvm::append_range(wideRhs, widen(emit, rhs[index], state.hasFloat8));
        multiply(emit, rewriter.getF16Type(), wideLhs, wideRhs, sums);
      }
    }
    rewriter.replaceOpWithMultiple(op, {ValueRange(sums)});
    return success();
  }

private:
  /// Registers of four bytes.
  static SmallVector<Value> getWords(Emitter &emit, Value fragments) {
    auto type = cast<VectorType>(fragments.getType());
    int64_t count = type.getNumElements() * type.getElementTypeBitWidth() / 32;
    return emit.getWords(emit.bitcast(
        VectorType::get(count, emit.builder.getI32Type()), fragments));
  }

  /// Adds the product of one instruction for every eight columns to `sums`.
  static void multiply(Emitter &emit, Type element, ArrayRef<Value> lhs,
                       ArrayRef<Value> rhs, MutableArrayRef<Value> sums) {
    OpBuilder &builder = emit.builder;
    Type result = LLVM::LLVMStructType::getLiteral(
        builder.getContext(), SmallVector<Type>(4, builder.getF32Type()));
    for (size_t group = 0; 4 * group < sums.size(); ++group) {
      MutableArrayRef<Value> acc = sums.slice(4 * group, 4);
      ArrayRef<Value> columns = rhs.slice(2 * group, 2);
      Value product;
      if (isa<Float8E4M3FNType>(element)) {
        // Upstream's op does not have this type.
        SmallVector<Value> operands(lhs);
        operands.append(columns.begin(), columns.end());
        operands.append(acc.begin(), acc.end());
        product = LLVM::CallIntrinsicOp::create(
                      builder, emit.loc, result,
                      builder.getStringAttr(
                          "llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32"),
                      operands)
                      .getResults();
      } else {
        auto kind =
            element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
        product = NVVM::MmaOp::create(
            builder, emit.loc, result, lhs, columns, acc,
            ArrayRef<int64_t>{16, 8, 16}, std::nullopt, std::nullopt,
            std::array{kind, kind},
            std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
      }
      for (auto [index, sum] : llvm::enumerate(acc))
        sum = LLVM::ExtractValueOp::create(builder, emit.loc, product, index);
    }
  }

  TileLoweringState &state;
};

} // namespace

void fuse::populateTileWarpPatterns(const TileTypeConverter &converter,
                                    TileLoweringState &state,
                                    RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<SharedBufferLowering, MmaSyncLowering>(converter, context,
                                                      state);
  patterns.add<AsyncCopyLowering, AsyncCopyCommitLowering,
               AsyncCopyWaitLowering, LoadMatrixLowering>(converter, context);
}
