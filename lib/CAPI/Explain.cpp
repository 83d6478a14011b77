//===- Explain.cpp - Reports on fusion for C ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Transforms/Explain.h"
#include "Context.h"
#include "Enum.h"
#include "fuse/Artifact/PlanCost.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>

using namespace mlir;
using namespace fuse;

void fuse_explain_options_init(fuse_explain_options *options) {
  if (!options)
    return;
  *options = fuse_explain_options();
  options->size = sizeof(*options);
  options->target = "";
  options->chip = "";
  options->cpu = "";
  options->tokens = 1;
}

/// Copies a list of strings, or reports an invalid list.
static fuse_status copyList(const char *const *list, size_t count,
                            const char *name, std::vector<std::string> &copy) {
  if (count && !list)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'" + Twine(name) + "' is null");
  for (size_t i = 0; i < count; ++i) {
    if (!list[i])
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "'" + Twine(name) + "' has null at " + Twine(i));
    copy.push_back(list[i]);
  }
  return FUSE_OK;
}

static fuse_status convert(const fuse_explain_options *options,
                           ExplainOptions &chosen) {
  if (!options)
    return FUSE_OK;
  // Callers built with an earlier header have fewer fields.
  fuse_explain_options complete;
  fuse_explain_options_init(&complete);
  if (options->size < offsetof(fuse_explain_options, chip) ||
      options->size > sizeof(complete))
    return fail(FUSE_ERROR_INVALID_ARGUMENT,
                "'size' is " + Twine(options->size) + ", expected at most " +
                    Twine(sizeof(complete)));
  std::memcpy(&complete, options, options->size);
  options = &complete;
  if (options->tokens < 1 || options->tokens > ExplainOptions::kMaxTokens)
    return fail(FUSE_ERROR_INVALID_ARGUMENT,
                "'tokens' is " + Twine(options->tokens) + ", expected 1 to " +
                    Twine(ExplainOptions::kMaxTokens));
  chosen.tokens = options->tokens;
  if (options->target)
    chosen.target = options->target;
  if (llvm::Error error = setTarget(chosen, options->chip ? options->chip : "",
                                    options->cpu ? options->cpu : ""))
    return fail(FUSE_ERROR_INVALID_ARGUMENT, llvm::toString(std::move(error)));
  fuse_status status = copyList(options->patterns, options->num_patterns,
                                "patterns", chosen.patterns);
  if (status != FUSE_OK)
    return status;
  return copyList(options->libraries, options->num_libraries, "libraries",
                  chosen.libraries);
}

fuse_status fuse_module_explain(const fuse_module *module,
                                const fuse_explain_options *options,
                                fuse_explain_format format, char **text,
                                size_t *length) {
  if (!module || !text)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'module' or 'text' is null");
  return guard([&] {
    ExplainOptions chosen;
    fuse_status status = convert(options, chosen);
    if (status != FUSE_OK)
      return status;
    long long number = getNumber(format);
    if (number < FUSE_EXPLAIN_TEXT || number > FUSE_EXPLAIN_HTML)
      return fail(FUSE_ERROR_INVALID_ARGUMENT,
                  "unknown format " + Twine(number) +
                      "; there are 0 (text), 1 (JSON) and 2 (HTML)");
    ContextState &state = *module->state;
    state.errors.clear();
    state.context.loadDialect<arith::ArithDialect, func::FuncDialect>();
    // The report has what the passes would remark.
    (void)state.connectRemarks(/*isMuted=*/true);
    llvm::scope_exit restore([&] { (void)state.connectRemarks(); });
    llvm::FailureOr<Explanation> explanation =
        fuse::explain(*module->module, chosen);
    if (failed(explanation))
      return fail(FUSE_ERROR_PASS,
                  state.takeErrors("the module cannot be explained"));
    std::string report;
    llvm::raw_string_ostream os(report);
    switch (format) {
    case FUSE_EXPLAIN_TEXT:
      printText(*explanation, os);
      break;
    case FUSE_EXPLAIN_JSON:
      os << llvm::formatv("{0:2}", toJSON(*explanation)) << "\n";
      break;
    case FUSE_EXPLAIN_HTML:
      printHTML(*explanation, os);
      break;
    }
    auto *copy = static_cast<char *>(std::malloc(report.size() + 1));
    if (!copy)
      return fail(FUSE_ERROR_OUT_OF_MEMORY, "no memory for the report");
    std::memcpy(copy, report.c_str(), report.size() + 1);
    *text = copy;
    if (length)
      *length = report.size();
    return FUSE_OK;
  });
}
