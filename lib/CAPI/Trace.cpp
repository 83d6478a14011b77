//===- Trace.cpp - Compile-time traces of a context -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Trace.h"
#include "Context.h"
#include "fuse/Artifact/Phase.h"
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

Trace::Trace(StringRef path, std::error_code &error)
    : outcome(std::make_shared<Outcome>(path)), os(path, error),
      profiler(std::in_place, os),
      execution([](const tracing::ActionActiveStack *) {
        return tracing::ExecutionContext::Apply;
      }) {
  execution.registerObserver(&*profiler);
}

void Trace::attach(MLIRContext &context) {
  context.registerActionHandler(std::ref(execution));
}

Trace::~Trace() {
  profiler.reset();
  // Clear the error: the stream's destructor would abort on a full disk.
  os.flush();
  outcome->error = os.error().value();
  os.clear_error();
}

ContextState::~ContextState() { context.registerActionHandler(nullptr); }

ContextObserver ContextState::getObserver() const {
  if (!trace)
    return nullptr;
  // Hold the trace weakly, so that the file is complete when the trace ends,
  // even if kernels are compiled later.
  return [weak = std::weak_ptr<Trace>(trace)](MLIRContext &other) {
    std::shared_ptr<Trace> trace = weak.lock();
    if (trace)
      trace->attach(other);
    return trace;
  };
}

/// Ends the trace of a context. Fails if the file could not be written.
static fuse_status endTrace(ContextState &state) {
  state.context.registerActionHandler(nullptr);
  if (!state.trace)
    return FUSE_OK;
  std::shared_ptr<const Trace::Outcome> outcome = state.trace->getOutcome();
  state.trace.reset();
  std::error_code error(outcome->error, std::generic_category());
  if (!error)
    return FUSE_OK;
  return fail(FUSE_ERROR_IO, outcome->path + ": " + error.message());
}

fuse_status fuse_context_set_trace(fuse_context *context, const char *path) {
  if (!context)
    return fail(FUSE_ERROR_INVALID_ARGUMENT, "'context' is null");
  return guard([&] {
    ContextState &state = *context->state;
    fuse_status ended = endTrace(state);
    if (!path || ended != FUSE_OK)
      return ended;
    std::error_code error;
    auto trace = std::make_shared<Trace>(path, error);
    if (error)
      return fail(FUSE_ERROR_IO, Twine(path) + ": " + error.message());
    trace->attach(state.context);
    state.trace = std::move(trace);
    return FUSE_OK;
  });
}
