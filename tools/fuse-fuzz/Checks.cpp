//===- Checks.cpp - Properties that must hold for every module ------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checks.h"
#include "fuse/Analysis/Equivalence.h"
#include "fuse/Conversion/Passes.h"
#include "fuse/Support/TextLimits.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fuse;

using Module = OwningOpRef<ModuleOp>;

static Module clone(ModuleOp module) { return module.clone(); }

std::string fuse::print(ModuleOp module, bool generic) {
  std::string text;
  llvm::raw_string_ostream os(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  if (generic)
    flags.printGenericOpForm();
  module->print(os, flags);
  return text;
}

/// Whether the short form cannot represent the locations of some ops. Named
/// linalg ops omit their body. Loops and branches omit the locations of
/// arguments and of terminators without operands.
static bool hidesLocations(ModuleOp module) {
  return module
      .walk([](Operation *op) {
        bool hides = isa<LoopLikeOpInterface, scf::IfOp>(op) ||
                     (isa<linalg::LinalgOp>(op) && !isa<linalg::GenericOp>(op));
        return WalkResult(failure(hides));
      })
      .wasInterrupted();
}

/// Checks that printing and parsing preserves the module, as text in both forms
/// and as bytecode.
static LogicalResult checkRoundTrip(ModuleOp module) {
  ParserConfig config(module.getContext());
  for (bool generic : {false, true}) {
    if (!generic && hidesLocations(module))
      continue;
    Module parsed = parseSourceString<ModuleOp>(print(module, generic), config);
    if (!parsed || failed(verifyIdentical(module, *parsed)))
      return failure();
  }
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeBytecodeToFile(module, os)))
    return module.emitError("has no bytecode");
  Module read = parseSourceString<ModuleOp>(bytes, config);
  return success(read && succeeded(verifyIdentical(module, *read)));
}

/// Forms kernels in every function.
static LogicalResult form(ModuleOp module, const KernelFormation &formation,
                          CheckCounts *counts = nullptr) {
  for (auto function : module.getOps<FunctionOpInterface>()) {
    FailureOr<KernelFormationCounts> formed = formKernels(function, formation);
    if (failed(formed))
      return failure();
    if (counts) {
      counts->fused += formed->fused;
      counts->refused += formed->refused;
    }
  }
  return verify(module);
}

/// Checks that unfusing `formed` gives `original`.
static LogicalResult checkUnfuse(ModuleOp original, ModuleOp formed) {
  Module module = clone(formed);
  return success(succeeded(unfuse(*module, {})) && succeeded(verify(*module)) &&
                 succeeded(verifyIdentical(original, *module)));
}

/// Checks that fused ops can be stored and then undone in another context.
static LogicalResult checkStored(ModuleOp original, ModuleOp formed) {
  Module parsed = parseSourceString<ModuleOp>(
      print(formed, hidesLocations(formed)), ParserConfig(formed.getContext()));
  return success(parsed && succeeded(checkUnfuse(original, *parsed)));
}

/// Hash of the computation in `region`, independent of the order of ops. Each
/// value gets a number from the op that defines it; the result is the sum over
/// all ops.
static size_t hashComputation(Region &region, DenseMap<Value, size_t> &known) {
  size_t sum = 0;
  for (Block &block : region) {
    for (BlockArgument argument : block.getArguments())
      known[argument] =
          llvm::hash_combine(argument.getArgNumber(), argument.getType());
    for (Operation &op : block) {
      llvm::hash_code hash =
          llvm::hash_combine(op.getName(), op.getAttrDictionary(), op.getLoc());
      for (Value operand : op.getOperands())
        hash = llvm::hash_combine(hash, known.lookup(operand));
      for (Type type : op.getResultTypes())
        hash = llvm::hash_combine(hash, type);
      for (Region &inner : op.getRegions())
        hash = llvm::hash_combine(hash, hashComputation(inner, known));
      for (OpResult result : op.getResults())
        known[result] = llvm::hash_combine(hash, result.getResultNumber());
      sum += size_t(hash);
    }
  }
  return sum;
}

static LogicalResult checkSameComputation(ModuleOp expected, ModuleOp actual) {
  DenseMap<Value, size_t> known;
  if (hashComputation(expected.getRegion(), known) ==
      hashComputation(actual.getRegion(), known))
    return success();
  return expected.emitError("is another computation once unfused");
}

