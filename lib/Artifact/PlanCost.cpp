//===- PlanCost.cpp - Launches and bytes of plans -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/PlanCost.h"
#include "fuse-c/Runtime.h"
#include "fuse/Artifact/ArtifactDraft.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Container.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Manifest.h"
#include "fuse/Runtime/Core/Tensors.h"
#include "fuse/Schedule/Chip.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"

#include <set>
#include <tuple>

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Plans in a manifest
//===----------------------------------------------------------------------===//

namespace {

/// Counts the plans of one function.
class FunctionCounter {
public:
  FunctionCounter(const runtime::Function &function, int64_t tokens)
      : function(function), tokens(tokens) {
    for (const runtime::Symbol &symbol : function.symbols)
      symbols.push_back(symbol.size.value_or(tokens));
    for (const runtime::TensorSpec &spec : function.arguments)
      addTensor(spec, nullptr);
    for (auto [i, spec] : llvm::enumerate(function.results))
      addTensor(spec, &function.resultSizes[i]);
  }

  Expected<PlanCost> countDevice() const;
  PlanCost countCPU() const;

private:
  using Sizes = std::vector<std::optional<runtime::Expression>>;
  void addTensor(const runtime::TensorSpec &spec, const Sizes *sizes);

  const runtime::Function &function;
  int64_t tokens;
  std::vector<int64_t> symbols;
  /// Shapes and bytes of arguments, followed by those of results.
  std::vector<std::vector<int64_t>> shapes;
  std::vector<int64_t> bytes;
};

/// The parts of workspace buffers that launches name by their offsets.
class WorkspaceParts {
public:
  WorkspaceParts(const runtime::DeviceCode &code,
                 const runtime::LaunchPlan &used, std::vector<int64_t> sizes)
      : sizes(std::move(sizes)) {
    // All plans share the first buffer.
    for (const runtime::LaunchPlan &plan : code.plans)
      for (const runtime::Launch &launch : plan.launches)
        for (const runtime::KernelArgument &argument : launch.arguments)
          if (isWorkspace(argument) && (&plan == &used || argument.index == 0))
            starts.insert({argument.index, argument.offset});
  }

  static bool isWorkspace(const runtime::KernelArgument &argument) {
    using Kind = runtime::KernelArgument::Kind;
    return argument.kind == Kind::Workspace ||
           (argument.kind == Kind::TensorMap && argument.inWorkspace);
  }

  /// A part ends where the next one starts.
  int64_t getBytes(const runtime::KernelArgument &argument) const {
    auto next = starts.upper_bound({argument.index, argument.offset});
    int64_t end = next != starts.end() && next->first == argument.index
                      ? int64_t(next->second)
                      : sizes[argument.index];
    return std::max<int64_t>(end - int64_t(argument.offset), 0);
  }

private:
  std::vector<int64_t> sizes;
  std::set<std::pair<size_t, uint64_t>> starts;
};

} // namespace

void FunctionCounter::addTensor(const runtime::TensorSpec &spec,
                                const Sizes *sizes) {
  std::vector<int64_t> shape = spec.shape;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] >= 0)
      continue;
    shape[dim] = sizes && (*sizes)[dim]
                     ? (*sizes)[dim]->evaluate(symbols.data())
                     : tokens;
  }
  bytes.push_back(runtime::getNumBytes(spec, shape.data()));
  shapes.push_back(std::move(shape));
}

