//===- FourBits.cpp - Weights of 4 bits in kernels for a CPU --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A task dequantizes a block of its panel to memory that stays in the cache,
// and multiplies all of its tokens by it. Codes are packed like other weights:
// a vector has the words of 8 codes of adjacent outputs.
//
//===----------------------------------------------------------------------===//

#include "fuse/Codegen/CPU/KernelBuilder.h"
#include "fuse/Codegen/ElementMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fuse;

/// Bytes of a dequantized block, which stay in the L1 cache of 48 KB.
static constexpr int64_t kBlockBytes = 32 * 1024;
/// Codes in a word.
static constexpr int64_t kCodes = 8;

OperandRange fuse::getScaleOperands(Operation *op, unsigned weight) {
  return llvm::TypeSwitch<Operation *, OperandRange>(op)
      .Case<GatedMLPOp, MLPOp, NormLinearOp, FusedLinearOp>([&](auto fused) {
        unsigned number = fused.getQuantAttr().getNumScaleOperands();
        return fused.getChannelScales().slice(weight * number, number);
      });
}

std::string fuse::getFourBitProblem(const MlpProblem &problem) {
  int64_t group = problem.quant.getBlockColumns();
  if (group % kCodes != 0)
    return "a group of " + std::to_string(group) +
           " inputs is not a multiple of 8";
  Type real = problem.rounding.getTypeOf(RoundingPoint::Dequantized,
                                         getElementTypeOrSelf(problem.x));
  if (!real.isBF16() && !real.isF32())
    return "weights are dequantized to another type than f32 or bf16";
  SmallVector<Value> operands = {problem.gate, problem.up};
  for (const DecodeOutput &output : problem.outputs)
    operands.push_back(output.weight);
  unsigned numWeights =
      problem.outputs.size() + problem.hasGemm1() + problem.isGated();
  for (unsigned i = 0; i < numWeights; ++i)
    llvm::append_range(operands, getScaleOperands(problem.op, i));
  for (Value operand : operands)
    if (operand && !isa<BlockArgument>(operand))
      return "a weight of 4 bits or its scale is not an argument of the "
             "function";
  return "";
}

void CPUKernelBuilder::addCodes(Codes &codes, ArrayRef<Value> weights,
                                unsigned firstWeight) {
  auto type = cast<RankedTensorType>(weights.front().getType());
  int64_t bytes = type.getDimSize(1), columns = vectors.getPanelColumns();
  codes.rows = type.getDimSize(0);
  codes.width = columns / static_cast<int64_t>(weights.size());
  codes.groups = 2 * bytes / p.quant.getBlockColumns();
  codes.words = bytes / 4;
  int64_t panels = llvm::divideCeil(codes.rows, codes.width);
  SmallVector<int64_t> operands;
  for (Value weight : weights)
    operands.push_back(cast<BlockArgument>(weight).getArgNumber());
  NamedAttrList recipe;
  recipe.push_back(b.getNamedAttr("operands", b.getI64ArrayAttr(operands)));
  recipe.push_back(entry("recipe", "panels"));
  recipe.push_back(entry("columns", columns));
  recipe.push_back(entry("tiles", panels));
  recipe.push_back(entry("steps", codes.words));
  recipe.push_back(entry("bytes", panels * columns * bytes));
  addArgument(codes.packed, b.getI32Type(),
              entry("packed", packedWeights.size()));
  packedWeights.push_back(recipe.getDictionary(b.getContext()));
  codes.scales.resize(weights.size());
  for (unsigned i = 0; i < weights.size(); ++i) {
    OperandRange scales = getScaleOperands(p.op, firstWeight + i);
    addOperand(codes.scales[i].scale, scales.front());
    if (p.quant.getHasGroupZeros())
      addOperand(codes.scales[i].zero, scales[1]);
    if (p.quant.getTensorScale() != TensorScale::None)
      addOperand(codes.scales[i].whole, scales.back());
  }
}

/// Allocates memory of a phase.
Value CPUKernelBuilder::allocate(int64_t size, Type element) {
  Type storage = getStorage(element);
  Value memory = memref::AllocaOp::create(b, MemRefType::get({size}, storage),
                                          b.getI64IntegerAttr(64));
  return memref::ReinterpretCastOp::create(
      b, bufferOf(element), memory, /*offset=*/int64_t(0),
      bufferOf(element).getShape(), ArrayRef<int64_t>{1});
}

void CPUKernelBuilder::allocateBlock(Codes &codes) {
  int64_t columns = vectors.getPanelColumns();
  int64_t most =
      kBlockBytes / (columns * weightType.getIntOrFloatBitWidth() / 8);
  // A segment is in one group and has whole words. AMX adds 32 terms at once.
  int64_t group = p.quant.getBlockColumns();
  int64_t unit = group % kTermsPerTile == 0 ? kTermsPerTile : kCodes;
  codes.segment = group;
  while (codes.segment > most || group % codes.segment != 0)
    codes.segment -= unit;
  codes.block = most / codes.segment * codes.segment;
  codes.block = std::min(codes.block, codes.words * kCodes);
  codes.real = allocate(codes.block * columns, weightType);
  codes.scale = allocate(columns, f32);
  codes.zero = allocate(columns, f32);
}

