//===- ModelChecks.cpp - Random models of modules -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ModelChecks.h"
#include "Checks.h"
#include "fuse/Analysis/Equivalence.h"
#include "fuse/Transforms/ModuleFusion.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;

using Module = OwningOpRef<ModuleOp>;

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

static constexpr StringLiteral kType = "tensor<?x8xbf16>";

namespace {

/// Writes the text of one model.
class ModelWriter {
public:
  explicit ModelWriter(uint64_t seed) : random(seed), os(text) {}
  std::string write();

private:
  void marks();
  void norm();
  void mlp();
  void declared();
  void layer(unsigned index);
  /// Writes a call, sometimes with attributes and a location. Returns its
  /// value.
  std::string call(StringRef callee, ArrayRef<std::string> args,
                   unsigned numArgs);

  Random random;
  std::string text;
  llvm::raw_string_ostream os;
  unsigned number = 0;
  bool clean = false;
};

} // namespace

void ModelWriter::marks() {
  if (!clean && random.percent(5))
    os << " hooks([\"accelerate\"])";
  if (!clean && random.percent(5))
    os << " tensor_parallel(<kind = unknown, axis = \"packed\", size = 1>)";
  if (random.percent(20))
    os << " attributes {note = \"kept\", other.name = [1, unit]}";
}

void ModelWriter::norm() {
  os << "nn.module @norm class \"RMSNorm\"";
  marks();
  os << " {\nnn.parameter @weight : tensor<8xbf16>\n"
     << llvm::formatv("func.func @forward(%x: {0}) -> {0} {{\n", kType)
     << "%w = nn.get_parameter @weight : tensor<8xbf16>\n"
     << llvm::formatv("%y = fuse.rms_norm %x weight(%w) eps 1.0e-6 : ({0}, "
                      "tensor<8xbf16>) -> {0}\nreturn %y : {0}\n}\n}\n",
                      kType);
}

void ModelWriter::mlp() {
  os << "nn.module @mlp class \"MLP\"";
  marks();
  bool gated = random.percent(50);
  os << " {\nnn.parameter @up : tensor<16x8xbf16>\n"
     << "nn.parameter @down : tensor<8x16xbf16>\n";
  if (gated)
    os << "nn.parameter @gate : tensor<16x8xbf16>\n";
  os << llvm::formatv("func.func @forward(%x: {0}) -> {0} {{\n", kType)
     << "%wu = nn.get_parameter @up : tensor<16x8xbf16>\n"
     << "%wd = nn.get_parameter @down : tensor<8x16xbf16>\n"
     << "%u = fuse.linear %x, %wu : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> "
        "tensor<?x16xbf16>\n";
  if (gated)
    os << "%wg = nn.get_parameter @gate : tensor<16x8xbf16>\n"
       << "%g = fuse.linear %x, %wg : (tensor<?x8xbf16>, tensor<16x8xbf16>) -> "
          "tensor<?x16xbf16>\n"
       << "%s = fuse.activation silu %g : tensor<?x16xbf16> -> "
          "tensor<?x16xbf16>\n"
       << "%a = fuse.gated_mul %s, %u : (tensor<?x16xbf16>, "
          "tensor<?x16xbf16>) -> tensor<?x16xbf16>\n";
  else
    os << "%a = fuse.activation gelu %u : tensor<?x16xbf16> -> "
          "tensor<?x16xbf16>\n";
  os << "%d = fuse.linear %a, %wd : (tensor<?x16xbf16>, tensor<8x16xbf16>) -> "
        "tensor<?x8xbf16>\n"
     << llvm::formatv("return %d : {0}\n}\n}\n", kType);
}

void ModelWriter::declared() {
  os << "nn.module @attn class \"Attention\"";
  marks();
  os << llvm::formatv(" {{\nfunc.func private @forward({0}, {0}) -> {0}\n}\n",
                      kType);
}

std::string ModelWriter::call(StringRef callee, ArrayRef<std::string> args,
                              unsigned numArgs) {
  std::string result = "%v" + std::to_string(number++);
  os << result << " = nn.call_module @" << callee << "("
     << llvm::join(args.take_front(numArgs), ", ") << ")";
  if (random.percent(20))
    os << " {note = \"of a call\"}";
  os << " : (" << kType;
  for (unsigned i = 1; i < numArgs; ++i)
    os << ", " << kType;
  os << ") -> " << kType;
  if (random.percent(20))
    os << " loc(\"call " << number << "\")";
  os << "\n";
  return result;
}

