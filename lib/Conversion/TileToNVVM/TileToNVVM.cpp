//===- TileToNVVM.cpp - Lower tile ops to nvvm, llvm, scf and arith -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileLowering.h"

#include "fuse/Conversion/TileToNVVM/TileToNVVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/SCF/Transforms/Patterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace fuse {
#define GEN_PASS_DEF_CONVERTTILETONVVMPASS
#include "fuse/Conversion/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;
using namespace tile;

#define DEBUG_TYPE "convert-tile-to-nvvm"

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

/// `type` with 8-bit floats replaced by bytes; LLVM does not have 8-bit floats.
static Type toBytes(Type type) {
  if (isa<Float8E4M3FNType, Float8E5M2Type>(type))
    return IntegerType::get(type.getContext(), 8);
  return type;
}

TileTypeConverter::TileTypeConverter(MLIRContext *context) {
  addConversion([](Type type) { return type; });
  addConversion([](VectorType type) -> Type {
    return type.clone(toBytes(type.getElementType()));
  });
  addConversion([](FloatType type) { return toBytes(type); });
  addConversion([](BufferType type) -> Type {
    unsigned space = type.getMemory() == Memory::Shared ? 3 : 1;
    return LLVM::LLVMPointerType::get(type.getContext(), space);
  });
  addConversion([](TensorMapType type) -> Type {
    return LLVM::LLVMPointerType::get(type.getContext());
  });
  addConversion([](SemaphoreType type) -> Type {
    return LLVM::LLVMPointerType::get(type.getContext(), 1);
  });
  addConversion([](SharedType type) -> Type {
    return IntegerType::get(type.getContext(), 64);
  });
  auto toPointers = [](MLIRContext *context, SmallVectorImpl<Type> &results) {
    results.append(2, LLVM::LLVMPointerType::get(context, 3));
    return success();
  };
  addConversion([=](RingType type, SmallVectorImpl<Type> &results) {
    return toPointers(type.getContext(), results);
  });
  addConversion([=](StageType type, SmallVectorImpl<Type> &results) {
    return toPointers(type.getContext(), results);
  });
  addConversion([](AccType type, SmallVectorImpl<Type> &results) {
    results.append(type.getNumRegisters(), type.getElementType());
    return success();
  });
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

LLVM::GlobalOp TileLoweringState::createShared(OpBuilder &builder, Type element,
                                               int64_t count,
                                               int64_t alignment) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  std::string name;
  do
    name = ("__tile_shared_" + Twine(nextGlobal++)).str();
  while (module.lookupSymbol(name));
  return LLVM::GlobalOp::create(
      builder, module.getLoc(), LLVM::LLVMArrayType::get(element, count),
      /*isConstant=*/false,
      count ? LLVM::Linkage::Internal : LLVM::Linkage::External, name,
      Attribute(), alignment, /*addrSpace=*/3);
}

LLVM::GlobalOp TileLoweringState::getDynamicShared(OpBuilder &builder) {
  // The swizzle pattern repeats every 1024 bytes.
  if (!dynamicShared)
    dynamicShared = createShared(builder, builder.getI8Type(), 0, 1024);
  return dynamicShared;
}

//===----------------------------------------------------------------------===//
// Emitter
//===----------------------------------------------------------------------===//

