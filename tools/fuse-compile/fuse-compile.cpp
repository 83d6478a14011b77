//===- fuse-compile.cpp - Compile IR to an artifact -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An ordinary client of the C interface.
//
//===----------------------------------------------------------------------===//

#include "Handles.h"
#include "Verify.h"
#include "fuse/Runtime/Core/Failure.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/WithColor.h"

using namespace fuse;
namespace cl = llvm::cl;

namespace {

/// Values of fuse_compile_options::assemble.
enum class Assemble { Never = 0, Auto = 1, Always = 2 };

/// Options from the command line.
struct Options {
  cl::OptionCategory category{"fuse-compile options"};
  cl::opt<std::string> file{cl::Positional, cl::desc("<file>"), cl::Required,
                            cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Artifact to write"),
                              cl::value_desc("file.fuse"), cl::cat(category)};
  cl::opt<std::string> pipeline{
      "pipeline",
      cl::desc("Passes that run before compiling; empty when the file has "
               "fused ops already"),
      cl::init("builtin.module(fuse-kernel-formation-pipeline)"),
      cl::cat(category)};
  cl::opt<std::string> cpu{
      "cpu",
      cl::desc("CPU to compile for: native, a level such as x86-64-v3, or "
               "none"),
      cl::init("native"), cl::cat(category)};
  cl::opt<bool> noLink{
      "no-link",
      cl::desc("Leave the code for the CPU as a relocatable object, which only "
               "a process with the compiler can load"),
      cl::cat(category)};
  cl::opt<std::string> chip{"chip",
                            cl::desc("GPU to compile for, such as sm_90a; "
                                     "none when left out"),
                            cl::cat(category)};
  cl::opt<bool> portable{"portable", cl::desc("Use only the portable path"),
                         cl::cat(category)};
  cl::opt<int> tokens{
      "tokens",
      cl::desc("Maximum number of tokens of scheduled kernels for a function "
               "with a dynamic number of tokens, 1 to 16384; each launch uses "
               "the kernels for its number"),
      cl::init(16384), cl::cat(category)};
  cl::opt<int> multiprocessors{"multiprocessors",
                               cl::desc("Multiprocessors of the GPU"),
                               cl::init(132), cl::cat(category)};
  cl::opt<std::string> schedules{
      "schedules",
      cl::desc("Table of fuse-tune; its schedules precede those of the cost "
               "model"),
      cl::value_desc("file"), cl::cat(category)};
  cl::opt<Assemble> assemble{
      "assemble", cl::desc("Whether to add a cubin made by ptxas:"),
      cl::values(
          clEnumValN(Assemble::Never, "never", "leave PTX to the driver"),
          clEnumValN(Assemble::Auto, "auto", "if there is a ptxas in PATH"),
          clEnumValN(Assemble::Always, "always", "fail if there is none")),
      cl::init(Assemble::Auto), cl::cat(category)};
  cl::opt<std::string> cache{
      "cache",
      cl::desc("Cache directory that is searched for the artifact first"),
      cl::value_desc("directory"), cl::cat(category)};
  cl::opt<bool> remarks{"remarks",
                        cl::desc("Print what was fused and what was not"),
                        cl::cat(category)};
  cl::opt<std::string> trace{
      "trace",
      cl::desc("File for the times of passes and phases, for Perfetto"),
      cl::value_desc("file.json"), cl::cat(category)};
  cl::opt<bool> verify{
      "verify",
      cl::desc("Read an artifact instead of IR, undo its fusions (V0) and "
               "compare its code for the CPU with its layers (V1)"),
      cl::cat(category)};
  cl::opt<bool> emulate{
      "emulate",
      cl::desc("With --verify, also run its code for a GPU, on the emulator, "
               "and compare that with its layers (V2)"),
      cl::cat(category)};
};

/// The input that diagnostics refer to.
struct Input {
  std::string file;
  bool reported = false;
};

} // namespace

/// Prints a location. The text of a file without a name is called `-` there, so
/// the name of the input replaces it.
static void printLocation(llvm::StringRef location, const Input &input) {
  if (location.empty())
    return;
  if (location.consume_front("-:"))
    llvm::errs() << input.file << ":";
  llvm::errs() << location << ": ";
}

