//===- Verify.cpp - Checks of one function --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/Verify.h"
#include "fuse/Analysis/Equivalence.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Interpreter/Interpreter.h"
#include "fuse/Transforms/Transforms.h"
#include "stage/IR/StageOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

Difference fuse::compare(ArrayRef<HostTensor> first,
                         ArrayRef<HostTensor> second) {
  Difference result;
  double difference = 0.0, energy = 0.0, largest = 0.0;
  for (auto [x, y] : llvm::zip_equal(first, second)) {
    result.numValues += x.getNumElements();
    if (x.isBitEqual(y)) {
      for (int64_t i = 0; i < x.getNumElements(); ++i)
        if (double a = x.get(i); std::isfinite(a))
          energy += 2.0 * a * a;
      continue;
    }
    for (int64_t i = 0; i < x.getNumElements(); ++i) {
      double a = x.get(i), b = y.get(i);
      if (!std::isfinite(a) || !std::isfinite(b)) {
        bool same = a == b || (std::isnan(a) && std::isnan(b));
        result.specialsDiffer |= !same;
        result.numDifferent += !same;
        continue;
      }
      result.numDifferent += a != b;
      result.maxAbsolute = std::max(result.maxAbsolute, std::fabs(a - b));
      largest = std::max({largest, std::fabs(a), std::fabs(b)});
      difference += (a - b) * (a - b);
      energy += a * a + b * b;
    }
  }
  if (largest > 0.0)
    result.maxRelative = result.maxAbsolute / largest;
  if (energy > 0.0)
    result.energy = difference / energy;
  return result;
}

void Difference::merge(const Difference &other) {
  numValues += other.numValues;
  numDifferent += other.numDifferent;
  maxAbsolute = std::max(maxAbsolute, other.maxAbsolute);
  maxRelative = std::max(maxRelative, other.maxRelative);
  energy = std::max(energy, other.energy);
  specialsDiffer |= other.specialsDiffer;
}

double fuse::getEnergyBound(ArrayRef<HostTensor> inputs,
                            ArrayRef<HostTensor> results) {
  double bound = 1e-10;
  for (ArrayRef<HostTensor> tensors : {inputs, results})
    for (const HostTensor &tensor : tensors)
      bound = std::max(bound, getSize(tensor.getType()) == 1   ? 1e-3
                              : getSize(tensor.getType()) == 2 ? 1e-4
                                                               : 1e-10);
  return bound;
}

static bool hasFusedOps(Operation *root) {
  return root
      ->walk([](Operation *op) {
        return WalkResult(failure(isa<FusedOpInterface, stage::GraphOp>(op)));
      })
      .wasInterrupted();
}

namespace {

/// Prints one line per check.
class Table {
public:
  explicit Table(llvm::raw_ostream &os) : os(os) {}

  void row(StringRef level, StringRef claim, bool holds, const Twine &detail) {
    print(level, claim, holds ? "ok" : "FAILED", detail);
    allHold &= holds;
  }
  /// A check that could not be made.
  void unchecked(StringRef level, StringRef claim, const Twine &detail) {
    print(level, claim, "unchecked", detail);
  }
  bool allHold = true;

private:
  void print(StringRef level, StringRef claim, StringRef state,
             const Twine &detail) {
    os << llvm::formatv("{0,-4} {1,-32} {2,-10} {3}\n", level, claim, state,
                        detail.str());
  }

  llvm::raw_ostream &os;
};

} // namespace

static std::string describe(const Difference &difference) {
  if (difference.numDifferent == 0)
    return llvm::formatv("equal ({0} values)", difference.numValues);
  return llvm::formatv(
      "{0} of {1} values differ, max abs {2:e3}, relative to "
      "the largest value {3:e3}, energy {4:e3}{5}",
      difference.numDifferent, difference.numValues, difference.maxAbsolute,
      difference.maxRelative, difference.energy,
      difference.specialsDiffer ? ", NaN or infinity differ" : "");
}

//===----------------------------------------------------------------------===//
// GPUs
//===----------------------------------------------------------------------===//

