//===- DeviceCode.cpp - Code for GPUs in an artifact ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/DeviceCode.h"
#include "HybridLaunchPlan.h"
#include "LaunchPlanWriter.h"
#include "fuse/Artifact/KernelCode.h"
#include "fuse/Artifact/Phase.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/Core/Concurrency.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Target/PTX.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Base64.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

/// Alignment of constants in bytes: that of buffers from a CUDA allocator.
static constexpr size_t kConstantAlignment = 256;

static llvm::Error run(PassManager &pm, ModuleOp module, StringRef what) {
  if (failed(runPasses(pm, module)))
    return createStringError("the " + what + " failed");
  return llvm::Error::success();
}

namespace {

/// The launches for a range of tokens. Without a bound, they serve all numbers.
struct LaunchRange {
  std::optional<int64_t> upTo;
  SmallVector<tile::LaunchOp> launches;
};

/// A scheduled kernel of a fused op.
struct KernelUse {
  std::string function, kernel;
  Location loc;
};

/// Compiles the GPU code of a module.
class DeviceCompiler {
public:
  DeviceCompiler(ModuleOp module, ArrayRef<func::FuncOp> functions,
                 ArrayRef<json::Object> descriptions,
                 const CompileOptions &options)
      : module(module), functions(functions), descriptions(descriptions),
        options(options) {}

  Expected<DeviceProgram> compile();

private:
  llvm::Error compileScheduled();
  llvm::Error writeScheduled(func::FuncOp function,
                             ArrayRef<LaunchRange> ranges);
  size_t useKernel(tile::LaunchOp launch, std::vector<size_t> &modules);
  void takeMixed(ModuleOp planned);
  llvm::Error compilePortable();
  llvm::Error addPortable(json::Object plan, const json::Object &description,
                          const json::Object *external);
  Expected<size_t> addExternal(StringRef name, const json::Object &code);
  Expected<json::Array> addConstants(const json::Array &constants);

  ModuleOp module;
  ArrayRef<func::FuncOp> functions;
  ArrayRef<json::Object> descriptions;
  const CompileOptions &options;
  DeviceProgram program;
  /// The module that the portable path compiles. If scheduled kernels implement
  /// a part of a function, it contains that function with their launches.
  OwningOpRef<ModuleOp> portable;
  /// Functions that the scheduled path implements completely.
  llvm::StringSet<> done;
  /// The scheduled ops in `portable`.
  SmallVector<HybridOp> mixedOps;
  /// Modules by the names of their binaries; generated code has no name.
  llvm::StringMap<size_t> moduleIndices;
  /// Offsets of constants by their content.
  llvm::StringMap<size_t> constantOffsets;
  /// Modules of the scheduled path by their only kernel.
  llvm::StringMap<size_t> kernelIndices;
  /// Kernels that were made, in program order.
  SmallVector<KernelUse> uses;
};

} // namespace

//===----------------------------------------------------------------------===//
// The scheduled path
//===----------------------------------------------------------------------===//

/// The kernels of each fused op that has some. Several ranges of tokens may
/// share one.
static SmallVector<KernelUse> findKernelUses(ModuleOp planned) {
  SmallVector<KernelUse> uses;
  llvm::SmallDenseSet<std::pair<Attribute, Attribute>> seen;
  planned.walk([&](tile::LaunchOp launch) {
    auto function = launch->getParentOfType<func::FuncOp>();
    StringAttr kernel = launch.getKernel().getLeafReference();
    LocationAttr loc = launch.getLoc();
    if (function && seen.insert({loc, kernel}).second)
      uses.push_back({function.getSymName().str(), kernel.str(), loc});
  });
  return uses;
}

/// The launches in a block if they are those of one fused op on arguments of
/// the function whose results the terminator returns unchanged; otherwise
/// nothing. All launches of an op share one workspace.
static SmallVector<tile::LaunchOp> getLaunches(Block &block) {
  SmallVector<tile::LaunchOp> launches;
  for (Operation &op : block.without_terminator()) {
    auto launch = dyn_cast<tile::LaunchOp>(op);
    if (!launch || !launch.getPlan() ||
        launches.empty() == sharesWorkspace(launch))
      return {};
    for (Value input : launch.getInputs())
      if (!isa<BlockArgument>(input))
        return {};
    launches.push_back(launch);
  }
  if (launches.empty() ||
      block.getTerminator()->getOperands() != launches.back().getResults())
    return {};
  return launches;
}

