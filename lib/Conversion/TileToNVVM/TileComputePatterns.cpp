//===- TileComputePatterns.cpp - Lower products, epilogues and conversions ===//
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
// Accumulators
//===----------------------------------------------------------------------===//

static Type getStruct(ValueRange registers) {
  return LLVM::LLVMStructType::getLiteral(
      registers.front().getContext(), llvm::to_vector(registers.getTypes()));
}

static Value pack(Emitter &emit, ValueRange registers) {
  Value result =
      LLVM::PoisonOp::create(emit.builder, emit.loc, getStruct(registers));
  for (auto [index, value] : llvm::enumerate(registers))
    result = LLVM::InsertValueOp::create(emit.builder, emit.loc, result, value,
                                         index);
  return result;
}

static SmallVector<Value> unpack(Emitter &emit, Value aggregate, size_t count) {
  SmallVector<Value> registers;
  for (size_t index = 0; index < count; ++index)
    registers.push_back(
        LLVM::ExtractValueOp::create(emit.builder, emit.loc, aggregate, index));
  return registers;
}

/// If the values at `index` and `index + 1` were unpacked from one pair of
/// bf16, returns the first one. The pair's bits can then be reused.
static OpResult getPair(PackOp op, size_t index) {
  auto first = dyn_cast<OpResult>(op.getValues()[index]);
  auto second = dyn_cast<OpResult>(op.getValues()[index + 1]);
  if (!first || !second || first.getOwner() != second.getOwner() ||
      first.getResultNumber() % 2 != 0 ||
      second.getResultNumber() != first.getResultNumber() + 1)
    return {};
  auto unpack = dyn_cast<tile::UnpackOp>(first.getOwner());
  Type element = cast<VectorType>(op.getVector().getType()).getElementType();
  if (!unpack || !element.isBF16() ||
      cast<VectorType>(unpack.getVector().getType()).getElementType() !=
          element)
    return {};
  return first;
}

/// The value of the lane whose number differs in the bit `distance`.
static Value shuffle(OpBuilder &builder, Location loc, Value value,
                     int64_t distance) {
  Emitter emit(builder, loc);
  return NVVM::ShflOp::create(builder, loc, builder.getF32Type(), emit.i32(-1),
                              value, emit.i32(distance), emit.i32(31),
                              NVVM::ShflKind::bfly, UnitAttr());
}

namespace {

struct AccZeroLowering : OpConversionPattern<AccZeroOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(AccZeroOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Value zero = arith::ConstantOp::create(rewriter, op.getLoc(),
                                           rewriter.getF32FloatAttr(0));
    SmallVector<Value> registers(op.getAcc().getType().getNumRegisters(), zero);
    rewriter.replaceOpWithMultiple(op, {ValueRange(registers)});
    return success();
  }
};

/// An instruction that has every register of every accumulator as input and
/// output.
template <typename OpT>
struct TiedLowering : OpConversionPattern<OpT> {
  TiedLowering(const TypeConverter &converter, MLIRContext *context,
               StringRef assembly)
      : OpConversionPattern<OpT>(converter, context), assembly(assembly) {}

  LogicalResult
  matchAndRewrite(OpT op,
                  typename OpConversionPattern<OpT>::OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    SmallVector<Value> registers;
    for (ValueRange acc : adaptor.getAccs())
      llvm::append_range(registers, acc);
    if (registers.empty()) {
      rewriter.eraseOp(op);
      return success();
    }
    std::string constraints;
    for (size_t index = 0; index < registers.size(); ++index)
      constraints += index ? ",=f" : "=f";
    for (size_t index = 0; index < registers.size(); ++index)
      constraints += "," + std::to_string(index);
    Value result =
        LLVM::InlineAsmOp::create(
            rewriter, op.getLoc(), getStruct(registers), registers, assembly,
            constraints, /*has_side_effects=*/true, /*is_align_stack=*/false,
            LLVM::tailcallkind::TailCallKind::None,
            LLVM::AsmDialectAttr::get(rewriter.getContext(),
                                      LLVM::AsmDialect::AD_ATT),
            ArrayAttr())
            .getResult(0);
    SmallVector<Value> tied = unpack(emit, result, registers.size());
    SmallVector<ValueRange> results;
    ValueRange rest(tied);
    for (ValueRange acc : adaptor.getAccs()) {
      results.push_back(rest.take_front(acc.size()));
      rest = rest.drop_front(acc.size());
    }
    rewriter.replaceOpWithMultiple(op, results);
    return success();
  }

