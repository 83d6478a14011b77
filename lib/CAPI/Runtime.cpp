//===- Runtime.cpp - C interface to compiled code -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Runtime.h"
#include "Enum.h"
#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "fuse/Runtime/Core/Sha256.h"
#include "fuse/Runtime/Core/ThreadPool.h"
#include "fuse/Support/FloatEnvironment.h"

#include <cstdlib>
#include <mutex>
#include <new>

using namespace fuse::runtime;

struct fuse_artifact {
  std::shared_ptr<const Artifact> value;
  /// The artifact with the code that `value` lacks, once it has been requested.
  mutable std::shared_ptr<const Artifact> whole = nullptr;
  mutable std::mutex mutex = {};
};

struct fuse_device {
  std::shared_ptr<Device> value;
};

struct fuse_program {
  std::shared_ptr<Program> value;
  /// Storage that signatures point to.
  std::vector<std::vector<fuse_tensor_type>> arguments, results;
};

struct fuse_instance {
  std::shared_ptr<Program> program;
  std::unique_ptr<Instance> value;
};

struct fuse_shared_weights {
  std::mutex mutex;
  SharedWeights value;
};

struct fuse_workspace {
  std::shared_ptr<Program> program;
  std::unique_ptr<Workspace> value;
};

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

static std::string &lastError() {
  static thread_local std::string message;
  return message;
}

uint32_t fuse_c_version(void) {
  return FUSE_C_VERSION_MAJOR << 16 | FUSE_C_VERSION_MINOR;
}

const char *fuse_status_name(fuse_status status) {
  static constexpr const char *names[] = {"FUSE_OK",
                                          "FUSE_ERROR_INVALID_ARGUMENT",
                                          "FUSE_ERROR_PARSE",
                                          "FUSE_ERROR_PASS",
                                          "FUSE_ERROR_OUT_OF_MEMORY",
                                          "FUSE_ERROR_INTERNAL",
                                          "FUSE_ERROR_IO",
                                          "FUSE_ERROR_FORMAT",
                                          "FUSE_ERROR_VERSION",
                                          "FUSE_ERROR_TARGET",
                                          "FUSE_ERROR_TENSOR",
                                          "FUSE_ERROR_STATE",
                                          "FUSE_ERROR_UNSUPPORTED",
                                          "FUSE_ERROR_NO_DRIVER",
                                          "FUSE_ERROR_DRIVER_TOO_OLD",
                                          "FUSE_ERROR_DEVICE_MEMORY",
                                          "FUSE_ERROR_DEVICE_LOST",
                                          "FUSE_ERROR_TIMEOUT",
                                          "FUSE_ERROR_DEVICE"};
  long long number = fuse::getNumber(status);
  bool isKnown = number >= 0 && number < int64_t(std::size(names));
  return isKnown ? names[number] : "unknown status";
}

const char *fuse_last_error(void) { return lastError().c_str(); }

fuse_status fuse_set_last_error(fuse_status status, const char *message) {
  try {
    lastError() = message ? message : "";
  } catch (...) {
    lastError().clear();
  }
  long long number = fuse::getNumber(status);
  bool isKnown = number >= FUSE_OK && number <= FUSE_ERROR_DEVICE;
  return isKnown ? status : FUSE_ERROR_INTERNAL;
}

void fuse_string_free(char *text) { std::free(text); }

