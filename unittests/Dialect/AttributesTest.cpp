//===- AttributesTest.cpp - Attributes that text cannot express -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "nn/IR/NNOps.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;

namespace {

class AttributesTest : public testing::Test {
protected:
  AttributesTest() { context.loadDialect<FuseDialect, NNDialect>(); }

  using EmitError = function_ref<InFlightDiagnostic()>;

  /// The error of creating an attribute, or an empty string.
  std::string getError(function_ref<void(EmitError)> make) {
    std::string error;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      error += diagnostic.str();
      return success();
    });
    make([&] { return emitError(UnknownLoc::get(&context)); });
    return error;
  }

  /// The same for static scales with one entry.
  std::string getScalesError(FloatAttr value) {
    return getError([&](EmitError emitError) {
      StaticScalesAttr::getChecked(emitError, &context,
                                   Type(builder.getI8Type()),
                                   ArrayRef<NamedScale>({ScaleKind::Up, value}),
                                   QuantOrder::Reciprocal, QuantForm::Scaled);
    });
  }

  MLIRContext context;
  Builder builder{&context};
};

// The syntax has only f64 scales and would lose another type.
TEST_F(AttributesTest, ScaleIsF64) {
  EXPECT_EQ(getScalesError(builder.getF64FloatAttr(1.0)), "");
  EXPECT_EQ(getScalesError(FloatAttr()), "");
  EXPECT_EQ(getScalesError(builder.getF32FloatAttr(1.0f)),
            "scale 'up' must be an f64 or per_channel, got 1.000000e+00 : f32");
}

TEST(ScaleNameTest, TextIsUnique) {
  for (StringRef text :
       {"input", "gate", "up", "hidden", "down", "weight0", "weight12"}) {
    std::optional<ScaleName> name = ScaleName::fromText(text);
    ASSERT_TRUE(name) << text.str();
    EXPECT_EQ(name->toText(), text);
  }
  for (StringRef text : {"", "order", "weight", "weight01", "weight-1", "up0"})
    EXPECT_FALSE(ScaleName::fromText(text)) << text.str();
}

// Parameters that the syntax of a recipe cannot express.
TEST_F(AttributesTest, RecipeParametersMatchKind) {
  auto check = [&](RecipeKind kind, unsigned numSources, int64_t block,
                   int64_t offset, Type type, FloatAttr scale) {
    SmallVector<Attribute> sources;
    for (unsigned i = 0; i < numSources; ++i)
      sources.push_back(
          MemberParameterAttr::get(&context, i, builder.getStringAttr("p")));
    return getError([&](EmitError emitError) {
      RecipeAttr::getChecked(emitError, &context, builder.getStringAttr("w"),
                             kind, ArrayRef<Attribute>(sources),
                             /*keep=*/false, block, offset, type, scale);
    });
  };
  FloatAttr half = builder.getF64FloatAttr(0.5);
  Type i8 = builder.getI8Type();
  EXPECT_EQ(check(RecipeKind::Concat, 2, 0, 0, {}, {}), "");
  EXPECT_EQ(check(RecipeKind::Concat, 2, 0, 1, {}, {}),
            "recipe 'w' cannot concat an offset of 1");
  EXPECT_EQ(check(RecipeKind::Concat, 2, 4, 0, {}, {}),
            "recipe 'w' cannot concat blocks of 4 rows");
  EXPECT_EQ(check(RecipeKind::Concat, 2, 0, 0, i8, half),
            "recipe 'w' cannot concat to a type or scale");
  EXPECT_EQ(check(RecipeKind::Interleave, 2, 4, 0, {}, {}), "");
  EXPECT_EQ(check(RecipeKind::Transpose, 1, 0, 0, {}, {}), "");
  EXPECT_EQ(check(RecipeKind::Transpose, 2, 0, 0, {}, {}),
            "recipe 'w' needs 1 parameters, got 2");
  EXPECT_EQ(check(RecipeKind::Interleave, 2, 0, 0, {}, {}),
            "recipe 'w' cannot interleave blocks of 0 rows");
  EXPECT_EQ(check(RecipeKind::Quantize, 1, 0, 0, i8, half), "");
  EXPECT_EQ(check(RecipeKind::Quantize, 1, 0, 0, i8, {}),
            "recipe 'w' needs a type and a scale");
  EXPECT_EQ(getError([&](EmitError emitError) {
              RecipeAttr::getChecked(
                  emitError, &context, builder.getStringAttr("w"),
                  RecipeKind::Quantize, ArrayRef<Attribute>(half),
                  /*keep=*/false, int64_t(0), int64_t(0), i8, half);
            }),
            "recipe 'w' reads 5.000000e-01 : f64; expected a symbol or "
            "#fuse.member_parameter");
}

