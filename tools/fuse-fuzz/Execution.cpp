//===- Execution.cpp - Run random modules ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Execution.h"
#include "Relations.h"
#include "TokenUse.h"
#include "fuse/Execution/Inputs.h"
#include "fuse/Execution/Verify.h"
#include "fuse/Interpreter/Interpreter.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

#include <limits>

using namespace mlir;
using namespace fuse;

void fuse::changeValues(HostTensor &tensor, Values values, Random &random) {
  if (!isFloat(tensor.getType()))
    return;
  bool isStored = getSize(tensor.getType()) == 1;
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    switch (values) {
    case Values::Exact:
      // Most products and sums of small integers and halves are exact.
      tensor.set(i, (double(random.below(9)) - 4.0) / 2.0);
      break;
    case Values::Normal:
      break;
    case Values::Large:
      if (!isStored)
        tensor.set(i, tensor.get(i) * 1000.0);
      break;
    case Values::Special:
      if (!isStored && random.percent(3))
        tensor.set(
            i, random.oneOf<double>({std::numeric_limits<double>::quiet_NaN(),
                                     std::numeric_limits<double>::infinity(),
                                     -std::numeric_limits<double>::infinity(),
                                     -0.0, 1e-40, 6e4}));
      break;
    }
}

void fuse::chooseIndices(BlockArgument argument, HostTensor &tensor,
                         Values values, Random &random) {
  if (isFloat(tensor.getType()) || getSize(tensor.getType()) == 1)
    return;
  int64_t end = 9, none = -1;
  for (OpOperand &use : argument.getUses()) {
    if (auto loss = dyn_cast<CrossEntropyOp>(use.getOwner());
        loss && use.get() == loss.getLabels()) {
      end = std::min(end, loss.getLogits().getType().getShape().back());
      none = loss.getIgnoreIndex();
    } else if (auto experts = dyn_cast<MoEExpertsOp>(use.getOwner())) {
      end = std::min(end, experts.getDown().getType().getShape().front());
    } else {
      // The loss is divided by it, so it must not be zero.
      none = 7;
    }
  }
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    int64_t index = random.below(end);
    if (none == 7)
      ++index;
    else if (random.percent(10))
      index = none;
    else if (values == Values::Special && random.percent(5))
      index = 1000;
    tensor.set(i, double(index));
  }
}

bool fuse::isSameBits(const HostTensor &lhs, const HostTensor &rhs) {
  if (lhs.isBitEqual(rhs))
    return true;
  if (lhs.getShape() != rhs.getShape() || lhs.getType() != rhs.getType())
    return false;
  // The payload of a NaN and the sign of a zero are unspecified.
  for (int64_t i = 0; i < lhs.getNumElements(); ++i) {
    double x = lhs.get(i), y = rhs.get(i);
    if (!(x == y || (std::isnan(x) && std::isnan(y))))
      return false;
  }
  return true;
}

namespace {

/// One way to compute results from a function.
struct Way {
  StringRef name;
  func::FuncOp function;
  bool isReference;
  std::optional<Program> program = {};
  Tensors results = {};
};

/// Checks of one function. Returns the name of the first failing check.
class FunctionCheck {
public:
  FunctionCheck(func::FuncOp function, Random random, CheckCounts &counts)
      : function(function), random(random), counts(counts) {}

  StringRef run();
  /// Runs numbers of tokens around the sizes of vectors and tiles.
  StringRef sweep();

private:
  StringRef runOn(int64_t tokens, uint64_t seed);
  StringRef fail(llvm::Error error, StringRef check = "run") {
    function.emitError(llvm::toString(std::move(error)));
    return check;
  }
  StringRef compile();
  StringRef runOn(ArrayRef<HostTensor> inputs, Values values);
  StringRef compareBits(const Way &unfused, const Way &fused);
  StringRef compareContract(const Way &way, ArrayRef<HostTensor> inputs);
  StringRef compareLowerings(ArrayRef<HostTensor> inputs);
  StringRef expectSame(const Way &way, const Tensors &others,
                       const Twine &relation);
  StringRef permuteTokens(ArrayRef<HostTensor> inputs);
  StringRef splitTokens(ArrayRef<HostTensor> inputs);
  StringRef changeFunction(ArrayRef<HostTensor> inputs);

