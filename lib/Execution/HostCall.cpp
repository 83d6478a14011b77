//===- HostCall.cpp - Call compiled functions on host tensors -------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Execution/HostCall.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cstring>

using namespace llvm;
using namespace fuse;

/// Number of 8-byte words in a memref descriptor: allocated pointer, aligned
/// pointer, offset, sizes and strides.
static size_t getDescriptorSize(size_t rank) { return 3 + 2 * rank; }

static SmallVector<int64_t> getDescriptor(const HostTensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  SmallVector<int64_t> words(getDescriptorSize(shape.size()));
  words[0] = words[1] = reinterpret_cast<intptr_t>(tensor.getData());
  words[2] = 0;
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0;) {
    words[3 + dim] = shape[dim];
    words[3 + shape.size() + dim] = stride;
    stride *= shape[dim];
  }
  return words;
}

Expected<std::vector<HostTensor>>
fuse::callHostFunction(PackedFunction function, ArrayRef<HostTensor> inputs,
                       ArrayRef<TensorSpec> results) {
  size_t numResultWords = 0;
  for (const TensorSpec &spec : results)
    numResultWords += getDescriptorSize(spec.shape.size());
  SmallVector<int64_t> resultWords(numResultWords, 0);
  SmallVector<SmallVector<int64_t>> descriptors;
  for (const HostTensor &input : inputs)
    descriptors.push_back(getDescriptor(input));

  // The packed interface expects the address of every argument, and the
  // arguments are pointers themselves.
  SmallVector<void *> pointers;
  if (!results.empty())
    pointers.push_back(resultWords.data());
  for (SmallVector<int64_t> &descriptor : descriptors)
    pointers.push_back(descriptor.data());
  SmallVector<void *> arguments;
  for (void *&pointer : pointers)
    arguments.push_back(&pointer);
  function(arguments.data());

  std::vector<HostTensor> tensors;
  SmallPtrSet<void *, 4> allocations;
  Error problem = Error::success();
  const int64_t *words = resultWords.data();
  for (const TensorSpec &spec : results) {
    size_t rank = spec.shape.size();
    allocations.insert(reinterpret_cast<void *>(words[0]));
    Expected<HostTensor> tensor =
        HostTensor::create(spec.type, ArrayRef(words + 3, rank));
    if (tensor) {
      const char *data = reinterpret_cast<const char *>(words[1]) +
                         words[2] * static_cast<int64_t>(getSize(spec.type));
      if (tensor->getNumBytes() > 0)
        std::memcpy(tensor->getData(), data, tensor->getNumBytes());
      tensors.push_back(std::move(*tensor));
    } else {
      problem = joinErrors(std::move(problem), tensor.takeError());
    }
    words += getDescriptorSize(rank);
  }
  for (void *allocation : allocations)
    std::free(allocation);
  if (problem)
    return std::move(problem);
  return tensors;
}
