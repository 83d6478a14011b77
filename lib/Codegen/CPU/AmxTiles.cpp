//===- AmxTiles.cpp - Products with AMX tiles -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A panel of 64 outputs stores pairs of inputs. 16 pairs of 16 outputs are
// therefore an AMX tile whose stride is a row of the panel. LLVM configures the
// tiles, whose number of rows is known at run time.
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/Codegen/ElementMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace fuse;

/// Bytes in a row of a tile: 32 bf16 or 16 f32.
static constexpr int64_t kRowBytes = 64;
/// Prefetch distance in steps of 32 terms: 8 KB of a panel. Memory latency
/// exceeds the duration of one step, and tile loads do not trigger the hardware
/// prefetcher in time.
static constexpr int64_t kStepsAhead = 2;

Value CPUKernelBuilder::callAMX(StringRef name, ValueRange operands,
                                bool hasResult) {
  auto symbol = b.getStringAttr("llvm.x86." + name + ".internal");
  if (!hasResult) {
    LLVM::CallIntrinsicOp::create(b, symbol, operands);
    return {};
  }
  Type tile = LLVM::LLVMX86AMXType::get(b.getContext());
  return LLVM::CallIntrinsicOp::create(b, tile, symbol, operands).getResult(0);
}

Value CPUKernelBuilder::addressOf(Value buffer, Value at) {
  int64_t bytes =
      getElementTypeOrSelf(buffer.getType()).getIntOrFloatBitWidth() / 8;
  Value base = memref::ExtractAlignedPointerAsIndexOp::create(b, buffer);
  Value address = arith::IndexCastOp::create(b, b.getI64Type(),
                                             plus(base, times(at, bytes)));
  return LLVM::IntToPtrOp::create(b, LLVM::LLVMPointerType::get(b.getContext()),
                                  address);
}

/// Emits the sums of up to 16 or 32 tokens and one panel. The last of
/// `numTiles` tiles has `rows` tokens, all others have 16. Two tiles are
/// multiplied by two columns of tiles at a time, because AMX has only eight
/// tiles for tokens, weights and sums.
func::FuncOp CPUKernelBuilder::getMultiplyTiles(int64_t numTiles) {
  std::string symbol = "multiply_tiles_" + std::to_string(numTiles);
  if (auto known = kernels.lookupSymbol<func::FuncOp>(symbol))
    return known;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(kernels.getBody());
  auto function = func::FuncOp::create(
      b, symbol,
      b.getFunctionType({bufferOf(inputType), index, index,
                         bufferOf(weightType), index, index, bufferOf(f32),
                         index, index},
                        {}));
  function.setPrivate();
  function->setAttr(kPointersAttrName, b.getUnitAttr());
  function->setAttr("passthrough", b.getArrayAttr(b.getStringAttr("noinline")));
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  Value input = body->getArgument(0), start = body->getArgument(1),
        stride = body->getArgument(2), packed = body->getArgument(3),
        at = body->getArgument(4), steps = body->getArgument(5),
        tile = body->getArgument(6), sumsAt = body->getArgument(7),
        rows = body->getArgument(8);
  int64_t columns = vectors.getPanelColumns();
  auto i16 = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI16IntegerAttr(value));
  };
  auto i64 = [&](Value value) -> Value {
    return arith::IndexCastOp::create(b, b.getI64Type(), value);
  };
  Value wide = i16(kRowBytes), full = i16(kTileRows);
  Value lastRows = arith::IndexCastOp::create(b, b.getI16Type(), rows);
  Value inputStride = i64(times(stride, 2));
  Value panelStride = i64(c(columns * 4));
  // Sums of one block of terms, which are then added to the previous sums.
  Value memory = memref::AllocaOp::create(
      b, MemRefType::get({numTiles * kTileRows * columns}, f32),
      b.getI64IntegerAttr(64));
  Value block = memref::ReinterpretCastOp::create(
      b, bufferOf(f32), memory, /*offset=*/int64_t(0), bufferOf(f32).getShape(),
      ArrayRef<int64_t>{1});
  auto rowsOf = [&](int64_t t) { return t + 1 == numTiles ? lastRows : full; };

  int64_t numColumns = numTiles == 1 ? 4 : 2;
  for (int64_t first = 0; first < columns / kTileRows; first += numColumns) {
    Values sums;
    for (int64_t t = 0; t < numTiles; ++t)
      for (int64_t v = 0; v < numColumns; ++v)
        sums.push_back(callAMX("tilezero", {rowsOf(t), wide}));
    sums =
        loop(c(0), steps, kTileRows, sums, [&](Value step, ValueRange carried) {
          Values tokens, next(carried);
          for (int64_t t = 0; t < numTiles; ++t) {
            Value from =
                plus(plus(start, times(stride, t * kTileRows)), times(step, 2));
            tokens.push_back(
                callAMX("tileloadd64", {rowsOf(t), wide, addressOf(input, from),
                                        inputStride}));
          }
          Value ahead =
              plus(at, times(plus(step, kStepsAhead * kTileRows), columns * 2));
          for (int64_t row = 0; row < kTileRows; ++row)
            for (int64_t v = 0; v < numColumns; ++v) {
              Value line =
                  plus(ahead, row * columns * 2 + (first + v) * kTileRows * 2);
              LLVM::Prefetch::create(b, addressOf(packed, line), /*rw=*/0,
                                     /*hint=*/3, /*cache=*/1);
            }
          for (int64_t v = 0; v < numColumns; ++v) {
            Value from = plus(plus(at, times(step, columns * 2)),
                              (first + v) * kTileRows * 2);
            Value weights =
                callAMX("tileloadd64",
                        {full, wide, addressOf(packed, from), panelStride});
            for (int64_t t = 0; t < numTiles; ++t) {
              Value &sum = next[t * numColumns + v];
              sum = callAMX("tdpbf16ps",
                            {rowsOf(t), wide, wide, sum, tokens[t], weights});
            }
          }
          return next;
        });
    for (int64_t t = 0; t < numTiles; ++t)
      for (int64_t v = 0; v < numColumns; ++v) {
        Value to = c((t * kTileRows * columns) + (first + v) * kTileRows);
        callAMX("tilestored64",
                {rowsOf(t), wide, addressOf(block, to), panelStride,
                 sums[t * numColumns + v]},
                /*hasResult=*/false);
      }
  }
  Value count = times(plus(rows, (numTiles - 1) * kTileRows), columns);
  loop(c(0), count, vectors.lanes, [&](Value place) {
    Value before = load(tile, plus(sumsAt, place));
    store(add(b, before, load(block, place)), tile, plus(sumsAt, place));
  });
  func::ReturnOp::create(b);
  return function;
}

void CPUKernelBuilder::multiplyTiles(
    Value numTokens,
    function_ref<void(func::FuncOp, Value token, Value rows)> call) {
  loop(c(0), numTokens, 2 * kTileRows, [&](Value token) {
    Value rest = arith::SubIOp::create(b, numTokens, token);
    rest = arith::MinSIOp::create(b, rest, c(2 * kTileRows));
    Value isFew =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sle, rest, c(kTileRows));
    when(isFew, [&] { call(getMultiplyTiles(1), token, rest); });
    Value isMany =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sgt, rest, c(kTileRows));
    when(isMany, [&] {
      call(getMultiplyTiles(2), token,
           arith::SubIOp::create(b, rest, c(kTileRows)));
    });
  });
}
