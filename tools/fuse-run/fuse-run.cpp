//===- fuse-run.cpp - Compile and run a function --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/Inputs.h"
#include "fuse/Execution/Program.h"
#include "fuse/Execution/Verify.h"
#include "fuse/IO/Npy.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Support/OutputFile.h"
#include "fuse/Support/ReadModule.h"
#include "fuse/Target/PTX.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/AsmState.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/Pass/PassManager.h"
#include "nn/IR/NNOps.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

#include <chrono>

using namespace mlir;
using namespace fuse;
namespace cl = llvm::cl;

namespace {

enum class Emit { None, Linalg, LLVM, GPU, NVVM, PTX };

/// Options from the command line.
struct Options {
  cl::OptionCategory category{"fuse-run options"};
  cl::opt<std::string> file{cl::Positional, cl::desc("<file.mlir>"),
                            cl::Required, cl::cat(category)};
  cl::opt<std::string> entry{
      "entry", cl::desc("Function to run; may be left out if there is one"),
      cl::cat(category)};
  cl::opt<bool> sites{
      "sites",
      cl::desc("Of a model, run the fused sites by themselves (name one with "
               "--entry) and not the whole"),
      cl::cat(category)};
  cl::opt<bool> allRanks{
      "all-ranks",
      cl::desc("Compute all ranks of functions whose arguments have fuse.shard "
               "in this process, with the results of each rank"),
      cl::cat(category)};
  cl::list<std::string> inputs{
      "input",
      cl::desc("Array for the next argument without fuse.parameter; "
               "those without an array are random"),
      cl::value_desc("x.npy"), cl::cat(category)};
  cl::opt<std::string> weights{
      "weights",
      cl::desc("Values of the arguments with fuse.parameter, by that name; "
               "random when left out"),
      cl::value_desc("file.safetensors"), cl::cat(category)};
  cl::list<std::string> outputs{
      "output",
      cl::desc("Where to write the next result; bf16 and 8-bit floats are "
               "written as f32, which is exact"),
      cl::value_desc("y.npy"), cl::cat(category)};
  cl::list<std::string> dims{
      "dim",
      cl::desc(
          "Dynamic sizes of random arguments: <size> for all, "
          "tokens=<size> (default 16) for the last but one dimension, "
          "batch=<size> (default 2) for those before it; with --verify also "
          "a list, as 0,1,17"),
      cl::value_desc("[name=]size"), cl::cat(category)};
  cl::list<std::string> shapes{
      "shape", cl::desc("Shape of a random argument, as 0:2x16x64"),
      cl::value_desc("argument:shape"), cl::cat(category)};
  cl::opt<uint64_t> seed{"seed", cl::desc("Seed of random arguments"),
                         cl::init(0), cl::cat(category)};
  cl::opt<bool> reference{
      "reference",
      cl::desc("Run plain scalar loops that sum in order of the operands"),
      cl::cat(category)};
  cl::opt<bool> verifyChecks{
      "verify",
      cl::desc(
          "Raise the function, and check that it computes the same and that "
          "unfusing undoes forming (V0), that fused and unfused are bit-equal "
          "(V1), and the reference lowering; with --chip "
          "also that its code gives what the contract allows (V2), on the "
          "emulator; without --entry for every public function"),
      cl::cat(category)};
  cl::opt<bool> print{"print", cl::desc("Print the results"),
                      cl::cat(category)};
  cl::opt<bool> bench{"bench", cl::desc("Print the time of a call"),
                      cl::cat(category)};
  cl::opt<unsigned> iterations{"iterations",
                               cl::desc("Calls that --bench measures"),
                               cl::init(20), cl::cat(category)};
  cl::opt<Emit> emit{
      "emit", cl::desc("Print code instead of running it"),
      cl::values(
          clEnumValN(Emit::Linalg, "linalg", "Structured ops on tensors"),
          clEnumValN(Emit::LLVM, "llvm", "LLVM IR for this machine"),
          clEnumValN(Emit::GPU, "gpu", "GPU kernels and launches"),
          clEnumValN(Emit::NVVM, "nvvm", "GPU kernels in the NVVM dialect"),
          clEnumValN(Emit::PTX, "ptx", "PTX text for --chip")),
      cl::init(Emit::None), cl::cat(category)};
  cl::opt<std::string> chip{
      "chip",
      cl::desc("GPU that --emit=gpu, nvvm and ptx are for (sm_90), or that "
               "--verify checks code for"),
      cl::init("sm_90"), cl::cat(category)};
  cl::opt<bool> portable{
      "portable",
      cl::desc("With --verify and --chip, check the portable path alone"),
      cl::cat(category)};
  cl::opt<unsigned> orders{
      "orders",
      cl::desc("With --verify and --chip, number of interleavings of threads "
               "and copies in which code runs on the same inputs"),
      cl::init(GpuOptions().numOrders), cl::cat(category)};
  cl::opt<std::string> outputFile{"o",
                                  cl::desc("Where to write what is "
                                           "emitted"),
                                  cl::value_desc("file"), cl::init("-"),
                                  cl::cat(category)};
  cl::opt<std::string> dumpPhases{
      "dump-phases-to",
      cl::desc("Directory for the IR after every phase of the lowering"),
      cl::value_desc("directory"), cl::cat(category)};
};

} // namespace

