//===- fuse-fuzz.cpp - Check properties of fuse on random modules ---------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generates modules from consecutive seeds and checks what must hold for all:
// that they survive printing, parsing and bytecode, that forming kernels and
// unfusing them restores every op, attribute and location, that forming twice
// is forming once, and that nothing depends on an order that means nothing.
// With --run they are run instead, fused and unfused, optimized and not, and an
// interpreter of the contracts judges the results.
// With --mutate the modules are damaged copies of files instead, most of which
// are refused; what is left must not crash anything.
// The first failure is printed with its seed and the command that repeats it.
//
//===----------------------------------------------------------------------===//

#include "Checks.h"
#include "Emit.h"
#include "Execution.h"
#include "ModelChecks.h"
#include "ModuleGenerator.h"
#include "TextMutator.h"
#include "fuse/IR/FuseDialect.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Target/HostJIT.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlir;
using namespace fuse;
namespace cl = llvm::cl;

static cl::opt<uint64_t> firstSeed("seed", cl::desc("First seed"), cl::init(0));
static cl::opt<uint64_t> count("count", cl::desc("Number of seeds"),
                               cl::init(1000));
static cl::opt<double> seconds("seconds",
                               cl::desc("Stop after this time, 0 for never"),
                               cl::init(0));
static cl::opt<std::string>
    mutate("mutate",
           cl::desc("Check damaged copies of the .mlir files in here"),
           cl::value_desc("folder"));
static cl::opt<bool>
    runs("run", cl::desc("Run the modules, fused and unfused, and compare"));
static cl::opt<bool> printOnly("print",
                               cl::desc("Print the module of the first seed"));
static cl::opt<Stratum> stratum(
    "stratum", cl::desc("What modules are made of"),
    cl::values(clEnumValN(Stratum::Any, "any", "chains, whole and damaged"),
               clEnumValN(Stratum::Runnable, "runnable",
                          "the same with sizes that agree"),
               clEnumValN(Stratum::Models, "models",
                          "models of modules, fused by path"),
               clEnumValN(Stratum::Scheduled, "scheduled",
                          "chains that the scheduled path has kernels for")),
    cl::init(Stratum::Any));
static cl::opt<std::string>
    emit("emit",
         cl::desc("Compile the modules for sm_90a and write them with inputs "
                  "and the CPU's results to files in here, for fuse-trial-run"),
         cl::value_desc("folder"));
static cl::opt<unsigned>
    perFile("per-file", cl::desc("Modules in a file of --emit"), cl::init(100));

static void loadDialects(MLIRContext &context) {
  context.disableMultithreading();
  context.printOpOnDiagnostic(false);
  if (runs) {
    DialectRegistry registry;
    mlir::registerAllDialects(registry);
    mlir::registerAllExtensions(registry);
    fuse::registerAllDialects(registry);
    registerHostTranslations(registry);
    context.appendDialectRegistry(registry);
  }
  context.loadDialect<FuseDialect, arith::ArithDialect, func::FuncDialect,
                      scf::SCFDialect>();
}

static void printModule(ModuleOp module) {
  OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  module->print(llvm::outs(), flags);
  llvm::outs() << "\n";
}

/// The module of one seed, or null when its text is wrong.
static OwningOpRef<ModuleOp> makeModule(MLIRContext &context, uint64_t seed) {
  if (stratum == Stratum::Models)
    return parseSourceString<ModuleOp>(generateModel(seed),
                                       ParserConfig(&context));
  return generateModule(&context, seed, stratum);
}

/// Checks the module of one seed. Prints and returns false on a failure.
static bool checkSeed(MLIRContext &context, const TextMutator &mutator,
                      uint64_t seed, CheckCounts &counts) {
  std::string source = "--seed=" + std::to_string(seed);
  if (stratum == Stratum::Scheduled)
    source += " --stratum=scheduled";
  if (stratum == Stratum::Models)
    source += " --stratum=models";
  if (stratum == Stratum::Runnable)
    source += " --stratum=runnable";
  if (runs)
    source += " --run";
  if (!mutate.empty())
    source += " --mutate=" + mutate;
  std::string replay = "fuse-fuzz --count=1 " + source;
  llvm::PrettyStackTraceString trace(replay.c_str());
  std::string errors;
  llvm::raw_string_ostream os(errors);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    os << "  " << diagnostic << "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      os << "    " << note << "\n";
    return success();
  });
  StringRef failed;
  if (mutate.empty()) {
    OwningOpRef<ModuleOp> module = makeModule(context, seed);
    Random random(~seed);
    if (!module)
      failed = "parse";
    else if (runs)
      failed = checkExecution(*module, random, counts);
    else if (stratum == Stratum::Models)
      failed = checkModel(*module, random, counts);
    else
      failed = checkModule(*module, random, counts);
  } else {
    Random random(seed);
    failed = checkText(&context, mutator.generate(random), counts);
  }
  if (failed.empty())
    return true;
  llvm::outs() << "seed " << seed << ": check '" << failed << "' failed\n"
               << errors << "repeat: " << replay
               << "\nmodule: fuse-fuzz --print " << source << "\n";
  return false;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv, "fuse random-module checker\n");
  // What runs needs sizes that agree, which no compiled function checks.
  if (runs && stratum == Stratum::Any)
    stratum = Stratum::Runnable;
  TextMutator mutator;
  if (stratum == Stratum::Models && (runs || !emit.empty())) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "--stratum=models has no functions to run or emit\n";
    return 1;
  }
  if (runs && !mutate.empty()) {
    llvm::WithColor::error(llvm::errs(), "fuse-fuzz")
        << "--run and --mutate exclude each other\n";
    return 1;
  }
  if (!mutate.empty())
    if (std::string error = mutator.load(mutate); !error.empty()) {
      llvm::WithColor::error(llvm::errs(), "fuse-fuzz") << error << "\n";
      return 1;
    }
  if (printOnly && !mutate.empty()) {
    Random random(firstSeed);
    llvm::outs() << mutator.generate(random) << "\n";
    return 0;
  }
  if (printOnly) {
    MLIRContext context;
    loadDialects(context);
    OwningOpRef<ModuleOp> module = makeModule(context, firstSeed);
    if (!module)
      return 1;
    printModule(*module);
    return 0;
  }
  if (!emit.empty())
    return emitCases({emit, firstSeed, count, stratum, perFile}) ? 0 : 1;
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  CheckCounts counts;
  uint64_t seed = firstSeed;
  const uint64_t end = firstSeed + count;
  while (seed != end && (seconds == 0 || elapsed() < seconds)) {
    // Contexts never forget an attribute, so that one is not used for ever.
    MLIRContext context;
    loadDialects(context);
    for (uint64_t i = 0; i < 200 && seed != end; ++i, ++seed)
      if (!checkSeed(context, mutator, seed, counts))
        return 1;
  }
  llvm::outs() << "seeds " << firstSeed << " to " << seed - 1 << ": ";
  if (runs) {
    llvm::outs() << counts.executed << " functions run on " << counts.cases
                 << " sets of inputs, " << counts.values
                 << " values judged by the contracts, " << counts.exact
                 << " of them to the bit, " << counts.relations
                 << " relations, no failure\n";
    return 0;
  }
  if (mutate.empty())
    llvm::outs() << counts.ops << " ops, ";
  else
    llvm::outs() << counts.parsed << " texts were valid, ";
  llvm::outs() << counts.fused << " sites fused, " << counts.refused
               << " refused, no failure\n";
  return 0;
}
