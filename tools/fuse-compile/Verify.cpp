//===- Verify.cpp - Check an artifact against its own IR ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Verify.h"
#include "Handles.h"
#include "fuse/Measure/Emulator.h"
#include "fuse/Measure/TestBundle.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "nlohmann/json.hpp"

#include <cmath>
#include <cstring>
#include <random>

using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

namespace {

/// A tensor that owns its memory.
struct Buffer {
  explicit Buffer(const runtime::TensorSpec &spec, std::vector<int64_t> sizes)
      : shape(std::move(sizes)),
        bytes(runtime::getNumBytes(spec, shape.data()) + 64) {
    void *data = bytes.data();
    size_t room = bytes.size();
    data = std::align(16, bytes.size() - 64, data, room);
    tensor = {data,       {kDLCPU, 0},  static_cast<int32_t>(shape.size()),
              spec.dtype, shape.data(), nullptr,
              0};
  }
  Buffer(Buffer &&) = default;

  std::string getBytes(const runtime::TensorSpec &spec) const {
    return {static_cast<const char *>(tensor.data),
            runtime::getNumBytes(spec, shape.data())};
  }

  std::vector<int64_t> shape;
  std::vector<char> bytes;
  DLTensor tensor;
};

} // namespace

/// Fills a tensor with finite values of magnitude up to about two. Draws the
/// bits, not the values, since rounding does not matter here.
static void fillRandom(Buffer &buffer, const runtime::TensorSpec &spec,
                       std::mt19937_64 &random) {
  size_t width = spec.dtype.bits / 8;
  size_t count = runtime::getNumBytes(spec, buffer.shape.data()) / width;
  auto *data = static_cast<char *>(buffer.tensor.data);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    auto value = float(int64_t(bits % 4097) - 2048) / 2048.0f;
    if (spec.element == "f64") {
      double wide = value;
      std::memcpy(&bits, &wide, 8);
    } else if (spec.element == "f32") {
      std::memcpy(&bits, &value, 4);
    } else if (spec.element == "bf16") {
      uint32_t single;
      std::memcpy(&single, &value, 4);
      bits = single >> 16;
    } else if (spec.element == "f16") {
      // Clear the highest bit of the exponent: the value is below two.
      bits &= 0xbfff;
    } else if (spec.element == "f8E4M3FN" || spec.element == "f8E5M2") {
      bits &= 0xbf;
    } else {
      bits %= 8;
    }
    std::memcpy(data + i * width, &bits, width);
  }
}

namespace {

/// A function of an artifact on the CPU.
class Runner {
public:
  static Expected<Runner> create(const fuse_artifact *artifact,
                                 const std::string &function) {
    Runner runner;
    auto device = own<DeviceHandle>(fuse_device_open_cpu);
    if (!device)
      return device.takeError();
    auto program = own<ProgramHandle>([&](fuse_program **program) {
      return fuse_program_load(artifact, device->get(), program);
    });
    if (!program)
      return program.takeError();
    auto instance = own<InstanceHandle>([&](fuse_instance **instance) {
      return fuse_instance_create(program->get(), function.c_str(), instance);
    });
    if (!instance)
      return instance.takeError();
    runner.instance = std::move(*instance);
    return runner;
  }

  llvm::Error run(llvm::ArrayRef<Buffer> inputs,
                  llvm::ArrayRef<Buffer> outputs) {
    std::vector<const DLTensor *> in, out;
    size_t index = 0;
    for (const Buffer &buffer : inputs) {
      in.push_back(&buffer.tensor);
      // Everything is bound, so parameters are as well.
      if (llvm::Error error = check(
              fuse_instance_bind_view(instance.get(), index++, &buffer.tensor)))
        return error;
    }
    for (const Buffer &buffer : outputs)
      out.push_back(&buffer.tensor);
    if (llvm::Error error = check(fuse_instance_prepare(instance.get())))
      return error;
    fuse_launch_args args = {};
    args.size = sizeof(args);
    args.outputs = out.data();
    args.num_outputs = out.size();
    return check(fuse_launch(instance.get(), &args));
  }

private:
  InstanceHandle instance;
};

} // namespace

