//===- DecomposeTest.cpp - Decompositions of fused ops --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests the result of `decompose` for every family and clause: members in
// order, with operands, types, attributes and locations. A chain is compared as
// text, with one line per member: `name = op(operands) type`. Operands are
// named after arguments and members.
//
//===----------------------------------------------------------------------===//

#include "fuse/IR/FuseOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fuse;
using Lines = std::vector<std::string>;

namespace {

/// Arguments of the function around the fused op under test.
constexpr const char *header = R"(
func.func @f(%x: tensor<?x64xbf16> loc("x"), %r: tensor<?x64xbf16> loc("r"),
             %n: tensor<64xbf16> loc("n"), %b: tensor<64xbf16> loc("b"),
             %w: tensor<64x64xbf16> loc("w"), %v: tensor<64x64xbf16> loc("v"),
             %d: tensor<32x64xbf16> loc("d"), %q: tensor<64x64xi8> loc("q"),
             %s: tensor<64xf32> loc("s"), %t: tensor<64xf32> loc("t"),
             %o: tensor<?x32xbf16> loc("o")) {
)";

class DecomposeTest : public testing::Test {
protected:
  DecomposeTest() { context.loadDialect<FuseDialect, func::FuncDialect>(); }

  /// Parses `op` and decomposes it. The chain must verify.
  Lines decompose(const std::string &op) {
    module = parseSourceString<ModuleOp>(header + op + "\nreturn }", &context);
    EXPECT_TRUE(module) << op;
    if (!module)
      return {};
    FusedOpInterface fused;
    module->walk([&](FusedOpInterface found) { fused = found; });
    OpBuilder builder(fused);
    chain = fused.decompose(builder);
    EXPECT_TRUE(succeeded(verify(*module)));
    EXPECT_EQ(chain.members.size(), chain.names.size());
    // The results replace those of the fused op.
    EXPECT_EQ(chain.results.size(), fused->getNumResults());
    for (auto [built, result] : llvm::zip(chain.results, fused->getResults()))
      EXPECT_EQ(built.getType(), result.getType());
    return describe();
  }

  std::string nameOf(Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return cast<NameLoc>(argument.getLoc()).getName().str();
    for (auto [member, name] : llvm::zip(chain.members, chain.names))
      if (value.getDefiningOp() == member)
        return stringifyChainMember(name).str();
    return "?";
  }

  Lines describe() {
    Lines lines;
    for (auto [member, name] : llvm::zip(chain.members, chain.names)) {
      std::string line;
      llvm::raw_string_ostream os(line);
      os << stringifyChainMember(name) << " = "
         << member->getName().stripDialect() << "(";
      llvm::interleaveComma(member->getOperands(), os,
                            [&](Value value) { os << nameOf(value); });
      auto type = cast<RankedTensorType>(member->getResult(0).getType());
      os << ") ";
      llvm::interleave(
          type.getShape(), os,
          [&](int64_t size) {
            if (ShapedType::isDynamic(size))
              os << "?";
            else
              os << size;
          },
          "x");
      os << "x" << type.getElementType();
      lines.push_back(line);
    }
    std::string last = "->";
    for (Value result : chain.results)
      last += " " + nameOf(result);
    lines.push_back(last);
    return lines;
  }

  template <typename OpTy>
  OpTy member(unsigned index) {
    return cast<OpTy>(chain.members[index]);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Decomposition chain;
};

//===----------------------------------------------------------------------===//
// MLPs
//===----------------------------------------------------------------------===//

TEST_F(DecomposeTest, SmallestMLP) {
  EXPECT_EQ(
      decompose(R"(
    %0 = fuse.mlp %x up(%w) down(%d) act(relu2) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>)
         -> tensor<?x32xf32>)"),
      (Lines{"up = linear(x, w) ?x64xbf16", "act = activation(up) ?x64xbf16",
             "down = linear(act, d) ?x32xf32", "-> down"}));
  EXPECT_EQ(member<ActivationOp>(1).getKind(), Activation::ReLU2);
}

TEST_F(DecomposeTest, WholeMLP) {
  EXPECT_EQ(decompose(R"(
    %0:2 = fuse.mlp %x residual(%r) norm(layer %n, %b eps 1.0e-5)
             up(%w bias %n) down(%v bias %b) act(gelu) add_stream also([stream])
             rounding(exact)
       : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>,
          tensor<64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>,
          tensor<64x64xbf16>, tensor<64xbf16>)
         -> (tensor<?x64xbf16>, tensor<?x64xbf16>))"),
            (Lines{"residual = residual_add(x, r) ?x64xbf16",
                   "norm = layer_norm(residual, n, b) ?x64xbf16",
                   "up = linear(norm, w, n) ?x64xbf16",
                   "act = activation(up) ?x64xbf16",
                   "down = linear(act, v, b) ?x64xbf16",
                   "then_add = residual_add(residual, down) ?x64xbf16",
                   "-> then_add residual"}));
}