/// Runs `body` and converts exceptions to a status.
template <typename Body>
static fuse_status guard(Body body) {
  fuse::FloatEnvironment environment;
  try {
    body();
    return FUSE_OK;
  } catch (const Failure &failure) {
    return fuse_set_last_error(failure.getStatus(),
                               failure.getMessage().c_str());
  } catch (const std::bad_alloc &) {
    return fuse_set_last_error(FUSE_ERROR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception &error) {
    return fuse_set_last_error(FUSE_ERROR_INTERNAL, error.what());
  } catch (...) {
    return fuse_set_last_error(FUSE_ERROR_INTERNAL, "unknown exception");
  }
}

/// Throws if a pointer is null.
template <typename... Pointers>
static void requireAll(const char *names, Pointers... pointers) {
  if (((pointers == nullptr) || ...))
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  std::string("one of these is null: ") + names);
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

/// Reads a file once and checks its content, first for the digest if there is
/// one.
static fuse_artifact *loadArtifact(const char *path, const Digest *expected) {
  std::string bytes = readFile(path);
  try {
    if (expected) {
      Digest digest = getDigest(bytes);
      if (digest != *expected)
        throw Failure(FUSE_ERROR_FORMAT, "its SHA-256 is " + toHex(digest) +
                                             ", expected " + toHex(*expected));
    }
    return new fuse_artifact{std::make_shared<Artifact>(std::move(bytes))};
  } catch (const Failure &failure) {
    throw Failure(failure.getStatus(),
                  std::string(path) + ": " + failure.getMessage());
  }
}

fuse_status fuse_artifact_load(const char *path, fuse_artifact **artifact) {
  return guard([&] {
    requireAll("path, artifact", path, artifact);
    *artifact = loadArtifact(path, /*expected=*/nullptr);
  });
}

fuse_status fuse_artifact_load_checked(const char *path, const char *sha256,
                                       fuse_artifact **artifact) {
  return guard([&] {
    requireAll("path, sha256, artifact", path, sha256, artifact);
    std::optional<Digest> expected = parseDigest(sha256);
    if (!expected)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    std::string(path) + ": '" + sha256 +
                        "' is not a SHA-256, expected 64 hexadecimal digits");
    *artifact = loadArtifact(path, &*expected);
  });
}

fuse_status fuse_artifact_from_bytes(const void *bytes, size_t size,
                                     fuse_artifact **artifact) {
  return guard([&] {
    requireAll("bytes, artifact", bytes, artifact);
    if (size > kMaxFileBytes)
      throw Failure(FUSE_ERROR_FORMAT,
                    std::to_string(size) +
                        " bytes are more than an artifact can have");
    *artifact = new fuse_artifact{std::make_shared<Artifact>(
        std::string(static_cast<const char *>(bytes), size))};
  });
}

/// The artifact with all of its code.
static const Artifact &complete(const fuse_artifact &artifact) {
  if (!artifact.value->source)
    return *artifact.value;
  std::lock_guard<std::mutex> lock(artifact.mutex);
  if (!artifact.whole)
    artifact.whole = std::make_shared<Artifact>(
        std::string(artifact.value->source->getFile()));
  return *artifact.whole;
}

fuse_status fuse_artifact_save(const fuse_artifact *artifact,
                               const char *path) {
  return guard([&] {
    requireAll("artifact, path", artifact, path);
    writeFileAtomically(path, complete(*artifact).bytes);
  });
}

void fuse_artifact_destroy(fuse_artifact *artifact) { delete artifact; }

/// A code source that a caller has passed.
namespace {
class ForeignSource : public CodeSource {
public:
  explicit ForeignSource(const fuse_code_source &source) : source(source) {}
  /// Takes ownership of the data.
  void takeOver(void (*destroy)(void *)) { source.destroy = destroy; }
  ~ForeignSource() override {
    if (source.destroy)
      source.destroy(source.data);
  }

  std::string_view getModule(size_t number) const override {
    const char *text = nullptr;
    size_t length = 0;
    checkStatus(source.compile(source.data, number, &text, &length));
    requireAll("text", text);
    return {text, length};
  }
  std::string_view getFile() const override {
    const void *bytes = nullptr;
    size_t size = 0;
    checkStatus(source.complete(source.data, &bytes, &size));
    requireAll("bytes", bytes);
    return {static_cast<const char *>(bytes), size};
  }

private:
  /// Copies the message into this library's own last error before it throws.
  static void checkStatus(fuse_status status) {
    if (fuse::getNumber(status) == FUSE_OK)
      return;
    std::string message = fuse_last_error();
    throw Failure(fuse_set_last_error(status, message.c_str()), message);
  }