  StringRef assembly;
};

struct MmaLowering : OpConversionPattern<MmaOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(MmaOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    MLIRContext *context = getContext();
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    bool isF8 = isa<Float8E4M3FNType>(op.getLhs().getType().getElementType());
    auto type = isF8 ? NVVM::WGMMATypes::e4m3 : NVVM::WGMMATypes::bf16;
    auto shape = NVVM::MMAShapeAttr::get(
        context, 64, op.getAcc().getType().getColumns(), isF8 ? 32 : 16);
    Value lhs = adaptor.getLhs().front(), rhs = adaptor.getRhs().front();
    ValueRange registers = adaptor.getAcc();
    Value acc = pack(emit, registers);
    for (int64_t step = 0; step < 4; ++step) {
      // Each step is 32 bytes further along K in the swizzle atom; the unit is
      // 16 bytes.
      Value offset = emit.i64(2 * step);
      acc = NVVM::WgmmaMmaAsyncOp::create(
          rewriter, loc, acc.getType(), acc, emit.add(lhs, offset),
          emit.add(rhs, offset), shape, type, type, NVVM::WGMMATypes::f32,
          NVVM::WGMMAScaleOut::one, NVVM::WGMMAScaleIn::one,
          NVVM::WGMMAScaleIn::one, NVVM::MMALayout::row, NVVM::MMALayout::col,
          NVVM::MMAIntOverflowAttr());
    }
    SmallVector<Value> results = unpack(emit, acc, registers.size());
    rewriter.replaceOpWithMultiple(op, {ValueRange(results)});
    return success();
  }
};

struct MmaCommitLowering : OpConversionPattern<MmaCommitOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(MmaCommitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::WgmmaGroupSyncAlignedOp>(op);
    return success();
  }
};

struct MmaWaitLowering : OpConversionPattern<MmaWaitOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(MmaWaitOp op, OneToNOpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::WgmmaWaitGroupSyncOp>(op,
                                                            op.getPending());
    return success();
  }
};

struct AccValuesLowering : OpConversionPattern<AccValuesOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(AccValuesOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, adaptor.getAcc());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Reductions and conversions
//===----------------------------------------------------------------------===//

struct ReduceLowering : OpConversionPattern<tile::ReduceOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::ReduceOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type f32 = rewriter.getF32Type();
    Value scratch = adaptor.getScratch().front();
    auto combine = [&](Value x, Value y) -> Value {
      if (op.getMax())
        return arith::MaximumFOp::create(rewriter, loc, x, y);
      return arith::AddFOp::create(rewriter, loc, x, y);
    };
    Value sum = adaptor.getValue().front();
    for (int64_t distance : {16, 8, 4, 2, 1})
      sum = combine(sum, shuffle(rewriter, loc, sum, distance));
    int64_t first = op.getFirst(), warps = op.getLast() - first;
    Value leads = arith::CmpIOp::create(rewriter, loc, arith::CmpIPredicate::eq,
                                        emit.laneId(), emit.i32(0));
    auto branch = scf::IfOp::create(rewriter, loc, leads);
    {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPointToStart(branch.thenBlock());
      Value warp = emit.add(emit.div(emit.threadId(), 32), emit.i32(-first));
      LLVM::StoreOp::create(rewriter, loc, sum, emit.step(scratch, f32, warp),
                            4);
    }
    NVVM::BarrierOp::create(rewriter, loc, TypeRange{},
                            emit.i32(op.getBarrier()), emit.i32(warps * 32),
                            NVVM::BarrierReductionAttr(), Value());
    Value total;
    for (int64_t warp = 0; warp < warps; ++warp) {
      Value part = LLVM::LoadOp::create(
          rewriter, loc, f32, emit.step(scratch, f32, emit.i32(warp)), 4);
      total = total ? combine(total, part) : part;
    }
    rewriter.replaceOp(op, total);
    return success();
  }
};

