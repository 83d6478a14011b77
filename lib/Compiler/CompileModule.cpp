//===- CompileModule.cpp - From fused IR to an artefact -------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Runtime.h"
#include "fuse/Compiler/Compiler.h"
#include "fuse/Compiler/DeviceCode.h"
#include "fuse/Compiler/Phase.h"
#include "fuse/IR/FuseOps.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/Host/Container.h"
#include "fuse/Runtime/Host/HostCode.h"
#include "fuse/Target/HostJIT.h"
#include "fuse/Target/HostObject.h"
#include "fuse/Target/PTX.h"
#include "fuse/Transforms/Transforms.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

void fuse::registerCompilerTranslations(DialectRegistry &registry) {
  registerHostTranslations(registry);
  registerPTXTranslation(registry);
}

Expected<std::string> fuse::getLayersDigest(ModuleOp module) {
  OwningOpRef<ModuleOp> copy(module.clone());
  if (failed(unfuse(*copy, {})))
    return createStringError("the fused ops can not be undone");
  std::string text;
  llvm::raw_string_ostream os(text);
  copy->print(os);
  return host::toHex(host::getDigest(text));
}

namespace {

/// Sections and manifest in the making.
class ArtifactBuilder {
public:
  ArtifactBuilder(ModuleOp module, const CompileOptions &options)
      : module(module), options(options) {}

  Expected<std::string> build();

private:
  llvm::Error findFunctions();
  llvm::Error lowerForHost();
  llvm::Error compileForHost();
  llvm::Error compileForGPU();
  json::Array describeSites(func::FuncOp function);
  int64_t addSection(uint32_t kind, std::string data) {
    sections.push_back({kind, std::move(data)});
    return sections.size();
  }

  ModuleOp module;
  const CompileOptions &options;
  SmallVector<func::FuncOp> functions;
  /// The module for the host, after phase `linalg`.
  OwningOpRef<ModuleOp> lowered;
  std::vector<json::Object> descriptions;
  json::Object manifest;
  /// Sections after the manifest.
  std::vector<std::pair<uint32_t, std::string>> sections;
};

} // namespace

llvm::Error ArtifactBuilder::findFunctions() {
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isPublic() && !function.isExternal())
      functions.push_back(function);
  if (functions.empty())
    return createStringError("the module has no public function");
  // An artefact has all of its code in itself.
  llvm::Error error = llvm::Error::success();
  module.walk([&](BoundKernelOp kernel) {
    auto code = dyn_cast_or_null<HostCodeAttr>(kernel.getCodeAttr());
    if (code && !error)
      error = createStringError("kernel '" + kernel.getSymName() +
                                "' is in library '" + code.getLibrary() +
                                "', which an artefact can not carry");
  });
  return error;
}

/// Runs the phases of the CPU pipeline from `first` on, up to and with `last`.
static llvm::Error runPhases(ModuleOp module, StringRef first, StringRef last) {
  bool running = false;
  CPUPipelineOptions options;
  for (const Phase &phase : getCPUPhases(options)) {
    running |= phase.name == first;
    if (!running)
      continue;
    PassManager pm(module.getContext());
    phase.build(pm);
    if (failed(pm.run(module)))
      return createStringError("phase '" + phase.name +
                               "' of the CPU pipeline failed");
    if (phase.name == last)
      break;
  }
  return llvm::Error::success();
}

