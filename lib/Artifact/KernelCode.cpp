//===- KernelCode.cpp - Code of one scheduled kernel ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/KernelCode.h"
#include "Memo.h"
#include "fuse/Artifact/Phase.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/Core/Sha256.h"
#include "fuse/Target/PTX.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

std::string fuse::serializeKernel(tile::KernelOp kernel) {
  auto from = kernel->getParentOfType<gpu::GPUModuleOp>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(from.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  auto kernels = gpu::GPUModuleOp::create(
      builder, from.getLoc(), from.getSymName(), from.getTargetsAttr());
  // Move the kernel there and back: cloning it would take half as long as
  // writing.
  Block *home = kernel->getBlock();
  Operation *next = kernel->getNextNode();
  kernel->moveBefore(kernels.getBody(), kernels.getBody()->begin());
  std::string bytecode;
  llvm::raw_string_ostream os(bytecode);
  // Writing fails only for old bytecode versions.
  (void)writeBytecodeToFile(*module, os);
  kernel->moveBefore(home, next ? next->getIterator() : home->end());
  return bytecode;
}

/// The chip of the target that planning has attached.
static StringRef getChip(ModuleOp module) {
  auto kernels = *module.getOps<gpu::GPUModuleOp>().begin();
  return cast<NVVM::NVVMTargetAttr>(kernels.getTargetsAttr()[0]).getChip();
}

Expected<std::string> fuse::compileKernel(StringRef bytecode,
                                          const DialectRegistry &dialects,
                                          const ContextObserver &observe) {
  MLIRContext context(dialects, MLIRContext::Threading::DISABLED);
  std::shared_ptr<void> observer;
  if (observe)
    observer = observe(context);
  std::string errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      errors += (errors.empty() ? "" : "\n") + diagnostic.str();
    return success();
  });
  auto fail = [&](const Twine &what) {
    return createStringError(errors.empty() ? what : what + ": " + errors);
  };
  static Memo<std::string> &memo = *new Memo<std::string>();
  std::string key;
  FailureOr<std::string> ptx = failure();
  llvm::Error error = llvm::Error::success();
  runPhase(&context, "kernel", [&] {
    auto module = parseSourceString<ModuleOp>(bytecode, &context);
    if (!module) {
      error = fail("a scheduled kernel cannot be read");
      return;
    }
    // Locations do not count. Bytecode contains them, text does not.
    llvm::raw_string_ostream(key) << *module;
    key = runtime::toHex(runtime::getDigest(key));
    if (std::optional<std::string> known = memo.find(key)) {
      ptx = std::move(*known);
      return;
    }
    PassManager pm(&context);
    buildHopperKernelPipeline(pm, HopperStage::PTX, getChip(*module));
    if (failed(runPasses(pm, *module))) {
      error = fail("the lowering of scheduled kernels failed");
      return;
    }
    ptx = getPTX(*module);
    if (failed(ptx))
      error = fail("the scheduled path made no PTX");
    else
      memo.add(key, *ptx);
  });
  if (error)
    return std::move(error);
  return std::move(*ptx);
}