/// The ranges of a function that is a single fused op; otherwise nothing.
static SmallVector<LaunchRange> getRanges(func::FuncOp function) {
  if (!function.getBody().hasOneBlock())
    return {};
  Block &block = function.front();
  auto dispatch = dyn_cast<tile::DispatchOp>(block.front());
  if (!dispatch) {
    SmallVector<LaunchRange> ranges = {{std::nullopt, getLaunches(block)}};
    return ranges[0].launches.empty() ? SmallVector<LaunchRange>() : ranges;
  }
  Operation *returnOp = block.getTerminator();
  if (dispatch->getNextNode() != returnOp ||
      returnOp->getOperands() != dispatch.getResults())
    return {};
  SmallVector<LaunchRange> ranges;
  for (auto [bound, region] :
       llvm::zip_equal(dispatch.getBounds(), dispatch.getRanges())) {
    ranges.push_back({bound, getLaunches(region.front())});
    if (ranges.back().launches.empty())
      return {};
  }
  return ranges;
}

/// The number of tokens of an argument that has one token per row: the product
/// of all dimensions but the last. Adds a symbol for each of them to `symbols`.
static json::Value countTokens(BlockArgument input, json::Array &symbols) {
  int64_t rank = cast<RankedTensorType>(input.getType()).getRank();
  json::Value tokens = 1;
  for (int64_t dim = 0; dim + 1 < rank; ++dim) {
    std::string symbol = ("s" + Twine(dim)).str();
    symbols.push_back(json::Array{input.getArgNumber(), dim});
    tokens = dim == 0 ? json::Value(symbol)
                      : json::Array{"mul", std::move(tokens), symbol};
  }
  return tokens;
}

llvm::Error DeviceCompiler::writeScheduled(func::FuncOp function,
                                           ArrayRef<LaunchRange> ranges) {
  json::Array packed, alternatives, symbols;
  // The first operand has one row per token.
  tile::LaunchOp any = ranges[0].launches.back();
  json::Value tokens =
      countTokens(cast<BlockArgument>(any.getInputs()[0]), symbols);
  TilePlanWriter writer(packed);
  std::vector<size_t> modules;
  int64_t maxTokens = 0, zeroed = 0;
  for (const LaunchRange &range : ranges) {
    // The plan of every launch has the common fields.
    tile::LaunchOp last = range.launches.back();
    WorkspaceParts parts(last.getPlanAttr(), zeroed);
    json::Array sizes = parts.getSizes(tokens);
    json::Array entries;
    for (tile::LaunchOp launch : range.launches) {
      TilePlaces places;
      places.parts = range.upTo ? &parts : nullptr;
      places.buffers = llvm::to_vector(llvm::seq<int64_t>(0, sizes.size() + 1));
      for (Value input : launch.getInputs()) {
        int64_t number = cast<BlockArgument>(input).getArgNumber();
        places.tensors.push_back(json::Object{{"tensor", number}});
      }
      places.numOperands = places.tensors.size();
      // All launches of an op may write the results of the last one.
      for (int64_t i = 0, e = function.getNumResults(); i < e; ++i)
        places.tensors.push_back(
            json::Object{{"tensor", function.getNumArguments() + i}});
      places.tokens = tokens;
      json::Object entry =
          writer.write(launch.getKernel().getLeafReference().getValue(),
                       launch.getPlanAttr(), places);
      entry["module"] = useKernel(launch, modules);
      entries.push_back(std::move(entry));
    }
    json::Object plan{{"launches", std::move(entries)}};
    if (range.upTo) {
      maxTokens = *range.upTo;
      zeroed = parts.getZeroedEnd();
      plan["upto"] = maxTokens;
      plan["workspace"] = std::move(sizes);
    } else {
      maxTokens = writer.getInt(last.getPlanAttr(), "max_tokens");
      zeroed = writer.getInt(last.getPlanAttr(), "zeroed_bytes");
      plan["workspace"] =
          json::Array{writer.getInt(last.getPlanAttr(), "workspace_bytes")};
    }
    alternatives.push_back(std::move(plan));
  }
  json::Object cuda{{"path", "scheduled"},     {"symbols", std::move(symbols)},
                    {"max_tokens", maxTokens}, {"tokens", json::Array{tokens}},
                    {"zeroed_bytes", zeroed},  {"packed", std::move(packed)}};
  if (ranges[0].upTo) {
    // All alternatives have the buffer of zeros, whose size is known only now.
    for (json::Value &plan : alternatives) {
      json::Array &sizes = *plan.getAsObject()->getArray("workspace");
      sizes.insert(sizes.begin(), zeroed);
    }
    cuda["alternatives"] = std::move(alternatives);
  } else {
    for (auto &[key, value] : *alternatives[0].getAsObject())
      cuda[key] = std::move(value);
  }
  if (!writer.getProblem().empty())
    return createStringError(writer.getProblem());
  program.functions.push_back(
      {function.getSymName().str(), std::move(cuda), std::move(modules)});
  return llvm::Error::success();
}