  func::FuncOp function;
  Random random;
  CheckCounts &counts;
  OwningOpRef<ModuleOp> exact, relaxed;
  /// Optimized, optimized and fused, reference, reference and fused, relaxed.
  std::vector<Way> ways;
};

} // namespace

/// Copies the module of a function and forms kernels in the function.
static llvm::Expected<func::FuncOp> formCopy(func::FuncOp function,
                                             StringRef rounding,
                                             OwningOpRef<ModuleOp> &copy) {
  copy = cast<ModuleOp>(function->getParentOfType<ModuleOp>()->clone());
  KernelFormation formation;
  formation.rounding = rounding;
  llvm::Expected<func::FuncOp> found =
      findFunction(*copy, function.getSymName());
  if (found && failed(formKernels(*found, formation)))
    return llvm::createStringError("kernels cannot be formed");
  return found;
}

StringRef FunctionCheck::compile() {
  auto fused = formCopy(function, "exact", exact);
  if (!fused)
    return fail(fused.takeError(), "form");
  auto skipping = formCopy(function, "relaxed", relaxed);
  if (!skipping)
    return fail(skipping.takeError(), "form");
  ways.push_back({"optimized", function, false});
  ways.push_back({"optimized fused", *fused, false});
  ways.push_back({"reference", function, true});
  ways.push_back({"reference fused", *fused, true});
  ways.push_back({"optimized relaxed", *skipping, false});
  // Compilation takes nearly all of the time, so most functions use only some
  // ways. The interpreter checks the result of every way.
  bool isWhole = random.percent(20);
  for (auto [index, way] : llvm::enumerate(ways)) {
    if (index != 1 && !isWhole && !random.percent(25))
      continue;
    auto program = Program::compile(way.function, way.isReference);
    if (!program)
      return fail(program.takeError());
    way.program = std::move(*program);
  }
  return {};
}

StringRef FunctionCheck::compareBits(const Way &unfused, const Way &fused) {
  if (!unfused.program || !fused.program)
    return {};
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip_equal(unfused.results, fused.results))) {
    auto &[unfusedValue, fusedValue] = pair;
    if (isSameBits(unfusedValue, fusedValue))
      continue;
    Difference difference =
        compare({std::get<0>(pair).clone()}, {std::get<1>(pair).clone()});
    function.emitError() << "result " << index << " has "
                         << difference.numDifferent
                         << " other values once fused, largest difference "
                         << difference.maxAbsolute;
    return "fused-bits";
  }
  return {};
}

StringRef FunctionCheck::compareContract(const Way &way,
                                         ArrayRef<HostTensor> inputs) {
  // The interpreter shares no code with the compiled function.
  Interpreter interpreter;
  auto expected = interpreter.run(way.function, inputs);
  if (!expected)
    return fail(expected.takeError(), "interpreter");
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip_equal(*expected, way.results))) {
    auto &[intervals, actual] = pair;
    for (const Interval &interval : intervals.values) {
      ++counts.values;
      counts.exact += interval.isPoint();
    }
    std::optional<int64_t> place = findOutside(intervals, actual);
    if (!place)
      continue;
    function.emitError() << llvm::formatv(
        "result {0} of {1} at {2} is {3:e9}, but has to be in [{4:e9}, {5:e9}] "
        "by its contract",
        index, way.name, *place, actual.get(*place), intervals[*place].lo,
        intervals[*place].hi);
    return "contract";
  }
  return {};
}

/// Compares the two lowerings over a whole tensor.
StringRef FunctionCheck::compareLowerings(ArrayRef<HostTensor> inputs) {
  if (!ways[2].program)
    return {};
  const auto &optimized = ways[0].program ? ways[0].results : ways[1].results;
  Difference difference = compare(optimized, ways[2].results);
  // Near the largest f16, only one lowering may round to infinity. The contract
  // has been checked already.
  if (difference.energy <= getEnergyBound(inputs, optimized))
    return {};
  function.emitError() << "optimized and reference differ in "
                       << difference.numDifferent << " of "
                       << difference.numValues << " values, energy "
                       << difference.energy;
  return "reference";
}

