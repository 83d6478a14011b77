//===- Compiler.h - From fused IR to an artifact ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_COMPILER_H
#define FUSE_ARTIFACT_COMPILER_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
class MLIRContext;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace fuse {

/// Whether PTX is assembled by ptxas. Without, the driver does it.
enum class Assemble { Never, IfPossible, Always };

/// Called with every context that the compiler makes for a thread, such as to
/// trace it. What it returns is kept as long as the context.
using ContextObserver =
    std::function<std::shared_ptr<void>(mlir::MLIRContext &)>;

/// What to compile for.
struct CompileOptions {
  /// Code for the CPU: a processor as LLVM names it, "native", or empty for
  /// none. A level such as "x86-64-v3" runs on every machine that has it.
  std::string cpu = "native";
  /// Whether to link that code, so that it can be loaded without LLVM.
  bool link = false;
  /// Code for a GPU, such as "sm_90a"; empty for none.
  std::string chip;
  /// Whether the scheduled path may be taken, which sm_90a has.
  bool scheduled = true;
  /// Whether scheduled kernels may stand in one plan with portable ones.
  bool mixed = false;
  /// Most tokens that scheduled kernels of functions with a dynamic number of
  /// tokens serve, and the multiprocessors they are made for.
  int64_t tokens = 16384;
  int64_t multiprocessors = 132;
  /// Table of fuse-tune that schedules come from where it has them; empty for
  /// none.
  std::string schedules;
  Assemble assemble = Assemble::Never;
  /// Directories in which the linker is looked for before PATH.
  std::vector<std::string> toolDirectories;
  ContextObserver observe;
};

/// Registers what compiling needs in a context beside the dialects.
void registerCompilerTranslations(mlir::DialectRegistry &registry);

/// Compiles the public functions on tensors of a module, which stays as it is,
/// and of each model its forward, as a function of its name.
/// The bytes are the same for the same module, options and machine.
llvm::Expected<std::string> compileToArtifact(mlir::ModuleOp module,
                                              const CompileOptions &options);

/// Arguments, results and the sizes that the code takes for granted, as the
/// manifest has them. `lowered` is the function after phase `linalg` of the CPU
/// pipeline.
llvm::Expected<llvm::json::Object> describeFunction(mlir::func::FuncOp function,
                                                    mlir::func::FuncOp lowered);

/// SHA-256 of the module without fused ops, as text without locations: what a
/// module that was made from the same layers has as well.
llvm::Expected<std::string> getLayersDigest(mlir::ModuleOp module);

} // namespace fuse

#endif // FUSE_ARTIFACT_COMPILER_H
