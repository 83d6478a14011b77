//===- Orders.cpp - Passes in random orders -------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Orders.h"
#include "Execution.h"
#include "PlantedFaults.h"
#include "SlotGenerator.h"
#include "TextMutator.h"
#include "fuse/Execution/Inputs.h"
#include "fuse/Execution/Verify.h"
#include "fuse/IR/FuseOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/xxhash.h"

#include <cmath>
#include <cstring>
#include <malloc.h>

using namespace mlir;
using namespace fuse;

/// Limits of processor time for a program and for an order, in seconds.
static constexpr unsigned kSecondsToRun = 10, kSecondsPerOrder = 60;
/// Size of a section, in bytes, above which it is left out. Longer sections
/// take most of the time and have no other ops.
static constexpr size_t kLongestSection = 30000;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static OwningOpRef<ModuleOp> parse(MLIRContext *context, StringRef text) {
  return parseSourceString<ModuleOp>(text, ParserConfig(context));
}

std::string OrderChecker::load(ArrayRef<std::string> folders,
                               MLIRContext *context) {
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
  for (const std::string &folder : folders) {
    std::vector<std::string> paths;
    if (std::string problem = findModules(folder, paths); !problem.empty())
      return problem;
    for (const std::string &path : paths) {
      auto buffer = llvm::MemoryBuffer::getFile(path);
      if (!buffer)
        return "cannot read '" + path + "': " + buffer.getError().message();
      SmallVector<StringRef> parts;
      (*buffer)->getBuffer().split(parts, "// -----");
      for (StringRef part : parts)
        if (part.size() <= kLongestSection && parse(context, part))
          sections.push_back(part.str());
    }
  }
  return sections.empty()
             ? "no valid module in '" + llvm::join(folders, "', '") + "'"
             : "";
}

/// The kind of IR of a program, by the names of its dialects and types.
static OrderStage getStage(StringRef text) {
  auto has = [&](std::initializer_list<StringRef> names) {
    return llvm::any_of(names, [&](StringRef n) { return text.contains(n); });
  };
  if (has({" tile.", " gpu.", " nvvm.", "nvvm.kernel"}))
    return OrderStage::GPU;
  if (has({"memref<"}))
    return has({"linalg."}) ? OrderStage::Buffers : OrderStage::Loops;
  return has({" llvm."}) ? OrderStage::LLVM : OrderStage::Tensors;
}

/// Inputs of the function of a program, which depend only on its text. An error
/// means that it cannot run.
static llvm::Expected<std::vector<HostTensor>>
getInputs(func::FuncOp function, const Signature &signature, StringRef text) {
  Random random(llvm::xxh3_64bits(text));
  InputOptions options;
  options.seed = random.next();
  options.dims = {"3"};
  auto values = random.oneOf({Values::Exact, Values::Normal});
  auto inputs = createInputs(function, signature, options);
  if (!inputs)
    return inputs;
  for (auto [argument, tensor] :
       llvm::zip_equal(function.getArguments(), *inputs)) {
    changeValues(tensor, values, random);
    chooseIndices(argument, tensor, values, random);
  }
  return inputs;
}

static std::string serialize(ArrayRef<HostTensor> tensors) {
  std::string bytes;
  for (const HostTensor &tensor : tensors) {
    ArrayRef<int64_t> shape = tensor.getShape();
    bytes.append(reinterpret_cast<const char *>(shape.data()),
                 shape.size() * sizeof(int64_t));
    bytes.append(tensor.getData(), tensor.getNumBytes());
  }
  return bytes;
}