TEST_F(DecomposeTest, ThenAdd) {
  EXPECT_EQ(decompose(R"(
    %0 = fuse.mlp %x up(%w) down(%d) act(silu) then_add(%o) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>,
          tensor<?x32xbf16>) -> tensor<?x32xbf16>)")
                .at(3),
            "then_add = residual_add(o, down) ?x32xbf16");
}

TEST_F(DecomposeTest, GatedMLP) {
  EXPECT_EQ(decompose(R"(
    %0 = fuse.gated_mlp %x norm(rms %n eps 0.5 offset 1 cast after_weight)
           gate(%w bias %n) up(%v) down(%d) act(gelu_tanh) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xbf16>,
          tensor<64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>)
         -> tensor<?x32xbf16>)"),
            (Lines{"norm = rms_norm(x, n) ?x64xbf16",
                   "gate = linear(norm, w, n) ?x64xbf16",
                   "act = activation(gate) ?x64xbf16",
                   "up = linear(norm, v) ?x64xbf16",
                   "product = gated_mul(act, up) ?x64xbf16",
                   "down = linear(product, d) ?x32xbf16", "-> down"}));
  auto norm = member<RMSNormOp>(0);
  EXPECT_EQ(norm.getEps().convertToDouble(), 0.5);
  EXPECT_EQ(norm.getOffset(), 1u);
  EXPECT_EQ(norm.getCast(), NormCast::AfterWeight);
}

//===----------------------------------------------------------------------===//
// Types of intermediates
//===----------------------------------------------------------------------===//

TEST_F(DecomposeTest, TypesOfRoundingPoints) {
  EXPECT_EQ(
      decompose(R"(
    %0:2 = fuse.gated_mlp %x residual(%r) norm(rms %n eps 0.5)
             gate(%w) up(%v) down(%w) act(silu) add_stream also([stream])
             rounding(exact types {stream = f32, gate = f16, act = f32,
                                   up = f32, down = f16})
       : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>,
          tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)
         -> (tensor<?x64xf32>, tensor<?x64xf32>))"),
      (Lines{"residual = residual_add(x, r) ?x64xf32",
             "norm = rms_norm(residual, n) ?x64xbf16",
             "gate = linear(norm, w) ?x64xf16",
             "act = activation(gate) ?x64xf32", "up = linear(norm, v) ?x64xf32",
             "product = gated_mul(act, up) ?x64xbf16",
             "down = linear(product, w) ?x64xf16",
             "then_add = residual_add(residual, down) ?x64xf32",
             "-> then_add residual"}));
}

// Skipped roundings do not change the decomposition.
TEST_F(DecomposeTest, RelaxedIsTheSameChain) {
  auto text = [](StringRef rounding) {
    return (R"(%0 = fuse.mlp %x up(%w) down(%d) act(silu) rounding()" +
            rounding + R"()
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>)
         -> tensor<?x32xbf16>)")
        .str();
  };
  EXPECT_EQ(decompose(text("relaxed skip [up, act]")),
            decompose(text("exact")));
}

//===----------------------------------------------------------------------===//
// Quantization
//===----------------------------------------------------------------------===//

