//===- ExpandSmallFloatsTest.cpp - Compare conversions with APFloat -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the expanded conversions as scalars and as vectors on every code of
// every small format, and compares the bits with APFloat.
//
//===----------------------------------------------------------------------===//

#include "fuse/Target/CPUJIT.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using llvm::APFloat;
using llvm::APInt;

namespace {

struct Format {
  const char *name;
  const llvm::fltSemantics *semantics;
  unsigned bits;
};

const Format f32 = {"f32", &APFloat::IEEEsingle(), 32};
const Format f16 = {"f16", &APFloat::IEEEhalf(), 16};
const Format bf16 = {"bf16", &APFloat::BFloat(), 16};
const Format e4m3 = {"f8E4M3FN", &APFloat::Float8E4M3FN(), 8};
const Format e5m2 = {"f8E5M2", &APFloat::Float8E5M2(), 8};

/// Converts arrays with compiled code, `lanes` elements at a time.
class Converter {
public:
  Converter(Format from, Format to, unsigned lanes) : from(from), to(to) {
    DialectRegistry registry;
    registry.insert<arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                    memref::MemRefDialect, scf::SCFDialect,
                    vector::VectorDialect>();
    arith::registerConvertArithToLLVMInterface(registry);
    fuse::registerCPUTranslations(registry);
    context.appendDialectRegistry(registry);
    std::string source = std::string(from.name), result = to.name;
    std::string n = std::to_string(lanes);
    std::string op = from.bits < to.bits ? "extf" : "truncf";
    auto memref = [](const std::string &type) {
      return "memref<?x" + type + ">";
    };
    auto vector = [&](const std::string &type) {
      return lanes == 1 ? type : "vector<" + n + "x" + type + ">";
    };
    std::string load = lanes == 1 ? "memref.load" : "vector.load";
    std::string store = lanes == 1 ? "memref.store" : "vector.store";
    auto suffix = [&](const std::string &type) {
      return lanes == 1 ? memref(type) : memref(type) + ", " + vector(type);
    };
    std::string text =
        "func.func @f(%x: " + memref(source) + ", %y: " + memref(result) +
        ") attributes {llvm.emit_c_interface} {\n"
        "  %c0 = arith.constant 0 : index\n"
        "  %step = arith.constant " +
        n +
        " : index\n"
        "  %size = memref.dim %x, %c0 : " +
        memref(source) +
        "\n  scf.for %i = %c0 to %size step %step {\n"
        "    %a = " +
        load + " %x[%i] : " + suffix(source) + "\n    %b = arith." + op +
        " %a : " + vector(source) + " to " + vector(result) + "\n    " + store +
        " %b, %y[%i] : " + suffix(result) + "\n  }\n  return\n}\n";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    PassManager pm(&context);
    pm.addPass(fuse::createExpandSmallFloatsPass());
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertVectorToLLVMPass());
    pm.addPass(createArithToLLVMConversionPass());
    pm.addPass(createFinalizeMemRefToLLVMConversionPass());
    pm.addPass(createConvertFuncToLLVMPass());
    pm.addPass(createConvertControlFlowToLLVMPass());
    pm.addPass(createReconcileUnrealizedCastsPass());
    EXPECT_TRUE(succeeded(pm.run(*module)));
    jit = llvm::cantFail(fuse::CPUJIT::create(*module));
    function = llvm::cantFail(jit->lookup("f"));
  }

  /// Converts bit patterns; their number is a multiple of the lanes.
  std::vector<uint32_t> convert(const std::vector<uint32_t> &codes) {
    std::vector<char> source(codes.size() * from.bits / 8);
    std::vector<char> result(codes.size() * to.bits / 8);
    for (size_t i = 0; i < codes.size(); ++i)
      std::memcpy(&source[i * from.bits / 8], &codes[i], from.bits / 8);
    int64_t x[] = {reinterpret_cast<intptr_t>(source.data()),
                   reinterpret_cast<intptr_t>(source.data()), 0,
                   int64_t(codes.size()), 1};
    int64_t y[] = {reinterpret_cast<intptr_t>(result.data()),
                   reinterpret_cast<intptr_t>(result.data()), 0,
                   int64_t(codes.size()), 1};
    void *pointers[] = {x, y};
    void *arguments[] = {&pointers[0], &pointers[1]};
    function(arguments);
    std::vector<uint32_t> converted(codes.size(), 0);
    for (size_t i = 0; i < codes.size(); ++i)
      std::memcpy(&converted[i], &result[i * to.bits / 8], to.bits / 8);
    return converted;
  }

private:
  Format from, to;
  MLIRContext context;
  std::unique_ptr<fuse::CPUJIT> jit;
  void (*function)(void **) = nullptr;
};