/// Whether it takes too long to compute every value from the contract. Each
/// product of a sum takes some tens of nanoseconds.
static bool isTooLarge(ArrayRef<HostTensor> inputs,
                       ArrayRef<HostTensor> results) {
  constexpr int64_t maxProducts = 1 << 27;
  int64_t weights = 1, tokens = 1;
  for (const HostTensor &input : inputs)
    weights += input.getShape().size() == 2 ? input.getNumElements() : 0;
  for (const HostTensor &result : results)
    if (result.getNumElements() > 0 && !result.getShape().empty())
      tokens =
          std::max(tokens, result.getNumElements() / result.getShape().back());
  return tokens > maxProducts / weights;
}

/// Values that the contract allows. Fails if the contract is unknown.
static Expected<std::vector<Tensor>> getContract(func::FuncOp function,
                                                 ArrayRef<HostTensor> inputs,
                                                 bool isScheduled) {
  // Tensor cores sum products of 8-bit floats differently.
  bool isAligned =
      isScheduled && llvm::any_of(inputs, [](const HostTensor &input) {
        return input.getType() == ElementType::F8E4M3FN;
      });
  Interpreter interpreter(isAligned ? Accumulator::Aligned
                                    : Accumulator::Single,
                          /*mayRoundParts=*/isScheduled);
  return interpreter.run(function, inputs);
}

/// Describes the first value that the contract does not allow, or returns an
/// empty string.
static std::string findOutside(ArrayRef<Tensor> contract,
                               ArrayRef<HostTensor> results) {
  for (auto [index, range, result] : llvm::enumerate(contract, results))
    if (std::optional<int64_t> place = findOutside(range, result))
      return llvm::formatv("result {0} at {1} is {2}, expected {3} to {4}",
                           index, *place, result.get(*place), range[*place].lo,
                           range[*place].hi);
  return "";
}

namespace {

/// Checks of the code for a GPU.
class GpuChecks {
public:
  static Expected<GpuChecks> create(func::FuncOp function,
                                    const GpuOptions &options) {
    auto program = GpuProgram::compile(function, options);
    if (!program)
      return program.takeError();
    auto device = GpuProgram::getDeviceName();
    if (!device)
      return device.takeError();
    return GpuChecks(function, options, std::move(*program),
                     std::move(*device));
  }

  /// Runs the program. `reference` is the result of the reference lowering.
  void check(ArrayRef<HostTensor> inputs, ArrayRef<HostTensor> reference);
  void print(Table &table) const;

private:
  GpuChecks(func::FuncOp function, const GpuOptions &options,
            GpuProgram program, std::string device)
      : function(function), options(options), program(std::move(program)),
        device(std::move(device)) {}

  func::FuncOp function;
  const GpuOptions &options;
  GpuProgram program;
  std::string device;
  /// The first error.
  std::string failure;
  Difference worst;
  /// Number of values that were compared with the contract.
  int64_t numContracts = 0;
  /// Why other values were not, for the first of them.
  std::string unchecked;
};

} // namespace

void GpuChecks::check(ArrayRef<HostTensor> inputs,
                      ArrayRef<HostTensor> reference) {
  if (!failure.empty())
    return;
  auto fail = [&](const Twine &what) {
    failure = what.str();
    for (auto [index, input] : llvm::enumerate(inputs))
      if (ShapedType::isDynamicShape(
              cast<ShapedType>(function.getArgumentTypes()[index]).getShape()))
        failure += llvm::formatv("; argument {0} is {1}", index,
                                 toString(input.getType(), input.getShape()))
                       .str();
  };
  std::vector<HostTensor> first;
  for (unsigned order = 0; order < options.numOrders; ++order) {
    auto results = program.run(inputs, order);
    if (!results)
      return fail(toString(results.takeError()));
    if (order == 0)
      first = std::move(*results);
    else if (!llvm::equal(first, *results,
                          [](const HostTensor &x, const HostTensor &y) {
                            return x.isBitEqual(y);
                          }))
      return fail("order " + Twine(order) +
                  " gives other bits than the first one");
  }
  Difference difference = compare(first, reference);
  worst.merge(difference);
  std::string reason = "its sums take too long";
  if (!isTooLarge(inputs, reference)) {
    auto contract =
        getContract(function, inputs, program.getPath() != "portable");
    if (contract) {
      numContracts += difference.numValues;
      if (std::string what = findOutside(*contract, first); !what.empty())
        fail(what);
      return;
    }
    reason = toString(contract.takeError());
  }
  if (unchecked.empty())
    unchecked = reason;
  if (difference.specialsDiffer ||
      difference.energy > getEnergyBound(inputs, first))
    fail(describe(difference));
}