/// Whether only checks were requested.
static bool hasOnlyChecks(const Options &options) {
  return options.verifyChecks && options.outputs.empty() && !options.print &&
         !options.bench && options.dumpPhases.empty();
}

static bool hasChip(const Options &options) {
  return options.chip.getNumOccurrences() > 0;
}

/// The GPU for which code is checked, if any.
static GpuOptions getGpuOptions(const Options &options) {
  GpuOptions gpu;
  if (hasChip(options))
    gpu.chip = options.chip;
  gpu.isPortable = options.portable;
  gpu.numOrders = options.orders;
  return gpu;
}

/// Refuses combinations in which an option would have no effect.
static llvm::Error checkOptions(const Options &options) {
  if (options.iterations == 0)
    return llvm::createStringError("--iterations: expected at least 1, got 0");
  if (options.emit == Emit::None) {
    if (options.outputFile.getNumOccurrences() > 0)
      return llvm::createStringError(
          "-o is for what --emit prints; results go to --output");
    bool isForGPU = options.verifyChecks && hasChip(options);
    if (hasChip(options) && !isForGPU)
      return llvm::createStringError("--chip needs --emit or --verify");
    if (options.orders == 0)
      return llvm::createStringError("--orders: expected at least 1, got 0");
    for (const cl::Option *option :
         {static_cast<const cl::Option *>(&options.portable),
          static_cast<const cl::Option *>(&options.orders)})
      if (option->getNumOccurrences() > 0 && !isForGPU)
        return llvm::createStringError("--" + option->ArgStr +
                                       " needs --verify and --chip");
    return llvm::Error::success();
  }
  std::pair<llvm::StringRef, bool> runs[] = {
      {"--input", !options.inputs.empty()},
      {"--output", !options.outputs.empty()},
      {"--print", options.print},
      {"--bench", options.bench},
      {"--verify", options.verifyChecks}};
  for (auto [name, isGiven] : runs)
    if (isGiven)
      return llvm::createStringError(name + " needs a run, --emit prints code");
  return llvm::Error::success();
}

/// Prints GPU code of the named function, or of the whole module.
static llvm::Error emitGPUCode(ModuleOp module, const Options &options) {
  OwningOpRef<ModuleOp> lowered;
  if (options.entry.empty()) {
    lowered = cast<ModuleOp>(module->clone());
  } else {
    auto function = findFunction(module, options.entry);
    if (!function)
      return function.takeError();
    lowered = isolate(*function);
  }
  GPUPipelineOptions pipeline;
  pipeline.chip = options.chip.getValue();
  pipeline.stage = options.emit == Emit::GPU    ? std::string("gpu")
                   : options.emit == Emit::NVVM ? "nvvm"
                                                : "ptx";
  PassManager pm(module.getContext());
  if (llvm::Error error = buildGPUPipeline(pm, pipeline))
    return error;
  if (failed(pm.run(*lowered)))
    return llvm::createStringError("lowering for " + options.chip + " failed");
  return writeFile(options.outputFile,
                   [&](llvm::raw_ostream &os) -> llvm::Error {
                     if (options.emit != Emit::PTX) {
                       os << *lowered << "\n";
                       return llvm::Error::success();
                     }
                     FailureOr<std::string> text = getPTX(*lowered);
                     if (failed(text))
                       return llvm::createStringError("there is no PTX");
                     os << *text;
                     return llvm::Error::success();
                   });
}

