//===- SlotChecks.cpp - Random modules with slots -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlotChecks.h"
#include "Checks.h"
#include "Execution.h"
#include "fuse/Analysis/Equivalence.h"
#include "fuse/Execution/Inputs.h"
#include "fuse/Interpreter/Interpreter.h"
#include "fuse/Slots/SlotBinding.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;
using llvm::formatv;

using Module = OwningOpRef<ModuleOp>;

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

/// A random configuration that a user may write. Most entries match a call.
static SlotConfig getConfig(ModuleOp module, Random &random) {
  SlotConfig config;
  SlotBindingMap &bind = config.request.bind;
  auto getKernel = [&](SlotOp slot) {
    if (random.percent(8))
      return random.oneOf<const char *>({"eager", "fuse", "mine"});
    return slot.getOp().starts_with("own_")
               ? random.oneOf<const char *>({"eager", "eager", "mine"})
               : random.oneOf<const char *>({"eager", "fuse"});
  };
  bool hasModel = SymbolTable::lookupSymbolIn(module, "m0") != nullptr;
  module.walk([&](SlotOp slot) {
    if (random.percent(30))
      bind[slot.getOp().str()] = getKernel(slot);
    if (random.percent(15))
      bind[(slot.getOp() + "/" + slot.getVariant()).str()] = getKernel(slot);
    if (random.percent(6))
      config.request.overrides.push_back(
          {random.oneOf<const char *>(
               {"layers.*", "layers.0", "f*", "**", "function.call0"}),
           {{slot.getOp().str(), getKernel(slot)}}});
    if (hasModel && random.percent(5))
      config.models["m0"].bind[slot.getOp().str()] = getKernel(slot);
  });
  config.otherwise = random.oneOf<const char *>({"", "", "eager"});
  config.target = random.oneOf<const char *>({"", "cpu", "sm_90", "sm_75"});
  config.mode =
      random.oneOf<const char *>({"", "training", "inference|compile"});
  if (random.percent(20))
    config.preset = "fuse";
  if (hasModel && random.percent(10))
    config.only = {"m0"};
  return config;
}

/// Binds slots by a configuration. Returns false and changes nothing if the
/// configuration is invalid.
static FailureOr<SlotReport> tryBind(ModuleOp module,
                                     const SlotConfig &config) {
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  return bindSlots(module, getKernelRegistry(module.getContext()), config);
}

StringRef fuse::checkSlots(ModuleOp module, Random &random,
                           CheckCounts &counts) {
  module.walk([&](Operation *) { ++counts.ops; });
  ParserConfig parserConfig(module.getContext());
  Module parsed = parseSourceString<ModuleOp>(print(module), parserConfig);
  if (!parsed || failed(verifyIdentical(module, *parsed)))
    return "round-trip";
  for (unsigned i = 0; i < 4; ++i) {
    SlotConfig config = getConfig(module, random);
    Module bound = module.clone();
    FailureOr<SlotReport> report = tryBind(*bound, config);
    if (failed(report)) {
      ++counts.refused;
      if (failed(verifyIdentical(module, *bound)))
        return "bind-refused";
      continue;
    }
    for (const SlotCallReport &call : report->calls)
      counts.fused += !call.kernel.empty();
    if (failed(verify(*bound)))
      return "bind";
    Module stored = parseSourceString<ModuleOp>(print(*bound), parserConfig);
    if (!stored || failed(verifyIdentical(*bound, *stored)))
      return "round-trip-bound";
    // Binding again changes nothing, whether or not calls may be rebound.
    Module again = bound->clone();
    config.rebind = random.percent(50);
    if (failed(tryBind(*again, config)) ||
        failed(verifyIdentical(*bound, *again)))
      return "bind-twice";
    // Bind other kernels instead, and undo all bindings.
    SlotConfig other = getConfig(module, random);
    other.rebind = true;
    Module rebound = stored->clone();
    if (succeeded(tryBind(*rebound, other)) && failed(verify(*rebound)))
      return "rebind";
    for (ModuleOp each : {*bound, *stored, *rebound})
      if (failed(unbindSlots(each)) || failed(verify(each)) ||
          failed(verifyIdentical(module, each)))
        return "unbind";
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Runs `@f0` and similar functions with their calls bound in one way.
static StringRef runBound(ModuleOp module, func::FuncOp written, StringRef name,
                          ArrayRef<HostTensor> inputs, StringRef kernel,
                          Random &random, CheckCounts &counts) {
  auto fail = [&](llvm::Error error) {
    written.emitError(llvm::toString(std::move(error)));
    return "run";
  };
  Module bound = module.clone();
  SlotConfig config;
  config.otherwise = "eager";
  if (kernel == "fuse")
    config.preset = "fuse";
  if (failed(bindSlots(*bound, getKernelRegistry(module.getContext()), config)))
    return "bind";
  auto function = findFunction(*bound, name);
  if (!function)
    return fail(function.takeError());
  auto program = Program::compile(*function, random.percent(30));
  if (!program)
    return fail(program.takeError());
  auto results = program->run(inputs);
  if (!results)
    return fail(results.takeError());
  Interpreter interpreter;
  auto expected = interpreter.run(written, inputs);
  if (!expected)
    return fail(expected.takeError());
  ++counts.cases;
  for (const Interval &interval : expected->front().values) {
    ++counts.values;
    counts.exact += interval.isPoint();
  }
  std::optional<int64_t> place =
      findOutside(expected->front(), results->front());
  if (!place)
    return {};
  const Interval &interval = (*expected)[0].values[*place];
  written.emitError() << formatv(
      "@{0} bound to {1} gives {2:e9} at {3}, but has to be in [{4:e9}, "
      "{5:e9}]",
      name, kernel, results->front().get(*place), *place, interval.lo,
      interval.hi);
  return "bound-contract";
}

StringRef fuse::runSlots(ModuleOp module, Random &random, CheckCounts &counts) {
  if (failed(verify(module)))
    return "verify";
  // Separate the functions with calls from those without.
  Module calling = module.clone(), plain = module.clone();
  for (Operation &op : llvm::make_early_inc_range(*calling->getBody()))
    if (isa<ModelOp>(op))
      op.erase();
  for (Operation &op : llvm::make_early_inc_range(*plain->getBody())) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function || function.getSymName()[0] != 'g')
      op.erase();
  }
  for (auto written : plain->getOps<func::FuncOp>()) {
    std::string name = written.getSymName().str();
    auto signature = getSignature(written);
    if (!signature) {
      written.emitError(llvm::toString(signature.takeError()));
      return "run";
    }
    InputOptions options;
    options.seed = random.next();
    options.dims = {std::to_string(random.oneOf({0, 1, 2, 7, 17}))};
    auto inputs = createInputs(written, *signature, options);
    if (!inputs) {
      written.emitError(llvm::toString(inputs.takeError()));
      return "run";
    }
    Values values = random.oneOf({Values::Exact, Values::Normal});
    for (HostTensor &tensor : *inputs)
      changeValues(tensor, values, random);
    name[0] = 'f';
    ++counts.executed;
    for (StringRef kernel : {"eager", "fuse"})
      if (StringRef failed = runBound(*calling, written, name, *inputs, kernel,
                                      random, counts);
          !failed.empty())
        return failed;
  }
  return {};
}