//===----------------------------------------------------------------------===//
// Relations
//===----------------------------------------------------------------------===//

/// Checks that a variant gives the same results as `way`, with the same
/// lowering.
StringRef FunctionCheck::expectSame(const Way &way, const Tensors &others,
                                    const Twine &relation) {
  ++counts.relations;
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip_equal(way.results, others))) {
    auto &[expected, actual] = pair;
    if (isSameBits(expected, actual))
      continue;
    Difference difference =
        compare({std::get<0>(pair).clone()}, {std::get<1>(pair).clone()});
    function.emitError() << "result " << index << " of " << way.name << " has "
                         << difference.numDifferent
                         << " other values by relation '" << relation
                         << "', largest difference " << difference.maxAbsolute;
    return "relation";
  }
  return {};
}

/// Checks that permuting tokens permutes the results.
StringRef FunctionCheck::permuteTokens(ArrayRef<HostTensor> inputs) {
  std::optional<TokenUse> use = getTokenUse(function);
  if (!use || !llvm::is_contained(use->arguments, true))
    return {};
  Tensors others;
  SmallVector<int64_t> order, inverse;
  for (auto [isToken, input] : llvm::zip_equal(use->arguments, inputs)) {
    if (isToken && order.empty()) {
      order = getOrder(input.getShape()[0], random);
      inverse.resize(order.size());
      for (auto [to, from] : llvm::enumerate(order))
        inverse[from] = to;
    }
    others.push_back(isToken ? takeSlices(input, order) : input.clone());
  }
  for (const Way &way : ways) {
    if (!way.program)
      continue;
    auto results = way.program->run(others);
    if (!results)
      return fail(results.takeError());
    for (auto [isToken, result] : llvm::zip_equal(use->results, *results))
      if (isToken)
        result = takeSlices(result, inverse);
    if (StringRef failed = expectSame(way, *results, "permute-tokens");
        !failed.empty())
      return failed;
  }
  return {};
}

/// Checks that tokens give the same results alone as among others.
StringRef FunctionCheck::splitTokens(ArrayRef<HostTensor> inputs) {
  std::optional<TokenUse> use = getTokenUse(function);
  if (!use || use->isCoupled)
    return {};
  std::optional<int64_t> size;
  for (auto [isToken, argument, input] :
       llvm::zip_equal(use->arguments, function.getArguments(), inputs))
    if (isToken) {
      auto type = cast<RankedTensorType>(argument.getType());
      // Other dynamic sizes may have to equal the number of tokens.
      if (type.getNumDynamicDims() != 1 || !type.isDynamicDim(0))
        return {};
      size = input.getShape()[0];
    }
  if (!size)
    return {};
  int64_t first = random.below(*size + 1);
  SmallVector<int64_t> all = getOrder(*size, random);
  llvm::sort(all);
  for (const Way &way : ways) {
    if (!way.program)
      continue;
    Tensors parts[2];
    for (unsigned part : {0, 1}) {
      ArrayRef<int64_t> slices = part == 0 ? ArrayRef(all).take_front(first)
                                           : ArrayRef(all).drop_front(first);
      Tensors some;
      for (auto [isToken, input] : llvm::zip_equal(use->arguments, inputs))
        some.push_back(isToken ? takeSlices(input, slices) : input.clone());
      auto results = way.program->run(some);
      if (!results)
        return fail(results.takeError());
      parts[part] = std::move(*results);
    }
    Tensors joined;
    for (auto [isToken, front, back] :
         llvm::zip_equal(use->results, parts[0], parts[1]))
      joined.push_back(isToken ? joinSlices(front, back) : front.clone());
    if (StringRef failed = expectSame(way, joined, "split-tokens");
        !failed.empty())
      return failed;
  }
  return {};
}

