//===- fuse-fuzz.cpp - Check properties of fuse on random modules ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generates modules from consecutive seeds and checks properties that must hold
// for all of them. Modules survive printing, parsing and bytecode. Forming
// kernels and unfusing them restores every op, attribute and location. Forming
// twice equals forming once. Nothing depends on an order without meaning. With
// --run, the modules are run instead, fused and unfused, optimized and not, and
// an interpreter of the contracts checks the results. With --mutate, the
// modules are damaged copies of files. Most of them are refused, and the others
// must not crash anything. With --raise, the modules are formulas of files with
// small changes, whose raised form must compute the same. With --orders, passes
// run in random orders on programs of files and on random ones, whose results
// must not change. The first failure is printed with its seed and the command
// that repeats it. With --raise, --orders and --regress, seeds run in processes
// of their own, and all failures are printed. With --regress, they are written
// as small tests.
//
// The exit status is 0 if all checks pass, and 1 after a failure or an error.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"
#include "Emit.h"
#include "Execution.h"
#include "ModelChecks.h"
#include "ModuleGenerator.h"
#include "Orders.h"
#include "PlantedFaults.h"
#include "RaiseChecks.h"
#include "Regress.h"
#include "SlotChecks.h"
#include "SlotGenerator.h"
#include "TextMutator.h"
#include "fuse/IR/FuseDialect.h"
#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Support/ReadModule.h"
#include "fuse/Target/CPUJIT.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "nn/IR/NNOps.h"
#include "tile/IR/TileDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlir;
using namespace fuse;
namespace cl = llvm::cl;

static cl::OptionCategory category("fuse-fuzz options");

static cl::opt<std::string>
    inputFile(cl::Positional, cl::cat(category),
              cl::desc("[file]: check this module, with the "
                       "random choices of the seed"));
static cl::opt<std::string>
    regress("regress", cl::cat(category),
            cl::desc("Write failures as small tests to this folder and go on"),
            cl::value_desc("folder"));
static cl::opt<double>
    reduceSeconds("reduce-seconds", cl::cat(category),
                  cl::desc("Time to make one failure smaller (default 300)"),
                  cl::init(300));
static cl::opt<uint64_t> firstSeed("seed", cl::cat(category),
                                   cl::desc("First seed"), cl::init(0));
static cl::opt<uint64_t> count("count", cl::cat(category),
                               cl::desc("Number of seeds"), cl::init(1000));
static cl::opt<double> seconds("seconds", cl::cat(category),
                               cl::desc("Stop after this time, 0 for never"),
                               cl::init(0));
static cl::opt<std::string>
    mutate("mutate", cl::cat(category),
           cl::desc("Check damaged copies of the .mlir files in here"),
           cl::value_desc("folder"));
static cl::list<std::string>
    orders("orders", cl::cat(category), cl::CommaSeparated,
           cl::desc("Run passes in random orders on the .mlir files in here "
                    "and on random programs"),
           cl::value_desc("folder,..."));
static cl::opt<std::string>
    orderOfPasses("passes", cl::cat(category),
                  cl::desc("Run these passes of --orders on [file]"),
                  cl::value_desc("pass,..."));
static cl::opt<std::string> raiseFolder(
    "raise", cl::cat(category), cl::ValueOptional,
    cl::desc("Change the functions of the .mlir files in here, raise them, and "
             "compare the results; without a folder, raise [file] unchanged"),
    cl::value_desc("folder"));
static cl::opt<bool>
    plants("plant", cl::cat(category), cl::Hidden,
           cl::desc("Add a wrong pass to each order, and a wrong rewrite after "
                    "raising, which the checks must find"));
static cl::opt<bool>
    runs("run", cl::cat(category),
         cl::desc("Run the modules, fused and unfused, and compare"));
static cl::opt<bool> printOnly("print", cl::cat(category),
                               cl::desc("Print the module of the first seed"));
