//===- TestBundle.cpp - Artifacts with inputs to run them on --------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/TestBundle.h"
#include "fuse/Runtime/Core/Failure.h"

using namespace fuse;
using namespace fuse::runtime;
using namespace fuse::measure;
using nlohmann::json;

/// Largest size of a tensor in a test, in elements.
static constexpr size_t kMaxElements = size_t(1) << 34;

[[noreturn]] static void invalid(const std::string &why) {
  throw Failure(FUSE_ERROR_FORMAT, "the description " + why);
}

size_t Argument::getCount() const {
  size_t count = 1;
  for (int64_t size : shape)
    count *= size_t(size);
  return count;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

TestBundle::TestBundle(const std::string &path, const std::string &format,
                       int version) {
  try {
    bytes = readFile(path);
    sections = readContainer(bytes);
    if (sections.empty() || sections[0].kind != kDescriptionSection)
      throw Failure(FUSE_ERROR_FORMAT,
                    "this is an artifact, not a test bundle");
    description = parseJSON(sections[0].data);
    if (!description.is_object() || description.value("format", "") != format)
      invalid("is not of format '" + format + "'");
    if (int found = description.value("version", 0); found != version)
      throw Failure(FUSE_ERROR_VERSION,
                    "the description has version " + std::to_string(found) +
                        ", expected " + std::to_string(version));
  } catch (const json::exception &error) {
    throw Failure(FUSE_ERROR_FORMAT, path + ": " + error.what());
  } catch (const Failure &failure) {
    if (failure.getStatus() == FUSE_ERROR_IO)
      throw;
    throw Failure(failure.getStatus(), path + ": " + failure.getMessage());
  }
}

std::string_view TestBundle::getSection(size_t index, uint32_t kind) const {
  if (index >= sections.size() || sections[index].kind != kind)
    invalid("names section " + std::to_string(index) +
            ", which is not of kind " + std::to_string(kind));
  return sections[index].data;
}

Argument TestBundle::readArgument(const json &object) const {
  try {
    Argument argument;
    argument.element = object.at("element").get<std::string>();
    argument.shape = object.at("shape").get<std::vector<int64_t>>();
    argument.pool = object.at("pool").get<size_t>();
    argument.seed = object.at("seed").get<uint64_t>();
    argument.bound = object.at("bound").get<bool>();
    size_t bytes = getElementBytes(argument.element), count = 1;
    for (int64_t size : argument.shape) {
      if (size < 0 || (size > 0 && count > kMaxElements / size_t(size)))
        invalid("has a tensor that is too large");
      count *= size_t(size);
    }
    if (getSection(argument.pool, kPoolSection).size() % bytes != 0)
      invalid("has a pool with a part of an element");
    return argument;
  } catch (const json::exception &error) {
    invalid(std::string("has an argument that cannot be read: ") +
            error.what());
  }
}

static auto getKey(const Argument &argument) {
  return std::make_tuple(argument.element, argument.shape, argument.pool,
                         argument.seed);
}

void ArgumentStore::put(const Argument &argument, std::string value) {
  values[getKey(argument)] = std::move(value);
}

const std::string &ArgumentStore::get(const Argument &argument) {
  auto [place, isNew] = values.try_emplace(getKey(argument));
  std::string &value = place->second;
  if (!isNew)
    return value;
  if (!file)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "there are no values for an argument");
  size_t bytes = getElementBytes(argument.element);
  value.resize(argument.getCount() * bytes);
  fillFromPool(value.data(), argument.getCount(), bytes,
               file->getSection(argument.pool, kPoolSection), argument.seed);
  return value;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static std::vector<const DLTensor *>
getPointers(const std::vector<DLTensor> &tensors) {
  std::vector<const DLTensor *> pointers;
  for (const DLTensor &tensor : tensors)
    pointers.push_back(&tensor);
  return pointers;
}

std::vector<bool> measure::findBound(const Function &function) {
  std::vector<bool> result;
  for (const TensorSpec &argument : function.arguments)
    result.push_back(!argument.parameter.empty());
  if (function.device)
    for (const PackedWeight &packed : function.device->packed)
      for (size_t operand : packed.operands)
        result[operand] = true;
  return result;
}

Call::Call(std::shared_ptr<Gpu> device, std::string_view artifact,
           const std::string &name, const std::vector<Argument> &arguments,
           ArgumentStore &store, SharedWeights *shared)
    : gpu(std::move(device)) {
  program =
      gpu->getDevice().load(std::make_shared<Artifact>(std::string(artifact)));
  for (const Function *candidate : program->functions)
    if (candidate->name == name ||
        (name.empty() && program->functions.size() == 1))
      function = candidate;
  if (!function)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "the artifact has no function '" + name + "' for a GPU");
  prepare(arguments, store, shared);
}

