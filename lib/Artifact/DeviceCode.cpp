//===- DeviceCode.cpp - Code for GPUs in an artifact ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/DeviceCode.h"
#include "CodeScales.h"
#include "fuse/Artifact/KernelCode.h"
#include "fuse/Artifact/Phase.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/Core/Concurrency.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Target/PTX.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "tile/IR/TileOps.h"
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
  void attachEqualSizes();
  llvm::Error plan();
  void addKernels(gpu::GPUModuleOp kernels);
  llvm::Error compilePortable();
  llvm::Error addFunction(json::Object plan, const json::Object *external);
  Expected<size_t> addModule(const json::Object &launch,
                             const json::Object *external);
  Expected<size_t> addExternal(StringRef name, const json::Object &code);
  Expected<json::Array> addConstants(const json::Array &constants);

  ModuleOp module;
  ArrayRef<func::FuncOp> functions;
  ArrayRef<json::Object> descriptions;
  const CompileOptions &options;
  DeviceProgram program;
  /// A copy of the module that becomes host code with launches, and kernels.
  OwningOpRef<ModuleOp> lowered;
  /// Modules by the names of their binaries; the one of the portable path has
  /// no name.
  llvm::StringMap<size_t> moduleIndices;
  /// Offsets of constants by their content.
  llvm::StringMap<size_t> constantOffsets;
  /// Modules of the scheduled path by their only kernel.
  llvm::StringMap<size_t> kernelIndices;
  /// Functions whose portable code has static scales as constants.
  llvm::StringSet<> constantScales;
  /// Kernels that were made, in program order.
  SmallVector<KernelUse> uses;
};

} // namespace

//===----------------------------------------------------------------------===//
// Host code
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

/// Tells the plans which sizes are equal. The runtime checks before a launch
/// that they are.
void DeviceCompiler::attachEqualSizes() {
  Builder builder(module.getContext());
  for (auto [function, description] :
       llvm::zip_equal(functions, descriptions)) {
    int64_t numArguments = description.getArray("arguments")->size();
    SmallVector<Attribute> classes;
    for (auto [number, symbol] :
         llvm::enumerate(*description.getArray("symbols"))) {
      SmallVector<int64_t> places;
      for (const json::Value &place : *symbol.getAsObject()->getArray("places"))
        for (const json::Value &index : *place.getAsArray())
          places.push_back(*index.getAsInteger());
      std::string name = "s" + std::to_string(number);
      for (auto [result, entry] :
           llvm::enumerate(*description.getArray("results")))
        for (auto [dim, size] :
             llvm::enumerate(*entry.getAsObject()->getArray("sizes")))
          if (size.getAsString() == name)
            llvm::append_range(places,
                               ArrayRef<int64_t>{numArguments + int64_t(result),
                                                 int64_t(dim)});
      classes.push_back(builder.getDenseI64ArrayAttr(places));
    }
    func::FuncOp named = function;
    lowered->lookupSymbol(named.getSymName())
        ->setAttr(kEqualSizesAttrName, builder.getArrayAttr(classes));
  }
}

