//===- Compiler.cpp - C interface to the compiler -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/Compiler.h"
#include "Context.h"
#include "fuse/Artifact/Phase.h"
#include "fuse/InitAllDialects.h"
#include "fuse/InitAllPasses.h"
#include "fuse/Support/IRVersion.h"
#include "fuse/Support/TextLimits.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Remarks.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

using namespace mlir;
using namespace fuse;

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

static std::string printLocation(Location loc) {
  // A kernel has the locations of all of its members. Use the first one.
  if (auto file = loc->findInstanceOf<FileLineColLoc>()) {
    // Line 0 denotes the whole text, which has no name here.
    if (!file.getLine())
      return "";
    return (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" +
            Twine(file.getColumn()))
        .str();
  }
  if (isa<UnknownLoc>(loc))
    return "";
  std::string text;
  llvm::raw_string_ostream(text) << loc;
  return text;
}

static fuse_severity getSeverity(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return FUSE_NOTE;
  case DiagnosticSeverity::Warning:
    return FUSE_WARNING;
  case DiagnosticSeverity::Error:
    return FUSE_ERROR;
  case DiagnosticSeverity::Remark:
    return FUSE_REMARK;
  }
  llvm_unreachable("all severities are mapped");
}

static DialectRegistry &getRegistry() {
  // Built once, since registering everything takes longer than creating a
  // context.
  static DialectRegistry &registry = []() -> DialectRegistry & {
    static DialectRegistry registry;
    mlir::registerAllDialects(registry);
    mlir::registerAllExtensions(registry);
    fuse::registerAllDialects(registry);
    registerCompilerTranslations(registry);
    mlir::registerAllPasses();
    fuse::registerAllPasses();
    return registry;
  }();
  return registry;
}

ContextState::ContextState()
    : context(getRegistry(), MLIRContext::Threading::DISABLED) {
  context.getDiagEngine().registerHandler(
      [this](Diagnostic &diagnostic) { handle(diagnostic); });
}

void ContextState::handle(Diagnostic &diagnostic) {
  std::string location = printLocation(diagnostic.getLocation());
  std::string message = diagnostic.str();
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    if (!errors.empty())
      errors += "\n";
    errors += location.empty() ? message : location + ": " + message;
  }
  if (diagnosticHandler)
    diagnosticHandler(getSeverity(diagnostic.getSeverity()), location.c_str(),
                      message.c_str(), diagnosticData);
  for (Diagnostic &note : diagnostic.getNotes())
    handle(note);
}

namespace {

/// Forwards remarks to a C function.
class RemarkForwarder : public remark::detail::MLIRRemarkStreamerBase {
public:
  RemarkForwarder(fuse_remark_handler handler, void *data)
      : handler(handler), data(data) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    std::string location = printLocation(remark.getLocation());
    std::string category = remark.getCombinedCategoryName().str();
    std::string name = remark.getRemarkName().str();
    std::string kind = remark.getRemarkTypeString().str();
    std::string text;
    for (const auto &arg : remark.getArgs())
      text += (text.empty() ? "" : "; ") + arg.key + "=" + arg.val;
    fuse_remark flat = {kind.c_str(), category.c_str(), name.c_str(),
                        location.c_str(), text.c_str()};
    handler(&flat, data);
  }

private:
  fuse_remark_handler handler;
  void *data;
};

} // namespace

LogicalResult ContextState::connectRemarks(bool isMuted) {
  if (!remarkHandler || isMuted) {
    context.setRemarkEngine(nullptr);
    return success();
  }
  remark::RemarkCategories categories;
  // `all` alone does not enable any category.
  categories.passed = categories.missed = categories.analysis =
      categories.failed = ".*";
  return remark::enableOptimizationRemarks(
      context, std::make_unique<RemarkForwarder>(remarkHandler, remarkData),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories);
}

fuse_status fuse_context_create(fuse_context **context) {
  if (!context)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' is null");
  return guard([&] {
    *context = new fuse_context{std::make_shared<ContextState>()};
    return FUSE_OK;
  });
}

void fuse_context_destroy(fuse_context *context) { delete context; }

fuse_status fuse_context_set_diagnostic_handler(fuse_context *context,
                                                fuse_diagnostic_handler handler,
                                                void *user_data) {
  if (!context)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' is null");
  context->state->diagnosticHandler = handler;
  context->state->diagnosticData = user_data;
  return FUSE_OK;
}

