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

/// Whether ptxas assembles PTX. Otherwise the driver does it.
enum class Assemble { Never, IfPossible, Always };

/// Called with every context that the compiler creates for a thread, for
/// example to trace it. The result is kept as long as the context.
using ContextObserver =
    std::function<std::shared_ptr<void>(mlir::MLIRContext &)>;

/// Targets and options of a compilation.
struct CompileOptions {
  /// Code for the CPU: a processor name of LLVM, "native", or empty for none. A
  /// level such as "x86-64-v3" runs on every machine that supports it.
  std::string cpu = "native";
  /// Whether to link the code for the CPU, so that it can be loaded without
  /// LLVM.
  bool link = false;
  /// Code for a GPU, such as "sm_90a"; empty for none.
  std::string chip;
  /// Whether the scheduled path may be used. The portable path compiles the ops
  /// that it does not support.
  bool scheduled = true;
  /// Largest number of tokens that scheduled kernels support in functions with
  /// a dynamic number of tokens. `multiprocessors` is the number of SMs they
  /// are made for.
  int64_t tokens = 16384;
  int64_t multiprocessors = 132;
  /// Table of fuse-tune whose schedules take precedence; empty for none.
  std::string schedules;
  /// Whether to stop at plans. An artifact then has no code, so that only its
  /// manifest is of use.
  bool planOnly = false;
  Assemble assemble = Assemble::Never;
  /// Path of ptxas; empty to search for it.
  std::string ptxas;
  /// Directories that are searched for the linker before PATH.
  std::vector<std::string> toolDirectories;
  ContextObserver observe;
};

/// Registers the translations that a compilation requires in addition to the
/// dialects.
void registerCompilerTranslations(mlir::DialectRegistry &registry);

/// Compiles the public functions on tensors of a module and the forward
/// function of each model, under the model's name. The module is not changed.
/// Equal modules, options and machines give equal bytes.
llvm::Expected<std::string> compileToArtifact(mlir::ModuleOp module,
                                              const CompileOptions &options);

/// Describes arguments, results and the sizes that the code assumes, in the
/// form of the manifest. `lowered` is the function after phase `linalg` of the
/// CPU pipeline.
llvm::Expected<llvm::json::Object> describeFunction(mlir::func::FuncOp function,
                                                    mlir::func::FuncOp lowered);

/// SHA-256 of the module's text with fused ops decomposed and without
/// locations. Modules made of the same layers have the same digest.
llvm::Expected<std::string> getLayersDigest(mlir::ModuleOp module);

} // namespace fuse

#endif // FUSE_ARTIFACT_COMPILER_H