void ModelWriter::layer(unsigned index) {
  os << "nn.module @\"" << index << "\" class \"Layer\" {\n";
  bool hasNorm = clean || random.percent(90);
  bool hasMLP = clean || random.percent(90), hasAttention = random.percent(40);
  SmallVector<unsigned> order = {0, 1, 2};
  for (unsigned i = 3; i > 1; --i)
    std::swap(order[i - 1], order[random.below(i)]);
  for (unsigned kind : order)
    if (kind == 0 && hasNorm)
      norm();
    else if (kind == 1 && hasMLP)
      mlp();
    else if (kind == 2 && hasAttention)
      declared();
  os << llvm::formatv("func.func @forward(%x: {0}) -> {0} {{\n", kType);
  std::string stream = "%x", other = "%x";
  for (unsigned i = clean ? 1 : random.below(3) + 1; i > 0; --i) {
    std::string start = stream;
    if (hasNorm)
      stream = call("norm", {stream}, 1);
    std::string normed = stream;
    if (hasAttention && random.percent(40))
      stream = call("attn", {stream, other}, 2);
    if (hasMLP)
      stream = call("mlp", {stream}, 1);
    // A second user of a value between members.
    if (!clean && random.percent(20))
      other = normed;
    std::string sum = "%v" + std::to_string(number++);
    os << sum << " = fuse.residual_add " << (random.percent(20) ? other : start)
       << ", " << stream << llvm::formatv(" : ({0}, {0}) -> {0}\n", kType);
    stream = sum;
  }
  os << llvm::formatv("return {0} : {1}\n}\n}\n", stream, kType);
}

std::string ModelWriter::write() {
  unsigned numLayers = random.below(4) + 1;
  os << "nn.model @m class \"M\" {\n"
     << "nn.module @layers class \"ModuleList\" {\n";
  for (unsigned i = 0; i < numLayers; ++i) {
    clean = random.percent(40);
    layer(i);
  }
  os << llvm::formatv("}\nfunc.func @forward(%x: {0}) -> {0} {{\n", kType);
  std::string stream = "%x";
  // Layers run in order, some of them twice or not at all.
  for (unsigned i = 0; i < numLayers; ++i)
    for (unsigned n = random.oneOf({1, 1, 1, 0, 2}); n > 0; --n)
      stream = call("layers::@\"" + std::to_string(i) + "\"", {stream}, 1);
  os << llvm::formatv("return {0} : {1}\n}\n}\n", stream, kType);
  return text;
}

std::string fuse::generateModel(uint64_t seed) {
  return ModelWriter(seed).write();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static LogicalResult expectIdentical(ModuleOp expected, ModuleOp actual) {
  return success(succeeded(verify(actual)) &&
                 succeeded(verifyIdentical(expected, actual)));
}

/// A pattern that a user may write for a chain of norm and MLP.
static std::string getPattern(Random &random) {
  std::string layer = random.oneOf<const char *>(
      {"layers.*", "layers.0", "layers.[0-2]", "layers.{0,1,3}", "**"});
  std::string kernel =
      random.oneOf<const char *>({"mlp", "gated_mlp", "group"});
  std::string name =
      random.oneOf<const char *>({"RMSNorm", "*", "{RMS,Layer}Norm"});
  if (random.percent(20))
    return "((MLP," + layer + ".mlp))->" + kernel;
  return "((" + name + "," + layer + ".norm),(MLP," + layer + ".mlp))->" +
         kernel;
}

StringRef fuse::checkModel(ModuleOp module, Random &random,
                           CheckCounts &counts) {
  module.walk([&](Operation *) { ++counts.ops; });
  ParserConfig config(module.getContext());
  Module parsed = parseSourceString<ModuleOp>(print(module), config);
  if (!parsed || failed(verifyIdentical(module, *parsed)))
    return "round-trip";

  Module fused = module.clone();
  SmallVector<std::string> sites;
  for (unsigned step = random.below(2) + 1; step > 0; --step) {
    std::vector<std::string> patterns = {getPattern(random)};
    if (random.percent(30))
      patterns.push_back(getPattern(random));
    // A pattern that selects nothing is an error, but not a compiler bug.
    FailureOr<ModuleFusionCounts> matched = failure();
    Module attempt = fused->clone();
    {
      ScopedDiagnosticHandler quiet(module.getContext(),
                                    [](Diagnostic &) { return success(); });
      matched = fuseAllModules(*attempt, patterns, {});
    }
    if (failed(matched))
      continue;
    counts.fused += matched->fused;
    counts.refused += matched->refused;
    fused = std::move(attempt);
    if (failed(verify(*fused)))
      return "match-modules";
  }
  bool isInlined = random.percent(70);
  if (isInlined) {
    for (ModelOp model : findModels(*fused))
      if (failed(inlineFusedCalls(model)))
        return "inline-modules";
    if (failed(verify(*fused)))
      return "inline-modules";
    if (random.percent(70))
      for (auto function : fused->getOps<func::FuncOp>())
        if (failed(formKernels(function, {})))
          return "form-kernels";
    if (failed(verify(*fused)))
      return "form-kernels";
  }
  Module stored = parseSourceString<ModuleOp>(print(*fused), config);
  if (!stored || failed(verifyIdentical(*fused, *stored)))
    return "round-trip-fused";
  fused->walk([&](FusedCallOp call) { sites.push_back(call.getSite().str()); });
  if (failed(unfuse(*stored, {})) || failed(expectIdentical(module, *stored)))
    return "unfuse";
  for (size_t i = sites.size(); i > 1; --i)
    std::swap(sites[i - 1], sites[random.below(i)]);
  for (const std::string &site : sites)
    if (failed(unfuse(*fused, {site})) || failed(verify(*fused)))
      return "unfuse-site-by-site";
  // Refusals are stored in an attribute until the whole model is undone.
  if (failed(unfuse(*fused, {})) || failed(expectIdentical(module, *fused)))
    return "unfuse-site-by-site";
  return {};
}