static cl::opt<Stratum> stratum(
    "stratum", cl::cat(category), cl::desc("What modules are made of"),
    cl::values(clEnumValN(Stratum::Any, "any", "chains, whole and damaged"),
               clEnumValN(Stratum::Runnable, "runnable",
                          "the same with sizes that agree"),
               clEnumValN(Stratum::Functions, "functions",
                          "the same with losses, experts, casts and "
                          "transposes"),
               clEnumValN(Stratum::Strided, "strided",
                          "chains on views of larger tensors, with strides"),
               clEnumValN(Stratum::Models, "models",
                          "models of modules, fused by path"),
               clEnumValN(Stratum::Slots, "slots",
                          "calls of slots, bound by random configurations"),
               clEnumValN(Stratum::Scheduled, "scheduled",
                          "chains that the scheduled path has kernels for"),
               clEnumValN(Stratum::Schedules, "schedules",
                          "the same with more sizes, compiled with random "
                          "schedules by --emit"),
               clEnumValN(Stratum::Mixed, "mixed",
                          "scheduled chains between ops that it has none for"),
               clEnumValN(Stratum::Boundary, "boundary",
                          "chains of all sizes at boundaries, by number")),
    cl::init(Stratum::Any));
static cl::opt<std::string> emit(
    "emit", cl::cat(category),
    cl::desc(
        "Compile the modules for --chip and write them with inputs "
        "and the CPU's results to files in here, for fuse-device-run test"),
    cl::value_desc("folder"));
static cl::opt<std::string>
    chipName("chip", cl::cat(category),
             cl::desc("GPU of --emit and of --stratum=schedules "
                      "(default sm_90a)"),
             cl::init("sm_90a"));
static cl::opt<unsigned> perFile("per-file", cl::cat(category),
                                 cl::desc("Modules in a file of --emit"),
                                 cl::init(100));
static cl::opt<uint64_t>
    maxSkipped("max-skipped", cl::cat(category),
               cl::desc("End --emit after this many seeds in a row without a "
                        "case (default 1000)"),
               cl::init(1000));

/// Whether modules are raised.
static bool raises() { return raiseFolder.getNumOccurrences() != 0; }
/// Whether passes run in an order.
static bool runsOrders() {
  return !orders.empty() || orderOfPasses.getNumOccurrences() != 0;
}

static void loadDialects(MLIRContext &context) {
  context.disableMultithreading();
  context.printOpOnDiagnostic(false);
  // Strata that use more dialects than those of layers.
  bool hasOthers = stratum == Stratum::Schedules ||
                   stratum == Stratum::Functions || stratum == Stratum::Strided;
  bool compiles = runs || raises() || runsOrders();
  if (compiles || stratum == Stratum::Slots || hasOthers) {
    DialectRegistry registry;
    mlir::registerAllDialects(registry);
    mlir::registerAllExtensions(registry);
    fuse::registerAllDialects(registry);
    registerCPUTranslations(registry);
    context.appendDialectRegistry(registry);
  }
  // Kernel bodies may use any dialect.
  if (stratum == Stratum::Slots || hasOthers || raises() || runsOrders())
    context.loadAllAvailableDialects();
  context.loadDialect<FuseDialect, NNDialect, arith::ArithDialect,
                      func::FuncDialect, scf::SCFDialect>();
  if (!mutate.empty())
    context.loadDialect<gpu::GPUDialect, tile::TileDialect>();
}

/// The functions of `--raise`.
static FormulaMutator formulas;

/// The module of one seed, or null if its text is invalid.
static OwningOpRef<ModuleOp> makeModule(MLIRContext &context, uint64_t seed) {
  if (!inputFile.empty()) {
    llvm::SourceMgr sources;
    auto module = readModule(context, inputFile, sources);
    if (module)
      return std::move(*module);
    emitError(UnknownLoc::get(&context)) << llvm::toString(module.takeError());
    return nullptr;
  }
  if (raises()) {
    Random random(seed);
    return formulas.generate(&context, random);
  }
  if (stratum == Stratum::Models)
    return parseSourceString<ModuleOp>(generateModel(seed),
                                       ParserConfig(&context));
  if (stratum == Stratum::Slots)
    return parseSourceString<ModuleOp>(generateSlots(seed),
                                       ParserConfig(&context));
  return generateModule(&context, seed, stratum);
}

/// Command-line options that repeat the check of a seed, or of its module in a
/// file.
static std::string getOptions(uint64_t seed, bool isFile) {
  std::string options = "--seed=" + std::to_string(seed);
  // --run implies this stratum.
  if (stratum != Stratum::Any && !(runs && stratum == Stratum::Runnable))
    options += (" --stratum=" + getName(stratum)).str();
  if (runs)
    options += " --run";
  if (!mutate.empty())
    options += " --mutate=" + mutate;
  if (raises())
    options += isFile ? " --raise" : " --raise=" + raiseFolder;
  if (plants)
    options += " --plant";
  return options;
}