/// The number in `modules` of the module with a launch's kernel. Each kernel
/// has its own module. The runtime loads only those for the numbers of tokens
/// in use, and several at the same time.
size_t DeviceCompiler::useKernel(tile::LaunchOp launch,
                                 std::vector<size_t> &modules) {
  StringRef name = launch.getKernel().getLeafReference().getValue();
  auto [it, isNew] = kernelIndices.try_emplace(name, program.modules.size());
  if (isNew) {
    auto kernel = SymbolTable::lookupNearestSymbolFrom<tile::KernelOp>(
        launch, launch.getKernel());
    program.modules.push_back({"", "", "", serializeKernel(kernel)});
  }
  auto place = llvm::find(modules, it->second);
  if (place == modules.end())
    place = modules.insert(place, it->second);
  return place - modules.begin();
}

/// Moves functions that mix tile kernels with other ops into the portable
/// module.
void DeviceCompiler::takeMixed(ModuleOp planned) {
  MLIRContext *context = module.getContext();
  context
      ->loadDialect<bufferization::BufferizationDialect, memref::MemRefDialect,
                    gpu::GPUDialect, NVVM::NVVMDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(portable->getBody());
  for (func::FuncOp function : functions) {
    StringRef name = function.getSymName();
    if (done.contains(name))
      continue;
    OwningOpRef<func::FuncOp> clone(
        cast<func::FuncOp>(planned.lookupSymbol(name)->clone()));
    std::vector<size_t> modules;
    SmallVector<tile::LaunchOp> launches;
    planned.lookupSymbol(name)->walk(
        [&](tile::LaunchOp launch) { launches.push_back(launch); });
    if (!lowerHybridOps(*clone, mixedOps))
      continue;
    for (tile::LaunchOp launch : launches)
      (void)useKernel(launch, modules);
    portable->lookupSymbol(name)->erase();
    builder.insert(clone.release());
  }
  if (mixedOps.empty())
    return;
  // Slots have been lowered, so functions launch kernels of registered files.
  for (auto binary : planned.getOps<gpu::BinaryOp>())
    builder.clone(*binary)->setAttr(kExternalAttrName, builder.getUnitAttr());
  // Scheduled kernels are modules of their own. Their launches need a symbol to
  // refer to, so add an empty binary.
  for (auto kernels : planned.getOps<gpu::GPUModuleOp>()) {
    auto target = NVVM::NVVMTargetAttr::get(context, /*optLevel=*/3,
                                            "nvptx64-nvidia-cuda", "sm_90a");
    auto nothing = gpu::ObjectAttr::get(
        context, target, gpu::CompilationTarget::Assembly,
        builder.getStringAttr(""), /*properties=*/nullptr, /*kernels=*/nullptr);
    gpu::BinaryOp::create(builder, kernels.getLoc(), kernels.getName(),
                          /*offloadingHandler=*/nullptr,
                          builder.getArrayAttr({Attribute(nothing)}))
        ->setAttr(kExternalAttrName, builder.getUnitAttr());
  }
  (*portable)->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                       builder.getUnitAttr());
}

