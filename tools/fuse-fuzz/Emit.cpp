//===- Emit.cpp - Random modules for a remote GPU -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "Execution.h"
#include "RandomSchedules.h"
#include "fuse/Artifact/Compiler.h"
#include "fuse/Execution/Inputs.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Interpreter/Interpreter.h"
#include "fuse/Measure/TestBundle.h"
#include "fuse/Measure/TestBundleFormat.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/WithColor.h"

#include <limits>

using namespace mlir;
using namespace fuse;
using llvm::Expected;
using nlohmann::json;

/// Largest tensor of a case, in elements; it bounds the size of files with
/// results. Tensors are larger if numbers of tokens at which kernels change are
/// tested.
static int64_t getMaxElements(Stratum stratum) {
  return stratum == Stratum::Schedules ? 1 << 19
         : stratum == Stratum::Mixed   ? 1 << 15
                                       : 1 << 14;
}

/// Largest number of tokens of scheduled kernels if schedules are not random,
/// and numbers of tokens at which their ranges end and begin.
static constexpr int64_t kChosenTokens = 64;
static constexpr int64_t kChosenBoundaries[] = {8,  9,  16,           17,
                                                32, 33, kChosenTokens};

/// Limits of cases with random schedules: number of tokens of a case, numbers
/// of tokens per module, and interpreted products per case.
static constexpr int64_t kMaxTokens = 300;
static constexpr size_t kMaxTurns = 4;
static constexpr int64_t kMaxProducts = 1 << 26;

namespace {

/// Contents of a test bundle.
struct File {
  std::vector<std::pair<uint32_t, std::string>> sections;
  json cases = json::array();

  size_t add(uint32_t kind, std::string data) {
    sections.push_back({kind, std::move(data)});
    return sections.size();
  }
};

/// Number of seeds without cases, by reason, and of the last ones in a row.
struct Skips {
  uint64_t unfused = 0, unfit = 0, sizes = 0, inRow = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool isTensor(Type type, int64_t maxElements) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         (!tensor.hasStaticShape() || tensor.getNumElements() <= maxElements);
}

/// Makes functions like those in artifacts: drops results that are not tensors,
/// and functions whose results are all empty, which have no kernel.
static void keepTensors(ModuleOp module, int64_t maxElements) {
  auto fitsType = [&](Type type) { return isTensor(type, maxElements); };
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    Operation *terminator = function.front().getTerminator();
    SmallVector<Value> kept = llvm::to_vector(
        llvm::make_filter_range(terminator->getOperands(), [](Value value) {
          return isa<RankedTensorType>(value.getType());
        }));
    bool fits = llvm::all_of(function.getArgumentTypes(), fitsType) &&
                llvm::all_of(ValueRange(kept).getTypes(), fitsType);
    bool isEmpty = llvm::all_of(kept, [](Value value) {
      auto type = cast<RankedTensorType>(value.getType());
      return llvm::is_contained(type.getShape(), 0);
    });
    if (isEmpty || !fits) {
      function.erase();
      continue;
    }
    terminator->setOperands(kept);
    function.setType(FunctionType::get(module.getContext(),
                                       function.getArgumentTypes(),
                                       ValueRange(kept).getTypes()));
  }
}

/// Forms kernels and returns their number.
static unsigned form(ModuleOp module) {
  unsigned fused = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    FailureOr<KernelFormationCounts> counts = formKernels(function, {});
    if (succeeded(counts))
      fused += counts->fused;
  }
  return fused;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Bounds for another order of summation, by the narrowest type: one rounding,
/// or one bin if values are quantized.
static std::pair<double, double> getBounds(const Signature &signature) {
  size_t narrowest = 8;
  for (const auto &specs : {signature.inputs, signature.results})
    for (const TensorSpec &spec : specs)
      narrowest = std::min(narrowest, getSize(spec.type));
  if (narrowest == 1)
    return {1e-3, 0.3};
  if (narrowest == 2)
    return {1e-4, 0.05};
  return {1e-10, 1e-3};
}

namespace {

/// One function with inputs and results, without its code.
struct CaseData {
  /// Distinguishes cases of one function.
  std::string suffix;
  json arguments = json::array(), results = json::array();
  /// Sections with contracts of scheduled kernels, if they differ.
  std::vector<size_t> contracts;
};

} // namespace