/// Collects the errors of a context.
class Errors {
public:
  explicit Errors(MLIRContext &context)
      : os(text), handler(&context, [this](Diagnostic &diagnostic) {
          os << "  " << diagnostic << "\n";
          for (Diagnostic &note : diagnostic.getNotes())
            os << "    " << note << "\n";
          return success();
        }) {}
  std::string text;

private:
  llvm::raw_string_ostream os;
  ScopedDiagnosticHandler handler;
};

/// Checks a module with the random choices of a seed.
static Outcome checkModule(ModuleOp module, uint64_t seed) {
  Outcome outcome;
  Errors errors(*module.getContext());
  Random random(~seed);
  auto check = [&]() -> StringRef {
    if (raises())
      return checkRaising(module, random, outcome.counts, plants);
    if (stratum == Stratum::Slots)
      return runs ? runSlots(module, random, outcome.counts)
                  : checkSlots(module, random, outcome.counts);
    if (runs)
      return checkExecution(module, random, outcome.counts,
                            /*sweeps=*/stratum == Stratum::Boundary);
    if (stratum == Stratum::Models)
      return checkModel(module, random, outcome.counts);
    return fuse::checkModule(module, random, outcome.counts);
  };
  StringRef failed = check();
  outcome.failed = failed.str();
  outcome.errors = errors.text;
  return outcome;
}

/// Checks the module or the text of one seed.
static Outcome checkSeed(MLIRContext &context, const TextMutator &mutator,
                         uint64_t seed) {
  if (mutate.empty()) {
    Outcome outcome;
    Errors errors(context);
    OwningOpRef<ModuleOp> module = makeModule(context, seed);
    if (module)
      return checkModule(*module, seed);
    // A change can be invalid.
    if (raises() && inputFile.empty()) {
      ++outcome.counts.invalid;
      return outcome;
    }
    outcome.failed = "parse";
    outcome.errors = errors.text;
    return outcome;
  }
  Outcome outcome;
  Errors errors(context);
  Random random(seed);
  outcome.failed =
      checkText(&context, mutator.generate(random), outcome.counts).str();
  outcome.errors = errors.text;
  return outcome;
}

/// Limit of processor time for a seed in a child process, in seconds.
static constexpr unsigned kSecondsPerSeed = 120;

/// Whether seeds run in child processes, and failures do not end the run.
static bool isolates() { return !regress.empty() || raises(); }

/// Checks one seed and prints a failure. Writes a test if requested. Returns
/// the name of the check that failed, or an empty string.
static std::string processSeed(MLIRContext &context, const TextMutator &mutator,
                               uint64_t seed, CheckCounts &counts) {
  std::string options = getOptions(seed, /*isFile=*/!inputFile.empty());
  std::string replay = "fuse-fuzz --count=1 " + options;
  if (!inputFile.empty())
    replay = "fuse-fuzz " + inputFile + " " + options;
  llvm::PrettyStackTraceString trace(replay.c_str());
  auto check = [&] { return checkSeed(context, mutator, seed); };
  Outcome outcome = isolates() ? runIsolated(check, kSecondsPerSeed) : check();
  counts.add(outcome.counts);
  if (outcome.failed.empty())
    return "";
  llvm::outs() << "seed " << seed << ": check '" << outcome.failed
               << "' failed\n"
               << outcome.errors << "repeat: " << replay << "\n";
  if (inputFile.empty())
    llvm::outs() << "module: fuse-fuzz --print " << options << "\n";
  if (!regress.empty() && mutate.empty())
    if (OwningOpRef<ModuleOp> module = makeModule(context, seed))
      writeRegression(
          *module, outcome, regress, seed, getOptions(seed, /*isFile=*/true),
          [&](ModuleOp candidate) {
            return runIsolated([&] { return checkModule(candidate, seed); },
                               kSecondsPerSeed);
          },
          reduceSeconds);
  llvm::outs().flush();
  return outcome.failed;
}

/// Prints a failure of an order. Writes a test if requested.
static void reportOrder(OrderChecker &checker, MLIRContext &context,
                        uint64_t seed, const OrderOutcome &outcome) {
  std::string options = "--seed=" + std::to_string(seed) +
                        " --orders=" + llvm::join(orders, ",") +
                        (plants ? " --plant" : "");
  llvm::outs() << "seed " << seed << ": check '" << outcome.failed
               << "' failed\n"
               << outcome.errors << "repeat: fuse-fuzz --count=1 " << options
               << "\nmodule: fuse-fuzz --print " << options << "\n";
  if (!regress.empty()) {
    OrderChecker other;
    writeRegression(
        *checker.generate(&context, seed), outcome, regress, seed,
        "--passes='" + printPassOrder(outcome.order) + "'",
        [&](ModuleOp candidate) {
          return other.check(candidate, outcome.order);
        },
        reduceSeconds);
  }
  llvm::outs().flush();
}

