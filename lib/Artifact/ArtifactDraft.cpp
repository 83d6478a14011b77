//===- ArtifactDraft.cpp - An artifact before it is a file ----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Artifact/ArtifactDraft.h"
#include "fuse-c/Runtime.h"
#include "fuse/Artifact/KernelCode.h"
#include "fuse/Pipelines/Pipelines.h"
#include "fuse/Runtime/Core/Container.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;
namespace json = llvm::json;

/// A deep copy. Much of the text in `value` refers to names that a context
/// owns.
static json::Value detach(const json::Value &value) {
  if (std::optional<StringRef> text = value.getAsString())
    return text->str();
  if (const json::Array *array = value.getAsArray()) {
    json::Array copy;
    for (const json::Value &element : *array)
      copy.push_back(detach(element));
    return copy;
  }
  if (const json::Object *object = value.getAsObject()) {
    json::Object copy;
    for (const auto &[key, element] : *object)
      copy[StringRef(key).str()] = detach(element);
    return copy;
  }
  return value;
}

static void detach(json::Object &object) {
  object = std::move(*detach(json::Value(std::move(object))).getAsObject());
}

void ArtifactDraft::detach() {
  ::detach(manifest);
  for (json::Object &description : descriptions)
    ::detach(description);
  for (DeviceFunction &function : device.functions)
    ::detach(function.cuda);
}

/// The manifest entry of a module of kernels. Its code is added as sections.
static Expected<json::Object>
describeModule(ArtifactDraft &draft, DeviceModule &code, size_t number) {
  json::Object entry;
  if (code.ptx.empty() && code.cubin.empty()) {
    entry["deferred"] = int64_t(number);
    entry["ptx_version"] = code.ptxVersion;
    return std::move(entry);
  }
  if (!code.source.empty()) {
    entry["source"] = code.source;
    entry["sha256"] = runtime::toHex(
        runtime::getDigest(code.ptx.empty() ? code.cubin : code.ptx));
  }
  if (!code.ptx.empty()) {
    Expected<int64_t> version = getPTXVersion(code.ptx);
    if (!version)
      return version.takeError();
    entry["ptx_version"] = *version;
    entry["ptx_minimum"] = getMinimalPTXVersion(code.ptx, *version);
    entry["ptx"] = draft.addSection(FUSE_SECTION_PTX, std::move(code.ptx));
  }
  if (!code.cubin.empty())
    entry["cubin"] =
        draft.addSection(FUSE_SECTION_CUBIN, std::move(code.cubin));
  return std::move(entry);
}

Expected<std::string> fuse::writeArtifact(ArtifactDraft draft) {
  std::vector<json::Object> modules;
  for (auto [number, code] : llvm::enumerate(draft.device.modules)) {
    Expected<json::Object> entry = describeModule(draft, code, number);
    if (!entry)
      return entry.takeError();
    modules.push_back(std::move(*entry));
  }
  int64_t constants = -1;
  if (!draft.device.constants.empty())
    constants = draft.addSection(FUSE_SECTION_CONSTANTS,
                                 std::move(draft.device.constants));
  for (DeviceFunction &function : draft.device.functions) {
    if (json::Array *places = function.cuda.getArray("constants"))
      for (json::Value &place : *places)
        (*place.getAsObject())["section"] = constants;
    json::Array used;
    for (size_t index : function.modules)
      used.push_back(json::Object(modules[index]));
    function.cuda["modules"] = std::move(used);
    for (json::Object &description : draft.descriptions)
      if (description.getString("name") == StringRef(function.name))
        description["cuda"] = std::move(function.cuda);
  }
  json::Array list;
  for (json::Object &description : draft.descriptions)
    list.push_back(std::move(description));
  // Code for the CPU with static scales reads more arguments, which libraries
  // of earlier versions would not pass.
  uint32_t version = 4;
  for (const json::Value &description : list)
    if (const json::Object *cpu = description.getAsObject()->getObject("cpu"))
      if (cpu->get("scalars"))
        version = 7;
  draft.manifest["functions"] = std::move(list);
  std::string manifest =
      llvm::formatv("{0:2}\n", json::Value(std::move(draft.manifest)));
  std::vector<runtime::Section> all = {{FUSE_SECTION_MANIFEST, manifest}};
  for (const auto &[kind, data] : draft.sections)
    all.push_back({kind, data});
  return runtime::writeContainer(all, version);
}

DeferredArtifact::DeferredArtifact(ArtifactDraft draft,
                                   DialectRegistry dialects,
                                   CompileOptions options)
    : draft(std::move(draft)), dialects(std::move(dialects)),
      options(std::move(options)), mutexes(this->draft.device.modules.size()) {
  this->draft.detach();
}

Expected<StringRef> DeferredArtifact::getModule(size_t number) {
  if (number >= mutexes.size())
    return createStringError("there is no module of kernels " + Twine(number));
  DeviceModule &code = draft.device.modules[number];
  std::lock_guard<std::mutex> lock(mutexes[number]);
  if (code.ptx.empty()) {
    // Several threads read the registry, and none changes it.
    auto ptx = compileKernel(code.kernel, dialects, options.observe);
    if (!ptx)
      return ptx.takeError();
    code.ptx = std::move(*ptx);
  }
  return StringRef(code.ptx);
}

Expected<StringRef> DeferredArtifact::getFile() {
  std::lock_guard<std::mutex> lock(fileMutex);
  if (!file.empty())
    return StringRef(file);
  llvm::Error error = runTasks(mutexes.size(), [&](size_t number) {
    bool isLater = !draft.device.modules[number].kernel.empty();
    return isLater ? getModule(number).takeError() : llvm::Error::success();
  });
  if (error)
    return std::move(error);
  // Copy the draft, because other threads may still read its PTX.
  Expected<std::string> bytes = writeArtifact(draft);
  if (!bytes)
    return bytes.takeError();
  file = std::move(*bytes);
  return StringRef(file);
}