/// Lowers the module to host code with plans, and kernels. The scheduled path
/// comes first, and the portable path takes what it leaves.
llvm::Error DeviceCompiler::plan() {
  attachEqualSizes();
  if (options.scheduled) {
    HopperPipelineOptions pipeline;
    pipeline.chip = options.chip;
    pipeline.tokens = options.tokens;
    pipeline.dispatch = true;
    pipeline.multiprocessors = options.multiprocessors;
    pipeline.table = options.schedules;
    PassManager planning(module.getContext());
    buildHopperPlanPipeline(planning, pipeline);
    if (llvm::Error error = run(planning, *lowered, "scheduled path"))
      return error;
    uses = findKernelUses(*lowered);
  }
  GPUPipelineOptions pipeline;
  pipeline.chip = options.chip;
  pipeline.stage = "gpu";
  pipeline.scaleArguments = true;
  PassManager pm(module.getContext());
  if (llvm::Error error = buildGPUPipeline(pm, pipeline))
    return error;
  return run(pm, *lowered, "portable path");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Adds a module for each scheduled kernel. The runtime loads only those for
/// the numbers of tokens in use, and several at the same time.
void DeviceCompiler::addKernels(gpu::GPUModuleOp kernels) {
  FailureOr<Chip> chip =
      lookupChip(options.chip, [](const Twine &) { return failure(); });
  for (auto kernel :
       llvm::make_early_inc_range(kernels.getOps<tile::KernelOp>())) {
    kernelIndices[kernel.getSymName()] = program.modules.size();
    program.modules.push_back(
        {"", "", "", serializeKernel(kernel), chip->ptxVersion});
  }
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

/// The module of the kernel of a launch.
Expected<size_t> DeviceCompiler::addModule(const json::Object &launch,
                                           const json::Object *external) {
  std::optional<StringRef> name = launch.getString("module");
  if (!name)
    return moduleIndices.lookup("");
  if (external)
    if (const json::Object *code = external->getObject(*name))
      return addExternal(*name, *code);
  return kernelIndices.lookup(*launch.getString("kernel"));
}

/// Compiles the kernels of the portable path to one module.
llvm::Error DeviceCompiler::compilePortable() {
  if (options.planOnly) {
    moduleIndices[""] = program.modules.size();
    program.modules.push_back({});
    return llvm::Error::success();
  }
  GPUPipelineOptions pipeline;
  pipeline.chip = options.chip;
  PassManager pm(module.getContext());
  if (llvm::Error error = buildGPUKernelPipeline(pm, pipeline))
    return error;
  if (llvm::Error error = run(pm, *lowered, "portable path"))
    return error;
  FailureOr<std::string> ptx = getPTX(*lowered);
  if (failed(ptx))
    return createStringError("the portable path made no PTX");
  if (!ptx->empty()) {
    moduleIndices[""] = program.modules.size();
    program.modules.push_back({std::move(*ptx), "", "", "", 0});
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

/// Adds a function with its plan, in the form of the manifest.
llvm::Error DeviceCompiler::addFunction(json::Object plan,
                                        const json::Object *external) {
  DeviceFunction function;
  function.name = plan.getString("name")->str();
  auto getPlace = [&](size_t module) -> int64_t {
    auto it = llvm::find(function.modules, module);
    if (it == function.modules.end())
      it = function.modules.insert(it, module);
    return it - function.modules.begin();
  };
  llvm::Error error = llvm::Error::success();
  CodeScales scales;
  bool isScheduled = false, isPortable = false;
  auto visit = [&](json::Object &launch) {
    if (error)
      return;
    Expected<size_t> module = addModule(launch, external);
    if (!module) {
      error = module.takeError();
      return;
    }
    launch["module"] = getPlace(*module);
    for (json::Value &value : *launch.getArray("args")) {
      json::Object &argument = *value.getAsObject();
      if (argument.get("of") || argument.get("over"))
        argument["scalar"] = scales.take(argument);
      if (std::optional<int64_t> index = argument.getInteger("arg")) {
        argument.erase("arg");
        argument["tensor"] = *index;
      }
    }
  };
  // Modules of the portable path come first.
  for (bool scheduled : {false, true})
    forEachLaunch(plan, [&](json::Object &launch) {
      if ((launch.get("cooperative") != nullptr) != scheduled)
        return;
      (scheduled ? isScheduled : isPortable) = true;
      visit(launch);
    });
  if (error)
    return error;
  if (const json::Array *constants = plan.getArray("constants")) {
    Expected<json::Array> places = addConstants(*constants);
    if (!places)
      return places.takeError();
    plan["constants"] = std::move(*places);
  }
  // Other scales would reach only a part of the code.
  if (!constantScales.contains(function.name))
    std::move(scales).addTo(plan);
  else
    forEachLaunch(plan, [](json::Object &launch) {
      for (json::Value &argument : *launch.getArray("args"))
        argument.getAsObject()->erase("scalar");
    });
  // The description of the function has the checks.
  for (StringRef key : {"name", "arguments", "checks"})
    plan.erase(key);
  plan["path"] = !isScheduled ? "portable" : isPortable ? "mixed" : "scheduled";
  plan["chip"] = options.chip;
  function.cuda = std::move(plan);
  program.functions.push_back(std::move(function));
  return llvm::Error::success();
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
  lowered = module.clone();
  if (llvm::Error error = plan())
    return std::move(error);
  FailureOr<json::Value> plans = getLaunchPlans(*lowered);
  if (failed(plans))
    return createStringError("the functions have no plans");
  for (auto function : lowered->getOps<func::FuncOp>())
    if (function->hasAttr(kConstantScalesAttrName))
      constantScales.insert(function.getSymName());
  // The plans have all of the host code.
  for (auto function :
       llvm::make_early_inc_range(lowered->getOps<func::FuncOp>()))
    function.erase();
  bool isPortable = false;
  for (auto kernels :
       llvm::make_early_inc_range(lowered->getOps<gpu::GPUModuleOp>())) {
    if (kernels.getOps<tile::KernelOp>().empty()) {
      isPortable = true;
      continue;
    }
    addKernels(kernels);
    kernels.erase();
  }
  if (isPortable)
    if (llvm::Error error = compilePortable())
      return std::move(error);
  json::Object &all = *plans->getAsObject();
  const json::Object *external = all.getObject("modules");
  for (json::Value &plan : *all.getArray("functions")) {
    auto name = *plan.getAsObject()->getString("name");
    if (llvm::any_of(descriptions, [&](const json::Object &description) {
          return description.getString("name") == name;
        }))
      if (llvm::Error error =
              addFunction(std::move(*plan.getAsObject()), external))
        return std::move(error);
  }
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
  // Start with the longest kernels, so that none of them is left for the end.
  auto order = llvm::to_vector(llvm::seq<size_t>(0, program.modules.size()));
  llvm::sort(order, [&](size_t lhs, size_t rhs) {
    size_t left = program.modules[lhs].kernel.size();
    size_t right = program.modules[rhs].kernel.size();
    return left != right ? left > right : lhs < rhs;
  });
  return runTasks(order.size(), [&](size_t place) -> llvm::Error {
    size_t index = order[place];
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