  fuse_code_source source;
};
} // namespace

fuse_status fuse_artifact_from_source(const void *bytes, size_t size,
                                      const fuse_code_source *source,
                                      fuse_artifact **artifact) {
  return guard([&] {
    requireAll("bytes, source, artifact", bytes, source, artifact);
    requireAll("compile, complete", source->compile, source->complete);
    // Without `destroy`, the caller keeps the source if the next call throws.
    auto owner = std::make_shared<ForeignSource>(fuse_code_source{
        source->compile, source->complete, nullptr, source->data});
    *artifact = new fuse_artifact{std::make_shared<Artifact>(
        std::string(static_cast<const char *>(bytes), size), owner)};
    owner->takeOver(source->destroy);
  });
}

const void *fuse_artifact_bytes(const fuse_artifact *artifact, size_t *size) {
  const Artifact *whole = nullptr;
  if (artifact)
    (void)guard([&] { whole = &complete(*artifact); });
  if (size)
    *size = whole ? whole->bytes.size() : 0;
  return whole ? whole->bytes.data() : nullptr;
}

size_t fuse_artifact_num_sections(const fuse_artifact *artifact) {
  const Artifact *whole = nullptr;
  if (artifact)
    (void)guard([&] { whole = &complete(*artifact); });
  return whole ? whole->sections.size() : 0;
}

fuse_status fuse_artifact_section(const fuse_artifact *artifact, size_t index,
                                  fuse_section *section) {
  return guard([&] {
    requireAll("artifact, section", artifact, section);
    const std::vector<Section> &sections = complete(*artifact).sections;
    if (index >= sections.size())
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "the artifact has " + std::to_string(sections.size()) +
                        " sections, there is none with index " +
                        std::to_string(index));
    *section = {sections[index].kind, sections[index].data.data(),
                sections[index].data.size()};
  });
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

fuse_status fuse_device_open_cpu(fuse_device **device) {
  return guard([&] {
    requireAll("device", device);
    *device = new fuse_device{openCpu()};
  });
}

fuse_status fuse_device_open_cuda(int32_t ordinal, fuse_device **device) {
  return guard([&] {
    requireAll("device", device);
    *device = new fuse_device{openCuda(ordinal)};
  });
}

void fuse_device_destroy(fuse_device *device) { delete device; }

fuse_status fuse_device_check(const fuse_device *device) {
  return guard([&] {
    requireAll("device", device);
    device->value->check();
  });
}

fuse_status fuse_device_wait(fuse_device *device, void *stream,
                             uint64_t timeout_ms) {
  return guard([&] {
    requireAll("device", device);
    device->value->wait(stream, timeout_ms);
  });
}

fuse_status fuse_device_set_exclusive(fuse_device *device, int32_t exclusive) {
  return guard([&] {
    requireAll("device", device);
    device->value->setExclusive(exclusive != 0);
  });
}

fuse_status fuse_set_num_threads(uint32_t num_threads) {
  return guard([&] { ThreadPool::get().setNumThreads(num_threads); });
}

fuse_status fuse_set_team(fuse_parallel parallel, int (*max_threads)(void)) {
  return guard([&] {
    if (!parallel != !max_threads)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "one of parallel and max_threads is null");
    ThreadPool::setTeam({parallel, max_threads});
  });
}