TEST_F(DecomposeTest, Scaled) {
  EXPECT_EQ(
      decompose(R"(
    %0 = fuse.gated_mlp %x gate(%q) up(%q) down(%q) act(silu)
           channel_scales(%s, %t)
           scales(i8, input = 0.5, gate = per_channel, up = 0.25, hidden = 2.0,
                  down = per_channel, order = divide)
           rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>,
          tensor<64x64xi8>, tensor<64xf32>, tensor<64xf32>)
         -> tensor<?x64xbf16>)"),
      (Lines{"quantize_input = quantize(x) ?x64xi8",
             "gate = linear(quantize_input, q, s) ?x64xbf16",
             "act = activation(gate) ?x64xbf16",
             "up = linear(quantize_input, q) ?x64xbf16",
             "product = gated_mul(act, up) ?x64xbf16",
             "quantize_hidden = quantize(product) ?x64xi8",
             "down = linear(quantize_hidden, q, t) ?x64xbf16", "-> down"}));
  EXPECT_EQ(member<QuantizeOp>(0).getOrder(), QuantOrder::Divide);
  EXPECT_EQ(member<QuantizeOp>(0).getScale()->convertToDouble(), 0.5);
  auto gate = member<LinearOp>(1), up = member<LinearOp>(3);
  EXPECT_EQ(gate.getInputScale()->convertToDouble(), 0.5);
  EXPECT_FALSE(gate.getWeightScale());
  EXPECT_EQ(nameOf(gate.getChannelScale()), "s");
  EXPECT_EQ(up.getWeightScale()->convertToDouble(), 0.25);
  EXPECT_FALSE(up.getChannelScale());
  EXPECT_EQ(member<LinearOp>(6).getInputScale()->convertToDouble(), 2.0);
}

TEST_F(DecomposeTest, QDQ) {
  EXPECT_EQ(
      decompose(R"(
    %0 = fuse.mlp %x up(%q) down(%q) act(silu) channel_scales(%s)
           scales(f8E4M3FN, input = 0.5, up = per_channel, hidden = 2.0,
                  down = 4.0, form = qdq)
           rounding(exact types {dequantized = f32})
       : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>,
          tensor<64xf32>) -> tensor<?x64xbf16>)"),
      (Lines{"quantize_input = quantize(x) ?x64xf8E4M3FN",
             "dequantize_input = dequantize(quantize_input) ?x64xf32",
             "dequantize_up = dequantize(q, s) 64x64xf32",
             "up = linear(dequantize_input, dequantize_up) ?x64xbf16",
             "act = activation(up) ?x64xbf16",
             "quantize_hidden = quantize(act) ?x64xf8E4M3FN",
             "dequantize_hidden = dequantize(quantize_hidden) ?x64xf32",
             "dequantize_down = dequantize(q) 64x64xf32",
             "down = linear(dequantize_hidden, dequantize_down) ?x64xbf16",
             "-> down"}));
  EXPECT_EQ(member<DequantizeOp>(1).getScale()->convertToDouble(), 0.5);
  EXPECT_EQ(member<DequantizeOp>(7).getScale()->convertToDouble(), 4.0);
  EXPECT_FALSE(member<LinearOp>(3).getInputScale());
}

//===----------------------------------------------------------------------===//
// Norm and linears
//===----------------------------------------------------------------------===//

TEST_F(DecomposeTest, NormLinear) {
  EXPECT_EQ(decompose(R"(
    %0:5 = fuse.norm_linear %x residual(%r) norm(rms eps 0.5)
             linear(%w bias %n, %d, %v bias %b) also([normed, stream])
             rounding(exact)
       : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64x64xbf16>,
          tensor<32x64xbf16>, tensor<64x64xbf16>, tensor<64xbf16>,
          tensor<64xbf16>)
         -> (tensor<?x64xbf16>, tensor<?x32xf32>, tensor<?x64xf16>,
             tensor<?x64xbf16>, tensor<?x64xbf16>))"),
            (Lines{"residual = residual_add(x, r) ?x64xbf16",
                   "norm = rms_norm(residual) ?x64xbf16",
                   "linear = linear(norm, w, n) ?x64xbf16",
                   "linear = linear(norm, d) ?x32xf32",
                   "linear = linear(norm, v, b) ?x64xf16",
                   "-> linear linear linear norm residual"}));
}

TEST_F(DecomposeTest, ScaledNormLinear) {
  EXPECT_EQ(decompose(R"(
    %0:2 = fuse.norm_linear %x norm(layer eps 0.5) linear(%q, %q)
             channel_scales(%s)
             scales(i8, input = 0.5, weight0 = 0.25, weight1 = per_channel)
             rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xi8>, tensor<64x64xi8>,
          tensor<64xf32>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>))"),
            (Lines{"norm = layer_norm(x) ?x64xbf16",
                   "quantize_input = quantize(norm) ?x64xi8",
                   "linear = linear(quantize_input, q) ?x64xbf16",
                   "linear = linear(quantize_input, q, s) ?x64xbf16",
                   "-> linear linear"}));
}