/// Prints the requested code.
static llvm::Error emitCode(func::FuncOp function, const Options &options,
                            const PhaseDump &dump) {
  bool toLLVM = options.emit == Emit::LLVM;
  auto module = lowerForCPU(function, options.reference,
                            toLLVM ? "llvm" : "linalg", dump);
  if (!module)
    return module.takeError();
  return writeFile(options.outputFile,
                   [&](llvm::raw_ostream &os) -> llvm::Error {
                     if (toLLVM)
                       return printLLVMIR(**module, os);
                     os << **module << "\n";
                     return llvm::Error::success();
                   });
}

/// Prints a tensor as nested lists in the style of NumPy, without
/// abbreviations.
static void printTensor(const HostTensor &tensor, llvm::raw_ostream &os) {
  os << toString(tensor.getType(), tensor.getShape()) << "\n";
  if (tensor.getNumElements() == 0)
    return;
  int64_t row = tensor.getShape().empty() ? 1 : tensor.getShape().back();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i)
    os << (i % row == 0 ? "[" : ", ") << llvm::format("%.9g", tensor.get(i))
       << (i % row == row - 1 ? "]\n" : "");
}

/// Measures calls and prints the median and the minimum.
static llvm::Error benchmark(const Program &program,
                             ArrayRef<HostTensor> inputs, unsigned iterations,
                             llvm::raw_ostream &os) {
  using Clock = std::chrono::steady_clock;
  SmallVector<double> times;
  // Skip the first calls, which touch memory for the first time.
  constexpr unsigned warmUp = 2;
  for (unsigned i = 0; i < iterations + warmUp; ++i) {
    auto start = Clock::now();
    auto results = program.run(inputs);
    std::chrono::duration<double, std::micro> time = Clock::now() - start;
    if (!results)
      return results.takeError();
    if (i >= warmUp)
      times.push_back(time.count());
  }
  llvm::sort(times);
  os << llvm::formatv("time: median {0:f1} us, min {1:f1} us, {2} calls\n",
                      times[times.size() / 2], times.front(), times.size());
  return llvm::Error::success();
}

/// The tensors that the command line describes, one set per size in a list of
/// --dim.
static llvm::Expected<std::vector<std::vector<HostTensor>>>
getInputSets(func::FuncOp function, const Signature &signature,
             const Options &options) {
  InputOptions inputOptions;
  inputOptions.files.assign(options.inputs.begin(), options.inputs.end());
  inputOptions.weights = options.weights;
  inputOptions.shapes.assign(options.shapes.begin(), options.shapes.end());
  inputOptions.seed = options.seed;
  SmallVector<std::vector<std::string>> dimSets(1);
  for (StringRef dim : options.dims) {
    auto [name, list] = dim.split('=');
    bool named = dim.contains('=');
    SmallVector<StringRef> sizes;
    (named ? list : dim).split(sizes, ',');
    SmallVector<std::vector<std::string>> extended;
    for (const std::vector<std::string> &set : dimSets)
      for (StringRef size : sizes) {
        extended.push_back(set);
        extended.back().push_back((named ? name + "=" + size : size).str());
      }
    dimSets = std::move(extended);
  }
  if (dimSets.size() > 1 && !options.verifyChecks)
    return llvm::createStringError("--dim: a list of sizes needs --verify");
  std::vector<std::vector<HostTensor>> inputSets;
  for (std::vector<std::string> &dims : dimSets) {
    inputOptions.dims = std::move(dims);
    auto inputs = createInputs(function, signature, inputOptions);
    if (!inputs)
      return inputs.takeError();
    inputSets.push_back(std::move(*inputs));
  }
  return inputSets;
}

