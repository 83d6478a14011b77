//===- fuse-tune.cpp - Tune schedules by measuring ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Tune.h"
#include "fuse-c/Runtime.h"
#include "fuse/Artifact/Compiler.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Measure/TuneFormat.h"
#include "fuse/Runtime/Core/Container.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Support/ReadModule.h"
#include "fuse/Support/TemporaryDirectory.h"
#include "fuse/Target/PTX.h"
#include "fuse/Transforms/Passes.h"
#include "mlir/IR/AsmState.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "nn/IR/NNOps.h"
#include "tile/IR/TileTypes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace fuse;
namespace cl = llvm::cl;
using llvm::createStringError;
using llvm::Error;
using llvm::Expected;

namespace {

/// Options from the command line.
struct Options {
  cl::SubCommand candidates{"candidates",
                            "Compile the candidates of a module's ops"};
  cl::SubCommand table{"table", "Write the table of what was measured"};
  cl::OptionCategory category{"fuse-tune options"};
  cl::list<std::string> files{cl::Positional, cl::desc("<file>..."),
                              cl::sub(cl::SubCommand::getAll()),
                              cl::cat(category)};
  cl::opt<std::string> output{
      "o", cl::desc("File to write"), cl::value_desc("file"),
      cl::sub(cl::SubCommand::getAll()), cl::cat(category)};
  cl::opt<std::string> pipeline{
      "pipeline",
      cl::desc("Passes that run first; empty when the file has fused ops"),
      cl::init("builtin.module(fuse-kernel-formation-pipeline)"),
      cl::sub(candidates),
      cl::sub(cl::SubCommand::getTopLevel()),
      cl::cat(category)};
  cl::list<int64_t> tokens{
      "tokens",
      cl::desc("Numbers of tokens to tune ops for that have a dynamic number, "
               "1 to 16384 (default 1, 16, 64, 128)"),
      cl::CommaSeparated,
      cl::sub(candidates),
      cl::sub(cl::SubCommand::getTopLevel()),
      cl::cat(category)};
  cl::opt<unsigned> count{"candidates",
                          cl::desc("Schedules of each op, by the cost model"),
                          cl::init(24),
                          cl::sub(candidates),
                          cl::sub(cl::SubCommand::getTopLevel()),
                          cl::cat(category)};
  cl::list<std::string> schedules{
      "schedule",
      cl::desc("Another schedule to measure, for ops that it fits"),
      cl::value_desc("#tile...<...>"),
      cl::sub(candidates),
      cl::sub(cl::SubCommand::getTopLevel()),
      cl::cat(category)};
  cl::opt<int> multiprocessors{"multiprocessors",
                               cl::desc("Multiprocessors of the GPU"),
                               cl::init(132),
                               cl::sub(candidates),
                               cl::sub(cl::SubCommand::getTopLevel()),
                               cl::cat(category)};
  cl::opt<std::string> chip{"chip",
                            cl::desc("Chip of the GPU; all but sm_90a have mma "
                                     "kernels"),
                            cl::init("sm_90a"),
                            cl::sub(candidates),
                            cl::sub(cl::SubCommand::getTopLevel()),
                            cl::cat(category)};
  cl::opt<bool> noAssemble{
      "no-assemble",
      cl::desc("Leave PTX to the driver, also if there is ptxas"),
      cl::sub(candidates), cl::sub(cl::SubCommand::getTopLevel()),
      cl::cat(category)};
  cl::opt<unsigned> jobs{"jobs",
                         cl::desc("Candidates compiled at a time"),
                         cl::init(2),
                         cl::sub(candidates),
                         cl::sub(cl::SubCommand::getTopLevel()),
                         cl::cat(category)};
  cl::opt<std::string> protocol{
      "protocol",
      cl::desc("What is timed: single launches, a chain of launches that "
               "overlap, or an exclusive-chain, whose blocks begin one by one"),
      cl::init("single"), cl::sub(cl::SubCommand::getTopLevel()),
      cl::cat(category)};
  cl::opt<double> margin{
      "margin",
      cl::desc("Minimum gain, as a fraction of the time, with which a schedule "
               "replaces the cost model's choice"),
      cl::init(0.01),
      cl::sub(table),
      cl::sub(cl::SubCommand::getTopLevel()),
      cl::cat(category)};
};

} // namespace

/// Reads a module and forms its kernels.
static Expected<OwningOpRef<ModuleOp>> readModule(MLIRContext &context,
                                                  const Options &options) {
  const std::string &file = options.files.front();
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  auto read = fuse::readModule(context, file, sources);
  if (!read)
    return read.takeError();
  OwningOpRef<ModuleOp> module = std::move(*read);
  if (!options.pipeline.empty()) {
    // MLIR ends some errors with a line break and others without.
    std::string text;
    llvm::raw_string_ostream errors(text);
    FailureOr<OpPassManager> passes =
        parsePassPipeline(options.pipeline, errors);
    if (failed(passes))
      return createStringError(
          "--pipeline: '" + options.pipeline +
          "' is not a pipeline: " + StringRef(text).trim());
    if (passes->getOpName() != "builtin.module")
      return createStringError("--pipeline: '" + options.pipeline +
                               "' is not a pipeline on builtin.module");
    PassManager pm(&context);
    static_cast<OpPassManager &>(pm) = std::move(*passes);
    if (failed(pm.run(*module)))
      return createStringError(file + ": the pipeline failed");
  }
  // Models have a function for each of their sites.
  if (!module->getOps<ModelOp>().empty()) {
    FlattenModelsPassOptions flatten;
    flatten.sites = true;
    PassManager pm(&context);
    pm.addPass(createFlattenModelsPass(flatten));
    if (failed(pm.run(*module)))
      return createStringError(file + ": a model that cannot be flattened");
  }
  return module;
}

