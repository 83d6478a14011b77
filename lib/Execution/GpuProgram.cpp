//===- GpuProgram.cpp - A function on a GPU, or an emulated one -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/GpuProgram.h"
#include "fuse/Artifact/Compiler.h"
#include "fuse/Measure/Emulator.h"
#include "fuse/Measure/TestBundle.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"

using namespace mlir;
using namespace fuse;
using llvm::createStringError;
using llvm::Expected;

Expected<GpuProgram> GpuProgram::compile(func::FuncOp function,
                                         const GpuOptions &options) {
  GpuProgram program;
  program.name = function.getSymName();
  auto signature = getSignature(function);
  if (!signature)
    return signature.takeError();
  program.signature = std::move(*signature);
  CompileOptions compile;
  compile.cpu = "";
  compile.chip = options.chip;
  compile.scheduled = !options.isPortable;
  OwningOpRef<ModuleOp> module = isolate(function);
  Expected<std::string> artifact = compileToArtifact(*module, compile);
  if (!artifact)
    return artifact.takeError();
  program.artifact = std::move(*artifact);
  runtime::Artifact read(program.artifact);
  nlohmann::json manifest = runtime::parseJSON(read.sections[0].data);
  for (auto [index, code] : llvm::enumerate(read.manifest.functions)) {
    if (code.name != program.name || !code.device)
      continue;
    program.path = manifest["functions"][index]["cuda"].value("path", "");
    program.isBound = measure::findBound(code);
  }
  if (program.path.empty())
    return createStringError("@" + program.name + " has no code for " +
                             options.chip);
  return program;
}

Expected<std::string> GpuProgram::getDeviceName() {
  try {
    measure::chooseEmulator();
    return measure::Gpu::open(0)->getName();
  } catch (const runtime::Failure &failure) {
    return createStringError(failure.getMessage());
  }
}

Expected<std::vector<HostTensor>> GpuProgram::run(ArrayRef<HostTensor> inputs,
                                                  uint64_t order) const {
  // Far longer than any kernel runs on a GPU. The emulator itself detects
  // kernels that never end.
  constexpr uint64_t timeoutMs = 60000;
  measure::ArgumentStore store;
  std::vector<measure::Argument> arguments;
  for (auto [index, input] : llvm::enumerate(inputs)) {
    measure::Argument &argument = arguments.emplace_back();
    argument.element = getName(input.getType()).str();
    argument.shape.assign(input.getShape().begin(), input.getShape().end());
    argument.seed = index;
    argument.bound = isBound[index];
    store.put(argument, {input.getData(), input.getNumBytes()});
  }
  measure::chooseOrder(order);
  try {
    std::shared_ptr<measure::Gpu> gpu = measure::Gpu::open(0);
    void *stream = gpu->createStream();
    measure::Call call(gpu, artifact, name, arguments, store, nullptr);
    call.poison(stream);
    call.poisonWorkspace(stream);
    call.launch(stream);
    gpu->wait(stream, timeoutMs);
    std::vector<std::string> values = call.download();
    std::vector<HostTensor> results;
    for (size_t i = 0; i < values.size(); ++i) {
      auto result =
          HostTensor::create(signature.results[i].type, call.getResultShape(i));
      if (!result)
        return result.takeError();
      llvm::copy(values[i], result->getData());
      results.push_back(std::move(*result));
    }
    return results;
  } catch (const runtime::Failure &failure) {
    return createStringError(failure.getMessage());
  }
}
