//===- fuse-opt.cpp - The fuse optimizer driver ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Registry/KernelRegistry.h"
#include "fuse/Target/PTX.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
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

} // namespace

/// Errors show the line of an op. The op as a note is asked for: of a model it
/// is all layers.
static void hideOpsOfErrors() {
  mlir::registerMLIRContextCLOptions();
  auto &options = cl::getRegisteredOptions();
  auto it = options.find("mlir-print-op-on-diagnostic");
  if (it != options.end())
    static_cast<cl::opt<bool> *>(it->second)->setInitialValue(false);
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
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