/// Undoes kernels one by one. From the last to the first, the result is the
/// original; in any other order, it is the same computation.
static LogicalResult checkSiteBySite(ModuleOp original, ModuleOp formed,
                                     Random &random) {
  SmallVector<std::string> sites;
  formed.walk([&](FunctionOpInterface function) {
    SmallVector<std::string> own;
    function.walk(
        [&](FusedOpInterface op) { own.push_back(op.getSiteAttr().str()); });
    llvm::append_range(sites, llvm::reverse(own));
  });
  Module module = clone(formed);
  for (const std::string &site : sites)
    if (failed(unfuse(*module, {site})) || failed(verify(*module)))
      return failure();
  if (failed(verifyIdentical(original, *module)))
    return failure();

  for (size_t i = sites.size(); i > 1; --i)
    std::swap(sites[i - 1], sites[random.below(i)]);
  module = clone(formed);
  for (const std::string &site : sites)
    if (failed(unfuse(*module, {site})) || failed(verify(*module)))
      return failure();
  return checkSameComputation(original, *module);
}

/// The stored places of members are only a hint. If they cannot be restored,
/// since ops were moved or the text was edited, the computation is still the
/// same.
static LogicalResult checkWrongPlaces(ModuleOp original, ModuleOp formed,
                                      Random &random) {
  Module module = clone(formed);
  module->walk([&](FusedOpInterface op) {
    OpBuilder builder(op);
    Decomposition chain = op.decompose(builder);
    size_t numMembers = chain.members.size();
    for (Operation *member : llvm::reverse(chain.members))
      member->erase();
    SmallVector<int64_t> places = {0};
    while (places.size() < numMembers)
      places.push_back(places.back() + 1 + random.below(3));
    int64_t numOthers = places.back() + 1 - numMembers;
    for (size_t i = numMembers; i > 1; --i)
      if (random.percent(30))
        std::swap(places[i - 1], places[random.below(i)]);
    ProvenanceAttr old = op.getProvenanceAttr();
    op.setProvenanceAttr(ProvenanceAttr::get(
        op->getContext(), places, random.below(numOthers + 1),
        old ? old.getCommuted() : ArrayRef<ChainMember>(),
        old ? old.getAttributes() : ArrayRef<DictionaryAttr>()));
  });
  return success(succeeded(verify(*module)) && succeeded(unfuse(*module, {})) &&
                 succeeded(verify(*module)) &&
                 succeeded(checkSameComputation(original, *module)));
}

/// Checks that the found chains depend neither on the order of use lists nor on
/// how the module was created.
static LogicalResult checkUseOrder(ModuleOp original, ModuleOp formed,
                                   Random &random) {
  Module module = clone(original);
  auto shuffleUsers = [&](Value value) {
    SmallVector<unsigned> order = llvm::to_vector(llvm::seq<unsigned>(
        0, std::distance(value.use_begin(), value.use_end())));
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random.below(i)]);
    if (order.size() > 1)
      value.shuffleUseList(order);
  };
  module->walk([&](Operation *op) {
    for (Value result : op->getResults())
      shuffleUsers(result);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Value argument : block.getArguments())
          shuffleUsers(argument);
  });
  return success(succeeded(form(*module, {})) &&
                 succeeded(verifyIdentical(formed, *module)));
}

/// The text of a module after its functions went through the passes up to
/// linalg, on one or several threads.
static std::string runPasses(ModuleOp module, bool isParallel) {
  Module copy = clone(module);
  MLIRContext *context = module.getContext();
  context->enableMultithreading(isParallel);
  PassManager pm(context);
  pm.addNestedPass<func::FuncOp>(createFormKernelsPass());
  pm.addNestedPass<func::FuncOp>(createConvertFuseToLinalgPass());
  bool succeeds = succeeded(pm.run(*copy));
  context->disableMultithreading();
  return succeeds ? print(*copy, /*generic=*/false) : "";
}

/// Checks that the number of threads does not affect the result.
static LogicalResult checkThreads(ModuleOp module) {
  std::string alone = runPasses(module, false);
  if (alone.empty())
    return module.emitError("does not go through the passes");
  if (alone == runPasses(module, true))
    return success();
  return module.emitError("is lowered otherwise by several threads");
}

/// Forms kernels without some families and sites, and with relaxed rounding.
static LogicalResult checkOptions(ModuleOp original, ModuleOp formed,
                                  Random &random) {
  KernelFormation formation;
  for (StringRef family : {"gated_mlp", "mlp", "norm_linear", "fused_linear",
                           "norm_quantize", "act_quantize"})
    if (random.percent(50))
      formation.families.push_back(family.str());
  formed.walk([&](FusedOpInterface op) {
    if (random.percent(30))
      formation.disable.push_back(op.getSiteAttr().str());
  });
  formation.rounding = random.oneOf<const char *>({"exact", "relaxed"});
  Module module = clone(original);
  return success(succeeded(form(*module, formation)) &&
                 succeeded(checkRoundTrip(*module)) &&
                 succeeded(checkUnfuse(original, *module)));
}