uint32_t convertByAPFloat(Format from, Format to, uint32_t code) {
  APFloat value(*from.semantics, APInt(from.bits, code));
  bool losesInfo;
  value.convert(*to.semantics, APFloat::rmNearestTiesToEven, &losesInfo);
  return value.bitcastToAPInt().getZExtValue();
}

void expectEqual(Format from, Format to, const std::vector<uint32_t> &codes) {
  for (unsigned lanes : {1u, 16u}) {
    std::vector<uint32_t> converted = Converter(from, to, lanes).convert(codes);
    unsigned numWrong = 0;
    for (size_t i = 0; i < codes.size() && numWrong < 8; ++i) {
      uint32_t expected = convertByAPFloat(from, to, codes[i]);
      if (converted[i] == expected)
        continue;
      // For f16, LLVM folds widening and rounding away, which does not quiet a
      // signaling NaN.
      if (to.semantics == f16.semantics && (converted[i] | 0x200) == expected)
        continue;
      ++numWrong;
      ADD_FAILURE() << from.name << " 0x" << std::hex << codes[i] << " to "
                    << to.name << ": expected 0x" << expected << ", got 0x"
                    << converted[i] << std::dec << " with " << lanes
                    << " lanes";
    }
  }
}

std::vector<uint32_t> allCodes(Format format) {
  std::vector<uint32_t> codes(size_t(1) << format.bits);
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<uint32_t>(i);
  return codes;
}

/// The f32 values at which rounding to a small format changes, of either sign:
/// each value of the format, each midpoint of two values, and the neighbors of
/// both. Also subnormal f32, the largest f32, infinity and NaN.
std::vector<uint32_t> interestingF32(Format format) {
  std::vector<uint32_t> codes = {
      0,          1,          2,          0x7fffff,   0x800000,   0x7f7fffff,
      0x7f800000, 0x7fc00000, 0x7f800001, 0x7fffffff, 0x43e80000, 0x43e88000,
      0x43e00000, 0x47600000, 0x47700000, 0x477fffff};
  std::vector<uint32_t> values;
  for (uint32_t code = 0; code < (1u << (format.bits - 1)); ++code) {
    APFloat value(*format.semantics, APInt(format.bits, code));
    if (value.isFinite())
      values.push_back(convertByAPFloat(format, f32, code));
  }
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    float low, high;
    std::memcpy(&low, &values[i], 4);
    std::memcpy(&high, &values[i + 1], 4);
    float middle = static_cast<float>((double(low) + double(high)) / 2);
    uint32_t bits;
    std::memcpy(&bits, &middle, 4);
    for (uint32_t center : {values[i], bits})
      for (int delta : {-1, 0, 1})
        if (center + delta < 0x80000000u)
          codes.push_back(center + delta);
  }
  size_t numPositive = codes.size();
  for (size_t i = 0; i < numPositive; ++i)
    codes.push_back(codes[i] | 0x80000000u);
  while (codes.size() % 16 != 0)
    codes.push_back(0);
  return codes;
}

TEST(ExpandSmallFloats, DecodeE4M3) { expectEqual(e4m3, f32, allCodes(e4m3)); }

TEST(ExpandSmallFloats, DecodeE5M2) { expectEqual(e5m2, f32, allCodes(e5m2)); }

TEST(ExpandSmallFloats, DecodeToF16) {
  expectEqual(e4m3, f16, allCodes(e4m3));
  expectEqual(e5m2, f16, allCodes(e5m2));
}

TEST(ExpandSmallFloats, EncodeAllBF16) {
  expectEqual(bf16, e4m3, allCodes(bf16));
  expectEqual(bf16, e5m2, allCodes(bf16));
}

TEST(ExpandSmallFloats, EncodeAllF16) {
  expectEqual(f16, e4m3, allCodes(f16));
  expectEqual(f16, e5m2, allCodes(f16));
}

TEST(ExpandSmallFloats, EncodeTiesAndNeighbors) {
  expectEqual(f32, e4m3, interestingF32(e4m3));
  expectEqual(f32, e5m2, interestingF32(e5m2));
}

TEST(ExpandSmallFloats, EncodeToBF16) {
  expectEqual(f32, bf16, interestingF32(bf16));
}

} // namespace