Expected<PlanCost> FunctionCounter::countDevice() const {
  const runtime::DeviceCode &code = *function.device;
  std::vector<int64_t> values;
  for (runtime::Symbol::Place place : code.symbols)
    values.push_back(shapes[place.argument][place.dim]);
  int64_t first = 0;
  for (auto [i, number] : llvm::enumerate(function.tokens)) {
    int64_t value = number.evaluate(values.data());
    if (function.maxTokens && value > function.maxTokens)
      return createStringError("@" + function.name + " supports at most " +
                               Twine(function.maxTokens) + " tokens, got " +
                               Twine(value));
    if (i == 0)
      first = value;
  }
  const runtime::LaunchPlan &plan = code.getPlan(first);
  std::vector<int64_t> sizes;
  for (const runtime::Expression &size : plan.workspace)
    sizes.push_back(size.evaluate(values.data()));
  WorkspaceParts parts(code, plan, std::move(sizes));

  PlanCost cost;
  using Kind = runtime::KernelArgument::Kind;
  for (const runtime::Launch &launch : plan.launches) {
    if (!launch.isMade(values.data()))
      continue;
    ++cost.launches;
    std::set<std::tuple<int, size_t, uint64_t>> seen;
    auto add = [&](int kind, size_t index, uint64_t offset, int64_t size) {
      if (seen.insert({kind, index, offset}).second)
        cost.bytes += size;
    };
    for (const runtime::KernelArgument &argument : launch.arguments) {
      if (WorkspaceParts::isWorkspace(argument))
        add(0, argument.index, argument.offset, parts.getBytes(argument));
      else if (argument.kind == Kind::Packed)
        add(1, argument.index, 0, code.packed[argument.index].bytes);
      else if (argument.kind == Kind::Tensor ||
               argument.kind == Kind::TensorMap)
        add(2, argument.index, 0, bytes[argument.index]);
    }
  }
  return cost;
}

PlanCost FunctionCounter::countCPU() const {
  const runtime::CpuPlan &plan = *function.cpu->plan;
  int64_t rows = 1;
  for (int64_t size : ArrayRef(shapes[plan.input]).drop_back())
    rows *= size;
  PlanCost cost;
  cost.launches = plan.phases.size();
  using Kind = runtime::CpuPhase::Argument::Kind;
  for (const runtime::CpuPhase &phase : plan.phases)
    for (const runtime::CpuPhase::Argument &argument : phase.arguments)
      cost.bytes += argument.kind == Kind::Tensor ? bytes[argument.index]
                    : argument.kind == Kind::Packed
                        ? int64_t(plan.packed[argument.index].bytes)
                        : int64_t(plan.workspace[argument.index]) * rows;
  return cost;
}

//===----------------------------------------------------------------------===//
// Loop nests
//===----------------------------------------------------------------------===//

static int64_t countBytes(Value value, int64_t tokens) {
  auto type = dyn_cast<MemRefType>(value.getType());
  if (!type || !type.getElementType().isIntOrIndexOrFloat())
    return 0;
  int64_t count = 1;
  for (int64_t size : type.getShape())
    count *= ShapedType::isDynamic(size) ? tokens : size;
  Type element = type.getElementType();
  return count * (element.isIndex()
                      ? 8
                      : llvm::divideCeil(element.getIntOrFloatBitWidth(), 8u));
}

/// Counts the structured ops of `function`, and of the functions it calls but
/// for its `callers`.
static PlanCost countNests(func::FuncOp function, int64_t tokens,
                           SmallPtrSetImpl<Operation *> &callers) {
  PlanCost cost;
  if (!callers.insert(function).second)
    return cost;
  function.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
          call, call.getCalleeAttr());
      if (callee)
        cost += countNests(callee, tokens, callers);
    } else if (isa<linalg::LinalgOp, memref::CopyOp>(op)) {
      ++cost.launches;
      llvm::SmallPtrSet<Value, 8> buffers(op->operand_begin(),
                                          op->operand_end());
      for (Value buffer : buffers)
        cost.bytes += countBytes(buffer, tokens);
    }
  });
  callers.erase(function);
  return cost;
}