fuse_status fuse_num_threads(uint32_t *num_threads) {
  return guard([&] {
    requireAll("num_threads", num_threads);
    *num_threads = ThreadPool::get().getNumThreads();
  });
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static std::vector<fuse_tensor_type>
getTypes(const std::vector<TensorSpec> &specs) {
  std::vector<fuse_tensor_type> types;
  for (const TensorSpec &spec : specs)
    types.push_back(
        {spec.dtype, static_cast<int32_t>(spec.shape.size()), spec.shape.data(),
         spec.parameter.empty() ? nullptr : spec.parameter.c_str()});
  return types;
}

fuse_status fuse_program_load(const fuse_artifact *artifact,
                              fuse_device *device, fuse_program **program) {
  return guard([&] {
    requireAll("artifact, device, program", artifact, device, program);
    auto made = std::make_unique<fuse_program>();
    made->value = device->value->load(artifact->value);
    for (const Function *function : made->value->functions) {
      made->arguments.push_back(getTypes(function->arguments));
      made->results.push_back(getTypes(function->results));
    }
    *program = made.release();
  });
}

void fuse_program_destroy(fuse_program *program) { delete program; }

size_t fuse_program_num_functions(const fuse_program *program) {
  return program ? program->value->functions.size() : 0;
}

static const Function *getFunction(const fuse_program *program,
                                   size_t function) {
  const auto &functions = program->value->functions;
  if (function >= functions.size())
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "the program has " + std::to_string(functions.size()) +
                      " functions, there is none with index " +
                      std::to_string(function));
  return functions[function];
}

fuse_status fuse_program_signature(const fuse_program *program, size_t function,
                                   fuse_signature *signature) {
  return guard([&] {
    requireAll("program, signature", program, signature);
    const Function *found = getFunction(program, function);
    *signature = {found->name.c_str(),
                  program->arguments[function].size(),
                  program->arguments[function].data(),
                  program->results[function].size(),
                  program->results[function].data(),
                  found->maxTokens};
  });
}

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

fuse_status fuse_instance_create(fuse_program *program, const char *function,
                                 fuse_instance **instance) {
  return guard([&] {
    requireAll("program, instance", program, instance);
    const Function *found = nullptr;
    std::string names;
    for (const Function *candidate : program->value->functions) {
      names += (names.empty() ? "" : ", ") + candidate->name;
      if (!function || candidate->name == function)
        found = candidate;
    }
    if (!function && program->value->functions.size() != 1)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "the program has several functions, name one of " + names);
    if (!found)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "the program has no function '" + std::string(function) +
                        "'; there are " + names);
    *instance =
        new fuse_instance{program->value, program->value->instantiate(*found)};
  });
}

void fuse_instance_destroy(fuse_instance *instance) { delete instance; }

fuse_status fuse_instance_bind(fuse_instance *instance, size_t argument,
                               DLManagedTensorVersioned *tensor) {
  return guard([&] {
    requireAll("instance, tensor", instance, tensor);
    checkManaged(tensor, /*writable=*/false, "the tensor");
    instance->value->bind(argument, &tensor->dl_tensor, [tensor] {
      if (tensor->deleter)
        tensor->deleter(tensor);
    });
  });
}

fuse_status fuse_instance_bind_legacy(fuse_instance *instance, size_t argument,
                                      DLManagedTensor *tensor) {
  return guard([&] {
    requireAll("instance, tensor", instance, tensor);
    instance->value->bind(argument, &tensor->dl_tensor, [tensor] {
      if (tensor->deleter)
        tensor->deleter(tensor);
    });
  });
}

fuse_status fuse_instance_bind_view(fuse_instance *instance, size_t argument,
                                    const DLTensor *tensor) {
  return guard([&] {
    requireAll("instance, tensor", instance, tensor);
    instance->value->bind(argument, tensor, nullptr);
  });
}

fuse_status fuse_instance_bind_parameter(fuse_instance *instance,
                                         const char *parameter,
                                         const DLTensor *tensor) {
  return guard([&] {
    requireAll("instance, parameter, tensor", instance, parameter, tensor);
    const Function &function = instance->value->getFunction();
    bool found = false;
    std::string names;
    // One parameter may bind to several arguments.
    for (size_t i = 0; i < function.arguments.size(); ++i) {
      const std::string &name = function.arguments[i].parameter;
      if (name.empty())
        continue;
      names += (names.empty() ? "" : ", ") + name;
      if (name != parameter)
        continue;
      found = true;
      instance->value->bind(i, tensor, nullptr);
    }
    if (!found)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    function.name + " has no parameter '" + parameter +
                        "'; there are " + (names.empty() ? "none" : names));
  });
}