static void printCounts(const OrderCounts &counts, uint64_t failures) {
  llvm::outs() << counts.orders << " orders, " << counts.passes << " passes, "
               << counts.refused << " refused, " << counts.unrun
               << " programs not run, " << counts.changed
               << " other signatures, " << counts.unlowered << " not lowered, "
               << counts.compared << " compared, " << counts.buffers
               << " on buffers, " << counts.exact << " by bits, "
               << counts.differing << " differing, ";
  if (failures == 0)
    llvm::outs() << "no failure\n";
  else
    llvm::outs() << failures << " failures\n";
}

static void registerPasses() {
  mlir::registerAllPasses();
  fuse::registerAllPasses();
  registerPlantedFaults();
}

/// Runs the passes of the command line on the file.
static int runPasses() {
  registerPasses();
  PassOrder order;
  std::string error = parsePassOrder(orderOfPasses, order);
  if (error.empty() && inputFile.empty())
    error = "expected a file";
  if (!error.empty()) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "--passes: " << error << "\n";
    return 1;
  }
  MLIRContext context;
  loadDialects(context);
  OwningOpRef<ModuleOp> module = makeModule(context, firstSeed);
  if (!module)
    return 1;
  OrderChecker checker;
  OrderOutcome outcome = checker.check(*module, order);
  if (!outcome.failed.empty())
    llvm::outs() << "check '" << outcome.failed << "' failed\n"
                 << outcome.errors;
  printCounts(checker.counts, !outcome.failed.empty());
  return !outcome.failed.empty();
}