TEST_F(AttributesTest, CodeSaysWhatItTakes) {
  auto check = [&](ArrayAttr sizes, ArrayAttr args) {
    return getError([&](EmitError emitError) {
      CPUCodeAttr::getChecked(emitError, &context, StringRef("f.so"),
                              StringRef("f"), sizes, args);
    });
  };
  ArrayAttr none = builder.getArrayAttr({});
  EXPECT_EQ(check(none, none), "");
  EXPECT_EQ(check({}, none), "expected arrays 'sizes' and 'args'");
  EXPECT_EQ(check(none, {}), "expected arrays 'sizes' and 'args'");
}

TEST_F(AttributesTest, LookUpScales) {
  auto scales =
      StaticScalesAttr::get(&context, builder.getI8Type(),
                            {{ScaleKind::Input, builder.getF64FloatAttr(0.1)},
                             {ScaleKind::Up, FloatAttr()}},
                            QuantOrder::Reciprocal, QuantForm::Scaled);
  // A scale is rounded to f32 before use.
  EXPECT_EQ(scales.getScale(ScaleKind::Input), 0.1f);
  EXPECT_EQ(scales.getScale(ScaleKind::Up), std::nullopt);
  EXPECT_EQ(scales.getScale(ScaleKind::Down), std::nullopt);
  EXPECT_FALSE(scales.isPerChannel(ScaleKind::Input));
  EXPECT_TRUE(scales.isPerChannel(ScaleKind::Up));
  EXPECT_FALSE(scales.isPerChannel(ScaleKind::Down));
  EXPECT_EQ(scales.getNumPerChannel(), 1u);
  EXPECT_FALSE(scales.lookup(ScaleKind::Down));
}

TEST_F(AttributesTest, TypeOfRoundingPoint) {
  auto rounding =
      RoundingAttr::get(&context, RoundingMode::Exact, {},
                        {{RoundingPoint::Act, builder.getF32Type()}});
  EXPECT_EQ(rounding.getTypeOf(RoundingPoint::Act, builder.getBF16Type()),
            builder.getF32Type());
  EXPECT_EQ(rounding.getTypeOf(RoundingPoint::Up, builder.getBF16Type()),
            builder.getBF16Type());
}

// Scales are checked in f32: a scale and its reciprocal must be normal numbers.
TEST(ScaleProblemTest, Limits) {
  const double smallest = 0x1p-126, largest = 0x1p126;
  EXPECT_FALSE(getScaleProblem(smallest));
  EXPECT_FALSE(getScaleProblem(largest));
  EXPECT_FALSE(getScaleProblem(1.0));
  EXPECT_EQ(getScaleProblem(smallest / 2), "is not a normal number in f32");
  EXPECT_EQ(getScaleProblem(largest * 2), "has no normal reciprocal in f32");
  EXPECT_EQ(getScaleProblem(0.0), "is zero in f32");
  EXPECT_EQ(getScaleProblem(1e-300), "is zero in f32");
  EXPECT_EQ(getScaleProblem(1e300), "is not a normal number in f32");
  EXPECT_EQ(getScaleProblem(-1.0), "is negative");
  EXPECT_EQ(getScaleProblem(std::numeric_limits<double>::infinity()),
            "is not finite");
  EXPECT_EQ(getScaleProblem(std::numeric_limits<double>::quiet_NaN()),
            "is not a number");
}

} // namespace