static void printDiagnostic(fuse_severity severity, const char *location,
                            const char *message, void *data) {
  if (severity == FUSE_REMARK)
    return;
  auto &input = *static_cast<Input *>(data);
  input.reported |= severity == FUSE_ERROR;
  printLocation(location, input);
  llvm::errs() << (severity == FUSE_ERROR     ? "error: "
                   : severity == FUSE_WARNING ? "warning: "
                                              : "note: ")
               << message << "\n";
}

static void printRemark(const fuse_remark *remark, void *data) {
  printLocation(remark->location, *static_cast<Input *>(data));
  llvm::errs() << "remark: " << remark->kind << " [" << remark->category << "] "
               << remark->name << ": " << remark->text << "\n";
}

static llvm::Error compile(const Options &options) {
  if (options.output.empty())
    return llvm::createStringError("-o is missing");
  if (options.cpu == "none" && options.chip.empty())
    return llvm::createStringError(
        "--cpu=none without --chip leaves nothing to compile for");
  if (llvm::sys::fs::equivalent(options.file, options.output))
    return llvm::createStringError("-o: '" + options.output +
                                   "' is the file that is read");
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(options.file);
  if (!buffer)
    return llvm::createStringError(options.file + ": " +
                                   buffer.getError().message());
  auto context = own<Context>(fuse_context_create);
  if (!context)
    return context.takeError();
  Input input{options.file};
  fuse_context_set_diagnostic_handler(context->get(), printDiagnostic, &input);
  if (options.remarks)
    fuse_context_set_remark_handler(context->get(), printRemark, &input);
  if (!options.trace.empty())
    if (llvm::Error error = check(
            fuse_context_set_trace(context->get(), options.trace.c_str())))
      return error;
  auto module = own<Module>([&](fuse_module **module) {
    return fuse_module_parse(context->get(), (*buffer)->getBufferStart(),
                             (*buffer)->getBufferSize(), module);
  });
  if (!module)
    return llvm::createStringError(
        options.file + ": " +
        (input.reported ? "not a valid module" : fuse_last_error()));
  if (!options.pipeline.empty())
    if (llvm::Error error =
            check(fuse_module_run(module->get(), options.pipeline.c_str())))
      return error;
  fuse_compile_options chosen;
  fuse_compile_options_init(&chosen);
  chosen.cpu = options.cpu == "none" ? "" : options.cpu.c_str();
  chosen.link = !options.noLink;
  chosen.chip = options.chip.c_str();
  chosen.portable = options.portable;
  chosen.tokens = options.tokens;
  chosen.multiprocessors = options.multiprocessors;
  chosen.schedules = options.schedules.c_str();
  chosen.assemble = static_cast<int32_t>(options.assemble.getValue());
  CacheHandle cache;
  if (!options.cache.empty()) {
    auto opened = own<CacheHandle>([&](fuse_cache **cache) {
      return fuse_cache_open(options.cache.c_str(), cache);
    });
    if (!opened)
      return opened.takeError();
    cache = std::move(*opened);
  }
  auto artifact = own<ArtifactHandle>([&](fuse_artifact **artifact) {
    if (cache)
      return fuse_module_compile_cached(module->get(), &chosen, cache.get(),
                                        artifact, nullptr);
    return fuse_module_compile(module->get(), &chosen, artifact);
  });
  if (!artifact)
    return artifact.takeError();
  if (llvm::Error error =
          check(fuse_artifact_save(artifact->get(), options.output.c_str())))
    return error;
  return check(fuse_context_set_trace(context->get(), nullptr));
}

static llvm::Expected<bool> runTool(const Options &options) {
  if (options.verify)
    return verifyArtifact(options.file, options.emulate, llvm::outs());
  if (options.emulate)
    return llvm::createStringError("--emulate needs --verify");
  if (llvm::Error error = compile(options))
    return std::move(error);
  return true;
}

int main(int argc, char **argv) {
  llvm::InitLLVM initLLVM(argc, argv);
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "fuse-compile: compile a module to an artifact for libfuse-rt\n\n"
      "Exits with 1 on errors and when a check of --verify fails.\n");
  llvm::Expected<bool> holds = false;
  try {
    holds = runTool(options);
  } catch (const runtime::Failure &failure) {
    holds = llvm::createStringError(failure.getMessage());
  }
  if (!holds) {
    llvm::WithColor::error(llvm::errs(), "fuse-compile")
        << llvm::toString(holds.takeError()) << "\n";
    return 1;
  }
  return *holds ? 0 : 1;
}