void GpuChecks::print(Table &table) const {
  std::string claim = (program.getPath() + " on " + device).str();
  if (!failure.empty())
    return table.row("V2", claim, false, failure);
  std::string detail =
      llvm::formatv("{0} of {1} values checked by contract, the same bits {2} "
                    "times",
                    numContracts, worst.numValues, options.numOrders)
          .str();
  if (!unchecked.empty())
    detail += "; not checked: " + unchecked;
  if (numContracts == 0 && !unchecked.empty())
    table.unchecked("V2", claim, detail);
  else
    table.row("V2", claim, true, detail);
  table.row("", "and against reference", true, describe(worst));
}

//===----------------------------------------------------------------------===//
// Raising
//===----------------------------------------------------------------------===//

/// Compares a function with the layers that raising made of it, in the
/// reference lowering, which sums in order of the operands.
///
/// Raising changes single roundings of f32 and no rounding to a narrower type.
/// Such a result therefore has the same bits, but for the few values that lie
/// in the middle between two. A rounding in another place changes about a
/// quarter of all values.
static llvm::Error checkRaising(func::FuncOp written, func::FuncOp raised,
                                ArrayRef<std::vector<HostTensor>> inputSets,
                                Table &table) {
  auto before = Program::compile(written, /*reference=*/true);
  if (!before)
    return before.takeError();
  auto after = Program::compile(raised, /*reference=*/true);
  if (!after)
    return after.takeError();
  bool holds = true;
  Difference worst;
  for (const std::vector<HostTensor> &inputs : inputSets) {
    auto expected = before->run(inputs);
    if (!expected)
      return expected.takeError();
    auto results = after->run(inputs);
    if (!results)
      return results.takeError();
    for (auto [x, y] : llvm::zip_equal(*expected, *results)) {
      constexpr int64_t minEqualPerDifferent = 64;
      Difference difference = compare(x, y);
      holds &= !difference.specialsDiffer &&
               difference.energy <= getEnergyBound(inputs, x);
      if (getSize(x.getType()) < 4)
        holds &= difference.numDifferent * minEqualPerDifferent <=
                 difference.numValues;
      worst.merge(difference);
    }
  }
  table.row("V0", "raised against written, CPU", holds, describe(worst));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The check levels
//===----------------------------------------------------------------------===//

/// Raises a copy of a module. Returns nothing if that changes nothing.
static Expected<OwningOpRef<ModuleOp>> raise(ModuleOp module) {
  OwningOpRef<ModuleOp> raised = cast<ModuleOp>(module->clone());
  if (failed(raiseProgram(*raised)))
    return createStringError("the module cannot be raised");
  ScopedDiagnosticHandler silence(module.getContext(), [](Diagnostic &) {});
  if (succeeded(verifyIdentical(module, *raised)))
    return OwningOpRef<ModuleOp>();
  return raised;
}

Expected<bool> fuse::verify(func::FuncOp function,
                            ArrayRef<std::vector<HostTensor>> inputSets,
                            const GpuOptions &gpu, llvm::raw_ostream &os) {
  Table table(os);
  StringRef name = function.getSymName();

  // The unfused function is the raised input, or the decomposition of its fused
  // ops.
  OwningOpRef<ModuleOp> base = isolate(function);
  bool given = hasFusedOps(*base);
  if (given && failed(unfuse(*base, {})))
    return createStringError("@" + name + " cannot be unfused");
  stage::lowerGraphs(*base);
  if (!given) {
    auto raised = raise(*base);
    if (!raised)
      return raised.takeError();
    if (*raised) {
      auto raisedFunction = findFunction(**raised, name);
      if (!raisedFunction)
        return raisedFunction.takeError();
      if (llvm::Error error =
              checkRaising(function, *raisedFunction, inputSets, table))
        return std::move(error);
      base = std::move(*raised);
    }
  }
  auto baseFunction = findFunction(*base, name);
  if (!baseFunction)
    return baseFunction.takeError();

  OwningOpRef<ModuleOp> formed = cast<ModuleOp>((*base)->clone());
  auto formedFunction = findFunction(*formed, name);
  if (!formedFunction)
    return formedFunction.takeError();
  unsigned numFused = 0, numRefused = 0;
  for (auto member : formed->getOps<func::FuncOp>()) {
    auto counts = formKernels(member, {});
    if (failed(counts))
      return createStringError("kernels cannot be formed in @" + name);
    numFused += counts->fused;
    numRefused += counts->refused;
  }
  OwningOpRef<ModuleOp> undone = cast<ModuleOp>((*formed)->clone());
  bool identical = succeeded(unfuse(*undone, {})) &&
                   succeeded(verifyIdentical(*base, *undone));
  table.row("V0", "unfuse(form(x)) is x", identical && (given || numFused > 0),
            numFused == 0 && !given ? "no kernel was formed"
            : identical ? "identical (kernels: " + Twine(numFused) +
                              ", refused sites: " + Twine(numRefused) + ")"
                        : Twine("different"));

  // A function that already has fused ops is checked unchanged.
  func::FuncOp fused = given ? function : *formedFunction;
  auto fusedProgram = Program::compile(fused, /*reference=*/false);
  if (!fusedProgram)
    return fusedProgram.takeError();
  auto unfusedProgram = Program::compile(*baseFunction, /*reference=*/false);
  if (!unfusedProgram)
    return unfusedProgram.takeError();
  auto referenceProgram = Program::compile(fused, /*reference=*/true);
  if (!referenceProgram)
    return referenceProgram.takeError();
  std::optional<GpuChecks> gpuChecks;
  if (!gpu.chip.empty()) {
    auto checks = GpuChecks::create(fused, gpu);
    if (!checks)
      return checks.takeError();
    gpuChecks.emplace(std::move(*checks));
  }

  bool bitEqual = true, withinBound = true;
  int64_t numBytes = 0;
  Difference unfusedWorst, referenceWorst;
  for (const std::vector<HostTensor> &inputs : inputSets) {
    auto results = fusedProgram->run(inputs);
    if (!results)
      return results.takeError();
    auto unfusedResults = unfusedProgram->run(inputs);
    if (!unfusedResults)
      return unfusedResults.takeError();
    auto referenceResults = referenceProgram->run(inputs);
    if (!referenceResults)
      return referenceResults.takeError();
    for (auto [x, y] : llvm::zip_equal(*results, *unfusedResults)) {
      bitEqual &= x.isBitEqual(y);
      numBytes += x.getNumBytes();
    }
    unfusedWorst.merge(compare(*results, *unfusedResults));
    Difference difference = compare(*results, *referenceResults);
    withinBound &= !difference.specialsDiffer &&
                   difference.energy <= getEnergyBound(inputs, *results);
    referenceWorst.merge(difference);
    if (gpuChecks)
      gpuChecks->check(inputs, *referenceResults);
  }
  table.row("V1", "fused against unfused, CPU", bitEqual,
            bitEqual ? "bit-equal (" + Twine(numBytes) + " bytes)"
                     : Twine(describe(unfusedWorst)));
  table.row("", "optimized against reference", withinBound,
            describe(referenceWorst));
  if (gpuChecks)
    gpuChecks->print(table);
  return table.allHold;
}