/// Lowers a module to structured ops on buffers, as the portable path for CPUs
/// does.
static llvm::Error lowerToBuffers(ModuleOp module) {
  for (const Phase &phase : getCPUPhases(CPUPipelineOptions())) {
    PassManager pm(module.getContext());
    phase.build(pm);
    if (failed(pm.run(module)))
      return createStringError("phase '" + phase.name +
                               "' of the CPU pipeline failed");
    if (phase.name == "buffers")
      break;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

static Expected<std::vector<FunctionCost>>
countManifest(ModuleOp module, const CompileOptions &options, int64_t tokens) {
  Expected<ArtifactDraft> draft = draftArtifact(module, options);
  if (!draft)
    return draft.takeError();
  Expected<std::string> bytes = writeArtifact(std::move(*draft));
  if (!bytes)
    return bytes.takeError();
  runtime::Manifest manifest =
      runtime::readManifest(runtime::readContainer(*bytes), /*hasSource=*/true);
  OwningOpRef<ModuleOp> nests;
  std::vector<FunctionCost> costs;
  for (const runtime::Function &function : manifest.functions) {
    FunctionCounter counter(function, tokens);
    if (function.device) {
      Expected<PlanCost> cost = counter.countDevice();
      if (!cost)
        return cost.takeError();
      costs.push_back({function.name, *cost});
    } else if (function.cpu && function.cpu->plan) {
      costs.push_back({function.name, counter.countCPU()});
    } else {
      if (!nests) {
        nests = cast<ModuleOp>(module->clone());
        if (llvm::Error error = lowerToBuffers(*nests))
          return std::move(error);
      }
      auto lowered = nests->lookupSymbol<func::FuncOp>(function.name);
      if (!lowered)
        return createStringError("@" + function.name + " has no code");
      SmallPtrSet<Operation *, 4> callers;
      costs.push_back({function.name, countNests(lowered, tokens, callers)});
    }
  }
  return costs;
}

Expected<std::vector<FunctionCost>>
fuse::countPlans(ModuleOp module, const CompileOptions &options,
                 int64_t tokens) {
  // A context of its own has no handlers: remarks about kernels that are only
  // counted would be wrong.
  DialectRegistry dialects;
  module.getContext()->getDialectRegistry().appendTo(dialects);
  MLIRContext context(dialects, MLIRContext::Threading::DISABLED);
  std::string text, problems;
  llvm::raw_string_ostream(text) << module;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      problems += ": " + diagnostic.str();
  });
  auto copy = parseSourceString<ModuleOp>(text, &context);
  if (!copy)
    return createStringError("the module cannot be read again" + problems);
  CompileOptions chosen = options;
  chosen.planOnly = true;
  chosen.link = false;
  Expected<std::vector<FunctionCost>> costs = std::vector<FunctionCost>();
  try {
    costs = countManifest(*copy, chosen, tokens);
  } catch (const runtime::Failure &failure) {
    return createStringError(failure.getMessage());
  }
  if (!costs)
    return createStringError(llvm::toString(costs.takeError()) + problems);
  return costs;
}

llvm::Error fuse::setTarget(ExplainOptions &options, StringRef chip,
                            StringRef cpu) {
  if (chip.empty() && cpu.empty())
    return llvm::Error::success();
  if (!chip.empty() && !cpu.empty())
    return createStringError("savings are counted for one target, got '" +
                             chip + "' and '" + cpu + "'");
  CompileOptions target;
  target.chip = chip.str();
  target.cpu = cpu.str();
  std::string problem;
  if (!chip.empty() && failed(lookupChip(chip, [&](const Twine &message) {
        problem = message.str();
        return failure();
      })))
    return createStringError(problem);
  std::vector<std::string> levels = runtime::getCpuLevels(false);
  if (chip.empty() && cpu != "native" && !llvm::is_contained(levels, cpu))
    return createStringError("unknown processor '" + cpu +
                             "'; there are native, " +
                             llvm::join(levels, ", "));
  options.countedFor = chip.empty() ? "the CPU" : chip.str();
  options.countPlans = [target, tokens = options.tokens](ModuleOp module) {
    return countPlans(module, target, tokens);
  };
  return llvm::Error::success();
}