Call::Call(const Call &first, const std::vector<Argument> &arguments,
           ArgumentStore &store, SharedWeights *shared)
    : gpu(first.gpu), program(first.program), function(first.function),
      workspace(first.workspace) {
  prepare(arguments, store, shared);
}

void Call::prepare(const std::vector<Argument> &arguments, ArgumentStore &store,
                   SharedWeights *shared) {
  if (arguments.size() != function->arguments.size())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  function->name + " has " +
                      std::to_string(function->arguments.size()) +
                      " arguments, got " + std::to_string(arguments.size()));
  instance = program->instantiate(*function);
  // Reserve, since views point into the shapes.
  shapes.reserve(arguments.size() + function->results.size());
  DLDevice onDevice = {kDLCUDA, gpu->getOrdinal()};
  auto makeView = [&](const std::string &element, std::vector<int64_t> shape,
                      void *data, DLDevice place) {
    shapes.push_back(std::move(shape));
    DLTensor view = {};
    view.data = data;
    view.device = place;
    view.ndim = int(shapes.back().size());
    view.dtype = *getDataType(element);
    view.shape = shapes.back().data();
    return view;
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument &argument = arguments[i];
    const std::string &value = store.get(argument);
    if (argument.bound) {
      DLTensor view = makeView(argument.element, argument.shape,
                               const_cast<char *>(value.data()), {kDLCPU, 0});
      instance->bind(i, &view, nullptr);
      continue;
    }
    buffers.emplace_back(gpu, value.size());
    buffers.back().upload(value);
    inputs.push_back(makeView(argument.element, argument.shape,
                              buffers.back().get(), onDevice));
  }
  // This also waits for the copies of inputs.
  instance->prepare(shared);
  std::vector<const DLTensor *> pointers = getPointers(inputs);
  firstResult = buffers.size();
  for (size_t i = 0; i < function->results.size(); ++i) {
    const TensorSpec &spec = function->results[i];
    std::vector<int64_t> shape(spec.shape.size());
    instance->getResultShape(pointers.data(), pointers.size(), i, shape.data());
    buffers.emplace_back(gpu, getNumBytes(spec, shape.data()));
    outputs.push_back(
        makeView(spec.element, shape, buffers.back().get(), onDevice));
  }
  size_t bytes = instance->getWorkspaceSize(pointers.data(), pointers.size());
  if (bytes > 0 && !workspace)
    workspace = instance->createWorkspace(bytes);
}

void Call::launch(void *stream, uint32_t flags) const {
  std::vector<const DLTensor *> in = getPointers(inputs),
                                out = getPointers(outputs);
  LaunchOptions options;
  options.outputs = out.data();
  options.numOutputs = out.size();
  options.workspace = workspace.get();
  options.stream = stream;
  options.flags = flags;
  instance->launch(in.data(), in.size(), options);
}

void Call::poison(void *stream) const {
  // Bytes of 0xff are NaN in every type that has one.
  for (size_t i = firstResult; i < buffers.size(); ++i)
    buffers[i].set(0xff, stream);
}

void Call::poisonWorkspace(void *stream) const {
  if (!workspace)
    return;
  runtime::Workspace::Extent extent = workspace->getExtent();
  gpu->set(static_cast<char *>(extent.data) + extent.zeroed, 0xff,
           extent.size - extent.zeroed, stream);
}

std::vector<std::string> Call::download() const {
  std::vector<std::string> results;
  for (size_t i = firstResult; i < buffers.size(); ++i)
    results.push_back(buffers[i].download());
  return results;
}
