//===- Emit.cpp - Random modules for a GPU elsewhere ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Emit.h"
#include "Execution.h"
#include "Inputs.h"
#include "Interpreter.h"
#include "fuse/Compiler/Compiler.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Runtime/Host/Failure.h"
#include "fuse/Runtime/Host/Instance.h"
#include "fuse/Runtime/Trial/Trial.h"
#include "fuse/Runtime/Trial/TrialFormat.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <limits>

using namespace mlir;
using namespace fuse;
using llvm::Expected;
using nlohmann::json;

/// Largest tensor of a case, in elements: results travel as they are.
static constexpr int64_t kMaxElements = 1 << 14;

namespace {

/// A file in the making.
struct File {
  std::vector<std::pair<uint32_t, std::string>> sections;
  json cases = json::array();

  size_t add(uint32_t kind, std::string data) {
    sections.push_back({kind, std::move(data)});
    return sections.size();
  }
};

/// Why a seed has nothing to compare.
struct Skips {
  uint64_t unfused = 0, unfit = 0, sizes = 0;
};

} // namespace

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static bool isTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         (!tensor.hasStaticShape() || tensor.getNumElements() <= kMaxElements);
}

/// Functions on tensors, as artefacts have them: results of other types are
/// dropped, and functions whose results have no element, which have no kernel.
static void keepTensors(ModuleOp module) {
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    Operation *terminator = function.front().getTerminator();
    SmallVector<Value> kept = llvm::to_vector(
        llvm::make_filter_range(terminator->getOperands(), [](Value value) {
          return isa<RankedTensorType>(value.getType());
        }));
    bool fits = llvm::all_of(function.getArgumentTypes(), isTensor) &&
                llvm::all_of(kept, [](Value value) {
                  return isTensor(value.getType());
                });
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

/// Forms kernels; returns how many.
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

/// What another order of summation may change, by the narrowest type: a
/// rounding, or a bin where values are quantized.
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

/// One function with inputs and results, apart from its code.
struct CaseData {
  json arguments = json::array(), results = json::array();
};

} // namespace

/// Whether a size is static in the first operand of an op and dynamic in a
/// result, or the other way round. Other arguments could then be called with
/// sizes that do not go together.
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

/// Two numbers for each value, between which it has to be. Two NaNs say that it
/// is none, and two infinities the wrong way round that anything is allowed.
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

