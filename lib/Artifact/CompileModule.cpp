//===- CompileModule.cpp - From fused IR to an artifact -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CodeScales.h"
#include "fuse-c/Runtime.h"
#include "fuse/Artifact/ArtifactDraft.h"
#include "fuse/Artifact/Phase.h"
#include "fuse/Conversion/FuseToCPU/FuseToCPU.h"
#include "fuse/IR/FuseAttrNames.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Slots/Passes.h"
#include "fuse/Slots/SlotBinding.h"
#include "fuse/Support/IRVersion.h"
#include "fuse/Target/CPUJIT.h"
#include "fuse/Target/CPUObject.h"
#include "fuse/Target/PTX.h"
#include "fuse/Transforms/Passes.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "nn/IR/NNOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

void fuse::registerCompilerTranslations(DialectRegistry &registry) {
  registerCPUTranslations(registry);
  registerPTXTranslation(registry);
}

Expected<std::string> fuse::getLayersDigest(ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  (*copy)->removeAttr(kVersionAttrName);
  if (failed(unfuse(*copy, {})))
    return createStringError("the fused ops cannot be undone");
  std::string text;
  llvm::raw_string_ostream os(text);
  copy->print(os);
  return runtime::toHex(runtime::getDigest(text));
}

namespace {

/// Builds sections and manifest, without the code of scheduled kernels.
class ArtifactBuilder {
public:
  ArtifactBuilder(ModuleOp given, const CompileOptions &options)
      : given(given), module(given), options(options) {}

  Expected<ArtifactDraft> build();

private:
  llvm::Error flattenModels();
  /// The module as the text that the artifact keeps.
  std::string printIR();
  llvm::Error findFunctions();
  void addSlots();
  llvm::Error lowerForCPU();
  void takeScalars();
  llvm::Error scheduleForCPU(std::vector<CPUEntry> &entries,
                             OwningOpRef<ModuleOp> &kernels);
  llvm::Error compileForCPU();
  llvm::Error compileForGPU();
  json::Array describeSites(func::FuncOp function);
  int64_t addSection(uint32_t kind, std::string data) {
    return draft.addSection(kind, std::move(data));
  }

  LowerSlotsPassOptions getSlotOptions() const;

  ModuleOp given;
  /// The compiled module: a copy with functions in place of models, or the
  /// given module.
  ModuleOp module;
  OwningOpRef<ModuleOp> flat;
  const CompileOptions &options;
  SmallVector<func::FuncOp> functions;
  /// The module for the CPU, after phase `linalg`.
  OwningOpRef<ModuleOp> lowered;
  /// Arguments of its functions that follow from static scales, in order.
  llvm::StringMap<CodeScales> scales;
  ArtifactDraft draft;
  std::vector<json::Object> &descriptions = draft.descriptions;
  json::Object &manifest = draft.manifest;
};

} // namespace

/// Lowers slots for the CPU if there is code for it. Slots may be bound to GPU
/// kernels that have no version for the CPU.
LowerSlotsPassOptions ArtifactBuilder::getSlotOptions() const {
  LowerSlotsPassOptions slots;
  if (options.cpu.empty() && !options.chip.empty()) {
    slots.device = "gpu";
    slots.chip = options.chip;
  }
  return slots;
}

/// Makes a function of each model, since only functions can be called. The
/// slots of a model are lowered with it.
llvm::Error ArtifactBuilder::flattenModels() {
  if (module.getOps<ModelOp>().empty())
    return llvm::Error::success();
  flat = module.clone();
  PassManager pm(module.getContext());
  pm.addPass(createLowerSlotsPass(getSlotOptions()));
  pm.addPass(createFlattenModelsPass());
  if (failed(runPasses(pm, *flat)))
    return createStringError("a model cannot be made a function");
  module = *flat;
  return llvm::Error::success();
}

llvm::Error ArtifactBuilder::findFunctions() {
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal())
      functions.push_back(function);
  if (functions.empty())
    return createStringError("the module has no public function");
  // An artifact contains all of its code.
  llvm::Error error = llvm::Error::success();
  given.walk([&](BoundKernelOp kernel) {
    auto code = dyn_cast_or_null<CPUCodeAttr>(kernel.getCodeAttr());
    if (code && !error)
      error = createStringError("kernel '" + kernel.getSymName() +
                                "' is in library '" + code.getLibrary() +
                                "', which an artifact cannot carry");
  });
  return error;
}