static Expected<std::string> compileCandidates(const Options &options) {
  if (options.files.size() != 1)
    return createStringError("one file is tuned, got " +
                             Twine(options.files.size()));
  CandidateOptions chosen;
  chosen.tokens.assign(options.tokens.begin(), options.tokens.end());
  if (chosen.tokens.empty())
    chosen.tokens = {1, 16, 64, 128};
  for (int64_t tokens : chosen.tokens)
    if (tokens < 1 || tokens > tile::kMaxPrefillTokens)
      return createStringError("--tokens: " + Twine(tokens) +
                               " is not from 1 to " +
                               Twine(tile::kMaxPrefillTokens));
  if (options.count == 0)
    return createStringError("--candidates: expected at least 1, got 0");
  chosen.count = options.count;
  if (options.multiprocessors < 1 || options.multiprocessors > 65535)
    return createStringError(
        "--multiprocessors: " + Twine(options.multiprocessors) +
        " is not from 1 to 65535");
  chosen.schedules.assign(options.schedules.begin(), options.schedules.end());
  chosen.multiprocessors = options.multiprocessors;
  std::string unknown;
  if (failed(lookupChip(options.chip, [&](const Twine &message) {
        unknown = message.str();
        return failure();
      })))
    return createStringError("--chip: " + unknown);
  chosen.chip = options.chip;
  chosen.assemble = !options.noAssemble;
  chosen.jobs = std::max(1u, options.jobs.getValue());
  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  registerCompilerTranslations(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  context.getOrLoadDialect<tile::TileDialect>();
  auto module = readModule(context, options);
  if (!module)
    return module.takeError();
  return makeCandidates(**module, registry, chosen);
}

/// Checks for a GPU before minutes of compilation.
static Error findDevice() {
  fuse_device *device = nullptr;
  if (fuse_device_open_cuda(/*ordinal=*/0, &device) != FUSE_OK)
    return createStringError(std::string(fuse_last_error()) +
                             "; 'fuse-tune candidates' works without a GPU");
  fuse_device_destroy(device);
  return Error::success();
}

/// Runs fuse-device-run tune, which is installed next to this program.
static Error runMeasurements(const char *self, const Options &options,
                             const std::string &candidates,
                             const std::string &measurements) {
  std::string own = llvm::sys::fs::getMainExecutable(
      self, reinterpret_cast<void *>(&runMeasurements));
  auto program = llvm::sys::findProgramByName(
      "fuse-device-run", {llvm::sys::path::parent_path(own)});
  if (!program)
    program = llvm::sys::findProgramByName("fuse-device-run");
  if (!program)
    return createStringError(
        "there is no fuse-device-run beside this program or in PATH");
  std::string protocol = "--protocol=" + options.protocol;
  StringRef arguments[] = {*program, "tune",       candidates,
                           "-o",     measurements, protocol};
  std::string message;
  if (llvm::sys::ExecuteAndWait(*program, arguments, std::nullopt, {}, 0, 0,
                                &message) != 0)
    return createStringError("the measurements failed" +
                             (message.empty() ? "" : ": " + message));
  return Error::success();
}

static Error runTool(const char *self, Options &options) {
  if (options.files.empty())
    return createStringError("there is no file to read; see --help");
  if (options.output.empty())
    return createStringError("-o is missing");
  auto write = [&](const std::string &path, const std::string &content) {
    runtime::writeFileAtomically(path, content);
  };
  std::vector<std::string> measured(options.files.begin(), options.files.end());
  if (!options.table) {
    if (!options.candidates) {
      (void)measure::readProtocol(options.protocol);
      if (Error error = findDevice())
        return error;
    }
    Expected<std::string> candidates = compileCandidates(options);
    if (!candidates)
      return candidates.takeError();
    if (options.candidates) {
      write(options.output, *candidates);
      return Error::success();
    }
    Expected<TemporaryDirectory> directory =
        TemporaryDirectory::create("fuse-tune");
    if (!directory)
      return directory.takeError();
    std::string made = directory->getFile("candidates");
    write(made, *candidates);
    measured = {directory->getFile("measurements.json")};
    if (Error error = runMeasurements(self, options, made, measured.front()))
      return error;
    Expected<std::string> table = makeTable(measured, options.margin);
    if (!table)
      return table.takeError();
    write(options.output, *table);
    return Error::success();
  }
  Expected<std::string> table = makeTable(measured, options.margin);
  if (!table)
    return table.takeError();
  write(options.output, *table);
  return Error::success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  mlir::registerAllPasses();
  fuse::registerAllPasses();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "fuse-tune: find the schedules of a module's ops by measuring\n\n"
      "  fuse-tune in.mlir -o table                on a machine with the GPU\n"
      "  fuse-tune candidates in.mlir -o file      where the compiler is,\n"
      "  fuse-device-run tune file -o measurements where the GPU is, and\n"
      "  fuse-tune table measurements... -o table\n");
  Error error = Error::success();
  try {
    error = runTool(argv[0], options);
  } catch (const runtime::Failure &failure) {
    error = createStringError(failure.getMessage());
  }
  if (error) {
    llvm::WithColor::error(llvm::errs(), "fuse-tune")
        << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
