//===- Trace.cpp - Where the time of a context goes -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trace.h"
#include "Context.h"
#include "fuse/Compiler/Phase.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace fuse;

static bool isShown(const tracing::ActionActiveStack *action) {
  return isa<PassExecutionAction, PhaseAction>(action->getAction());
}

void Trace::Profiler::beforeExecute(const tracing::ActionActiveStack *action,
                                    tracing::Breakpoint *breakpoint,
                                    bool willExecute) {
  if (isShown(action))
    ActionProfiler::beforeExecute(action, breakpoint, willExecute);
}

void Trace::Profiler::afterExecute(const tracing::ActionActiveStack *action) {
  if (isShown(action))
    ActionProfiler::afterExecute(action);
}

Trace::Trace(MLIRContext &context, StringRef path, std::error_code &error)
    : context(context), os(path, error), profiler(std::in_place, os),
      execution([](const tracing::ActionActiveStack *) {
        return tracing::ExecutionContext::Apply;
      }) {
  execution.registerObserver(&*profiler);
  if (!error)
    context.registerActionHandler(std::ref(execution));
}

Trace::~Trace() {
  context.registerActionHandler(nullptr);
  profiler.reset();
  // A full disk is no reason to end the process, which the stream would do.
  os.flush();
  os.clear_error();
}

ContextState::~ContextState() = default;

fuse_status fuse_context_set_trace(fuse_context *context, const char *path) {
  if (!context)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' is null");
  return guard([&] {
    ContextState &state = *context->state;
    state.trace.reset();
    if (!path)
      return FUSE_OK;
    std::error_code error;
    auto trace = std::make_unique<Trace>(state.context, path, error);
    if (error)
      return fail(FUSE_ERROR_IO, Twine(path) + ": " + error.message());
    state.trace = std::move(trace);
    return FUSE_OK;
  });
}