/// Adds the table of slots: the kernels to which their calls are bound.
void ArtifactBuilder::addSlots() {
  SlotReport report = reportSlots(given, KernelRegistry(given.getContext()));
  if (report.calls.empty())
    return;
  // Only the binding process has a registry to compare with.
  report.withoutKernels.clear();
  std::string table;
  llvm::raw_string_ostream os(table);
  report.printJSON(os);
  manifest["slots"] = addSection(FUSE_SECTION_SLOTS, table);
}

/// Runs the phases of the CPU pipeline from `first` to `last`, inclusive.
static llvm::Error runPhases(ModuleOp module, StringRef first, StringRef last) {
  bool running = false;
  CPUPipelineOptions options;
  options.scaleArguments = true;
  for (const Phase &phase : getCPUPhases(options)) {
    running |= phase.name == first;
    if (!running)
      continue;
    PassManager pm(module.getContext());
    phase.build(pm);
    if (failed(runPasses(pm, module)))
      return createStringError("phase '" + phase.name +
                               "' of the CPU pipeline failed");
    if (phase.name == last)
      break;
  }
  return llvm::Error::success();
}

/// Removes the attributes of arguments that follow from static scales, and
/// keeps their content.
void ArtifactBuilder::takeScalars() {
  for (auto function : lowered->getOps<func::FuncOp>()) {
    function->removeAttr(kConstantScalesAttrName);
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto scalar = dyn_cast_or_null<DictionaryAttr>(
          function.removeArgAttr(i, kScalarAttrName));
      if (!scalar)
        continue;
      auto toNumber = [](Attribute attr) {
        return cast<FloatAttr>(attr).getValueAsDouble();
      };
      json::Object number;
      if (Attribute divisor = scalar.get("over"))
        number["over"] = toNumber(divisor);
      if (auto factors = scalar.getAs<ArrayAttr>("of"))
        number["of"] = json::Array(llvm::map_range(factors, toNumber));
      (void)scales[function.getSymName()].take(number);
    }
  }
}

llvm::Error ArtifactBuilder::lowerForCPU() {
  lowered = module.clone();
  PassManager pm(module.getContext());
  pm.addPass(createLowerSlotsPass(getSlotOptions()));
  pm.addPass(createSymbolDCEPass());
  if (failed(runPasses(pm, *lowered)))
    return createStringError("unused functions cannot be removed");
  if (llvm::Error error = runPhases(*lowered, "linalg", "linalg"))
    return error;
  takeScalars();
  for (func::FuncOp function : functions) {
    auto description = describeFunction(
        function, lowered->lookupSymbol<func::FuncOp>(function.getSymName()));
    if (!description)
      return description.takeError();
    json::Array sites = describeSites(function);
    if (!sites.empty())
      (*description)["sites"] = std::move(sites);
    descriptions.push_back(std::move(*description));
  }
  return llvm::Error::success();
}

static json::Object &getOrMakeObject(json::Object &parent, StringRef key) {
  json::Value &value = parent[key];
  if (!value.getAsObject())
    value = json::Object();
  return *value.getAsObject();
}

/// The plan of a function in the form of the manifest. Adds the entry points of
/// its phases to `entries`. Clears `isBound` if a packed weight is not a
/// parameter and may thus be passed to a launch.
static json::Object writeCPUPlan(DictionaryAttr plan, func::FuncOp function,
                                 std::vector<CPUEntry> &entries,
                                 bool &isBound) {
  auto getInt = [](DictionaryAttr entry, StringRef name) {
    return cast<IntegerAttr>(entry.get(name)).getInt();
  };
  auto getList = [](DictionaryAttr entry, StringRef name) {
    return cast<ArrayAttr>(entry.get(name));
  };
  json::Array packed, workspace, phases;
  for (auto weight : getList(plan, "packed").getAsRange<DictionaryAttr>()) {
    json::Array operands;
    for (auto operand : getList(weight, "operands").getAsRange<IntegerAttr>()) {
      operands.push_back(operand.getInt());
      isBound &=
          bool(function.getArgAttr(operand.getInt(), kParameterAttrName));
    }
    json::Object object{
        {"recipe", cast<StringAttr>(weight.get("recipe")).getValue()},
        {"operands", std::move(operands)}};
    for (StringRef key : {"columns", "tiles", "steps", "bytes"})
      object[key] = getInt(weight, key);
    packed.push_back(std::move(object));
  }
  for (auto bytes : getList(plan, "workspace").getAsRange<IntegerAttr>())
    workspace.push_back(bytes.getInt());
  for (auto phase : getList(plan, "phases").getAsRange<DictionaryAttr>()) {
    json::Array arguments;
    for (auto entry :
         getList(phase, "arguments").getAsRange<DictionaryAttr>()) {
      NamedAttribute only = *entry.begin();
      StringRef kind = only.getName();
      int64_t index = cast<IntegerAttr>(only.getValue()).getInt();
      if (kind == "result")
        index += function.getNumArguments();
      bool isTensor = kind == "operand" || kind == "result";
      arguments.push_back(
          json::Object{{isTensor ? StringRef("tensor") : kind, index}});
    }
    std::string symbol = "fuse_entry_" + std::to_string(entries.size());
    entries.push_back({cast<StringAttr>(phase.get("function")).getValue().str(),
                       symbol,
                       /*isKernel=*/true});
    json::Object entry{{"symbol", symbol},
                       {"panels", getInt(phase, "panels")},
                       {"tokens", getInt(phase, "tokens")},
                       {"args", std::move(arguments)}};
    if (phase.contains("multiple"))
      entry["multiple"] = getInt(phase, "multiple");
    phases.push_back(std::move(entry));
  }
  return json::Object{{"input", getInt(plan, "input")},
                      {"packed", std::move(packed)},
                      {"workspace", std::move(workspace)},
                      {"phases", std::move(phases)}};
}