TEST_F(DecomposeTest, QDQNormLinear) {
  EXPECT_EQ(decompose(R"(
    %0 = fuse.norm_linear %x norm(rms %n eps 0.5) linear(%q)
           scales(i8, input = 0.5, weight0 = 0.25, form = qdq) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64xbf16>, tensor<64x64xi8>)
         -> tensor<?x64xbf16>)"),
            (Lines{"norm = rms_norm(x, n) ?x64xbf16",
                   "quantize_input = quantize(norm) ?x64xi8",
                   "dequantize_input = dequantize(quantize_input) ?x64xbf16",
                   "dequantize_weight = dequantize(q) 64x64xbf16",
                   "linear = linear(dequantize_input, dequantize_weight) "
                   "?x64xbf16",
                   "-> linear"}));
}

//===----------------------------------------------------------------------===//
// Producers of quantized values
//===----------------------------------------------------------------------===//

TEST_F(DecomposeTest, NormQuantize) {
  EXPECT_EQ(decompose(R"(
    %0:3 = fuse.norm_quantize %x residual(%r) norm(rms %n eps 0.5)
             also([stream, normed]) scales(f8E5M2, input = 0.5)
             rounding(exact types {normed = f32})
       : (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<64xbf16>)
         -> (tensor<?x64xf8E5M2>, tensor<?x64xbf16>, tensor<?x64xf32>))"),
            (Lines{"residual = residual_add(x, r) ?x64xbf16",
                   "norm = rms_norm(residual, n) ?x64xf32",
                   "quantize_input = quantize(norm) ?x64xf8E5M2",
                   "-> quantize_input residual norm"}));
}

TEST_F(DecomposeTest, ActQuantize) {
  EXPECT_EQ(decompose(R"(
    %0:2 = fuse.act_quantize %x act(silu) also([act]) scales(i8, hidden = 0.5)
             rounding(exact)
       : (tensor<?x64xbf16>) -> (tensor<?x64xi8>, tensor<?x64xbf16>))"),
            (Lines{"act = activation(x) ?x64xbf16",
                   "quantize_hidden = quantize(act) ?x64xi8",
                   "-> quantize_hidden act"}));
  EXPECT_EQ(decompose(R"(
    %0:3 = fuse.act_quantize %x times(%r) act(silu) also([product, act])
             scales(i8, hidden = 0.5) rounding(exact types {act = f32})
       : (tensor<?x64xbf16>, tensor<?x64xbf16>)
         -> (tensor<?x64xi8>, tensor<?x64xbf16>, tensor<?x64xf32>))"),
            (Lines{"act = activation(x) ?x64xf32",
                   "product = gated_mul(act, r) ?x64xbf16",
                   "quantize_hidden = quantize(product) ?x64xi8",
                   "-> quantize_hidden product act"}));
}

TEST_F(DecomposeTest, Group) {
  EXPECT_EQ(decompose(R"(
    %0:2 = fuse.group(%a = %x : tensor<?x64xbf16>)
             -> (tensor<?x64xbf16>, tensor<?x64xbf16>) rounding(exact) {
      %1 = fuse.activation silu %a
        : tensor<?x64xbf16> -> tensor<?x64xbf16>
      %2 = fuse.activation relu %1 {note}
        : tensor<?x64xbf16> -> tensor<?x64xbf16>
      fuse.yield %2, %a : tensor<?x64xbf16>, tensor<?x64xbf16>
    })"),
            (Lines{"member = activation(x) ?x64xbf16",
                   "member = activation(member) ?x64xbf16", "-> member x"}));
  EXPECT_TRUE(chain.members[1]->hasAttr("note"));
}

//===----------------------------------------------------------------------===//
// Provenance
//===----------------------------------------------------------------------===//