/// Checks random orders of passes. Prints all failures.
static int runOrders() {
  registerPasses();
  OrderChecker checker(plants);
  {
    MLIRContext context;
    loadDialects(context);
    std::string error =
        checker.load(std::vector<std::string>(orders), &context);
    if (!error.empty()) {
      llvm::WithColor::error(llvm::errs(), "fuse-fuzz") << error << "\n";
      return 1;
    }
    if (printOnly) {
      llvm::outs() << print(*checker.generate(&context, firstSeed)) << "\n";
      return 0;
    }
  }
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  auto isLate = [&] {
    std::chrono::duration<double> elapsed = Clock::now() - start;
    return seconds != 0 && elapsed.count() >= seconds;
  };
  uint64_t seed = firstSeed, failures = 0;
  const uint64_t end = firstSeed + count;
  while (seed != end && !isLate()) {
    // Use a new context from time to time, since contexts never free
    // attributes.
    MLIRContext context;
    loadDialects(context);
    for (unsigned i = 0; i < 200 && seed != end && !isLate(); ++i, ++seed) {
      OrderOutcome outcome = checker.check(&context, seed);
      if (outcome.failed.empty())
        continue;
      ++failures;
      reportOrder(checker, context, seed, outcome);
    }
  }
  llvm::outs() << "seeds " << firstSeed << " to " << seed - 1 << ": ";
  printCounts(checker.counts, failures);
  return failures != 0;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "fuse random-module checker\n");
  // Functions that run need consistent sizes, which compiled code does not
  // check.
  if (runs && stratum == Stratum::Any)
    stratum = Stratum::Runnable;
  if (count == 0 || !(seconds >= 0)) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << (count == 0 ? "--count=0: expected at least one seed\n"
                       : "--seconds: expected a time that is not negative\n");
    return 1;
  }
  if (perFile == 0 || maxSkipped == 0) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << (perFile == 0 ? "--per-file=0: expected at least one module\n"
                         : "--max-skipped=0: expected at least one seed\n");
    return 1;
  }
  if (!regress.empty()) {
    std::error_code error = llvm::sys::fs::create_directories(regress);
    // An existing directory is not an error.
    if (!error && !llvm::sys::fs::is_directory(regress))
      error = std::make_error_code(std::errc::not_a_directory);
    if (error) {
      llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
          << "cannot make folder '" << regress << "': " << error.message()
          << "\n";
      return 1;
    }
  }
  FailureOr<Chip> chip = lookupChip(chipName, [](const Twine &message) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "--chip: " << message << "\n";
    return failure();
  });
  if (failed(chip))
    return 1;
  TextMutator mutator;
  bool isText = stratum == Stratum::Models || stratum == Stratum::Slots;
  if ((stratum == Stratum::Models && runs) || (isText && !emit.empty())) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "--stratum=" << getName(stratum) << " has no functions to "
        << (runs ? "run" : "emit") << "\n";
    return 1;
  }
  if (runs + !mutate.empty() + raises() + runsOrders() > 1) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "--run, --mutate, --raise and --orders exclude each other\n";
    return 1;
  }
  if (runsOrders())
    return orders.empty() ? runPasses() : runOrders();
  if (raises() && inputFile.empty()) {
    if (raiseFolder.empty()) {
      llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
          << "--raise: expected a folder or a file\n";
      return 1;
    }
    MLIRContext context;
    loadDialects(context);
    std::string error = formulas.load(raiseFolder, &context);
    if (!error.empty()) {
      llvm::WithColor::error(llvm::errs(), "fuse-fuzz") << error << "\n";
      return 1;
    }
  }
  if (!mutate.empty()) {
    MLIRContext context;
    loadDialects(context);
    if (std::string error = mutator.load(mutate, &context); !error.empty()) {
      llvm::WithColor::error(llvm::errs(), "fuse-fuzz") << error << "\n";
      return 1;
    }
  }
  if (printOnly && !mutate.empty()) {
    Random random(firstSeed);
    llvm::outs() << mutator.generate(random) << "\n";
    return 0;
  }
  if (printOnly) {
    MLIRContext context;
    loadDialects(context);
    // Modules of this stratum include their schedules.
    OwningOpRef<ModuleOp> module =
        stratum == Stratum::Schedules
            ? makeCase(context, firstSeed, stratum, *chip)
            : makeModule(context, firstSeed);
    if (!module) {
      if (raises())
        llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
            << "the module of seed " << firstSeed << " is not valid\n";
      return 1;
    }
    llvm::outs() << print(*module) << "\n";
    return 0;
  }
  if (!emit.empty())
    return emitCases(
               {emit, firstSeed, count, stratum, *chip, perFile, maxSkipped})
               ? 0
               : 1;
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  CheckCounts counts;
  uint64_t seed = firstSeed, failures = 0, differing = 0;
  const uint64_t end = firstSeed + (inputFile.empty() ? uint64_t(count) : 1);
  while (seed != end && (seconds == 0 || elapsed() < seconds)) {
    // Use a new context from time to time, since contexts never free
    // attributes.
    MLIRContext context;
    loadDialects(context);
    for (uint64_t i = 0;
         i < 200 && seed != end && (seconds == 0 || elapsed() < seconds);
         ++i, ++seed)
      if (std::string failed = processSeed(context, mutator, seed, counts);
          !failed.empty()) {
        if (!isolates())
          return 1;
        ++failures;
        differing += StringRef(failed).starts_with("raised-");
      }
  }
  auto printEnd = [&] {
    if (failures == 0)
      llvm::outs() << "no failure\n";
    else
      llvm::outs() << failures << " failures\n";
  };
  llvm::outs() << "seeds " << firstSeed << " to " << seed - 1 << ": ";
  if (runs) {
    llvm::outs() << counts.executed << " functions run on " << counts.cases
                 << " sets of inputs, " << counts.values
                 << " values judged by the contracts, " << counts.exact
                 << " of them to the bit, " << counts.relations
                 << " relations, ";
    printEnd();
    return failures != 0;
  }
  if (raises()) {
    llvm::outs() << seed - firstSeed << " programs, " << counts.invalid
                 << " invalid, " << counts.unraised << " not raised, "
                 << counts.unlowered << " not lowered, " << counts.uncalled
                 << " not called, " << counts.executed << " compared, "
                 << counts.cases << " sets of inputs, " << counts.values
                 << " values, " << counts.fused << " layers and kernels, "
                 << differing << " differing, ";
    printEnd();
    return failures != 0;
  }
  if (mutate.empty())
    llvm::outs() << counts.ops << " ops, ";
  else
    llvm::outs() << counts.parsed << " texts were valid, ";
  llvm::outs() << counts.fused << " sites fused, " << counts.refused
               << " refused, ";
  printEnd();
  return failures != 0;
}