/// Writes kernels and plans for the functions that the scheduled path supports.
/// `lowered` keeps such a function only if its weights may be passed to a
/// launch.
llvm::Error ArtifactBuilder::scheduleForCPU(std::vector<CPUEntry> &entries,
                                            OwningOpRef<ModuleOp> &kernels) {
  Expected<CPUFeatures> features = getCPUFeatures(options.cpu);
  if (!features)
    return features.takeError();
  OwningOpRef<ModuleOp> copy(module.clone());
  CPUKernelsPipelineOptions pipeline;
  pipeline.lanes = features->lanes;
  pipeline.registers = features->registers;
  pipeline.fma = features->fma;
  pipeline.dot = features->dot;
  // The operating system has to grant the tile registers, both to this process
  // and to those that load the file.
  pipeline.tiles = features->tiles && runtime::hasTiles();
  PassManager pm(module.getContext());
  buildCPUKernelsPipeline(pm, pipeline);
  if (failed(runPasses(pm, *copy)))
    return createStringError("the pipeline of kernels for the CPU failed");
  auto made = copy->lookupSymbol<ModuleOp>(kCPUKernelsName);
  if (!made)
    return llvm::Error::success();
  for (auto [function, description] :
       llvm::zip_equal(functions, descriptions)) {
    StringRef name = function.getSymName();
    auto plan =
        copy->lookupSymbol<func::FuncOp>(name)->getAttrOfType<DictionaryAttr>(
            kCPUPlanAttrName);
    if (!plan)
      continue;
    bool isBound = true;
    json::Object cpu{
        {"scheduled", writeCPUPlan(plan, function, entries, isBound)}};
    if (isBound)
      lowered->lookupSymbol(name)->erase();
    description["cpu"] = std::move(cpu);
  }
  made->remove();
  kernels = made;
  return llvm::Error::success();
}

llvm::Error ArtifactBuilder::compileForCPU() {
  if (options.cpu.empty())
    return llvm::Error::success();
  std::vector<std::string> levels = runtime::getCpuLevels(false);
  if (options.cpu != "native" && !llvm::is_contained(levels, options.cpu))
    return createStringError("unknown processor '" + options.cpu +
                             "'; there are native, " +
                             llvm::join(levels, ", "));
  std::vector<CPUEntry> entries;
  OwningOpRef<ModuleOp> kernels;
  if (options.scheduled)
    if (llvm::Error error = scheduleForCPU(entries, kernels))
      return error;
  bool isPortable = !lowered->getBody()->empty();
  if (isPortable && !options.planOnly)
    if (llvm::Error error = runPhases(*lowered, "buffers", "llvm"))
      return error;
  for (auto [function, description] :
       llvm::zip_equal(functions, descriptions)) {
    StringRef name = function.getSymName();
    if (!lowered->lookupSymbol(name))
      continue;
    std::string symbol = "fuse_entry_" + std::to_string(entries.size());
    entries.push_back({name.str(), symbol});
    json::Object &cpu = getOrMakeObject(description, "cpu");
    cpu["symbol"] = symbol;
    std::move(scales[name]).addTo(cpu);
  }
  Expected<std::string> code = "";
  if (!options.planOnly)
    runPhase(module.getContext(), "LLVM for the CPU", [&] {
      code = emitCPUObject(isPortable ? *lowered : ModuleOp(),
                           kernels ? *kernels : ModuleOp(), options.cpu,
                           entries, runTasks);
    });
  if (!code)
    return code.takeError();
  uint32_t kind = FUSE_SECTION_HOST_OBJECT;
  if (options.link && !options.planOnly) {
    runPhase(module.getContext(), "link",
             [&] { code = linkCPUObject(*code, options.toolDirectories); });
    if (!code)
      return code.takeError();
    kind = FUSE_SECTION_HOST_LIBRARY;
  }
  int64_t section = addSection(kind, std::move(*code));
  for (json::Object &description : descriptions)
    (*description.getObject("cpu"))["code"] = section;
  runtime::CpuTarget target = runtime::getThisCpu();
  json::Object host{{"arch", target.arch}, {"level", options.cpu}};
  if (options.cpu == "native") {
    json::Array words;
    for (uint32_t word : target.cpuid)
      words.push_back(int64_t(word));
    host["cpuid"] = std::move(words);
  }
  manifest["host"] = std::move(host);
  return llvm::Error::success();
}

