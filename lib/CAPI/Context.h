//===- Context.h - Shared state of the C interface --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_CAPI_CONTEXT_H
#define FUSE_CAPI_CONTEXT_H

#include "fuse-c/Compiler.h"
#include "fuse/Artifact/Compiler.h"
#include "fuse/Support/FloatEnvironment.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <new>
#include <string>

namespace fuse {

inline fuse_status fail(fuse_status status, const llvm::Twine &message) {
  return fuse_set_last_error(status, message.str().c_str());
}

/// Runs `body` so that no exception reaches the caller.
template <typename Body>
fuse_status guard(Body body) {
  FloatEnvironment environment;
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return fuse_set_last_error(FUSE_ERROR_OUT_OF_MEMORY, "out of memory");
  } catch (...) {
    return fuse_set_last_error(FUSE_ERROR_INTERNAL, "unknown exception");
  }
}

class Trace;

/// State that a context and its modules share. The last owner destroys it.
struct ContextState {
  ContextState();
  ~ContextState();

  void handle(mlir::Diagnostic &diagnostic);
  /// Sends remarks to the remark handler, or to no handler if it is null or
  /// `isMuted`.
  llvm::LogicalResult connectRemarks(bool isMuted = false);
  /// Adds other contexts to this context's trace. Null if it is not traced.
  ContextObserver getObserver() const;

  /// Errors since the last call, for `fuse_last_error`.
  std::string takeErrors(llvm::StringRef otherwise) {
    std::string text = errors.empty() ? otherwise.str() : std::move(errors);
    errors.clear();
    return text;
  }

  mlir::MLIRContext context;
  std::string errors;
  fuse_diagnostic_handler diagnosticHandler = nullptr;
  void *diagnosticData = nullptr;
  fuse_remark_handler remarkHandler = nullptr;
  void *remarkData = nullptr;
  std::shared_ptr<Trace> trace;
};

/// Parses IR. Fails with the errors of the parser, or with `otherwise`.
fuse_status parseText(ContextState &state, llvm::StringRef text,
                      llvm::StringRef otherwise,
                      mlir::OwningOpRef<mlir::ModuleOp> &module);

} // namespace fuse

struct fuse_context {
  std::shared_ptr<fuse::ContextState> state;
};

struct fuse_module {
  /// Declared first, so that it outlives the IR that it owns.
  std::shared_ptr<fuse::ContextState> state;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

#endif // FUSE_CAPI_CONTEXT_H
