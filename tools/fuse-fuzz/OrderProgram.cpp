//===- OrderProgram.cpp - Run programs from any stage ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OrderProgram.h"
#include "fuse/Pipelines/Pipelines.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/BufferizationToMemRef/BufferizationToMemRef.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/PassManager.h"

#include <cstring>

using namespace mlir;
using namespace fuse;

static FunctionOpInterface find(ModuleOp module, StringRef name) {
  return dyn_cast_or_null<FunctionOpInterface>(module.lookupSymbol(name));
}

bool fuse::isOnBuffers(ModuleOp module, StringRef name) {
  auto function = find(module, name);
  if (!function)
    return false;
  auto isTensor = [](Type type) { return isa<TensorType>(type); };
  return llvm::none_of(function.getArgumentTypes(), isTensor) &&
         llvm::none_of(function.getResultTypes(), isTensor);
}

/// Whether a tensor or buffer has the rank and element type of `spec`.
static bool isOf(Type type, const TensorSpec &spec) {
  if (!isa<RankedTensorType, MemRefType>(type))
    return false;
  auto shaped = cast<ShapedType>(type);
  std::string element;
  llvm::raw_string_ostream(element) << shaped.getElementType();
  return shaped.getRank() == int64_t(spec.shape.size()) &&
         element == getName(spec.type);
}

bool fuse::hasSignature(ModuleOp module, StringRef name,
                        const Signature &signature) {
  auto function = find(module, name);
  if (!function || !function.isPublic() || function.isExternal())
    return false;
  if (isa<LLVM::LLVMFuncOp>(function))
    return bool(module.lookupSymbol(("_mlir_ciface_" + name).str()));
  return isa<func::FuncOp>(function) &&
         llvm::equal(function.getArgumentTypes(), signature.inputs, isOf) &&
         llvm::equal(function.getResultTypes(), signature.results, isOf);
}

/// Adds the phases of the CPU pipeline that a module on buffers still needs.
static void buildFromBuffers(OpPassManager &pm) {
  pm.addPass(bufferization::createLowerDeallocationsPass());
  pm.addPass(createConvertBufferizationToMemRefPass());
  pm.addPass(createLowerAffinePass());
  CPUPipelineOptions options;
  options.reference = true;
  for (const Phase &phase : getCPUPhases(options))
    if (phase.name == "loops" || phase.name == "llvm")
      phase.build(pm);
}

/// A memref descriptor: allocated pointer, aligned pointer, offset, sizes and
/// strides.
static SmallVector<int64_t> getDescriptor(HostTensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  SmallVector<int64_t> words = {reinterpret_cast<intptr_t>(tensor.getData()),
                                reinterpret_cast<intptr_t>(tensor.getData()),
                                0};
  llvm::append_range(words, shape);
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  llvm::append_range(words, strides);
  return words;
}

/// Copies the tensor of a descriptor, which may have any strides.
static llvm::Expected<HostTensor> readDescriptor(const TensorSpec &spec,
                                                 const int64_t *words) {
  size_t rank = spec.shape.size(), bytes = getSize(spec.type);
  ArrayRef<int64_t> shape(words + 3, rank), strides(words + 3 + rank, rank);
  auto tensor = HostTensor::create(spec.type, shape);
  if (!tensor)
    return tensor;
  const char *data = reinterpret_cast<const char *>(words[1]);
  for (int64_t i = 0; i < tensor->getNumElements(); ++i) {
    int64_t place = words[2], rest = i;
    for (size_t dim = rank; dim-- > 0; rest /= shape[dim])
      place += rest % shape[dim] * strides[dim];
    std::memcpy(tensor->getData() + i * bytes, data + place * int64_t(bytes),
                bytes);
  }
  return tensor;
}

llvm::Expected<std::vector<HostTensor>>
StageProgram::run(ArrayRef<HostTensor> inputs) const {
  SmallVector<int64_t> resultWords;
  for (const TensorSpec &spec : signature.results)
    resultWords.resize(resultWords.size() + 3 + 2 * spec.shape.size());
  auto *copies = new std::vector<HostTensor>;
  for (const HostTensor &input : inputs)
    copies->push_back(input.clone());
  SmallVector<SmallVector<int64_t>> descriptors =
      llvm::map_to_vector(*copies, getDescriptor);
  // The packed interface expects the address of each argument, and the
  // arguments are pointers themselves.
  SmallVector<void *> pointers, arguments;
  if (!signature.results.empty())
    pointers.push_back(resultWords.data());
  for (SmallVector<int64_t> &descriptor : descriptors)
    pointers.push_back(descriptor.data());
  for (void *&pointer : pointers)
    arguments.push_back(&pointer);
  entry(arguments.data());
  std::vector<HostTensor> results;
  const int64_t *words = resultWords.data();
  for (const TensorSpec &spec : signature.results) {
    auto tensor = readDescriptor(spec, words);
    if (!tensor)
      return tensor.takeError();
    results.push_back(std::move(*tensor));
    words += 3 + 2 * spec.shape.size();
  }
  return results;
}

llvm::Expected<StageProgram> StageProgram::compile(ModuleOp module,
                                                   StringRef name,
                                                   const Signature &signature) {
  PassManager pm(module.getContext());
  bool hasTensors =
      module
          .walk([](Operation *op) {
            auto isTensor = [](Type type) { return isa<TensorType>(type); };
            return WalkResult(
                failure(llvm::any_of(op->getResultTypes(), isTensor) ||
                        llvm::any_of(op->getOperandTypes(), isTensor)));
          })
          .wasInterrupted();
  CPUPipelineOptions options;
  options.reference = true;
  if (hasTensors || !isOnBuffers(module, name))
    buildCPUPipeline(pm, options);
  else
    buildFromBuffers(pm);
  if (failed(pm.run(module)))
    return llvm::createStringError("cannot be lowered for the CPU");
  auto jit = CPUJIT::create(module, /*optLevel=*/0);
  if (!jit)
    return jit.takeError();
  auto entry = (*jit)->lookup(name);
  if (!entry)
    return entry.takeError();
  StageProgram program;
  program.jit = std::move(*jit);
  program.entry = *entry;
  program.signature = signature;
  return program;
}