llvm::Error ArtifactBuilder::compileForGPU() {
  if (options.chip.empty())
    return llvm::Error::success();
  auto made = compileForDevice(module, functions, descriptions, options);
  if (!made)
    return made.takeError();
  draft.device = std::move(*made);
  return llvm::Error::success();
}

/// The fused sites of a function, with their scales.
json::Array ArtifactBuilder::describeSites(func::FuncOp function) {
  json::Array sites;
  auto print = [](Attribute attribute) {
    std::string text;
    llvm::raw_string_ostream(text) << attribute;
    return text;
  };
  function.walk([&](FusedOpInterface op) {
    json::Object site{{"op", op->getName().getStringRef()}};
    if (StringAttr id = op.getSiteAttr())
      site["site"] = id.getValue();
    if (ArrayAttr origins = op.getOriginsAttr()) {
      json::Array paths;
      for (auto path : origins.getAsRange<StringAttr>())
        paths.push_back(path.getValue());
      site["origins"] = std::move(paths);
    }
    site["rounding"] = print(op.getRounding());
    if (StaticScalesAttr scales = op.getScalesAttr())
      site["scales"] = print(scales);
    if (auto quant = op->getAttrOfType<QuantAttr>("quant"))
      site["quant"] = print(quant);
    sites.push_back(std::move(site));
  });
  return sites;
}

std::string ArtifactBuilder::printIR() {
  Attribute given = module->getAttr(kVersionAttrName);
  module->setAttr(kVersionAttrName, getVersionAttr(module.getContext()));
  std::string text;
  llvm::raw_string_ostream os(text);
  // Keep locations: undoing a fusion restores those of the members.
  module.print(os, OpPrintingFlags().enableDebugInfo(true, false));
  if (!given)
    module->removeAttr(kVersionAttrName);
  return text;
}

Expected<ArtifactDraft> ArtifactBuilder::build() {
  if (llvm::Error error = flattenModels())
    return std::move(error);
  if (llvm::Error error = findFunctions())
    return std::move(error);
  std::string text = printIR();
  int64_t ir = addSection(FUSE_SECTION_IR, text);
  addSlots();
  llvm::Error error = llvm::Error::success();
  auto runStep = [&](StringRef name, llvm::Error (ArtifactBuilder::*step)()) {
    if (!error)
      runPhase(module.getContext(), name, [&] { error = (this->*step)(); });
  };
  runStep("lower", &ArtifactBuilder::lowerForCPU);
  runStep("CPU", &ArtifactBuilder::compileForCPU);
  runStep("GPU", &ArtifactBuilder::compileForGPU);
  if (error)
    return std::move(error);

  Expected<std::string> layers = getLayersDigest(module);
  if (!layers)
    return layers.takeError();
  manifest["producer"] = "fuse " FUSE_VERSION;
  manifest["llvm"] = LLVM_VERSION_STRING;
  manifest["ir"] = ir;
  manifest["ir_sha256"] = runtime::toHex(runtime::getDigest(text));
  manifest["layers_sha256"] = *layers;
  return std::move(draft);
}

Expected<ArtifactDraft> fuse::draftArtifact(ModuleOp module,
                                            const CompileOptions &options) {
  return ArtifactBuilder(module, options).build();
}

Expected<std::string> fuse::compileToArtifact(ModuleOp module,
                                              const CompileOptions &options) {
  Expected<ArtifactDraft> draft = draftArtifact(module, options);
  if (!draft)
    return draft.takeError();
  DialectRegistry dialects;
  module.getContext()->getDialectRegistry().appendTo(dialects);
  llvm::Error error = llvm::Error::success();
  runPhase(module.getContext(), "kernels",
           [&] { error = compileModules(draft->device, dialects, options); });
  if (error)
    return std::move(error);
  reportSpills(module, draft->device);
  return writeArtifact(std::move(*draft));
}