llvm::Error ArtifactBuilder::lowerForHost() {
  lowered = module.clone();
  PassManager pm(module.getContext());
  pm.addPass(createSymbolDCEPass());
  if (failed(pm.run(*lowered)))
    return createStringError("unused functions can not be removed");
  if (llvm::Error error = runPhases(*lowered, "linalg", "linalg"))
    return error;
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

llvm::Error ArtifactBuilder::compileForHost() {
  if (options.cpu.empty())
    return llvm::Error::success();
  std::vector<std::string> levels = host::getHostLevels(false);
  if (options.cpu != "native" && !llvm::is_contained(levels, options.cpu))
    return createStringError("unknown processor '" + options.cpu +
                             "'; there are native, " +
                             llvm::join(levels, ", "));
  if (llvm::Error error = runPhases(*lowered, "buffers", "llvm"))
    return error;
  std::vector<HostEntry> entries;
  for (auto [index, function] : llvm::enumerate(functions))
    entries.push_back(
        {function.getSymName().str(), "fuse_entry_" + std::to_string(index)});
  Expected<std::string> code = "";
  runPhase(module.getContext(), "LLVM for the CPU",
           [&] { code = emitHostObject(*lowered, options.cpu, entries); });
  if (!code)
    return code.takeError();
  uint32_t kind = FUSE_SECTION_HOST_OBJECT;
  if (options.link) {
    runPhase(module.getContext(), "link",
             [&] { code = linkHostObject(*code, options.toolDirectories); });
    if (!code)
      return code.takeError();
    kind = FUSE_SECTION_HOST_LIBRARY;
  }
  int64_t section = addSection(kind, std::move(*code));
  for (auto [description, entry] : llvm::zip_equal(descriptions, entries))
    description["cpu"] =
        json::Object{{"code", section}, {"symbol", entry.symbol}};
  host::HostTarget target = host::getThisHost();
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
  auto modules = compileForDevice(module, functions, descriptions, options);
  if (!modules)
    return modules.takeError();
  for (DeviceModule &made : *modules) {
    int64_t ptx = addSection(FUSE_SECTION_PTX, std::move(made.ptx));
    std::optional<int64_t> cubin;
    if (!made.cubin.empty())
      cubin = addSection(FUSE_SECTION_CUBIN, std::move(made.cubin));
    for (auto &[name, cuda] : made.functions) {
      cuda["ptx"] = ptx;
      if (cubin)
        cuda["cubin"] = *cubin;
      for (json::Object &description : descriptions)
        if (description.getString("name") == StringRef(name))
          description["cuda"] = std::move(cuda);
    }
  }
  return llvm::Error::success();
}

/// What was fused where, and with which scales.
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
    if (Attribute scales = op->getAttr("scales"))
      site["scales"] = print(scales);
    sites.push_back(std::move(site));
  });
  return sites;
}

Expected<std::string> ArtifactBuilder::build() {
  if (llvm::Error error = findFunctions())
    return std::move(error);
  std::string text;
  llvm::raw_string_ostream os(text);
  // With locations: undoing a fusion restores those of its members.
  module.print(os, OpPrintingFlags().enableDebugInfo(true, false));
  int64_t ir = addSection(FUSE_SECTION_IR, text);
  llvm::Error error = llvm::Error::success();
  auto runStep = [&](StringRef name, llvm::Error (ArtifactBuilder::*step)()) {
    if (!error)
      runPhase(module.getContext(), name, [&] { error = (this->*step)(); });
  };
  runStep("lower", &ArtifactBuilder::lowerForHost);
  runStep("CPU", &ArtifactBuilder::compileForHost);
  runStep("GPU", &ArtifactBuilder::compileForGPU);
  if (error)
    return std::move(error);

  Expected<std::string> layers = getLayersDigest(module);
  if (!layers)
    return layers.takeError();
  json::Array list;
  for (json::Object &description : descriptions)
    list.push_back(std::move(description));
  manifest["producer"] = "fuse " FUSE_VERSION;
  manifest["llvm"] = LLVM_VERSION_STRING;
  manifest["ir"] = ir;
  manifest["ir_sha256"] = host::toHex(host::getDigest(text));
  manifest["layers_sha256"] = *layers;
  manifest["functions"] = std::move(list);
  std::string manifestText =
      llvm::formatv("{0:2}\n", json::Value(std::move(manifest)));
  std::vector<host::Section> all = {{FUSE_SECTION_MANIFEST, manifestText}};
  for (const auto &[kind, data] : sections)
    all.push_back({kind, data});
  return host::writeContainer(all);
}

Expected<std::string> fuse::compileToArtifact(ModuleOp module,
                                              const CompileOptions &options) {
  return ArtifactBuilder(module, options).build();
}
