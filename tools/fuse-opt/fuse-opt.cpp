//===- fuse-opt.cpp - The fuse optimizer driver ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Slots/KernelRegistry.h"
#include "fuse/Support/IRVersion.h"
#include "fuse/Support/TextLimits.h"
#include "fuse/Target/PTX.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;

namespace {

enum class ListFormat { None, Text, JSON };

cl::opt<ListFormat> listKernels(
    "list-kernels",
    cl::desc("List the kernels that slots can be bound to and exit"),
    cl::ValueOptional,
    cl::values(clEnumValN(ListFormat::Text, "", "as text"),
               clEnumValN(ListFormat::Text, "text", "as text"),
               clEnumValN(ListFormat::JSON, "json", "as JSON")),
    cl::init(ListFormat::None));
cl::list<std::string>
    kernelFiles("kernels",
                cl::desc("Files of kernels that --list-kernels lists as well"),
                cl::value_desc("file.mlir"), cl::CommaSeparated);

/// Keeps the input until the process ends. Destroying a large model would walk
/// memory several times: the uses in each region are dropped once for the
/// region and again for all regions around it.
///
/// The pass manager that owns this is destroyed before the op that it ran on.
class KeepInput : public mlir::PassInstrumentation {
public:
  ~KeepInput() override {
    // Reachable from a static variable, so that leak checkers find it.
    static auto *kept = new std::vector<mlir::Region *>;
    if (!root)
      return;
    for (mlir::Region &region : root->getRegions()) {
      kept->push_back(new mlir::Region);
      kept->back()->takeBody(region);
    }
  }

  void runBeforePass(mlir::Pass *, mlir::Operation *op) override {
    // The first pass, or the adaptor that distributes passes, runs on the whole
    // input.
    if (!root)
      root = op;
  }

private:
  mlir::Operation *root = nullptr;
};

} // namespace

/// The registered MLIR option with this name.
static cl::Option *findOption(llvm::StringRef name) {
  return cl::getRegisteredOptions().lookup(name);
}

/// Errors show the line of an op. The op itself is printed only on request,
/// since a model would be printed with all of its layers.
static void hideOpsOfErrors() {
  mlir::registerMLIRContextCLOptions();
  if (auto *option = findOption("mlir-print-op-on-diagnostic"))
    static_cast<cl::opt<bool> *>(option)->setInitialValue(false);
}

/// The printer verifies its input, and uses the generic form if it is invalid.
/// The output of a verifying pass manager has already been verified.
static void assumeVerified(const mlir::MlirOptMainConfig &config) {
  auto *option = findOption("mlir-print-assume-verified");
  if (!option || option->getNumOccurrences() || !config.shouldVerifyPasses() ||
      !config.shouldVerifyOnParsing())
    return;
  // These options print IR after a pass has failed, which may be invalid.
  for (const auto &other : cl::getRegisteredOptions())
    if (other.first.starts_with("mlir-print-ir-") &&
        other.second->getNumOccurrences())
      return;
  *static_cast<cl::opt<bool> *>(option) = true;
}

/// Like `MlirOptMain`, but keeps the input.
static llvm::LogicalResult processFile(llvm::StringRef input,
                                       llvm::StringRef output,
                                       mlir::DialectRegistry &registry,
                                       mlir::MlirOptMainConfig config) {
  std::string error;
  auto file = mlir::openInputFile(input, &error);
  auto out = file ? mlir::openOutputFile(output, &error) : nullptr;
  if (!out) {
    llvm::errs() << error << "\n";
    return llvm::failure();
  }
  llvm::StringRef text = file->getBuffer();
  if (!text.starts_with("ML\xefR")) {
    llvm::Error fatal = fuse::checkForParser(text);
    if (!fatal)
      fatal = fuse::upgradeBuffer(file);
    if (fatal) {
      llvm::errs() << input << ": error: " << llvm::toString(std::move(fatal))
                   << "\n";
      return llvm::failure();
    }
  }
  mlir::MlirOptMainConfig given = config;
  config.setPassPipelineSetupFn([given](mlir::PassManager &manager) {
    manager.addInstrumentation(std::make_unique<KeepInput>());
    return given.setupPassPipeline(manager);
  });
  if (failed(mlir::MlirOptMain(out->os(), std::move(file), registry, config)))
    return llvm::failure();
  out->keep();
  return llvm::success();
}

static int printKernels(const mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry);
  fuse::KernelRegistry kernels = fuse::getKernelRegistry(&context);
  for (const std::string &file : kernelFiles)
    if (failed(kernels.loadFile(file)))
      return 1;
  if (listKernels == ListFormat::JSON)
    kernels.printJSON(llvm::outs());
  else
    kernels.print(llvm::outs());
  return 0;
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  fuse::registerPTXTranslation(registry);
  fuse::registerAllDialects(registry);
  mlir::registerAllPasses();
  fuse::registerAllPasses();
  hideOpsOfErrors();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "fuse kernel-fusion optimizer driver\n", registry);
  if (listKernels != ListFormat::None)
    return printKernels(registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, input, output, registry));
  llvm::InitLLVM init(argc, argv);
  assumeVerified(config);
  return mlir::asMainReturnCode(processFile(input, output, registry, config));
}