/// The code of `value` in f8E4M3FN, in the low byte of an i32: rounded to
/// nearest even and saturated. NaN stays NaN.
static Value convertToF8(Emitter &emit, Value value) {
  OpBuilder &builder = emit.builder;
  Location loc = emit.loc;
  Type i32 = builder.getI32Type(), f32 = builder.getF32Type();
  auto f32Constant = [&](float constant) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getF32FloatAttr(constant));
  };
  auto shiftRight = [&](Value bits, int64_t count) -> Value {
    return arith::ShRUIOp::create(builder, loc, bits, emit.i32(count));
  };
  constexpr int64_t kBias = 127 - 7, kDropped = 23 - 3, kNaN = 0x7f;
  constexpr float kLargest = 448, kLeastNormal = 0x1p-6F;
  // Adding it to less than the least normal number leaves multiples of 2^-9,
  // the distance of subnormal numbers, in the last bits.
  constexpr float kAligned = 0x1p14F;
  Value bits = emit.bitcast(i32, value);
  Value magnitude = arith::MinNumFOp::create(
      builder, loc, emit.bitcast(f32, emit.bitAnd(bits, 0x7fffffff)),
      f32Constant(kLargest));
  Value wide = emit.bitcast(i32, magnitude);
  Value odd = emit.bitAnd(shiftRight(wide, kDropped), 1);
  Value normal = emit.add(
      shiftRight(
          emit.add(emit.add(wide, emit.i32((1 << (kDropped - 1)) - 1)), odd),
          kDropped),
      emit.i32(-(kBias << 3)));
  Value aligned =
      emit.bitcast(i32, arith::AddFOp::create(builder, loc, magnitude,
                                              f32Constant(kAligned)));
  Value subnormal = emit.add(aligned, emit.i32(-static_cast<int64_t>(
                                          llvm::bit_cast<int32_t>(kAligned))));
  Value isSmall = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::OLT,
                                        magnitude, f32Constant(kLeastNormal));
  Value code =
      arith::SelectOp::create(builder, loc, isSmall, subnormal, normal);
  Value isNaN = arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNO,
                                      value, value);
  code = arith::SelectOp::create(builder, loc, isNaN, emit.i32(kNaN), code);
  Value sign = emit.bitAnd(shiftRight(bits, 24), 0x80);
  return arith::OrIOp::create(builder, loc, code, sign);
}

struct LaneMaxLowering : OpConversionPattern<LaneMaxOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(LaneMaxOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Value value = adaptor.getValue().front();
    for (int64_t distance : {16, 8, 4, 2, 1})
      if (op.getLanes() & distance)
        value = arith::MaximumFOp::create(
            rewriter, op.getLoc(), value,
            shuffle(rewriter, op.getLoc(), value, distance));
    rewriter.replaceOp(op, value);
    return success();
  }
};

struct PackLowering : OpConversionPattern<PackOp> {
  PackLowering(const TypeConverter &converter, MLIRContext *context,
               TileLoweringState &state)
      : OpConversionPattern(converter, context), state(state) {}