/// Runs the command line on one function. Returns whether all checks hold.
static llvm::Expected<bool> runFunction(func::FuncOp function,
                                        const Options &options) {
  if (llvm::Error error = liftScalars(function))
    return std::move(error);
  auto signature = getSignature(function);
  if (!signature)
    return signature.takeError();
  PhaseDump dump = {options.dumpPhases};
  if (options.emit != Emit::None) {
    if (llvm::Error error = emitCode(function, options, dump))
      return std::move(error);
    return true;
  }
  auto inputSets = getInputSets(function, *signature, options);
  if (!inputSets)
    return inputSets.takeError();
  if (options.outputs.size() > signature->results.size())
    return llvm::createStringError("--output: @" + function.getSymName() +
                                   " has " + Twine(signature->results.size()) +
                                   " results, got " +
                                   Twine(options.outputs.size()) + " files");

  if (hasOnlyChecks(options))
    return verify(function, *inputSets, getGpuOptions(options), llvm::outs());

  ArrayRef<HostTensor> inputs = inputSets->front();
  auto program = Program::compile(function, options.reference, dump);
  if (!program)
    return program.takeError();
  auto results = program->run(inputs);
  if (!results)
    return results.takeError();
  for (auto [path, result] : llvm::zip(options.outputs, *results))
    if (llvm::Error error = writeNpy(path, result))
      return std::move(error);
  if (options.print)
    for (const HostTensor &result : *results)
      printTensor(result, llvm::outs());
  if (options.bench)
    if (llvm::Error error =
            benchmark(*program, inputs, options.iterations, llvm::outs()))
      return std::move(error);
  if (options.verifyChecks)
    return verify(function, *inputSets, getGpuOptions(options), llvm::outs());
  return true;
}

/// Checks every public function of a module.
static llvm::Expected<bool> verifyAll(ModuleOp module, const Options &options) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal())
      functions.push_back(function);
  if (functions.size() == 1)
    return runFunction(functions.front(), options);
  if (functions.empty())
    return llvm::createStringError("the module has no public function");
  bool allHold = true;
  for (func::FuncOp function : functions) {
    if (llvm::Error error = liftScalars(function))
      return std::move(error);
    auto signature = getSignature(function);
    if (!signature)
      return signature.takeError();
    auto inputSets = getInputSets(function, *signature, options);
    if (!inputSets)
      return inputSets.takeError();
    llvm::outs() << "@" << function.getSymName() << "\n";
    auto holds =
        verify(function, *inputSets, getGpuOptions(options), llvm::outs());
    if (!holds)
      return holds.takeError();
    allHold &= *holds;
  }
  return allHold;
}

/// Returns whether all checks hold.
static llvm::Expected<bool> runTool(MLIRContext &context,
                                    const Options &options) {
  if (llvm::Error error = checkOptions(options))
    return std::move(error);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  auto read = readModule(context, options.file, sources);
  if (!read)
    return read.takeError();
  OwningOpRef<ModuleOp> module = std::move(*read);
  // Only functions can be run.
  if (!module->getOps<ModelOp>().empty()) {
    FlattenModelsPassOptions flatten;
    flatten.sites = options.sites;
    LowerSlotsPassOptions slots;
    bool isForGPU = options.emit == Emit::GPU || options.emit == Emit::NVVM ||
                    options.emit == Emit::PTX;
    slots.device = isForGPU ? "gpu" : "cpu";
    slots.chip = options.chip;
    PassManager pm(&context);
    pm.addPass(createLowerSlotsPass(slots));
    pm.addPass(createFlattenModelsPass(flatten));
    if (failed(pm.run(*module)))
      return llvm::createStringError(options.file +
                                     ": a model that cannot run");
  }
  if (options.allRanks)
    for (auto function : module->getOps<func::FuncOp>())
      if (failed(localizeShards(function)) ||
          failed(joinRanks(function, /*all=*/true)))
        return llvm::createStringError(
            options.file + ": a function whose ranks cannot be computed");
  if (options.emit == Emit::GPU || options.emit == Emit::NVVM ||
      options.emit == Emit::PTX) {
    if (llvm::Error error = emitGPUCode(*module, options))
      return std::move(error);
    return true;
  }
  if (hasOnlyChecks(options) && options.entry.empty())
    return verifyAll(*module, options);
  auto function = findFunction(*module, options.entry);
  if (!function)
    return function.takeError();
  return runFunction(*function, options);
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  Options options;
  registerAsmPrinterCLOptions();
  registerMLIRContextCLOptions();
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "fuse-run: compile a function on tensors for this machine and run it\n\n"
      "Scalars are tensors without dimensions, of i64 for an index.\n"
      "Exits with 1 on errors and when a check of --verify fails.\n");

  DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  registerCPUTranslations(registry);
  registerPTXTranslation(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::Expected<bool> holds = runTool(context, options);
  if (!holds) {
    llvm::WithColor::error(llvm::errs(), "fuse-run")
        << llvm::toString(holds.takeError()) << "\n";
    return 1;
  }
  return *holds ? 0 : 1;
}