/// Whether a size is static in the first operand of an op and dynamic in a
/// result, or vice versa. Other arguments could then have inconsistent sizes.
static bool hasLooseSizes(func::FuncOp function) {
  auto differs = [](Operation *op) {
    if (op->getNumOperands() == 0)
      return false;
    auto from = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
    return llvm::any_of(op->getResultTypes(), [&](Type type) {
      auto to = dyn_cast<RankedTensorType>(type);
      if (!from || !to || from.getRank() != to.getRank())
        return false;
      for (int64_t dim = 0; dim + 1 < from.getRank(); ++dim)
        if (from.isDynamicDim(dim) != to.isDynamicDim(dim))
          return true;
      return false;
    });
  };
  return function
      .walk([&](Operation *op) {
        return differs(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Serializes two numbers per value, the lower and upper bound. Two NaNs
/// require NaN. Two infinities in the wrong order allow any value.
static std::string writeContract(const Tensor &tensor) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> numbers;
  for (const Interval &range : tensor.values) {
    numbers.push_back(range.isAnything ? infinity : range.lo);
    numbers.push_back(range.isAnything ? -infinity : range.hi);
  }
  return {reinterpret_cast<const char *>(numbers.data()),
          numbers.size() * sizeof(double)};
}

namespace {

/// Runs one function on the CPU, on one set of inputs per case.
class FunctionRuns {
public:
  FunctionRuns(func::FuncOp function, uint64_t seed, Stratum stratum,
               File &file)
      : function(function), seed(seed), stratum(stratum), file(file) {}

  /// Appends cases with random numbers of tokens, or with some of `boundaries`.
  /// Appends nothing if the sizes of the arguments are inconsistent.
  llvm::Error run(ArrayRef<int64_t> boundaries, std::vector<CaseData> &cases);

private:
  Expected<std::optional<CaseData>> runOn(int64_t tokens, Random &random);
  Expected<bool> addContracts(ArrayRef<HostTensor> inputs, CaseData &data);
  bool isTooLarge(ArrayRef<HostTensor> inputs) const;

  func::FuncOp function;
  uint64_t seed;
  Stratum stratum;
  File &file;
  Signature signature;
  std::optional<Program> program;
};

} // namespace

llvm::Error FunctionRuns::run(ArrayRef<int64_t> boundaries,
                              std::vector<CaseData> &cases) {
  if (hasLooseSizes(function))
    return llvm::Error::success();
  Expected<Signature> found = getSignature(function);
  if (!found)
    return found.takeError();
  signature = std::move(*found);
  Random random(seed);
  SmallVector<int64_t> counts = {random.oneOf({1, 2, 7, 16, 33, 50})};
  if (!boundaries.empty()) {
    // Draw all numbers first, so that they do not depend on the inputs of other
    // cases.
    counts.clear();
    for (size_t i = 0; i + 1 < kMaxTurns; ++i)
      counts.push_back(random.oneOf(boundaries));
    counts.push_back(1 + random.below(boundaries.back()));
    llvm::sort(counts);
    counts.erase(llvm::unique(counts), counts.end());
  }
  for (int64_t tokens : counts) {
    Expected<std::optional<CaseData>> made = runOn(tokens, random);
    if (!made)
      return made.takeError();
    if (!*made)
      continue;
    if (!boundaries.empty())
      (*made)->suffix = "#" + std::to_string(tokens);
    cases.push_back(std::move(**made));
  }
  return llvm::Error::success();
}

/// Whether the interpreter would take too long.
bool FunctionRuns::isTooLarge(ArrayRef<HostTensor> inputs) const {
  int64_t weights = 0, tokens = 0;
  for (auto [spec, input] : llvm::zip_equal(signature.inputs, inputs)) {
    bool isWeight =
        input.getShape().size() == 2 && !ShapedType::isDynamicShape(spec.shape);
    if (isWeight)
      weights += input.getNumElements();
    else if (!input.getShape().empty())
      tokens = std::max(tokens, input.getShape()[0]);
  }
  return stratum == Stratum::Schedules && tokens * weights > kMaxProducts;
}

/// Adds the expected results and their contracts. Returns false if they are too
/// large.
Expected<bool> FunctionRuns::addContracts(ArrayRef<HostTensor> inputs,
                                          CaseData &data) {
  auto results = program->run(inputs);
  if (!results)
    return results.takeError();
  for (const HostTensor &result : *results)
    if (result.getNumElements() > getMaxElements(stratum))
      return false;
  auto contracts = Interpreter().run(function, inputs);
  if (!contracts)
    return contracts.takeError();
  auto [energy, element] = getBounds(signature);
  for (auto [result, contract] : llvm::zip_equal(*results, *contracts)) {
    size_t section =
        file.add(measure::kExpectedSection,
                 std::string(result.getData(), result.getNumBytes()));
    data.results.push_back({{"expected", section},
                            {"contract", file.add(measure::kContractSection,
                                                  writeContract(contract))},
                            {"energy", energy},
                            {"element", element}});
  }
  // Tensor cores sum products of 8-bit floats differently.
  bool isScheduled = stratum == Stratum::Scheduled ||
                     stratum == Stratum::Schedules || stratum == Stratum::Mixed;
  bool hasFloats = llvm::any_of(signature.inputs, [](const TensorSpec &spec) {
    return spec.type == ElementType::F8E4M3FN;
  });
  if (!isScheduled || !hasFloats)
    return true;
  auto aligned = Interpreter(Accumulator::Aligned).run(function, inputs);
  if (!aligned)
    return aligned.takeError();
  for (const Tensor &contract : *aligned)
    data.contracts.push_back(
        file.add(measure::kContractSection, writeContract(contract)));
  return true;
}

Expected<std::optional<CaseData>> FunctionRuns::runOn(int64_t tokens,
                                                      Random &random) {
  InputOptions options;
  options.dims = {"tokens=" + std::to_string(tokens),
                  "batch=" + std::to_string(random.oneOf({1, 2, 3}))};
  // Sizes of labels and experts depend on those of other arguments.
  if (stratum == Stratum::Functions)
    options.dims = {std::to_string(tokens)};
  auto shapes = createInputs(function, signature, options);
  if (!shapes) {
    llvm::consumeError(shapes.takeError());
    return std::nullopt;
  }
  if (isTooLarge(*shapes))
    return std::nullopt;
  auto values =
      random.oneOf({Values::Exact, Values::Exact, Values::Exact, Values::Exact,
                    Values::Normal, Values::Normal, Values::Normal,
                    Values::Normal, Values::Large, Values::Special});
  std::vector<RandomValues> pools = createPools(function, signature, seed);
  CaseData data;
  std::vector<HostTensor> inputs;
  for (auto [index, pool] : llvm::enumerate(pools)) {
    changeValues(pool.pool, values, random);
    chooseIndices(function.getArgument(index), pool.pool, values, random);
    // A small pool suffices and keeps the file small.
    std::string content(pool.pool.getData(),
                        1024 * getSize(pool.pool.getType()));
    HostTensor input = std::move((*shapes)[index]);
    measure::fillFromPool(input.getData(), input.getNumElements(),
                          getSize(input.getType()), content, index);
    data.arguments.push_back(
        {{"element", getName(input.getType()).str()},
         {"shape", std::vector<int64_t>(input.getShape().begin(),
                                        input.getShape().end())},
         {"pool", file.add(measure::kPoolSection, std::move(content))},
         {"seed", index},
         {"bound", !pool.isActivation}});
    inputs.push_back(std::move(input));
  }
  if (!program) {
    auto compiled = Program::compile(function, /*reference=*/true);
    if (!compiled)
      return compiled.takeError();
    program = std::move(*compiled);
  }
  Expected<bool> added = addContracts(inputs, data);
  if (!added)
    return added.takeError();
  if (!*added)
    return std::nullopt;
  return data;
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Adds the cases of one path. Functions that use the other path are skipped.
static llvm::Error addCases(ModuleOp module, StringRef path, uint64_t seed,
                            const llvm::StringMap<std::vector<CaseData>> &data,
                            Stratum stratum, const Chip &chip, File &file) {
  CompileOptions options;
  options.cpu = "";
  options.chip = chip.name.str();
  options.tokens = stratum == Stratum::Schedules ? kMaxTokens : kChosenTokens;
  options.scheduled = path != "portable";
  Expected<std::string> artifact = compileToArtifact(module, options);
  if (!artifact)
    return artifact.takeError();
  json manifest =
      runtime::parseJSON(runtime::Artifact(*artifact).sections[0].data);
  std::optional<size_t> section;
  for (const json &function : manifest["functions"]) {
    std::string name = function["name"];
    auto found = data.find(name);
    if (found == data.end())
      continue;
    // A function without a kernel has no GPU code.
    if (!function.contains("cuda") ||
        function["cuda"].value("path", "") != path.str())
      continue;
    if (!section)
      section = file.add(measure::kArtifactSection, *artifact);
    for (const CaseData &item : found->second) {
      json results = item.results;
      if (path != "portable")
        for (auto [index, contract] : llvm::enumerate(item.contracts))
          results[index]["contract"] = contract;
      file.cases.push_back(
          {{"name", llvm::formatv("{0}@{1}{2}", seed, name, item.suffix).str()},
           {"path", path.str()},
           {"function", name},
           {"artifact", *section},
           {"arguments", item.arguments},
           {"results", std::move(results)}});
    }
  }
  return llvm::Error::success();
}

OwningOpRef<ModuleOp> fuse::makeCase(MLIRContext &context, uint64_t seed,
                                     Stratum stratum, const Chip &chip,
                                     SmallVectorImpl<int64_t> *boundaries) {
  OwningOpRef<ModuleOp> module = generateModule(&context, seed, stratum);
  keepTensors(*module, getMaxElements(stratum));
  if (form(*module) == 0 || stratum != Stratum::Schedules)
    return module;
  Random choices(~seed);
  SmallVector<int64_t> found =
      attachRandomSchedules(*module, choices, kMaxTokens, chip);
  if (boundaries)
    boundaries->append(found);
  return module;
}

/// Adds the cases of a seed. Returns false if it has none.
static Expected<bool> addModule(MLIRContext &context, uint64_t seed,
                                Stratum stratum, const Chip &chip, File &file,
                                Skips &skips) {
  SmallVector<int64_t> boundaries;
  OwningOpRef<ModuleOp> module =
      makeCase(context, seed, stratum, chip, &boundaries);
  if (stratum == Stratum::Mixed)
    boundaries.append(std::begin(kChosenBoundaries),
                      std::end(kChosenBoundaries));
  if (module->getOps<func::FuncOp>().empty()) {
    ++skips.unfit;
    return false;
  }
  // Losses and experts are kernels without fusion.
  bool isFused = stratum == Stratum::Functions;
  module->walk([&](FusedOpInterface) { isFused = true; });
  if (!isFused) {
    ++skips.unfused;
    return false;
  }
  llvm::StringMap<std::vector<CaseData>> data;
  for (auto function : module->getOps<func::FuncOp>()) {
    std::vector<CaseData> cases;
    if (llvm::Error error =
            FunctionRuns(function, seed, stratum, file).run(boundaries, cases))
      return std::move(error);
    if (!cases.empty())
      data[function.getSymName()] = std::move(cases);
  }
  if (data.empty()) {
    ++skips.sizes;
    return false;
  }
  SmallVector<StringRef> paths = {"portable"};
  if (stratum == Stratum::Scheduled || stratum == Stratum::Schedules)
    paths.push_back("scheduled");
  if (stratum == Stratum::Mixed)
    paths.push_back("mixed");
  for (StringRef path : paths)
    if (llvm::Error error =
            addCases(*module, path, seed, data, stratum, chip, file))
      return std::move(error);
  return true;
}

static void writeFile(const std::string &path, const File &file) {
  json description = {{"format", measure::kBundleFormat},
                      {"version", measure::kBundleVersion},
                      {"cases", file.cases}};
  std::string text = description.dump();
  std::vector<runtime::Section> list = {{measure::kDescriptionSection, text}};
  for (const auto &[kind, data] : file.sections)
    list.push_back({kind, data});
  runtime::writeFileAtomically(path, runtime::writeContainer(list));
}

bool fuse::emitCases(const EmitOptions &options) {
  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  registerCompilerTranslations(registry);
  llvm::sys::fs::create_directories(options.folder);
  StringRef name = getName(options.stratum);
  uint64_t seed = options.firstSeed, made = 0, failed = 0, cases = 0;
  Skips skips;
  auto isDone = [&] {
    return made >= options.count || skips.inRow >= options.maxSkipped;
  };
  try {
    while (!isDone()) {
      // Use a new context, since contexts never free attributes.
      MLIRContext context(registry, MLIRContext::Threading::DISABLED);
      context.loadAllAvailableDialects();
      std::string errors;
      ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
          errors = diagnostic.str();
        return success();
      });
      File file;
      uint64_t first = seed;
      for (unsigned count = 0; count < options.perFile && !isDone(); ++seed) {
        ++skips.inRow;
        Expected<bool> added = addModule(context, seed, options.stratum,
                                         options.chip, file, skips);
        if (!added) {
          ++failed;
          llvm::outs() << "seed " << seed << ": " << toString(added.takeError())
                       << ": " << errors
                       << "\nmodule: fuse-fuzz --print --seed=" << seed
                       << " --stratum=" << name
                       << " --chip=" << options.chip.name << "\n";
          continue;
        }
        count += *added;
        made += *added;
        if (*added)
          skips.inRow = 0;
      }
      cases += file.cases.size();
      if (file.cases.empty())
        continue;
      writeFile(options.folder + "/" + name.str() + "-" +
                    std::to_string(first) + ".bundle",
                file);
      llvm::errs() << "[" << made << "/" << options.count << "] up to seed "
                   << seed - 1 << "\n";
    }
  } catch (const runtime::Failure &failure) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << failure.getMessage() << "\n";
    return false;
  }
  llvm::outs() << made << " modules from seeds " << options.firstSeed << " to "
               << seed - 1 << ", " << cases << " cases, " << failed
               << " failed; passed over: " << skips.unfused << " unfused, "
               << skips.unfit << " too large or empty, " << skips.sizes
               << " with other sizes\n";
  if (made < options.count) {
    llvm::outs().flush();
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "the last " << skips.inRow << " seeds have no case, which is the "
        << "limit of --max-skipped: " << made << " of " << options.count
        << " modules were written\n";
    return false;
  }
  return failed == 0;
}
