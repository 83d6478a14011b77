//===- BindSlots.cpp - Bind slots to kernels ------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/Passes.h"
#include "fuse/Slots/SlotBinding.h"
#include "fuse/Support/OutputFile.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/StringExtras.h"

namespace fuse {
#define GEN_PASS_DEF_BINDSLOTSPASS
#include "fuse/Slots/Passes.h.inc"
} // namespace fuse

using namespace mlir;
using namespace fuse;

namespace {

struct BindSlots : fuse::impl::BindSlotsPassBase<BindSlots> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (reportFormat != "text" && reportFormat != "json") {
      module.emitError() << "unknown report format '" << reportFormat
                         << "', expected text or json";
      return signalPassFailure();
    }
    llvm::Expected<SlotConfig> parsed = getConfig();
    if (!parsed) {
      module.emitError() << llvm::toString(parsed.takeError());
      return signalPassFailure();
    }
    FailureOr<SlotReport> bound =
        bindSlots(module, getKernelRegistry(&getContext()), *parsed);
    if (failed(bound) || failed(write(*bound)))
      return signalPassFailure();
    warn(*bound);
    for (const SlotCallReport &call : bound->calls)
      ++(call.kernel.empty() ? numUnbound : numBound);
  }

private:
  /// The settings of the file, extended by the options.
  llvm::Expected<SlotConfig> getConfig() {
    SlotConfig result;
    if (!config.empty()) {
      llvm::Expected<SlotConfig> file = SlotConfig::parseFile(config);
      if (!file)
        return file.takeError();
      result = std::move(*file);
    }
    for (const std::string &text : bind)
      if (llvm::Error error = result.addBinding(text))
        return std::move(error);
    llvm::append_range(result.kernels, kernels);
    llvm::append_range(result.only, only);
    auto replace = [](std::string &value, const std::string &option) {
      if (!option.empty())
        value = option;
    };
    replace(result.preset, preset);
    replace(result.otherwise, otherwise);
    replace(result.target, target);
    replace(result.mode, mode);
    result.rebind |= rebind;
    result.force |= force;
    return result;
  }

  LogicalResult write(const SlotReport &bound) {
    auto print = [&](llvm::raw_ostream &os) {
      if (reportFormat == "json")
        bound.printJSON(os);
      else
        bound.print(os);
    };
    if (report.empty())
      return success();
    if (report == "-") {
      print(llvm::errs());
      return success();
    }
    llvm::Error error = writeFile(report, [&](llvm::raw_ostream &os) {
      print(os);
      return llvm::Error::success();
    });
    if (error)
      return getOperation().emitError(llvm::toString(std::move(error)));
    return success();
  }

  /// Emits one warning for each slot with unbound calls.
  void warn(const SlotReport &bound) {
    std::map<std::string, SmallVector<StringRef>> unbound;
    for (const SlotCallReport &call : bound.calls)
      if (call.kernel.empty())
        unbound[(call.model.empty() ? "" : "model '" + call.model + "', ") +
                "slot '" + call.slot + "' (op=" + call.op +
                ", variant=" + call.variant + ")"]
            .push_back(call.path);
    for (auto &[slot, paths] : unbound)
      getOperation().emitWarning()
          << slot << " is unbound at " << paths.size() << " calls: '"
          << llvm::join(paths, "', '") << "'"
          << (llvm::is_contained(bound.withoutKernels, slot)
                  ? "; no kernel is registered for it"
                  : "");
  }
};

} // namespace