/// Creates tensors for a function; dynamic sizes are small.
static std::vector<Buffer>
createBuffers(const runtime::Function &function,
              const std::vector<runtime::TensorSpec> &specs,
              const std::vector<int64_t> &symbols, bool results) {
  std::vector<Buffer> buffers;
  for (size_t i = 0; i < specs.size(); ++i) {
    std::vector<int64_t> shape = specs[i].shape;
    for (size_t dim = 0; dim < shape.size(); ++dim) {
      if (shape[dim] >= 0)
        continue;
      shape[dim] = 1;
      if (results && function.resultSizes[i][dim])
        shape[dim] = function.resultSizes[i][dim]->evaluate(symbols.data());
      for (size_t s = 0; s < function.symbols.size() && !results; ++s)
        for (runtime::Symbol::Place place : function.symbols[s].places)
          if (place.argument == i && place.dim == dim)
            shape[dim] = symbols[s];
    }
    buffers.emplace_back(specs[i], std::move(shape));
  }
  return buffers;
}

/// Chooses small values for dynamic sizes.
static std::vector<int64_t> chooseSymbols(const runtime::Function &function) {
  std::vector<int64_t> symbols;
  for (const runtime::Symbol &symbol : function.symbols)
    symbols.push_back(symbol.size.value_or(symbols.empty() ? 3 : 2));
  return symbols;
}

static std::vector<Buffer> createInputs(const runtime::Function &function,
                                        const std::vector<int64_t> &symbols) {
  std::vector<Buffer> inputs =
      createBuffers(function, function.arguments, symbols, false);
  std::mt19937_64 random(0);
  for (size_t i = 0; i < inputs.size(); ++i)
    fillRandom(inputs[i], function.arguments[i], random);
  return inputs;
}

/// Whether two results are equal up to the order of summation, which changes
/// some values by one step of the function's narrowest type.
static bool isClose(const runtime::Function &function, size_t result,
                    const std::string &actual, const std::string &expected) {
  int narrowest = 32;
  for (const auto &specs : {function.arguments, function.results})
    for (const runtime::TensorSpec &spec : specs)
      narrowest = std::min<int>(narrowest, spec.dtype.bits);
  double bound = narrowest == 8 ? 1e-3 : narrowest == 16 ? 1e-4 : 1e-10;
  measure::Comparison difference =
      measure::compare(function.results[result].element, actual, expected);
  return difference.specials == 0 && difference.energy <= bound;
}

/// Runs one function of both artifacts on the same random tensors. If the code
/// sums in another order, some results may differ by one step of their type;
/// otherwise they have to be equal.
static Expected<bool> compare(const fuse_artifact *fused,
                              const fuse_artifact *layers,
                              const runtime::Function &function) {
  std::vector<int64_t> symbols = chooseSymbols(function);
  std::vector<Buffer> inputs = createInputs(function, symbols);
  std::vector<Buffer> results[2];
  const fuse_artifact *artifacts[2] = {fused, layers};
  for (int side : {0, 1}) {
    results[side] = createBuffers(function, function.results, symbols, true);
    auto runner = Runner::create(artifacts[side], function.name);
    if (!runner)
      return runner.takeError();
    if (llvm::Error error = runner->run(inputs, results[side]))
      return std::move(error);
  }
  for (size_t i = 0; i < function.results.size(); ++i) {
    std::string first = results[0][i].getBytes(function.results[i]);
    std::string second = results[1][i].getBytes(function.results[i]);
    if (function.cpu->plan ? !isClose(function, i, first, second)
                           : first != second)
      return false;
  }
  return true;
}

static std::vector<std::string>
runOnce(const std::shared_ptr<measure::Gpu> &gpu, std::string_view artifact,
        const runtime::Function &function,
        const std::vector<measure::Argument> &arguments,
        measure::ArgumentStore &store) {
  // The emulator itself detects kernels that never end.
  constexpr uint64_t timeoutMs = 60000;
  void *stream = gpu->createStream();
  measure::Call call(gpu, artifact, function.name, arguments, store, nullptr);
  call.poison(stream);
  call.poisonWorkspace(stream);
  call.launch(stream);
  gpu->wait(stream, timeoutMs);
  return call.download();
}