static std::vector<HostTensor> deserialize(StringRef bytes,
                                           const Signature &signature) {
  std::vector<HostTensor> tensors;
  for (const TensorSpec &spec : signature.results) {
    SmallVector<int64_t> shape(spec.shape.size());
    std::memcpy(shape.data(), bytes.data(), shape.size() * sizeof(int64_t));
    bytes = bytes.drop_front(shape.size() * sizeof(int64_t));
    HostTensor tensor = llvm::cantFail(HostTensor::create(spec.type, shape));
    std::memcpy(tensor.getData(), bytes.data(), tensor.getNumBytes());
    bytes = bytes.drop_front(tensor.getNumBytes());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

/// Fills memory that is allocated from now on, so that results that depend on
/// the content of new memory differ.
static void poisonMemory(int value) {
#ifdef M_PERTURB
  mallopt(M_PERTURB, value);
#endif
}

/// Runs a program without any pass. `errors` of the outcome are the results.
static Outcome runUnchanged(MLIRContext *context, StringRef text,
                            StringRef name) {
  Outcome outcome;
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
  auto run = [&]() -> llvm::Expected<std::string> {
    OwningOpRef<ModuleOp> module = parse(context, text);
    auto function = findFunction(*module, name);
    if (!function)
      return function.takeError();
    auto signature = getSignature(*function);
    if (!signature)
      return signature.takeError();
    auto inputs = getInputs(*function, *signature, text);
    if (!inputs)
      return inputs.takeError();
    auto program = StageProgram::compile(*module, name, *signature);
    if (!program)
      return program.takeError();
    poisonMemory(0x5A);
    auto first = program->run(*inputs);
    if (!first)
      return first.takeError();
    poisonMemory(0x33);
    auto second = program->run(*inputs);
    if (!second)
      return second.takeError();
    std::string results = serialize(*first);
    if (results != serialize(*second))
      return llvm::createStringError("undefined results");
    return results;
  };
  llvm::Expected<std::string> results = run();
  if (results) {
    outcome.errors = *results;
    return outcome;
  }
  llvm::consumeError(results.takeError());
  outcome.failed = "run";
  return outcome;
}

static std::string getText(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->print(os);
  return text;
}

/// Public functions with results.
static SmallVector<func::FuncOp> getFunctions(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal() &&
        function.getNumResults() != 0)
      functions.push_back(function);
  return functions;
}

OrderChecker::Subject OrderChecker::makeSubject(ModuleOp module,
                                                func::FuncOp function) {
  Subject subject;
  OwningOpRef<ModuleOp> isolated;
  if (function) {
    subject.function = function.getSymName().str();
    isolated = isolate(function);
    module = *isolated;
    function = llvm::cantFail(findFunction(module, subject.function));
    llvm::consumeError(liftScalars(function));
    // Passes may lower the function before the CPU pipeline starts.
    function->setAttr("llvm.emit_c_interface",
                      UnitAttr::get(module.getContext()));
  }
  subject.text = getText(module);
  subject.stage = getStage(subject.text);
  return subject;
}

/// Runs a program without any pass.
static std::optional<std::string>
getResults(MLIRContext *context, StringRef text, StringRef function) {
  if (function.empty())
    return std::nullopt;
  Outcome outcome = runIsolated(
      [&] { return runUnchanged(context, text, function); }, kSecondsToRun);
  if (!outcome.failed.empty())
    return std::nullopt;
  return std::move(outcome.errors);
}

OrderChecker::Subject &OrderChecker::getSubject(MLIRContext *context,
                                                Random &random) {
  ScopedDiagnosticHandler quiet(context, [](Diagnostic &) {});
  bool isFromFile = !sections.empty() && random.percent(50);
  uint64_t section = isFromFile ? random.below(sections.size()) : 0;
  OwningOpRef<ModuleOp> module;
  if (isFromFile)
    module = parse(context, sections[section]);
  else if (random.percent(10))
    module = parse(context, generateSlots(random.next()));
  else
    module =
        generateModule(context, random.next(),
                       random.oneOf({Stratum::Runnable, Stratum::Runnable,
                                     Stratum::Functions, Stratum::Strided}));
  // A function that runs is taken out of its module.
  SmallVector<func::FuncOp> functions = getFunctions(*module);
  bool isWhole = random.percent(10) || functions.empty();
  Subject subject = makeSubject(
      *module,
      isWhole ? nullptr : random.oneOf(ArrayRef<func::FuncOp>(functions)));
  Subject *stored = &generated;
  if (isFromFile) {
    auto [it, isNew] =
        fromFiles.try_emplace(std::to_string(section) + ":" + subject.function);
    stored = &it->second;
    if (!isNew)
      return *stored;
  }
  auto results = getResults(context, subject.text, subject.function);
  subject.hasRun = results.has_value();
  subject.results = std::move(results).value_or("");
  *stored = std::move(subject);
  return *stored;
}

OwningOpRef<ModuleOp> OrderChecker::generate(MLIRContext *context,
                                             uint64_t seed) {
  Random random(seed);
  return parse(context, getSubject(context, random).text);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

/// The relative distance that rounding explains. Near the middle of two narrow
/// numbers, a last bit of f32 decides.
static double getTolerance(StringRef text) {
  if (text.contains("f8E") || text.contains("xi8"))
    return 0.1;
  return text.contains("f16") ? 0.01 : 1e-4;
}

/// Compares results with those of the program without any pass.
static StringRef compareResults(ArrayRef<HostTensor> expected,
                                ArrayRef<HostTensor> actual, bool isExact,
                                double tolerance, Location loc) {
  for (auto [index, x, y] : llvm::enumerate(expected, actual)) {
    if (isSameBits(x, y))
      continue;
    if (x.getShape() != y.getShape()) {
      emitError(loc) << "result " << index << " has another shape";
      return "shape";
    }
    Difference difference = compare({x.clone()}, {y.clone()});
    // Where values overflow, the last bits decide.
    bool isFinite = true;
    for (int64_t i = 0; i < x.getNumElements(); ++i)
      isFinite &= bool(std::isfinite(x.get(i)));
    if (!isExact &&
        (!isFinite || std::sqrt(2.0 * difference.energy) <= tolerance))
      continue;
    emitError(loc) << "result " << index << " has " << difference.numDifferent
                   << " other values of " << difference.numValues
                   << ", largest difference " << difference.maxAbsolute;
    return isExact ? "bits" : "values";
  }
  return {};
}

namespace {

/// A pass manager that nests passes in the ops that they are for.
struct OrderManager : PassManager {
  OrderManager(MLIRContext *context, ArrayRef<const OrderPass *> order)
      : PassManager(context, ModuleOp::getOperationName(),
                    OpPassManager::Nesting::Implicit) {
    enableVerifier(false);
    for (const OrderPass *pass : order)
      add(pass->text);
  }

private:
  /// The parser of textual pipelines ignores implicit nesting, so look up
  /// passes by name.
  void add(StringRef text) {
    auto [name, options] = text.split('{');
    const PassRegistryEntry *entry = PassInfo::lookup(name);
    if (!entry)
      entry = PassPipelineInfo::lookup(name);
    auto handler = [](const Twine &message) {
      llvm::report_fatal_error(message);
      return failure();
    };
    if (!entry)
      llvm::report_fatal_error("unknown pass '" + name + "'");
    options.consume_back("}");
    (void)entry->addToPipeline(*this, options, handler);
  }
};

/// Runs one order on one program, in a child process.
class OrderRun {
public:
  OrderRun(MLIRContext *context, StringRef text, StringRef function,
           StringRef results)
      : context(context), text(text), name(function), results(results),
        handler(context, [this](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
            return;
          ++numErrors;
          llvm::raw_string_ostream(outcome.errors)
              << "  " << diagnostic << "\n";
        }) {}

  /// An empty name of the function means that it does not run.
  Outcome run(ArrayRef<const OrderPass *> order);

private:
  StringRef runPass(ModuleOp module, const OrderPass &pass, bool &isRefused);
  StringRef runPasses(OwningOpRef<ModuleOp> &module,
                      ArrayRef<const OrderPass *> order);
  StringRef execute(ModuleOp module, ArrayRef<HostTensor> inputs);

  MLIRContext *context;
  StringRef text, name, results;
  Signature signature;
  /// Whether the function can still run, and must give the same bits.
  bool canRun = false, isExact = true;
  unsigned numErrors = 0;
  Outcome outcome;
  ScopedDiagnosticHandler handler;
};

} // namespace

StringRef OrderRun::runPass(ModuleOp module, const OrderPass &pass,
                            bool &isRefused) {
  unsigned numBefore = numErrors;
  bool isDone = succeeded(OrderManager(context, &pass).run(module));
  ++outcome.counts.ops;
  isRefused = !isDone;
  if (!isDone)
    return numErrors == numBefore ? "no-error" : "";
  if (numErrors != numBefore)
    return "ignored-error";
  return failed(mlir::verify(module)) ? "verify" : "";
}

StringRef OrderRun::runPasses(OwningOpRef<ModuleOp> &module,
                              ArrayRef<const OrderPass *> order) {
  for (const OrderPass *pass : order) {
    OwningOpRef<ModuleOp> before = module->clone();
    bool isRefused = false;
    size_t numBytes = outcome.errors.size();
    StringRef failed = runPass(*module, *pass, isRefused);
    if (!failed.empty())
      return failed;
    if (isRefused) {
      // The pass may have changed a part of the module.
      module = std::move(before);
      outcome.errors.resize(numBytes);
      ++outcome.counts.refused;
      continue;
    }
    isExact &= pass->effect == OrderEffect::Exact;
    canRun &= pass->effect != OrderEffect::NotRun &&
              hasSignature(*module, name, signature);
  }
  return {};
}

StringRef OrderRun::execute(ModuleOp module, ArrayRef<HostTensor> inputs) {
  bool onBuffers = isOnBuffers(module, name);
  Location loc = module.lookupSymbol(name)->getLoc();
  auto program = StageProgram::compile(module, name, signature);
  auto actual =
      program ? program->run(inputs)
              : llvm::Expected<std::vector<HostTensor>>(program.takeError());
  if (!actual) {
    // The CPU pipeline does not support all IR between its phases.
    llvm::consumeError(actual.takeError());
    ++outcome.counts.unlowered;
    return {};
  }
  std::vector<HostTensor> expected = deserialize(results, signature);
  double tolerance = getTolerance(text);
  StringRef failed = compareResults(expected, *actual, isExact, tolerance, loc);
  ++outcome.counts.executed;
  outcome.counts.relations += onBuffers;
  outcome.counts.exact += isExact;
  return failed;
}

Outcome OrderRun::run(ArrayRef<const OrderPass *> order) {
  poisonMemory(0x5A);
  // Some passes print.
  (void)!std::freopen("/dev/null", "w", stdout);
  OwningOpRef<ModuleOp> module = parse(context, text);
  canRun = !name.empty();
  std::vector<HostTensor> inputs;
  if (canRun) {
    func::FuncOp function = llvm::cantFail(findFunction(*module, name));
    signature = llvm::cantFail(getSignature(function));
    inputs = llvm::cantFail(getInputs(function, signature, text));
  }
  outcome.failed = runPasses(module, order).str();
  if (!outcome.failed.empty())
    return outcome;
  if (canRun)
    outcome.failed = execute(*module, inputs).str();
  else
    outcome.counts.uncalled += !name.empty();
  return outcome;
}

OrderOutcome OrderChecker::run(MLIRContext *context, const Subject &subject,
                               const PassOrder &order) {
  auto check = [&] {
    return OrderRun(context, subject.text,
                    subject.hasRun ? StringRef(subject.function) : "",
                    subject.results)
        .run(order);
  };
  return {runIsolated(check, kSecondsPerOrder), order};
}

/// Whether a failed check compares results.
static bool isDifference(StringRef check) {
  return check == "bits" || check == "values" || check == "shape";
}

void OrderChecker::count(const Subject &subject, const Outcome &outcome) {
  ++counts.orders;
  counts.unrun += !subject.hasRun;
  counts.passes += outcome.counts.ops;
  counts.refused += outcome.counts.refused;
  counts.changed += outcome.counts.uncalled;
  counts.unlowered += outcome.counts.unlowered;
  counts.compared += outcome.counts.executed;
  counts.buffers += outcome.counts.relations;
  counts.exact += outcome.counts.exact;
  counts.differing += isDifference(outcome.failed);
}

OrderOutcome OrderChecker::check(ModuleOp module, const PassOrder &order) {
  SmallVector<func::FuncOp> functions = getFunctions(module);
  Subject subject =
      makeSubject(module, functions.size() == 1 ? functions.front() : nullptr);
  auto results =
      getResults(module.getContext(), subject.text, subject.function);
  subject.hasRun = results.has_value();
  subject.results = std::move(results).value_or("");
  OrderOutcome outcome = run(module.getContext(), subject, order);
  count(subject, outcome);
  return outcome;
}

OrderOutcome OrderChecker::check(MLIRContext *context, uint64_t seed) {
  Random random(seed);
  const Subject &subject = getSubject(context, random);
  PassOrder order = drawOrder(random, subject.stage, subject.text);
  if (plants)
    order.insert(order.begin() + random.below(order.size() + 1),
                 findOrderPass(kReciprocalPass));
  OrderOutcome outcome = run(context, subject, order);
  count(subject, outcome);
  if (outcome.failed.empty())
    return outcome;
  // Drop passes without which the order fails in the same way.
  for (size_t i = order.size(); i-- > 0;) {
    PassOrder fewer = outcome.order;
    fewer.erase(fewer.begin() + i);
    OrderOutcome other = run(context, subject, fewer);
    if (other.failed == outcome.failed)
      outcome = std::move(other);
  }
  outcome.errors += "  passes: fuse-opt";
  for (const OrderPass *pass : outcome.order) {
    auto [name, options] = pass->text.split('{');
    options.consume_back("}");
    outcome.errors += (" --" + name).str();
    if (!options.empty())
      outcome.errors += ("='" + options + "'").str();
  }
  outcome.errors += "\n";
  return outcome;
}

//===----------------------------------------------------------------------===//
// Text of orders
//===----------------------------------------------------------------------===//

std::string fuse::parsePassOrder(StringRef text, PassOrder &order) {
  while (!text.empty()) {
    // Options may contain commas.
    unsigned depth = 0;
    size_t end = 0;
    for (; end < text.size() && (depth != 0 || text[end] != ','); ++end)
      depth += text[end] == '{' ? 1 : text[end] == '}' ? -1 : 0;
    StringRef name = text.take_front(end);
    const OrderPass *pass = findOrderPass(name);
    if (!pass)
      return ("unknown pass '" + name +
              "', expected one of tools/fuse-fuzz/OrderPasses.cpp with the "
              "same options")
          .str();
    order.push_back(pass);
    text = text.drop_front(std::min(end + 1, text.size()));
  }
  return order.empty() ? "expected a pass" : "";
}

std::string fuse::printPassOrder(ArrayRef<const OrderPass *> order) {
  return llvm::join(
      llvm::map_range(order, [](const OrderPass *pass) { return pass->text; }),
      ",");
}