/// Writes the scales and zero points of a group in all columns of a panel.
void CPUKernelBuilder::loadScales(const Codes &codes, Value panel,
                                  Value group) {
  auto get = [&](Value buffer, Value at) -> Value {
    return memref::LoadOp::create(b, buffer, at);
  };
  for (unsigned i = 0; i < codes.scales.size(); ++i) {
    const Codes::Scales &operands = codes.scales[i];
    loop(c(0), c(codes.width), 1, [&](Value column) {
      // Columns beyond the last row are not stored.
      Value row = arith::MinSIOp::create(
          b, plus(times(panel, codes.width), column), c(codes.rows - 1));
      Value at = plus(times(row, codes.groups), group);
      Value to = plus(column, i * codes.width);
      Value scale = get(operands.scale, at);
      Type type = p.quant.getScaleType();
      if (isa<Float8E8M0FNUType>(type))
        scale =
            decodeExponent(b, arith::ExtUIOp::create(b, b.getI32Type(), scale));
      else if (type.isBF16())
        scale = widen(b, arith::BitcastOp::create(b, type, scale));
      else
        scale = widen(b, scale);
      if (p.quant.getTensorScale() == TensorScale::Multiply)
        scale = mul(b, scale, get(operands.whole, c(0)));
      else if (p.quant.getTensorScale() == TensorScale::Divide)
        scale = arith::DivFOp::create(b, scale, get(operands.whole, c(0)));
      memref::StoreOp::create(b, scale, codes.scale, to);
      if (p.quant.getHasGroupZeros())
        memref::StoreOp::create(b, widen(b, get(operands.zero, at)), codes.zero,
                                to);
    });
  }
}

/// Writes the real values of the words at `at`, 8 codes of each output, to the
/// block from input `to` on.
void CPUKernelBuilder::decodeWords(const Codes &codes, Value at, Value to) {
  int64_t columns = vectors.getPanelColumns();
  VectorType ints = vectorOf(b.getI32Type());
  auto number = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(ints, value));
  };
  forBlocks(columns, vectors.lanes, [&](Value column) {
    Value words = vector::LoadOp::create(b, ints, codes.packed,
                                         plus(times(at, columns), column));
    Value scale = load(codes.scale, column), zero;
    if (p.quant.getHasGroupZeros())
      zero = load(codes.zero, column);
    else if (p.quant.getZeroPoint())
      zero = arith::ConstantOp::create(
          b, DenseElementsAttr::get(vectorOf(f32),
                                    float(*p.quant.getZeroPoint())));
    auto decode = [&](int32_t i) -> Value {
      Value code = arith::AndIOp::create(
          b, arith::ShRUIOp::create(b, words, number(4 * i)), number(15));
      Value value = decodeFourBits(b, code, p.quant.getStorageType());
      if (zero)
        value = arith::SubFOp::create(b, value, zero);
      return mul(b, value, scale);
    };
    for (int32_t i = 0; i < kCodes; i += isPaired() ? 2 : 1) {
      Value place =
          plus(times(plus(to, i), columns), times(column, isPaired() ? 2 : 1));
      if (!isPaired()) {
        store(decode(i), codes.real, place);
        continue;
      }
      // The even input is in the lower half of a pair.
      auto half = [&](int32_t k) -> Value {
        Value narrow = roundTo(b, decode(k), weightType);
        narrow = arith::BitcastOp::create(b, vectorOf(b.getI16Type()), narrow);
        return arith::ExtUIOp::create(b, ints, narrow);
      };
      Value low = half(i);
      Value high = arith::ShLIOp::create(b, half(i + 1), number(16));
      Value pair = vector::BitCastOp::create(
          b, VectorType::get({2 * vectors.lanes}, b.getI16Type()),
          arith::OrIOp::create(b, low, high));
      vector::StoreOp::create(b, pair, codes.real, place);
    }
  });
}

void CPUKernelBuilder::dequantizeBlock(const Codes &codes, Value panel,
                                       Value first, Value count) {
  int64_t group = p.quant.getBlockColumns();
  loop(c(0), count, codes.segment, [&](Value segment) {
    Value input = plus(first, segment);
    loadScales(codes, panel,
               arith::DivSIOp::create(b, input, c(group)).getResult());
    Value word = plus(times(panel, codes.words),
                      arith::DivSIOp::create(b, input, c(kCodes)).getResult());
    loop(c(0), c(codes.segment / kCodes), 1, [&](Value at) {
      decodeWords(codes, plus(word, at), plus(segment, times(at, kCodes)));
    });
  });
}
