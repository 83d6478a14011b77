/*===- Tensor.h - Tensors and launches of C programs ----------------------===//
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_TEST_CAPI_TENSOR_H
#define FUSE_TEST_CAPI_TENSOR_H

#include "fuse-c/Compiler.h"

#include <string.h>

/* An f32 tensor on the CPU. */
static inline DLTensor makeTensor(void *data, int64_t *shape, int32_t ndim) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof(tensor));
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = ndim;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

/* A launch with one input and one output. */
static inline fuse_launch_args makeLaunch(const DLTensor *const *inputs,
                                          const DLTensor *const *outputs) {
  fuse_launch_args args;
  memset(&args, 0, sizeof(args));
  args.size = sizeof(args);
  args.inputs = inputs;
  args.num_inputs = 1;
  args.outputs = outputs;
  args.num_outputs = 1;
  return args;
}

#endif /* FUSE_TEST_CAPI_TENSOR_H */