Value Emitter::i32(int64_t value) {
  return arith::ConstantOp::create(
      builder, loc,
      builder.getIntegerAttr(builder.getI32Type(),
                             APInt(64, value, true).trunc(32)));
}
Value Emitter::i64(int64_t value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getI64IntegerAttr(value));
}
Value Emitter::add(Value lhs, Value rhs) {
  return arith::AddIOp::create(builder, loc, lhs, rhs);
}
Value Emitter::mul(Value lhs, Value rhs) {
  return arith::MulIOp::create(builder, loc, lhs, rhs);
}
Value Emitter::div(Value lhs, int64_t rhs) {
  return arith::DivUIOp::create(builder, loc, lhs, i32(rhs));
}
Value Emitter::rem(Value lhs, int64_t rhs) {
  return arith::RemUIOp::create(builder, loc, lhs, i32(rhs));
}
Value Emitter::bitAnd(Value lhs, int64_t rhs) {
  return arith::AndIOp::create(builder, loc, lhs, i32(rhs));
}
Value Emitter::shl(Value lhs, int64_t rhs) {
  return arith::ShLIOp::create(builder, loc, lhs, i32(rhs));
}
Value Emitter::extend(Value value) {
  return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), value);
}
Value Emitter::bitcast(Type type, Value value) {
  if (value.getType() == type)
    return value;
  return LLVM::BitcastOp::create(builder, loc, type, value);
}
SmallVector<Value> Emitter::getWords(Value words) {
  auto vector = dyn_cast<VectorType>(words.getType());
  if (!vector)
    return {words};
  SmallVector<Value> elements;
  for (int64_t index = 0; index < vector.getNumElements(); ++index)
    elements.push_back(
        LLVM::ExtractElementOp::create(builder, loc, words, i32(index)));
  return elements;
}
Value Emitter::mapWords(Value words, function_ref<Value(Value)> map) {
  if (!isa<VectorType>(words.getType()))
    return map(words);
  for (auto [index, word] : llvm::enumerate(getWords(words)))
    words = LLVM::InsertElementOp::create(builder, loc, words, map(word),
                                          i32(index));
  return words;
}
Value Emitter::step(Value pointer, Type element, Value index) {
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), element, pointer,
                             ValueRange{index});
}
Value Emitter::threadId() {
  return NVVM::ThreadIdXOp::create(builder, loc, builder.getI32Type());
}
Value Emitter::laneId() { return bitAnd(threadId(), 31); }
Value Emitter::warpId() {
  return NVVM::ShflOp::create(builder, loc, builder.getI32Type(), i32(-1),
                              div(threadId(), 32), i32(0), i32(31),
                              NVVM::ShflKind::idx, UnitAttr());
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

/// Translates `tile.rolled` on a loop to the LLVM annotation on its branch.
static void keepRolled(scf::ForOp loop) {
  if (!loop->removeAttr(kRolledAttrName))
    return;
  MLIRContext *context = loop.getContext();
  auto unroll = LLVM::LoopUnrollAttr::get(context, BoolAttr::get(context, true),
                                          {}, {}, {}, {}, {}, {});
  auto annotation = LLVM::LoopAnnotationAttr::get(
      context, /*disableNonforced=*/{}, /*vectorize=*/{}, /*interleave=*/{},
      unroll, /*unrollAndJam=*/{}, /*licm=*/{}, /*distribute=*/{},
      /*pipeline=*/{}, /*peeled=*/{}, /*unswitch=*/{}, /*mustProgress=*/{},
      /*isVectorized=*/{}, /*startLoc=*/{}, /*endLoc=*/{},
      /*parallelAccesses=*/{});
  loop->setAttr("loop_annotation", annotation);
}

namespace {
struct ConvertTileToNVVMPass
    : fuse::impl::ConvertTileToNVVMPassBase<ConvertTileToNVVMPass> {
  using ConvertTileToNVVMPassBase::ConvertTileToNVVMPassBase;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    TileTypeConverter converter(context);
    TileLoweringState state{getOperation(), nullptr, float8, float8Products};
    RewritePatternSet patterns(context);
    populateTileKernelPatterns(converter, state, patterns);
    populateTileMemoryPatterns(converter, state, patterns);
    populateTileWarpPatterns(converter, state, patterns);
    populateTileComputePatterns(converter, state, patterns);
    ConversionTarget target(*context);
    target.addIllegalDialect<TileDialect>();
    target.addLegalDialect<arith::ArithDialect, LLVM::LLVMDialect,
                           math::MathDialect, NVVM::NVVMDialect>();
    scf::populateSCFStructuralTypeConversionsAndLegality(converter, patterns,
                                                         target);
    countOps();
    if (failed(applyPartialConversion(getOperation(), target,
                                      std::move(patterns))))
      return signalPassFailure();
    // PTX has no erf. All other math ops are one or two instructions.
    RewritePatternSet expansions(context);
    populatePolynomialApproximateErfPattern(expansions);
    if (failed(applyPatternsGreedily(getOperation(), std::move(expansions))))
      return signalPassFailure();
    getOperation()->walk([](scf::ForOp loop) { keepRolled(loop); });
  }

  void countOps() {
    getOperation()->walk([&](Operation *op) {
      if (isa<KernelOp>(op))
        ++numKernels;
      else if (isa_and_present<TileDialect>(op->getDialect()))
        ++numOps;
    });
  }
};
} // namespace