TEST_F(DecomposeTest, CommutedMembers) {
  Lines lines = decompose(R"(
    %0 = fuse.gated_mlp %x gate(%w) up(%v) down(%d) act(silu) then_add(%o)
           rounding(exact) provenance(commuted = [product, then_add])
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>,
          tensor<32x64xbf16>, tensor<?x32xbf16>) -> tensor<?x32xbf16>)");
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[3], "product = gated_mul(up, act) ?x64xbf16");
  EXPECT_EQ(lines[5], "then_add = residual_add(down, o) ?x32xbf16");
  lines = decompose(R"(
    %0 = fuse.act_quantize %x times(%r) act(silu) scales(i8, hidden = 0.5)
           rounding(exact) provenance(commuted = [product])
       : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> tensor<?x64xi8>)");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[1], "product = gated_mul(r, act) ?x64xbf16");
}

TEST_F(DecomposeTest, DiscardableAttributes) {
  decompose(R"(
    %0 = fuse.mlp %x up(%w) down(%d) act(silu) rounding(exact)
           provenance(attributes = [{}, {note = "a", other.n = 1}, {note}])
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>)
         -> tensor<?x32xbf16>)");
  Builder builder(&context);
  EXPECT_TRUE(chain.members[0]->getDiscardableAttrDictionary().empty());
  EXPECT_EQ(chain.members[1]->getDiscardableAttr("note"),
            builder.getStringAttr("a"));
  EXPECT_EQ(chain.members[1]->getDiscardableAttr("other.n"),
            builder.getI64IntegerAttr(1));
  EXPECT_EQ(chain.members[2]->getDiscardableAttr("note"),
            builder.getUnitAttr());
}

//===----------------------------------------------------------------------===//
// Locations
//===----------------------------------------------------------------------===//

/// A fused op of three members with `loc`.
static std::string withLocation(const std::string &loc) {
  return R"(
    %0 = fuse.mlp %x up(%w) down(%d) act(silu) rounding(exact)
       : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>)
         -> tensor<?x32xbf16> loc()" +
         loc + ")";
}

TEST_F(DecomposeTest, LocationsAreRestored) {
  // Two members have the same location and one has none. A fused location drops
  // both from its list, but its metadata keeps them.
  Location a = NameLoc::get(StringAttr::get(&context, "a"));
  Location unknown = UnknownLoc::get(&context);
  Location fused = getFusedLocation(&context, {a, unknown, a});
  EXPECT_EQ(cast<FusedLoc>(fused).getLocations().size(), 1u);
  std::string text;
  llvm::raw_string_ostream(text) << LocationAttr(fused);
  // The syntax of an op adds `loc(...)` again.
  decompose(withLocation(text.substr(4, text.size() - 5)));
  EXPECT_EQ(chain.members[0]->getLoc(), a);
  EXPECT_EQ(chain.members[1]->getLoc(), unknown);
  EXPECT_EQ(chain.members[2]->getLoc(), a);
}

TEST_F(DecomposeTest, LocationOfUnknownMembers) {
  Location unknown = UnknownLoc::get(&context);
  Location fused = getFusedLocation(&context, {unknown, unknown});
  auto all = dyn_cast<FusedLoc>(fused);
  ASSERT_TRUE(all);
  EXPECT_EQ(cast<ArrayAttr>(all.getMetadata()).size(), 2u);
}

// Metadata of another kind or length is ignored.
TEST_F(DecomposeTest, ForeignLocations) {
  for (const char *loc :
       {"\"a\"", "fused<\"meta\">[\"a\", \"b\"]", "fused[\"a\", \"b\"]",
        "fused<[1, 2, 3]>[\"a\"]", "fused<[]>[\"a\"]"}) {
    decompose(withLocation(loc));
    FusedOpInterface fused;
    module->walk([&](FusedOpInterface op) { fused = op; });
    for (Operation *member : chain.members)
      EXPECT_EQ(member->getLoc(), fused.getLoc()) << loc;
  }
  decompose(withLocation("fused<[loc(\"b\")]>[\"a\"]"));
  EXPECT_EQ(chain.members[0]->getLoc(),
            Location(NameLoc::get(StringAttr::get(&context, "b"))));
  EXPECT_TRUE(isa<FusedLoc>(chain.members[1]->getLoc()));
}

// The fused op stays in place; the caller erases it.
TEST_F(DecomposeTest, LeavesTheFusedOp) {
  decompose(withLocation("unknown"));
  unsigned count = 0;
  module->walk([&](FusedOpInterface) { ++count; });
  EXPECT_EQ(count, 1u);
}

} // namespace