/// Forms some families first and the rest later, as a pipeline may do.
static LogicalResult checkSteps(ModuleOp original, Random &random) {
  Module module = clone(original);
  for (unsigned step = 0; step < 3; ++step) {
    KernelFormation formation;
    if (step < 2)
      formation.families = {random.oneOf<const char *>(
          {"gated_mlp", "mlp", "norm_linear", "fused_linear", "norm_quantize",
           "act_quantize"})};
    if (failed(form(*module, formation)))
      return failure();
  }
  llvm::StringSet<> sites;
  WalkResult walk = module->walk([&](FusedOpInterface op) {
    if (sites.insert(op.getSiteAttr().getValue()).second)
      return WalkResult::advance();
    op.emitError("has the same site as another kernel: ") << op.getSiteAttr();
    return WalkResult::interrupt();
  });
  return success(!walk.wasInterrupted() &&
                 succeeded(checkUnfuse(original, *module)));
}

/// Checks that repaired scales need no further repair and that their kernels
/// can be undone.
static LogicalResult checkRepair(ModuleOp original, Random &random) {
  RepairScalesPassOptions options;
  options.unequal = random.oneOf<const char *>({"keep", "requantize"});
  options.inputs = random.oneOf<const char *>({"keep", "largest"});
  PassManager pm(original.getContext());
  pm.addNestedPass<func::FuncOp>(createRepairScalesPass(options));
  Module repaired = clone(original);
  if (failed(pm.run(*repaired)))
    return failure();
  Module again = clone(*repaired), formed = clone(*repaired);
  return success(succeeded(pm.run(*again)) &&
                 succeeded(verifyIdentical(*repaired, *again)) &&
                 succeeded(form(*formed, {})) &&
                 succeeded(checkUnfuse(*repaired, *formed)));
}

StringRef fuse::checkModule(ModuleOp module, Random &random,
                            CheckCounts &counts) {
  module.walk([&](Operation *) { ++counts.ops; });
  if (failed(verify(module)))
    return "verify";
  if (failed(checkRoundTrip(module)))
    return "round-trip";
  if (failed(checkUnfuse(module, module)))
    return "unfuse-unformed";
  Module formed = clone(module);
  if (failed(form(*formed, {}, &counts)))
    return "form";
  if (failed(checkRoundTrip(*formed)))
    return "round-trip-formed";
  if (failed(checkUnfuse(module, *formed)))
    return "unfuse";
  if (failed(checkStored(module, *formed)))
    return "unfuse-stored";
  if (failed(checkSiteBySite(module, *formed, random)))
    return "unfuse-site-by-site";
  if (failed(checkWrongPlaces(module, *formed, random)))
    return "unfuse-wrong-places";
  Module again = clone(*formed);
  if (failed(form(*again, {})) || failed(verifyIdentical(*formed, *again)))
    return "form-twice";
  if (failed(checkUseOrder(module, *formed, random)))
    return "use-order";
  if (random.percent(5) && failed(checkThreads(module)))
    return "threads";
  if (failed(checkOptions(module, *formed, random)))
    return "options";
  if (failed(checkSteps(module, random)))
    return "steps";
  if (failed(checkRepair(module, random)))
    return "repair";
  return {};
}

/// Drops empty lists of argument and result attributes, which are not printed.
static void dropEmptyAttributes(ModuleOp module) {
  module->walk([](FunctionOpInterface function) {
    SmallVector<DictionaryAttr> arguments, results;
    function.getAllArgAttrs(arguments);
    function.getAllResultAttrs(results);
    function.setAllArgAttrs(arguments);
    function.setAllResultAttrs(results);
  });
}

StringRef fuse::checkText(MLIRContext *context, StringRef text,
                          CheckCounts &counts) {
  if (llvm::Error error = checkTextLimits(text)) {
    consumeError(std::move(error));
    return {};
  }
  // MLIR 22 crashes on launches of functions that lack attributes.
  if (text.contains("gpu.launch") || text.contains("gpu.func"))
    return {};
  // MLIR 22 crashes on reassociations whose groups are empty.
  if (text.contains("expand_shape") || text.contains("collapse_shape"))
    return {};
  Module module;
  {
    // Refused text is not a failure.
    ScopedDiagnosticHandler quiet(context,
                                  [](Diagnostic &) { return success(); });
    module = parseSourceString<ModuleOp>(text, ParserConfig(context));
  }
  // Some upstream ops with an empty symbol name print text that does not parse.
  auto isNameless = [](Operation *op) {
    auto name = op->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName());
    return WalkResult(failure(name && name.empty()));
  };
  if (!module || module->walk(isNameless).wasInterrupted())
    return {};
  ++counts.parsed;
  dropEmptyAttributes(*module);
  if (failed(checkRoundTrip(*module)))
    return "round-trip";
  Module formed = clone(*module);
  if (failed(form(*formed, {}, &counts)))
    return "form";
  for (ModuleOp each : {*module, *formed}) {
    Module unfused = clone(each);
    if (failed(unfuse(*unfused, {})) || failed(verify(*unfused)))
      return "unfuse";
  }
  return {};
}