/// Runs the GPU code of a function on the emulator with several interleavings,
/// and its layers on the CPU. Returns a description of the first difference.
static Expected<std::string> compareEmulated(std::string_view artifact,
                                             const fuse_artifact *layers,
                                             const runtime::Function &function,
                                             std::string &device) {
  std::vector<int64_t> symbols = chooseSymbols(function);
  std::vector<Buffer> inputs = createInputs(function, symbols);
  std::vector<Buffer> results =
      createBuffers(function, function.results, symbols, true);
  auto runner = Runner::create(layers, function.name);
  if (!runner)
    return runner.takeError();
  if (llvm::Error error = runner->run(inputs, results))
    return std::move(error);
  measure::ArgumentStore store;
  std::vector<measure::Argument> arguments(inputs.size());
  std::vector<bool> isBound = measure::findBound(function);
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments[i].element = function.arguments[i].element;
    arguments[i].shape = inputs[i].shape;
    arguments[i].seed = i;
    arguments[i].bound = isBound[i];
    store.put(arguments[i], inputs[i].getBytes(function.arguments[i]));
  }
  measure::chooseEmulator();
  // Seeds 0, 1 and 2: asynchronous operations complete immediately, as late as
  // possible, and at random times.
  constexpr unsigned numOrders = 3;
  std::vector<std::string> first;
  for (unsigned order = 0; order < numOrders; ++order) {
    measure::chooseOrder(order);
    std::vector<std::string> values;
    try {
      std::shared_ptr<measure::Gpu> gpu = measure::Gpu::open(0);
      device = gpu->getName();
      values = runOnce(gpu, artifact, function, arguments, store);
    } catch (const runtime::Failure &failure) {
      return failure.getMessage();
    }
    if (order == 0)
      first = values;
    if (values != first)
      return "order " + std::to_string(order) +
             " gives other bits than the first one";
  }
  for (size_t i = 0; i < first.size(); ++i)
    if (!isClose(function, i, first[i],
                 results[i].getBytes(function.results[i])))
      return "result " + std::to_string(i) + " is too far from its layers";
  return "";
}

/// Parses the IR of an artifact and undoes all of its fusions. The digest is of
/// layers without a version.
static Expected<Module> getLayers(fuse_context *context, std::string_view ir) {
  auto module = own<Module>([&](fuse_module **module) {
    return fuse_module_parse(context, ir.data(), ir.size(), module);
  });
  if (!module)
    return module.takeError();
  if (llvm::Error error = check(fuse_module_run(
          module->get(),
          "builtin.module(fuse-unfuse,fuse-stamp-version{remove=true})")))
    return std::move(error);
  return module;
}

static Expected<std::string> getDigest(const fuse_module *module) {
  char *text = nullptr;
  size_t length = 0;
  if (llvm::Error error = check(fuse_module_print(module, &text, &length)))
    return std::move(error);
  std::string digest = runtime::toHex(runtime::getDigest({text, length}));
  fuse_string_free(text);
  return digest;
}

Expected<bool> fuse::verifyArtifact(llvm::StringRef path, bool emulates,
                                    llvm::raw_ostream &os) {
  auto artifact = own<ArtifactHandle>([&](fuse_artifact **artifact) {
    return fuse_artifact_load(path.str().c_str(), artifact);
  });
  if (!artifact)
    return artifact.takeError();
  size_t size;
  const void *bytes = fuse_artifact_bytes(artifact->get(), &size);
  auto sections =
      runtime::readContainer({static_cast<const char *>(bytes), size});
  runtime::Manifest manifest = runtime::readManifest(sections);
  nlohmann::json json = runtime::parseJSON(sections[0].data);
  size_t index = json.value("ir", size_t(0));
  if (index >= sections.size() || sections[index].kind != FUSE_SECTION_IR)
    return createStringError("the artifact has no IR");
  auto context = own<Context>(fuse_context_create);
  if (!context)
    return context.takeError();
  auto layers = getLayers(context->get(), sections[index].data);
  if (!layers)
    return layers.takeError();
  Expected<std::string> digest = getDigest(layers->get());
  if (!digest)
    return digest.takeError();
  bool allHold = *digest == json.value("layers_sha256", "");
  os << "V0  unfused IR is that of the layers   " << (allHold ? "ok" : "FAILED")
     << "\n";

  auto compiled = own<ArtifactHandle>([&](fuse_artifact **artifact) {
    return fuse_module_compile(layers->get(), nullptr, artifact);
  });
  if (!compiled)
    return compiled.takeError();
  for (const runtime::Function &function : manifest.functions) {
    if (emulates && function.device) {
      std::string device;
      Expected<std::string> wrong =
          compareEmulated({static_cast<const char *>(bytes), size},
                          compiled->get(), function, device);
      if (!wrong)
        return wrong.takeError();
      os << "V2  @" << function.name << " has the results of its layers on "
         << device << "   " << (wrong->empty() ? "ok" : "FAILED: ") << *wrong
         << "\n";
      allHold &= wrong->empty();
    }
    if (!function.cpu) {
      os << "V1  @" << function.name << ": no code for the CPU\n";
      continue;
    }
    Expected<bool> same = compare(artifact->get(), compiled->get(), function);
    if (!same)
      return same.takeError();
    if (function.cpu->plan)
      os << "V2  @" << function.name
         << " has the results of its layers up to the order of sums   ";
    else
      os << "V1  @" << function.name << " has the bits of its layers   ";
    os << (*same ? "ok" : "FAILED") << "\n";
    allHold &= *same;
  }
  return allHold;
}
