//===- fuse-explain.cpp - Report on every candidate site ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/PlanCost.h"
#include "fuse/InitAllDialects.h"
#include "fuse/Support/OutputFile.h"
#include "fuse/Support/ReadModule.h"
#include "fuse/Transforms/Explain.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "nn/IR/NNModules.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

namespace {
enum class Format { Text, JSON, HTML };
} // namespace

/// Writes the report to a file. Returns the exit status of the program.
static int write(const fuse::Explanation &explanation, Format format,
                 StringRef name) {
  llvm::Error error = fuse::writeFile(name, [&](llvm::raw_ostream &os) {
    switch (format) {
    case Format::Text:
      fuse::printText(explanation, os);
      break;
    case Format::JSON:
      os << llvm::formatv("{0:2}", fuse::toJSON(explanation)) << "\n";
      break;
    case Format::HTML:
      fuse::printHTML(explanation, os);
      break;
    }
    return llvm::Error::success();
  });
  if (!error)
    return 0;
  llvm::errs() << "fuse-explain: error: " << llvm::toString(std::move(error))
               << "\n";
  return 2;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  llvm::cl::OptionCategory category("fuse-explain options");
  llvm::cl::opt<std::string> input(
      llvm::cl::Positional, llvm::cl::desc("<input file>"), llvm::cl::init("-"),
      llvm::cl::cat(category));
  llvm::cl::opt<std::string> output("o", llvm::cl::desc("Output file"),
                                    llvm::cl::init("-"),
                                    llvm::cl::cat(category));
  llvm::cl::list<std::string> patterns(
      "patterns",
      llvm::cl::desc("Pattern of modules, as in fuse-match-modules; may be "
                     "given many times"),
      llvm::cl::cat(category));
  llvm::cl::list<std::string> libraries(
      "libraries",
      llvm::cl::desc("File with patterns and kernels; may be given many times"),
      llvm::cl::cat(category));
  llvm::cl::opt<std::string> target(
      "target", llvm::cl::desc("Target on which declared kernels must run"),
      llvm::cl::cat(category));
  llvm::cl::opt<std::string> chip(
      "chip",
      llvm::cl::desc("GPU for whose launch plans savings are counted, such as "
                     "sm_90a"),
      llvm::cl::cat(category));
  llvm::cl::opt<std::string> cpu(
      "cpu",
      llvm::cl::desc("CPU for whose plans savings are counted: native, or a "
                     "level such as x86-64-v3"),
      llvm::cl::cat(category));
  llvm::cl::opt<int64_t> tokens(
      "tokens", llvm::cl::desc("What dynamic dimensions count as"),
      llvm::cl::init(1), llvm::cl::cat(category));
  llvm::cl::opt<Format> format(
      "format", llvm::cl::desc("Output format"),
      llvm::cl::values(
          clEnumValN(Format::Text, "text", "a table"),
          clEnumValN(Format::JSON, "json", "JSON"),
          clEnumValN(Format::HTML, "html", "one self-contained page")),
      llvm::cl::init(Format::Text), llvm::cl::cat(category));
  llvm::cl::HideUnrelatedOptions(category);
  llvm::cl::ParseCommandLineOptions(
      argc, argv, "Prints for each site whether it is fused, or the refusal\n");
  if (tokens < 1 || tokens > fuse::ExplainOptions::kMaxTokens) {
    llvm::errs() << "fuse-explain: error: --tokens must be from 1 to "
                 << fuse::ExplainOptions::kMaxTokens << ", got " << tokens
                 << "\n";
    return 2;
  }

  DialectRegistry registry;
  registerAllDialects(registry);
  registerAllExtensions(registry);
  fuse::registerAllDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  auto read = fuse::readModule(context, input, sources);
  if (!read) {
    llvm::errs() << "fuse-explain: error: " << llvm::toString(read.takeError())
                 << "\n";
    return 2;
  }
  OwningOpRef<ModuleOp> module = std::move(*read);
  context.loadDialect<arith::ArithDialect, func::FuncDialect>();

  if (patterns.empty() && !fuse::findModels(*module).empty())
    llvm::errs() << "fuse-explain: note: without --patterns, modules of models "
                    "are not sites\n";
  fuse::ExplainOptions options;
  options.patterns.assign(patterns.begin(), patterns.end());
  options.libraries.assign(libraries.begin(), libraries.end());
  options.target = target;
  options.tokens = tokens;
  if (llvm::Error error = fuse::setTarget(options, chip, cpu)) {
    llvm::errs() << "fuse-explain: error: " << llvm::toString(std::move(error))
                 << "\n";
    return 2;
  }
  FailureOr<fuse::Explanation> explanation = fuse::explain(*module, options);
  if (failed(explanation))
    return 1;
  return write(*explanation, format, output);
}