llvm::Error DeviceCompiler::compileScheduled() {
  OwningOpRef<ModuleOp> planned(module.clone());
  HopperPipelineOptions pipeline;
  pipeline.tokens = options.tokens;
  pipeline.dispatch = true;
  pipeline.multiprocessors = options.multiprocessors;
  pipeline.table = options.schedules;
  PassManager planning(module.getContext());
  buildHopperPlanPipeline(planning, pipeline);
  if (llvm::Error error = run(planning, *planned, "scheduled path"))
    return error;
  uses = findKernelUses(*planned);

  for (func::FuncOp function : functions) {
    auto lowered = planned->lookupSymbol<func::FuncOp>(function.getSymName());
    SmallVector<LaunchRange> ranges = getRanges(lowered);
    if (ranges.empty())
      continue;
    if (llvm::Error error = writeScheduled(lowered, ranges))
      return error;
    done.insert(function.getSymName());
  }
  if (options.mixed)
    takeMixed(*planned);
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The portable path
//===----------------------------------------------------------------------===//

/// The first dimension of an argument that equals the given dimension of an
/// argument or a result.
static json::Array getFirstPlace(json::Array place,
                                 const json::Object &description) {
  const json::Array &symbols = *description.getArray("symbols");
  int64_t numArguments = description.getArray("arguments")->size();
  if (int64_t argument = *place[0].getAsInteger(); argument >= numArguments) {
    const json::Object &result =
        *(*description.getArray("results"))[argument - numArguments]
             .getAsObject();
    const json::Value &size =
        (*result.getArray("sizes"))[*place[1].getAsInteger()];
    unsigned symbol;
    StringRef text = size.getAsString().value_or("");
    if (!text.consume_front("s") || text.getAsInteger(10, symbol))
      return place;
    place =
        *(*symbols[symbol].getAsObject()->getArray("places"))[0].getAsArray();
  }
  for (const json::Value &symbol : symbols) {
    const json::Array &places = *symbol.getAsObject()->getArray("places");
    if (llvm::is_contained(places, json::Value(json::Array(place))))
      return *places[0].getAsArray();
  }
  return place;
}

static void renameSymbols(json::Value &expression,
                          ArrayRef<std::string> names) {
  unsigned symbol;
  if (json::Array *list = expression.getAsArray()) {
    for (json::Value &operand : *list)
      renameSymbols(operand, names);
  } else if (StringRef text = expression.getAsString().value_or("");
             text.consume_front("s") && !text.getAsInteger(10, symbol)) {
    expression = names[symbol];
  }
}

/// Gives equal sizes one symbol; the runtime checks before a launch that they
/// are equal. Sizes of results get the symbols of arguments.
static void unifySymbols(json::Object &plan, const json::Object &description) {
  json::Array places;
  std::vector<std::string> names;
  for (json::Value &value : *plan.getArray("symbols")) {
    json::Value place = getFirstPlace(*value.getAsArray(), description);
    auto it = llvm::find(places, place);
    names.push_back("s" + std::to_string(it - places.begin()));
    if (it == places.end())
      places.push_back(std::move(place));
  }
  plan["symbols"] = std::move(places);
  for (json::Value &bytes : *plan.getArray("workspace"))
    renameSymbols(bytes, names);
  for (json::Value &launch : *plan.getArray("launches")) {
    for (json::Value &size : *launch.getAsObject()->getArray("grid"))
      renameSymbols(size, names);
    for (json::Value &argument : *launch.getAsObject()->getArray("args"))
      if (json::Value *size = argument.getAsObject()->get("size"))
        renameSymbols(*size, names);
  }
}

/// Converts an argument of a kernel to the form of the manifest.
static void convertArgument(json::Value &value) {
  json::Object &argument = *value.getAsObject();
  if (std::optional<int64_t> index = argument.getInteger("arg"))
    value = json::Object{{"tensor", *index}};
}

/// Adds a module from a file that a user registered.
Expected<size_t> DeviceCompiler::addExternal(StringRef name,
                                             const json::Object &code) {
  auto [it, isNew] = moduleIndices.try_emplace(name, program.modules.size());
  if (!isNew)
    return it->second;
  DeviceModule made;
  made.source = name.str();
  if (std::optional<StringRef> ptx = code.getString("ptx")) {
    made.ptx = ptx->str();
  } else {
    std::vector<char> bytes;
    if (llvm::Error error =
            llvm::decodeBase64(code.getString("cubin").value_or(""), bytes))
      return std::move(error);
    made.cubin.assign(bytes.begin(), bytes.end());
  }
  program.modules.push_back(std::move(made));
  return it->second;
}

/// Adds constants of a plan, and returns their places.
Expected<json::Array>
DeviceCompiler::addConstants(const json::Array &constants) {
  json::Array places;
  for (const json::Value &value : constants) {
    std::vector<char> bytes;
    if (llvm::Error error = llvm::decodeBase64(
            value.getAsObject()->getString("data").value_or(""), bytes))
      return std::move(error);
    // Functions often share constants, such as rotary tables.
    StringRef content(bytes.data(), bytes.size());
    auto [it, isNew] =
        constantOffsets.try_emplace(content, program.constants.size());
    if (isNew) {
      program.constants.append(bytes.begin(), bytes.end());
      program.constants.resize(
          llvm::alignTo(program.constants.size(), kConstantAlignment));
    }
    places.push_back(json::Object{{"offset", int64_t(it->second)},
                                  {"bytes", int64_t(bytes.size())}});
  }
  return std::move(places);
}

llvm::Error DeviceCompiler::addPortable(json::Object plan,
                                        const json::Object &description,
                                        const json::Object *external) {
  DeviceFunction function;
  function.name = plan.getString("name")->str();
  auto getPlace = [&](size_t module) -> size_t {
    auto it = llvm::find(function.modules, module);
    if (it == function.modules.end())
      it = function.modules.insert(it, module);
    return it - function.modules.begin();
  };
  bool isMixed = false;
  unifySymbols(plan, description);
  for (json::Value &value : *plan.getArray("launches")) {
    json::Object &launch = *value.getAsObject();
    for (json::Value &argument : *launch.getArray("args"))
      convertArgument(argument);
    if (launch.get("tile")) {
      isMixed = true;
      continue;
    }
    size_t module = moduleIndices.lookup("");
    if (std::optional<StringRef> name = launch.getString("module")) {
      Expected<size_t> index = addExternal(*name, *external->getObject(*name));
      if (!index)
        return index.takeError();
      module = *index;
    }
    launch["module"] = getPlace(module);
  }
  if (isMixed) {
    auto mixed = writeHybridPlan(plan, mixedOps, [&](StringRef kernel) {
      return getPlace(kernelIndices.lookup(kernel));
    });
    if (!mixed)
      return mixed.takeError();
    function.cuda = std::move(*mixed);
  } else {
    for (StringRef key : {"workspace", "launches"})
      function.cuda[key] = std::move(*plan.get(key));
  }
  if (const json::Array *constants = plan.getArray("constants")) {
    Expected<json::Array> places = addConstants(*constants);
    if (!places)
      return places.takeError();
    function.cuda["constants"] = std::move(*places);
  }
  function.cuda["path"] = isMixed ? "mixed" : "portable";
  function.cuda["symbols"] = std::move(*plan.get("symbols"));
  program.functions.push_back(std::move(function));
  return llvm::Error::success();
}

llvm::Error DeviceCompiler::compilePortable() {
  for (auto function :
       llvm::make_early_inc_range(portable->getOps<func::FuncOp>()))
    if (done.contains(function.getSymName()))
      function.setPrivate();
  GPUPipelineOptions pipeline;
  pipeline.chip = options.chip;
  if (options.planOnly)
    pipeline.stage = "gpu";
  PassManager pm(module.getContext());
  if (llvm::Error error = buildGPUPipeline(pm, pipeline))
    return error;
  if (llvm::Error error = run(pm, *portable, "portable path"))
    return error;
  // Functions on tensors without elements launch no kernels.
  bool hasLaunch =
      portable->walk([](gpu::LaunchFuncOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  FailureOr<std::string> ptx = std::string();
  if (hasLaunch && !options.planOnly)
    ptx = getPTX(*portable);
  FailureOr<json::Value> plans = getLaunchPlans(*portable);
  if (failed(ptx) || failed(plans))
    return createStringError("the portable path made no PTX");
  if (!ptx->empty() || (hasLaunch && options.planOnly)) {
    moduleIndices[""] = program.modules.size();
    program.modules.push_back({std::move(*ptx), "", "", ""});
  }
  const json::Object &all = *plans->getAsObject();
  for (const json::Value &value : *all.getArray("functions")) {
    const json::Object &plan = *value.getAsObject();
    for (const json::Object &description : descriptions)
      if (description.getString("name") == plan.getString("name") &&
          !done.contains(*plan.getString("name")))
        if (llvm::Error error =
                addPortable(plan, description, all.getObject("modules")))
          return error;
  }
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Both
//===----------------------------------------------------------------------===//

/// Visits the launches of all ranges of tokens.
static void forEachLaunch(json::Object &cuda,
                          function_ref<void(json::Object &)> visit) {
  auto visitAll = [&](json::Object &plan) {
    for (json::Value &launch : *plan.getArray("launches"))
      visit(*launch.getAsObject());
  };
  json::Array *alternatives = cuda.getArray("alternatives");
  if (!alternatives)
    return visitAll(cuda);
  for (json::Value &plan : *alternatives)
    visitAll(*plan.getAsObject());
}

/// Emits a remark for each of the kernels that a plan launches. A kernel that
/// was made and is in no plan has none.
static void reportKernels(ArrayRef<KernelUse> uses, DeviceProgram &program) {
  for (DeviceFunction &function : program.functions) {
    llvm::StringSet<> launched;
    forEachLaunch(function.cuda, [&](json::Object &launch) {
      launched.insert(launch.getString("kernel").value_or(""));
    });
    for (const KernelUse &use : uses)
      if (use.function == function.name && launched.contains(use.kernel))
        remark::passed(
            use.loc,
            remark::RemarkOpts::name("tile-kernel").category("codegen"))
            << remark::metric("Kernel", use.kernel);
  }
}

Expected<DeviceProgram> DeviceCompiler::compile() {
  portable = module.clone();
  if (options.chip == "sm_90a" && options.scheduled)
    if (llvm::Error error = compileScheduled())
      return std::move(error);
  if (done.size() < functions.size())
    if (llvm::Error error = compilePortable())
      return std::move(error);
  for (DeviceFunction &function : program.functions)
    function.cuda["chip"] = options.chip;
  reportKernels(uses, program);
  return std::move(program);
}

Expected<DeviceProgram>
fuse::compileForDevice(ModuleOp module, ArrayRef<func::FuncOp> functions,
                       ArrayRef<json::Object> descriptions,
                       const CompileOptions &options) {
  std::string problem;
  if (failed(lookupChip(options.chip, [&](const Twine &message) {
        problem = message.str();
        return failure();
      })))
    return createStringError(problem);
  return DeviceCompiler(module, functions, descriptions, options).compile();
}

/// The launches that use kernels of a module.
static SmallVector<json::Object *> findLaunches(DeviceProgram &program,
                                                size_t index) {
  SmallVector<json::Object *> launches;
  for (DeviceFunction &function : program.functions)
    forEachLaunch(function.cuda, [&](json::Object &launch) {
      int64_t number = launch.getInteger("module").value_or(0);
      if (function.modules[number] == index)
        launches.push_back(&launch);
    });
  return launches;
}

void fuse::reportSpills(ModuleOp module, DeviceProgram &program) {
  for (DeviceFunction &function : program.functions) {
    llvm::StringSet<> seen;
    forEachLaunch(function.cuda, [&](json::Object &launch) {
      int64_t bytes = launch.getInteger("spilled_bytes").value_or(0);
      StringRef kernel = launch.getString("kernel").value_or("");
      if (bytes == 0 || !seen.insert(kernel).second)
        return;
      Operation *op = module.lookupSymbol(function.name);
      emitWarning(op ? op->getLoc() : module.getLoc())
          << "kernel '" << kernel << "' of '" << function.name << "' spills "
          << bytes << " bytes of registers, which makes it slow";
    });
  }
}

llvm::Error fuse::runTasks(size_t count,
                           function_ref<llvm::Error(size_t)> task) {
  std::vector<std::string> problems(count);
  try {
    runtime::runConcurrently(count, [&](size_t index) {
      problems[index] = llvm::toString(task(index));
    });
  } catch (const runtime::Failure &failure) {
    return createStringError(failure.getMessage());
  }
  for (const std::string &problem : problems)
    if (!problem.empty())
      return createStringError(problem);
  return llvm::Error::success();
}

llvm::Error fuse::compileModules(DeviceProgram &program,
                                 const DialectRegistry &dialects,
                                 const CompileOptions &options) {
  std::string ptxas;
  if (options.assemble != Assemble::Never && !options.chip.empty()) {
    llvm::Expected<std::string> found = findPtxas(options);
    if (found)
      ptxas = *found;
    else if (options.assemble == Assemble::Always)
      return found.takeError();
    else
      llvm::consumeError(found.takeError());
  }
  return runTasks(program.modules.size(), [&](size_t index) -> llvm::Error {
    DeviceModule &made = program.modules[index];
    if (made.ptx.empty() && !made.kernel.empty())
      if (llvm::Error error =
              compileKernel(made.kernel, dialects, options.observe)
                  .moveInto(made.ptx))
        return error;
    if (!ptxas.empty() && !made.ptx.empty() && made.cubin.empty())
      return assemble(made, options.chip, ptxas, findLaunches(program, index));
    return llvm::Error::success();
  });
}