/// Changes the function in a way that does not change its results.
StringRef FunctionCheck::changeFunction(ArrayRef<HostTensor> inputs) {
  const Relation &relation =
      getRelations()[random.below(getRelations().size())];
  Variant variant;
  variant.module = isolate(function);
  auto copy = findFunction(*variant.module, function.getSymName());
  if (!copy)
    return fail(copy.takeError());
  variant.function = *copy;
  for (const HostTensor &input : inputs)
    variant.inputs.push_back(input.clone());
  variant.restore = [](Tensors results) { return results; };
  if (!relation.apply(variant, random))
    return {};
  if (failed(mlir::verify(*variant.module)))
    return "relation-verify";
  OwningOpRef<ModuleOp> formed;
  auto fused = formCopy(variant.function, "exact", formed);
  if (!fused)
    return fail(fused.takeError(), "form");
  bool isReference = ways[2].program && random.percent(50);
  auto program = Program::compile(*fused, isReference);
  if (!program)
    return fail(program.takeError());
  auto results = program->run(variant.inputs);
  if (!results)
    return fail(results.takeError());
  return expectSame(ways[isReference ? 2 : 1],
                    variant.restore(std::move(*results)), relation.name);
}

StringRef FunctionCheck::runOn(ArrayRef<HostTensor> inputs, Values values) {
  for (Way &way : ways) {
    if (!way.program)
      continue;
    auto results = way.program->run(inputs);
    if (!results)
      return fail(results.takeError());
    way.results = std::move(*results);
  }
  for (unsigned i : {0, 2})
    if (StringRef failed = compareBits(ways[i], ways[i + 1]); !failed.empty())
      return failed;
  for (const Way &way : ways)
    if (way.program)
      if (StringRef failed = compareContract(way, inputs); !failed.empty())
        return failed;
  if (StringRef failed = permuteTokens(inputs); !failed.empty())
    return failed;
  if (StringRef failed = splitTokens(inputs); !failed.empty())
    return failed;
  // A sum may overflow in one order and not in another.
  if (values == Values::Large || values == Values::Special)
    return {};
  if (random.percent(35))
    if (StringRef failed = changeFunction(inputs); !failed.empty())
      return failed;
  return compareLowerings(inputs);
}

/// Runs one set of inputs, which depends only on the seed.
StringRef FunctionCheck::runOn(int64_t tokens, uint64_t seed) {
  auto signature = getSignature(function);
  if (!signature)
    return fail(signature.takeError());
  random = Random(seed);
  InputOptions options;
  options.seed = random.next();
  options.dims = {std::to_string(tokens)};
  auto inputs = createInputs(function, *signature, options);
  if (!inputs)
    return fail(inputs.takeError());
  auto values =
      random.oneOf({Values::Exact, Values::Exact, Values::Exact, Values::Exact,
                    Values::Normal, Values::Normal, Values::Normal,
                    Values::Normal, Values::Large, Values::Special});
  // Draw later choices independently of how many numbers the values consume.
  Random choices(random.next());
  for (HostTensor &tensor : *inputs)
    changeValues(tensor, values, random);
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), *inputs))
    chooseIndices(argument, tensor, values, random);
  random = choices;
  ++counts.cases;
  return runOn(*inputs, values);
}

StringRef FunctionCheck::run() {
  if (StringRef failed = compile(); !failed.empty())
    return failed;
  ++counts.executed;
  uint64_t seed = random.next();
  for (unsigned i = 0; i < 3; ++i)
    if (StringRef failed =
            runOn(Random(seed - i).oneOf({1, 2, 3, 7, 17}), seed + i);
        !failed.empty())
      return failed;
  return {};
}

StringRef FunctionCheck::sweep() {
  if (StringRef failed = compile(); !failed.empty())
    return failed;
  ++counts.executed;
  uint64_t seed = random.next();
  if (StringRef failed = runOn(0, seed); !failed.empty())
    return failed;
  for (int64_t tokens : getBoundarySizes())
    if (StringRef failed = runOn(tokens, seed + tokens); !failed.empty())
      return failed;
  return {};
}

StringRef fuse::checkExecution(ModuleOp module, Random &random,
                               CheckCounts &counts, bool sweeps) {
  if (failed(mlir::verify(module)))
    return "verify";
  uint64_t seed = random.next();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.getNumResults() == 0)
      continue;
    // Seed the choices for a function independently of other functions.
    Random own(seed ^ llvm::xxh3_64bits(function.getSymName()));
    FunctionCheck check(function, own, counts);
    if (StringRef failed = sweeps ? check.sweep() : check.run();
        !failed.empty())
      return failed;
  }
  return {};
}