/// Makes the inputs of `function` and runs it here. Nothing where the sizes of
/// its arguments do not go together.
static Expected<std::optional<CaseData>>
runFunction(func::FuncOp function, uint64_t seed, File &file) {
  if (hasLooseSizes(function))
    return std::nullopt;
  Random random(seed);
  Expected<Signature> signature = getSignature(function);
  if (!signature)
    return signature.takeError();
  InputOptions options;
  options.dims = {"tokens=" +
                      std::to_string(random.oneOf({1, 2, 7, 16, 33, 50})),
                  "batch=" + std::to_string(random.oneOf({1, 2, 3}))};
  auto shapes = createInputs(function, *signature, options);
  if (!shapes) {
    llvm::consumeError(shapes.takeError());
    return std::nullopt;
  }
  auto values =
      random.oneOf({Values::Exact, Values::Exact, Values::Exact, Values::Exact,
                    Values::Normal, Values::Normal, Values::Normal,
                    Values::Normal, Values::Large, Values::Special});
  std::vector<RandomValues> pools = createPools(function, *signature, seed);
  CaseData data;
  std::vector<HostTensor> inputs;
  for (auto [index, pool] : llvm::enumerate(pools)) {
    changeValues(pool.pool, values, random);
    // A small pool is enough, and travels.
    std::string content(pool.pool.getData(),
                        1024 * getSize(pool.pool.getType()));
    HostTensor input = std::move((*shapes)[index]);
    trial::fillFromPool(input.getData(), input.getNumElements(),
                        getSize(input.getType()), content, index);
    data.arguments.push_back(
        {{"element", getName(input.getType()).str()},
         {"shape", std::vector<int64_t>(input.getShape().begin(),
                                        input.getShape().end())},
         {"pool", file.add(trial::kPoolSection, std::move(content))},
         {"seed", index},
         {"bound", !pool.isActivation}});
    inputs.push_back(std::move(input));
  }
  Expected<Program> program = Program::compile(function, /*reference=*/true);
  if (!program)
    return program.takeError();
  auto results = program->run(inputs);
  if (!results)
    return results.takeError();
  auto [energy, element] = getBounds(*signature);
  for (const HostTensor &result : *results)
    if (result.getNumElements() > kMaxElements)
      return std::nullopt;
  auto contracts = Interpreter().run(function, inputs);
  if (!contracts)
    return contracts.takeError();
  for (auto [result, contract] : llvm::zip_equal(*results, *contracts)) {
    size_t section =
        file.add(trial::kExpectedSection,
                 std::string(result.getData(), result.getNumBytes()));
    data.results.push_back({{"expected", section},
                            {"contract", file.add(trial::kContractSection,
                                                  writeContract(contract))},
                            {"energy", energy},
                            {"element", element}});
  }
  return data;
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Adds the cases of one path. Functions that take the other one are left out.
static llvm::Error addCases(ModuleOp module, StringRef path, uint64_t seed,
                            const llvm::StringMap<CaseData> &data, File &file) {
  CompileOptions options;
  options.cpu = "";
  options.chip = "sm_90a";
  options.tokens = 64;
  options.scheduled = path != "portable";
  options.mixed = path == "mixed";
  Expected<std::string> artifact = compileToArtifact(module, options);
  if (!artifact)
    return artifact.takeError();
  json manifest = host::parseJSON(host::Artifact(*artifact).sections[0].data);
  std::optional<size_t> section;
  for (const json &function : manifest["functions"]) {
    std::string name = function["name"];
    auto found = data.find(name);
    if (found == data.end())
      continue;
    // A function without a kernel has no code.
    if (!function.contains("cuda") ||
        function["cuda"].value("path", "") != path.str())
      continue;
    if (!section)
      section = file.add(trial::kArtifactSection, *artifact);
    file.cases.push_back({{"name", llvm::formatv("{0}@{1}", seed, name).str()},
                          {"path", path.str()},
                          {"function", name},
                          {"artifact", *section},
                          {"arguments", found->second.arguments},
                          {"results", found->second.results}});
  }
  return llvm::Error::success();
}

/// Adds the cases of a seed; false when it has none.
static Expected<bool> addModule(MLIRContext &context, uint64_t seed,
                                Stratum stratum, File &file, Skips &skips) {
  OwningOpRef<ModuleOp> module = generateModule(&context, seed, stratum);
  keepTensors(*module);
  if (module->getOps<func::FuncOp>().empty()) {
    ++skips.unfit;
    return false;
  }
  if (form(*module) == 0) {
    ++skips.unfused;
    return false;
  }
  llvm::StringMap<CaseData> data;
  for (auto function : module->getOps<func::FuncOp>()) {
    auto made = runFunction(function, seed, file);
    if (!made)
      return made.takeError();
    if (*made)
      data[function.getSymName()] = std::move(**made);
  }
  if (data.empty()) {
    ++skips.sizes;
    return false;
  }
  if (llvm::Error error = addCases(*module, "portable", seed, data, file))
    return std::move(error);
  if (stratum == Stratum::Scheduled)
    if (llvm::Error error = addCases(*module, "scheduled", seed, data, file))
      return std::move(error);
  if (stratum == Stratum::Mixed)
    if (llvm::Error error = addCases(*module, "mixed", seed, data, file))
      return std::move(error);
  return true;
}

static void writeFile(const std::string &path, const File &file) {
  json description = {{"format", trial::kTrialFormat},
                      {"version", trial::kTrialVersion},
                      {"cases", file.cases}};
  std::string text = description.dump();
  std::vector<host::Section> list = {{trial::kDescriptionSection, text}};
  for (const auto &[kind, data] : file.sections)
    list.push_back({kind, data});
  host::writeFileAtomically(path, host::writeContainer(list));
}

bool fuse::emitCases(const EmitOptions &options) {
  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  registerCompilerTranslations(registry);
  llvm::sys::fs::create_directories(options.folder);
  StringRef name = options.stratum == Stratum::Scheduled ? "scheduled"
                   : options.stratum == Stratum::Mixed   ? "mixed"
                                                         : "any";
  uint64_t seed = options.firstSeed, made = 0, failed = 0, cases = 0;
  Skips skips;
  try {
    while (made < options.count) {
      // Contexts never forget an attribute.
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
      for (unsigned count = 0; count < options.perFile && made < options.count;
           ++seed) {
        Expected<bool> added =
            addModule(context, seed, options.stratum, file, skips);
        if (!added) {
          ++failed;
          llvm::outs() << "seed " << seed << ": " << toString(added.takeError())
                       << ": " << errors
                       << "\nmodule: fuse-fuzz --print --seed=" << seed
                       << " --stratum=" << name << "\n";
          continue;
        }
        count += *added;
        made += *added;
      }
      cases += file.cases.size();
      writeFile(options.folder + "/" + name.str() + "-" +
                    std::to_string(first) + ".trial",
                file);
      llvm::errs() << "[" << made << "/" << options.count << "] up to seed "
                   << seed - 1 << "\n";
    }
  } catch (const host::Failure &failure) {
    llvm::outs() << failure.getMessage() << "\n";
    return false;
  }
  llvm::outs() << made << " modules from seeds " << options.firstSeed << " to "
               << seed - 1 << ", " << cases << " cases, " << failed
               << " failed; passed over: " << skips.unfused << " unfused, "
               << skips.unfit << " too large or empty, " << skips.sizes
               << " with other sizes\n";
  return failed == 0;
}
