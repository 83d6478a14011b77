//===- SlotConfig.cpp - User configuration of slots -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Slots/SlotConfig.h"
#include "fuse/Schedule/Chip.h"
#include "fuse/Support/TextLimits.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include "llvm/Support/YAMLTraits.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;

//===----------------------------------------------------------------------===//
// YAML
//===----------------------------------------------------------------------===//

namespace {

/// Maps from names in the file, which are arbitrary keys.
template <typename MapTy>
struct AnyKeys {
  static void inputOne(llvm::yaml::IO &io, StringRef key, MapTy &map) {
    io.mapRequired(key.str().c_str(), map[key.str()]);
  }
  static void output(llvm::yaml::IO &io, MapTy &map) {
    for (auto &[key, value] : map)
      io.mapRequired(key.c_str(), value);
  }
};

} // namespace

LLVM_YAML_IS_SEQUENCE_VECTOR(fuse::SlotOverride)

namespace llvm::yaml {

template <>
struct CustomMappingTraits<SlotBindingMap> : AnyKeys<SlotBindingMap> {};
template <>
struct CustomMappingTraits<std::map<std::string, SlotBindingMap>>
    : AnyKeys<std::map<std::string, SlotBindingMap>> {};

template <>
struct MappingTraits<SlotOverride> {
  static void mapping(IO &io, SlotOverride &value) {
    io.mapRequired("path", value.path);
    io.mapRequired("bind", value.bind);
  }
};

template <>
struct MappingTraits<SlotRequest> {
  static void mapping(IO &io, SlotRequest &value) {
    io.mapOptional("bind", value.bind);
    io.mapOptional("overrides", value.overrides);
  }
};

template <>
struct CustomMappingTraits<std::map<std::string, SlotRequest>>
    : AnyKeys<std::map<std::string, SlotRequest>> {};

template <>
struct MappingTraits<SlotConfig> {
  static void mapping(IO &io, SlotConfig &value) {
    io.mapOptional("target", value.target);
    io.mapOptional("mode", value.mode);
    io.mapOptional("kernels", value.kernels);
    io.mapOptional("preset", value.preset);
    io.mapOptional("presets", value.presets);
    io.mapOptional("bind", value.request.bind);
    io.mapOptional("overrides", value.request.overrides);
    io.mapOptional("models", value.models);
    io.mapOptional("default", value.otherwise);
    io.mapOptional("rebind", value.rebind);
    io.mapOptional("force", value.force);
    io.mapOptional("only", value.only);
    io.mapOptional("check", value.check);
  }
};

} // namespace llvm::yaml

/// Whether collections are nested more than kMaxTextDepth deep. LLVM's reader
/// recurses without a limit and would overflow the stack. Counting brackets is
/// not enough, because indentation nests, too, and only the reader recognizes
/// quotes. The nodes are visited one by one, so the reader recurses no deeper
/// than this function.
static bool isTooDeep(llvm::yaml::Node *node, unsigned depth) {
  if (depth > kMaxTextDepth)
    return true;
  if (auto *list = dyn_cast_or_null<llvm::yaml::SequenceNode>(node))
    for (llvm::yaml::Node &entry : *list)
      if (isTooDeep(&entry, depth + 1))
        return true;
  if (auto *map = dyn_cast_or_null<llvm::yaml::MappingNode>(node))
    for (llvm::yaml::KeyValueNode &entry : *map)
      if (isTooDeep(entry.getKey(), depth + 1) ||
          isTooDeep(entry.getValue(), depth + 1))
        return true;
  return false;
}

llvm::Expected<SlotConfig> SlotConfig::parse(StringRef text, StringRef name,
                                             StringRef directory) {
  if (llvm::Error error = checkTextLimits(text))
    return createStringError(name + ": " + llvm::toString(std::move(error)));
  llvm::SourceMgr sources;
  sources.setDiagHandler([](const llvm::SMDiagnostic &, void *) {});
  llvm::yaml::Stream stream(text, sources);
  if (isTooDeep(stream.begin()->getRoot(), 0))
    return createStringError(name + ": collections are nested more than " +
                             Twine(kMaxTextDepth) + " deep");
  std::string problem;
  struct Sink {
    StringRef name;
    std::string &problem;
  } sink{name, problem};
  auto handler = [](const llvm::SMDiagnostic &diagnostic, void *data) {
    auto &sink = *static_cast<Sink *>(data);
    if (!sink.problem.empty())
      return;
    sink.problem =
        (sink.name + ":" + Twine(diagnostic.getLineNo()) + ":" +
         Twine(diagnostic.getColumnNo() + 1) + ": " + diagnostic.getMessage())
            .str();
  };
  SlotConfig config;
  llvm::yaml::Input input(text, nullptr, handler, &sink);
  input >> config;
  if (input.error())
    return createStringError(problem.empty() ? (name + ": not a configuration")
                                             : Twine(problem));
  for (std::string &path : config.kernels)
    if (!directory.empty() && !llvm::sys::path::is_absolute(path)) {
      llvm::SmallString<128> resolved(directory);
      llvm::sys::path::append(resolved, path);
      path = resolved.str().str();
    }
  return config;
}

llvm::Expected<SlotConfig> SlotConfig::parseFile(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return createStringError(buffer.getError(),
                             path + ": " + buffer.getError().message());
  return parse((*buffer)->getBuffer(), path,
               llvm::sys::path::parent_path(path));
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

llvm::Error SlotConfig::addBinding(StringRef text) {
  auto [key, kernel] = text.rsplit('=');
  StringRef model, path;
  StringRef op = key;
  if (op.contains('@'))
    std::tie(model, op) = op.split('@');
  if (op.contains(':'))
    std::tie(path, op) = op.rsplit(':');
  if (!text.contains('=') || kernel.empty() || op.empty() ||
      (model.empty() && key.contains('@')) ||
      (path.empty() && key.contains(':')))
    return createStringError("binding '" + text +
                             "': expected op=kernel, path:op=kernel or "
                             "model@path:op=kernel");
  SlotRequest &request = model.empty() ? this->request : models[model.str()];
  if (path.empty())
    request.bind[op.str()] = kernel.str();
  else
    request.overrides.push_back({path.str(), {{op.str(), kernel.str()}}});
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Target
//===----------------------------------------------------------------------===//

std::string SlotTarget::toText() const {
  std::string text = ("device_type=" + stringifyDeviceType(device)).str();
  if (device == DeviceType::GPU)
    text += ", compute_capability=" + std::to_string(capability);
  return text;
}

llvm::Expected<SlotTarget> SlotConfig::getTarget() const {
  SlotTarget result;
  if (!target.empty() && target != "cpu") {
    SmallVector<StringRef> names = {"cpu"};
    for (const Chip &chip : getChips())
      names.push_back(chip.name);
    if (!llvm::is_contained(names, target))
      return createStringError("unknown target '" + target +
                               "', expected one of " + llvm::join(names, ", "));
    result.device = DeviceType::GPU;
    StringRef digits = target;
    digits.consume_front("sm_");
    digits = digits.take_while(llvm::isDigit);
    (void)digits.getAsInteger(10, result.capability);
  }
  if (!mode.empty()) {
    std::optional<KernelMode> parsed = symbolizeKernelMode(mode);
    bool inference =
        parsed && bitEnumContainsAll(*parsed, KernelMode::Inference);
    bool training = parsed && bitEnumContainsAll(*parsed, KernelMode::Training);
    if (!parsed || inference == training)
      return createStringError("mode '" + mode +
                               "': expected inference, inference|compile, "
                               "training or training|compile");
    result.mode = *parsed;
  }
  return result;
}
