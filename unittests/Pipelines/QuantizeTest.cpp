//===- QuantizeTest.cpp - Compare quantize with APFloat -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles fuse.quantize and fuse.dequantize with both lowerings for the CPU.
// Runs them on every bf16 and f16, on every f32 around which the rounding to a
// stored type changes, and on every stored code. Compares the bytes with the
// definition in APFloat.
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/HostCall.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Target/CPUJIT.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"
#include "llvm/ADT/SmallString.h"
#include "gtest/gtest.h"

#include <cstring>

using namespace mlir;
using namespace fuse;
using llvm::APFloat;
using llvm::APInt;

namespace {

constexpr APFloat::roundingMode kNearest = APFloat::rmNearestTiesToEven;

struct Format {
  ElementType type;
  /// Null for i8.
  const llvm::fltSemantics *semantics;

  unsigned bits() const { return 8 * fuse::getSize(type); }
  std::string name() const { return fuse::getName(type).str(); }
};

const Format f32 = {ElementType::F32, &APFloat::IEEEsingle()};
const Format f16 = {ElementType::F16, &APFloat::IEEEhalf()};
const Format bf16 = {ElementType::BF16, &APFloat::BFloat()};
const Format e4m3 = {ElementType::F8E4M3FN, &APFloat::Float8E4M3FN()};
const Format e5m2 = {ElementType::F8E5M2, &APFloat::Float8E5M2()};
const Format i8 = {ElementType::I8, nullptr};

/// Rounds a number of format `from` once to format `to`.
APFloat convert(APFloat value, Format to) {
  bool losesInfo;
  value.convert(*to.semantics, kNearest, &losesInfo);
  return value;
}

/// The value of a code in f32, which is exact.
APFloat decode(Format format, uint32_t code) {
  if (!format.semantics) {
    APFloat value(*f32.semantics);
    (void)value.convertFromAPInt(APInt(8, code), /*IsSigned=*/true, kNearest);
    return value;
  }
  return convert(APFloat(*format.semantics, APInt(format.bits(), code)), f32);
}

uint32_t getBits(const APFloat &value) {
  return static_cast<uint32_t>(value.bitcastToAPInt().getZExtValue());
}

/// `saturate(round(x * (1 / scale)))`, or the quotient, as documented.
uint32_t quantize(Format from, Format to, uint32_t code, float scale,
                  bool divide) {
  APFloat x = decode(from, code), factor(scale);
  if (divide) {
    x.divide(factor, kNearest);
  } else {
    APFloat reciprocal(1.0f);
    reciprocal.divide(factor, kNearest);
    x.multiply(reciprocal, kNearest);
  }
  if (!to.semantics) {
    if (x.isNaN())
      return 0;
    x.roundToIntegral(kNearest);
    APFloat low(-128.0f), high(127.0f);
    if (x < low)
      x = low;
    if (x > high)
      x = high;
    llvm::APSInt result(8, /*isUnsigned=*/false);
    bool isExact;
    (void)x.convertToInteger(result, kNearest, &isExact);
    return static_cast<uint32_t>(result.getZExtValue()) & 0xff;
  }
  APFloat largest = convert(APFloat::getLargest(*to.semantics), f32);
  APFloat magnitude = x.isNegative() ? -x : x;
  if (!x.isNaN() && magnitude > largest)
    x = x.isNegative() ? -largest : largest;
  return getBits(convert(x, to));
}

uint32_t dequantize(Format from, Format to, uint32_t code, float scale) {
  APFloat x = decode(from, code);
  x.multiply(APFloat(scale), kNearest);
  return getBits(convert(x, to));
}

bool isNaN(Format format, uint32_t code) {
  return format.semantics &&
         APFloat(*format.semantics, APInt(format.bits(), code)).isNaN();
}

/// A function of one tensor, compiled for this machine.
class Function {
public:
  Function(Format from, Format to, const std::string &op, bool reference)
      : from(from), to(to) {
    DialectRegistry registry;
    mlir::registerAllDialects(registry);
    mlir::registerAllExtensions(registry);
    fuse::registerAllDialects(registry);
    registerCPUTranslations(registry);
    context.appendDialectRegistry(registry);
    std::string x = "tensor<?x64x" + from.name() + ">";
    std::string y = "tensor<?x64x" + to.name() + ">";
    std::string text = "func.func @f(%x: " + x + ") -> " + y +
                       " {\n  %y = " + op + " : (" + x + ") -> " + y +
                       "\n  return %y : " + y + "\n}\n";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    PassManager pm(&context);
    CPUPipelineOptions options;
    options.reference = reference;
    buildCPUPipeline(pm, options);
    EXPECT_TRUE(succeeded(pm.run(*module))) << text;
    jit = llvm::cantFail(CPUJIT::create(*module));
    entry = llvm::cantFail(jit->lookup("f"));
  }