fuse_status fuse_instance_prepare(fuse_instance *instance) {
  return guard([&] {
    requireAll("instance", instance);
    instance->value->prepare();
  });
}

fuse_status fuse_program_scales(const fuse_program *program, size_t function,
                                const float **scales, size_t *count) {
  return guard([&] {
    requireAll("program, scales, count", program, scales, count);
    const ScaleTable &table =
        program->value->getScales(*getFunction(program, function));
    *scales = table.scales.data();
    *count = table.scales.size();
  });
}

fuse_status fuse_instance_set_scales(fuse_instance *instance,
                                     const float *scales, size_t count) {
  return guard([&] {
    requireAll("instance", instance);
    if (count > 0)
      requireAll("scales", scales);
    instance->value->setScales(std::vector<float>(scales, scales + count));
  });
}

fuse_status fuse_shared_weights_create(fuse_shared_weights **shared) {
  return guard([&] {
    requireAll("shared", shared);
    *shared = new fuse_shared_weights;
  });
}

void fuse_shared_weights_destroy(fuse_shared_weights *shared) { delete shared; }

fuse_status fuse_instance_prepare_shared(fuse_instance *instance,
                                         fuse_shared_weights *shared) {
  return guard([&] {
    requireAll("instance, shared", instance, shared);
    std::lock_guard<std::mutex> lock(shared->mutex);
    instance->value->prepare(&shared->value);
  });
}

fuse_status fuse_instance_limit_tokens(fuse_instance *instance,
                                       int64_t tokens) {
  return guard([&] {
    requireAll("instance", instance);
    instance->value->limitTokens(tokens);
  });
}

fuse_status fuse_instance_num_inputs(const fuse_instance *instance,
                                     size_t *num_inputs) {
  return guard([&] {
    requireAll("instance, num_inputs", instance, num_inputs);
    *num_inputs = instance->value->getNumInputs();
  });
}

fuse_status fuse_instance_result_shape(const fuse_instance *instance,
                                       const DLTensor *const *inputs,
                                       size_t num_inputs, size_t result,
                                       int64_t *shape) {
  return guard([&] {
    requireAll("instance, shape", instance, shape);
    instance->value->getResultShape(inputs, num_inputs, result, shape);
  });
}

fuse_status fuse_instance_workspace_size(const fuse_instance *instance,
                                         const DLTensor *const *inputs,
                                         size_t num_inputs, size_t *bytes) {
  return guard([&] {
    requireAll("instance, bytes", instance, bytes);
    *bytes = instance->value->getWorkspaceSize(inputs, num_inputs);
  });
}

fuse_status fuse_workspace_create(fuse_instance *instance, size_t bytes,
                                  fuse_workspace **workspace) {
  return guard([&] {
    requireAll("instance, workspace", instance, workspace);
    *workspace = new fuse_workspace{instance->program,
                                    instance->value->createWorkspace(bytes)};
  });
}

void fuse_workspace_destroy(fuse_workspace *workspace) { delete workspace; }

fuse_status fuse_launch(fuse_instance *instance, const fuse_launch_args *args) {
  return guard([&] {
    requireAll("instance, args", instance, args);
    if (args->size < sizeof(fuse_launch_args))
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "'size' is " + std::to_string(args->size) + ", expected " +
                        std::to_string(sizeof(fuse_launch_args)));
    LaunchOptions options;
    options.outputs = args->outputs;
    options.numOutputs = args->num_outputs;
    options.workspace =
        args->workspace ? args->workspace->value.get() : nullptr;
    options.stream = args->stream;
    options.flags = args->flags;
    instance->value->launch(args->inputs, args->num_inputs, options);
  });
}

fuse_status fuse_tensor_view(const DLManagedTensorVersioned *tensor,
                             int writable, const DLTensor **view) {
  return guard([&] {
    requireAll("tensor, view", tensor, view);
    checkManaged(tensor, writable != 0, "the tensor");
    *view = &tensor->dl_tensor;
  });
}

void fuse_set_object_linker(const fuse_object_linker *linker) {
  setObjectLinker(linker);
}