fuse_status fuse_context_set_remark_handler(fuse_context *context,
                                            fuse_remark_handler handler,
                                            void *user_data) {
  if (!context)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' is null");
  return guard([&] {
    context->state->remarkHandler = handler;
    context->state->remarkData = user_data;
    if (failed(context->state->connectRemarks()))
      return fail(FUSE_ERROR_INTERNAL, "remarks cannot be enabled");
    return FUSE_OK;
  });
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

fuse_status fuse::parseText(ContextState &state, StringRef text,
                            StringRef otherwise,
                            OwningOpRef<ModuleOp> &module) {
  state.errors.clear();
  if (llvm::Error error = checkTextLimits(text))
    return fail(FUSE_ERROR_PARSE, llvm::toString(std::move(error)));
  auto upgraded = upgradeText(text);
  if (!upgraded)
    return fail(FUSE_ERROR_PARSE, llvm::toString(upgraded.takeError()));
  // The parser requires a zero byte after the text.
  std::string copy = *upgraded ? std::move(**upgraded) : text.str();
  runPhase(&state.context, "parse",
           [&] { module = parseSourceString<ModuleOp>(copy, &state.context); });
  return module ? FUSE_OK : fail(FUSE_ERROR_PARSE, state.takeErrors(otherwise));
}

fuse_status fuse_module_parse(fuse_context *context, const char *text,
                              size_t length, fuse_module **module) {
  if (!context || !text || !module)
    return fail(FUSE_ERROR_INVALID_ARGUMENT,
                "'context', 'text' or 'module' is null");
  return guard([&] {
    OwningOpRef<ModuleOp> parsed;
    if (fuse_status status = parseText(*context->state, {text, length},
                                       "the text is not a module", parsed))
      return status;
    *module = new fuse_module{context->state, std::move(parsed)};
    return FUSE_OK;
  });
}

fuse_status fuse_module_clone(const fuse_module *module, fuse_module **clone) {
  if (!module || !clone)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'clone' is null");
  return guard([&] {
    *clone = new fuse_module{
        module->state,
        OwningOpRef<ModuleOp>(ModuleOp(*module->module).clone())};
    return FUSE_OK;
  });
}

void fuse_module_destroy(fuse_module *module) { delete module; }

fuse_status fuse_module_run(fuse_module *module, const char *pipeline) {
  if (!module || !pipeline)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'pipeline' is null");
  return guard([&] {
    ContextState &state = *module->state;
    state.errors.clear();
    // The parser of pipelines is recursive.
    if (llvm::Error error = checkForParser(pipeline))
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "pipeline: " + llvm::toString(std::move(error)));
    std::string text;
    llvm::raw_string_ostream errors(text);
    FailureOr<OpPassManager> parsed = parsePassPipeline(pipeline, errors);
    if (failed(parsed))
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "pipeline '" + Twine(pipeline) + "': " + text);
    PassManager manager(&state.context, parsed->getOpAnchorName());
    static_cast<OpPassManager &>(manager) = std::move(*parsed);
    if (manager.getOpAnchorName() != ModuleOp::getOperationName() &&
        manager.getOpAnchorName() != OpPassManager::getAnyOpAnchorName())
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "pipeline '" + Twine(pipeline) + "' runs on '" +
                      manager.getOpAnchorName() + "', not on builtin.module");
    // Run passes on a copy, so that a failure does not change the module.
    OwningOpRef<ModuleOp> copy(module->module->clone());
    if (failed(manager.run(*copy)))
      return fail(FUSE_ERROR_PASS, state.takeErrors("a pass failed"));
    module->module = std::move(copy);
    return FUSE_OK;
  });
}

fuse_status fuse_module_print(const fuse_module *module, char **text,
                              size_t *length) {
  if (!module || !text)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'text' is null");
  return guard([&] {
    std::string printed;
    llvm::raw_string_ostream os(printed);
    ModuleOp(*module->module).print(os);
    auto *copy = static_cast<char *>(std::malloc(printed.size() + 1));
    if (!copy)
      return fail(FUSE_ERROR_OUT_OF_MEMORY, "no memory for the printed module");
    std::memcpy(copy, printed.c_str(), printed.size() + 1);
    *text = copy;
    if (length)
      *length = printed.size();
    return FUSE_OK;
  });
}