  /// Runs the function on codes. Their number must be a multiple of 64.
  std::vector<uint32_t> run(const std::vector<uint32_t> &codes) {
    int64_t rows = codes.size() / 64;
    HostTensor x = llvm::cantFail(HostTensor::create(from.type, {rows, 64}));
    size_t width = fuse::getSize(from.type);
    for (size_t i = 0; i < codes.size(); ++i)
      std::memcpy(x.getData() + i * width, &codes[i], width);
    TensorSpec result = {to.type, {-1, 64}};
    std::vector<HostTensor> y =
        llvm::cantFail(callHostFunction(entry, x, result));
    std::vector<uint32_t> results(codes.size(), 0);
    width = fuse::getSize(to.type);
    for (size_t i = 0; i < codes.size(); ++i)
      std::memcpy(&results[i], y[0].getData() + i * width, width);
    return results;
  }

private:
  Format from, to;
  MLIRContext context;
  std::unique_ptr<CPUJIT> jit;
  PackedFunction entry = nullptr;
};

std::vector<uint32_t> allCodes(Format format) {
  std::vector<uint32_t> codes(size_t(1) << format.bits());
  for (size_t i = 0; i < codes.size(); ++i)
    codes[i] = static_cast<uint32_t>(i);
  return codes;
}

uint32_t getBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Every f32 around which the rounding to a stored type changes: its values,
/// their midpoints and the neighbors of both, times `scale`; and special
/// values.
std::vector<uint32_t> getInterestingF32(Format to, float scale) {
  std::vector<double> values;
  for (uint32_t code = 0; code < 256; ++code) {
    APFloat value = decode(to, code);
    if (value.isFinite() && !value.isNegative())
      values.push_back(value.convertToFloat());
  }
  llvm::sort(values);
  std::vector<uint32_t> codes;
  auto add = [&](double value) {
    uint32_t bits = getBits(static_cast<float>(value * scale));
    for (int delta : {-1, 0, 1})
      codes.push_back(bits + delta);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    add(values[i]);
    add(i + 1 < values.size() ? (values[i] + values[i + 1]) / 2
                              : values[i] * 1.0625);
  }
  for (double value : {127.5, 128.0, 128.5, 447.9, 448.0, 464.0, 465.0, 57344.0,
                       61440.0, 65536.0, 1e30})
    add(value);
  for (uint32_t bits :
       {0u, 1u, 0x7fffffu, 0x800000u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u})
    codes.push_back(bits);
  size_t numPositive = codes.size();
  for (size_t i = 0; i < numPositive; ++i)
    codes.push_back(codes[i] ^ 0x80000000u);
  while (codes.size() % 64 != 0)
    codes.push_back(0);
  return codes;
}

std::string print(float scale) {
  llvm::SmallString<32> text;
  APFloat(double(scale)).toString(text, /*FormatPrecision=*/17);
  return StringRef(text).contains('.') ? text.str().str() : (text + ".0").str();
}

constexpr float kScales[] = {1.0f, 0.03f, 0.0078125f, 3000.0f};

void expectQuantize(Format from, Format to, float scale, bool divide,
                    const std::vector<uint32_t> &codes) {
  std::string op = "fuse.quantize %x scale " + print(scale) +
                   (divide ? " order divide" : "");
  for (bool reference : {false, true}) {
    std::vector<uint32_t> results =
        Function(from, to, op, reference).run(codes);
    unsigned numWrong = 0;
    for (size_t i = 0; i < codes.size() && numWrong < 8; ++i) {
      uint32_t expected = quantize(from, to, codes[i], scale, divide);
      // The payload of a NaN is unspecified, but it must be a NaN.
      if (results[i] == expected ||
          (isNaN(to, expected) && isNaN(to, results[i])))
        continue;
      ++numWrong;
      ADD_FAILURE() << from.name() << " 0x" << std::hex << codes[i] << " to "
                    << to.name() << " by '" << op << "': expected 0x"
                    << expected << ", got 0x" << results[i] << std::dec
                    << (reference ? " (reference)" : "");
    }
  }
}

class Quantize : public testing::TestWithParam<Format> {};

TEST_P(Quantize, AllBF16) {
  for (float scale : kScales)
    for (bool divide : {false, true})
      expectQuantize(bf16, GetParam(), scale, divide, allCodes(bf16));
}

TEST_P(Quantize, AllF16) {
  for (float scale : kScales)
    for (bool divide : {false, true})
      expectQuantize(f16, GetParam(), scale, divide, allCodes(f16));
}

TEST_P(Quantize, TiesAndNeighborsInF32) {
  for (float scale : kScales)
    for (bool divide : {false, true})
      expectQuantize(f32, GetParam(), scale, divide,
                     getInterestingF32(GetParam(), scale));
}

TEST_P(Quantize, AllCodesBack) {
  Format from = GetParam();
  for (Format to : {f32, bf16, f16})
    for (float scale : kScales) {
      std::string op = "fuse.dequantize %x scale " + print(scale);
      std::vector<uint32_t> results =
          Function(from, to, op, /*reference=*/false).run(allCodes(from));
      for (uint32_t code = 0; code < 256; ++code) {
        uint32_t expected = dequantize(from, to, code, scale);
        if (isNaN(to, expected))
          EXPECT_TRUE(isNaN(to, results[code])) << op << " of " << code;
        else
          EXPECT_EQ(results[code], expected)
              << op << " of " << code << " to " << to.name();
      }
    }
}

// Tests the oracle itself on documented values.
TEST(QuantizeOracle, Boundaries) {
  auto encode = [](Format to, float value) {
    return quantize(f32, to, getBits(value), 1.0f, false);
  };
  for (float value : {448.0f, 464.0f, 465.0f, 1e30f}) {
    EXPECT_EQ(encode(e4m3, value), 0x7eu);
    EXPECT_EQ(encode(e4m3, -value), 0xfeu);
  }
  EXPECT_EQ(encode(e4m3, INFINITY), 0x7eu);
  EXPECT_EQ(encode(e4m3, NAN) & 0x7f, 0x7fu);
  EXPECT_EQ(encode(e4m3, -0.0f), 0x80u);
  EXPECT_EQ(encode(e4m3, 0x1p-9f), 0x01u);
  EXPECT_EQ(encode(e4m3, 0x1p-10f), 0x00u);
  EXPECT_EQ(encode(e5m2, 1e30f), 0x7bu);
  EXPECT_EQ(encode(i8, 127.5f), 127u);
  EXPECT_EQ(encode(i8, -300.0f), 0x80u);
  EXPECT_EQ(encode(i8, 2.5f), 2u);
  EXPECT_EQ(encode(i8, NAN), 0u);
}

INSTANTIATE_TEST_SUITE_P(Formats, Quantize, testing::Values(e4m3, e5m2, i8),
                         [](const testing::TestParamInfo<Format> &info) {
                           return info.param.name();
                         });

} // namespace