  LogicalResult
  matchAndRewrite(PackOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type i32 = rewriter.getI32Type();
    Type element = cast<VectorType>(op.getVector().getType()).getElementType();
    Type result = getTypeConverter()->convertType(op.getVector().getType());
    SmallVector<Value> values;
    for (ValueRange value : adaptor.getValues())
      values.push_back(value.front());
    if (element.isF32()) {
      Value vector = LLVM::PoisonOp::create(rewriter, loc, result);
      for (auto [index, value] : llvm::enumerate(values))
        vector = LLVM::InsertElementOp::create(rewriter, loc, vector, value,
                                               emit.i32(index));
      rewriter.replaceOp(op, vector);
      return success();
    }
    if (values.size() == 1) {
      Value pair = convertPair(emit, element, values[0], values[0]);
      Value one = arith::TruncIOp::create(
          rewriter, loc,
          rewriter.getIntegerType(element.getIntOrFloatBitWidth()), pair);
      rewriter.replaceOp(op, emit.bitcast(result, one));
      return success();
    }
    SmallVector<Value> pairs;
    for (size_t index = 0; index < values.size(); index += 2) {
      OpResult pair = getPair(op, index);
      pairs.push_back(
          pair ? getWord(emit, rewriter, pair)
               : convertPair(emit, element, values[index], values[index + 1]));
    }
    if (pairs.size() == 1) {
      rewriter.replaceOp(op, emit.bitcast(result, pairs.front()));
      return success();
    }
    // 32-bit words: one pair of 16-bit values, or two pairs of 8-bit values.
    SmallVector<Value> words;
    if (element.getIntOrFloatBitWidth() == 16) {
      words = pairs;
    } else {
      if (pairs.size() % 2 != 0)
        return rewriter.notifyMatchFailure(op, "not a whole number of words");
      for (size_t index = 0; index < pairs.size(); index += 2) {
        Value low = arith::ExtUIOp::create(rewriter, loc, i32, pairs[index]);
        Value high =
            arith::ExtUIOp::create(rewriter, loc, i32, pairs[index + 1]);
        words.push_back(
            arith::OrIOp::create(rewriter, loc, low, emit.shl(high, 16)));
      }
    }
    if (words.size() == 1) {
      rewriter.replaceOp(op, emit.bitcast(result, words.front()));
      return success();
    }
    Value vector = LLVM::PoisonOp::create(
        rewriter, loc,
        VectorType::get(static_cast<int64_t>(words.size()), i32));
    for (auto [index, word] : llvm::enumerate(words))
      vector = LLVM::InsertElementOp::create(rewriter, loc, vector, word,
                                             emit.i32(index));
    rewriter.replaceOp(op, emit.bitcast(result, vector));
    return success();
  }

private:
  /// The 32-bit word with the pair whose first value is `first`.
  static Value getWord(Emitter &emit, ConversionPatternRewriter &rewriter,
                       OpResult first) {
    auto unpack = cast<tile::UnpackOp>(first.getOwner());
    Value vector = rewriter.getRemappedValue(unpack.getVector());
    Type i32 = rewriter.getI32Type();
    int64_t words = unpack.getNumResults() / 2;
    if (words == 1)
      return emit.bitcast(i32, vector);
    vector = emit.bitcast(VectorType::get(words, i32), vector);
    return LLVM::ExtractElementOp::create(
        rewriter, unpack.getLoc(), vector,
        emit.i32(first.getResultNumber() / 2));
  }

  /// Converts two values and packs them in 16 or 32 bits; `low` is in the low
  /// half.
  Value convertPair(Emitter &emit, Type element, Value low, Value high) const {
    OpBuilder &builder = emit.builder;
    auto rn = NVVM::FPRoundingMode::RN;
    if (element.isBF16() || element.isF16()) {
      Value pair;
      if (element.isBF16())
        pair = NVVM::ConvertF32x2ToBF16x2Op::create(builder, emit.loc,
                                                    VectorType::get(2, element),
                                                    high, low, Value(), rn);
      else
        pair = NVVM::ConvertF32x2ToF16x2Op::create(builder, emit.loc,
                                                   VectorType::get(2, element),
                                                   high, low, Value(), rn);
      return emit.bitcast(builder.getI32Type(), pair);
    }
    if (!state.hasFloat8) {
      Value both =
          arith::OrIOp::create(builder, emit.loc, convertToF8(emit, low),
                               emit.shl(convertToF8(emit, high), 8));
      return arith::TruncIOp::create(builder, emit.loc, builder.getI16Type(),
                                     both);
    }
    return NVVM::ConvertF32x2ToF8x2Op::create(
        builder, emit.loc, builder.getI16Type(), high, low, rn,
        NVVM::SaturationMode::SATFINITE, /*relu=*/false, element);
  }

  TileLoweringState &state;
};

/// Uses the approximate instruction, for which math has no op. math.exp2 keeps
/// subnormal numbers and needs three more instructions.
struct Exp2Lowering : OpConversionPattern<tile::Exp2Op> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::Exp2Op op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, rewriter.getF32Type(),
        rewriter.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"),
        ValueRange{adaptor.getValue().front()});
    return success();
  }
};

