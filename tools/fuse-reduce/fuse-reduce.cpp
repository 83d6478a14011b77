//===- fuse-reduce.cpp - Reduce failing IR --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With --test, this removes ops, see Reducer.h. Without it, this is mlir-reduce
// with all passes of fuse.
//
//===----------------------------------------------------------------------===//

#include "Reducer.h"
#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Support/ReadModule.h"
#include "fuse/Support/TextLimits.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

/// mlir-reduce prints it after its own options.
static llvm::cl::extrahelp
    testHelp("\n  fuse-reduce FILE --test=SCRIPT\n\n"
             "  --test=<script>  - Remove ops as long as <script> exits with 1 "
             "on the file that it\n                     gets; without a "
             "pipeline. Layers are raised first if it then still does\n");

/// Whether a script exits with 1 on a module, which mlir-reduce calls
/// interesting. `problem` is set if the script did not run.
static bool isInteresting(llvm::StringRef script, ModuleOp module,
                          std::string &problem) {
  llvm::SmallString<128> path;
  int file;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(
          "fuse-reduce", "mlir", file, path)) {
    problem = "a temporary file: " + code.message();
    return false;
  }
  llvm::FileRemover remover(path);
  {
    llvm::raw_fd_ostream os(file, /*shouldClose=*/true);
    OpPrintingFlags flags;
    flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
    module->print(os, flags);
  }
  return llvm::sys::ExecuteAndWait(script, {script, path}, std::nullopt, {}, 0,
                                   0, &problem) == 1;
}

/// `fuse-reduce FILE --test=SCRIPT`: prints the reduced module.
static int reduce(MLIRContext &context, llvm::StringRef file,
                  llvm::StringRef script) {
  context.disableMultithreading();
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = fuse::readModule(context, file, sources);
  if (!module) {
    llvm::WithColor::error(llvm::errs(), "fuse-reduce")
        << llvm::toString(module.takeError()) << "\n";
    return 1;
  }
  std::string problem;
  if (!isInteresting(script, **module, problem)) {
    auto &os = llvm::WithColor::error(llvm::errs(), "fuse-reduce");
    if (problem.empty())
      os << script << " does not exit with 1 on " << file
         << ", so that there is nothing to keep\n";
    else
      os << "cannot run '" << script << "': " << problem << "\n";
    return 1;
  }
  // Layers are smaller than what they were written as. If the failure is in
  // raising, it is gone, and the module stays as it is.
  OwningOpRef<ModuleOp> raised = cast<ModuleOp>((*module)->clone());
  bool isRaised = [&] {
    ScopedDiagnosticHandler silence(&context, [](Diagnostic &) {});
    return succeeded(fuse::raiseProgram(*raised));
  }();
  if (isRaised && isInteresting(script, *raised, problem))
    *module = std::move(raised);
  fuse::Reduction reduction;
  auto small = fuse::reduceModule(
      **module,
      [&](ModuleOp candidate) {
        return isInteresting(script, candidate, problem);
      },
      reduction);
  llvm::outs() << *small << "\n";
  return 0;
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  mlir::registerAllPasses();
  fuse::registerAllPasses();
  mlir::MLIRContext context(registry);
  // Passes run inside the reduction pass, which is too late to load dialects.
  context.loadAllAvailableDialects();
  for (int i = 1; argc == 3 && i < argc; ++i) {
    llvm::StringRef script = argv[i];
    if (script.consume_front("--test="))
      return reduce(context, argv[3 - i], script);
  }
  if (llvm::Error error = fuse::checkInputFiles(argc, argv)) {
    llvm::WithColor::error(llvm::errs(), "fuse-reduce")
        << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