struct ReciprocalLowering : OpConversionPattern<ReciprocalOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(ReciprocalOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<NVVM::RcpApproxFtzF32Op>(
        op, rewriter.getF32Type(), adaptor.getValue().front());
    return success();
  }
};

struct MarkLowering : OpConversionPattern<MarkOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(MarkOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Value vector = adaptor.getVector().front();
    int64_t count = cast<VectorType>(op.getVector().getType()).getNumElements();
    Value odd = emit.bitAnd(adaptor.getEpoch().front(), 1);
    Value mark = arith::XOrIOp::create(rewriter, loc, odd, emit.i32(1));
    Value words =
        emit.bitcast(VectorType::get(count, rewriter.getI32Type()), vector);
    words = emit.mapWords(words, [&](Value word) -> Value {
      return arith::OrIOp::create(rewriter, loc, emit.bitAnd(word, ~1), mark);
    });
    rewriter.replaceOp(op, emit.bitcast(vector.getType(), words));
    return success();
  }
};

struct UnpackLowering : OpConversionPattern<tile::UnpackOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::UnpackOp op, OneToNOpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type i32 = rewriter.getI32Type();
    int64_t words = op.getNumResults() / 2;
    Value vector = adaptor.getVector().front();
    SmallVector<SmallVector<Value>> results;
    if (cast<VectorType>(vector.getType()).getElementType().isF32()) {
      for (unsigned index = 0; index < op.getNumResults(); ++index)
        results.push_back({LLVM::ExtractElementOp::create(rewriter, loc, vector,
                                                          emit.i32(index))});
      rewriter.replaceOpWithMultiple(op, std::move(results));
      return success();
    }
    if (cast<VectorType>(vector.getType()).getElementType().isF16()) {
      for (unsigned index = 0; index < op.getNumResults(); ++index) {
        Value element = LLVM::ExtractElementOp::create(rewriter, loc, vector,
                                                       emit.i32(index));
        results.push_back({arith::ExtFOp::create(
            rewriter, loc, rewriter.getF32Type(), element)});
      }
      rewriter.replaceOpWithMultiple(op, std::move(results));
      return success();
    }
    if (op.getNumResults() == 1) {
      Value bits = arith::ExtUIOp::create(
          rewriter, loc, i32, emit.bitcast(rewriter.getI16Type(), vector));
      results.push_back(
          {emit.bitcast(rewriter.getF32Type(), emit.shl(bits, 16))});
      rewriter.replaceOpWithMultiple(op, std::move(results));
      return success();
    }
    Value source = emit.bitcast(
        words == 1 ? i32 : Type(VectorType::get(words, i32)), vector);
    for (int64_t index = 0; index < words; ++index) {
      Value word = source;
      if (words != 1)
        word = LLVM::ExtractElementOp::create(rewriter, loc, source,
                                              emit.i32(index));
      // A bf16 is the upper half of the equal f32.
      Value low = emit.shl(word, 16), high = emit.bitAnd(word, 0xffff0000);
      for (Value bits : {low, high})
        results.push_back({emit.bitcast(rewriter.getF32Type(), bits)});
    }
    rewriter.replaceOpWithMultiple(op, std::move(results));
    return success();
  }
};

} // namespace

void fuse::populateTileComputePatterns(const TileTypeConverter &converter,
                                       TileLoweringState &state,
                                       RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  patterns.add<PackLowering>(converter, context, state);
  patterns.add<TiedLowering<AccFenceOp>>(converter, context,
                                         "wgmma.fence.sync.aligned;");
  patterns.add<TiedLowering<AccWaitOp>>(converter, context,
                                        "wgmma.wait_group.sync.aligned 0;");
  patterns.add<AccZeroLowering, MmaLowering, MmaCommitLowering, MmaWaitLowering,
               AccValuesLowering, ReduceLowering, LaneMaxLowering, Exp2Lowering,
               ReciprocalLowering, MarkLowering, UnpackLowering>(converter,
                                                                 context);
}
