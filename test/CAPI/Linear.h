/*===- Linear.h - A linear layer that C programs compile and run ----------===//
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_TEST_CAPI_LINEAR_H
#define FUSE_TEST_CAPI_LINEAR_H

#include "fuse-c/Compiler.h"

#include <string.h>

static const char *const source =
    "func.func @f(%x: tensor<?x2xf32>,\n"
    "    %w: tensor<2x2xf32> {fuse.parameter = \"up.weight\"})\n"
    "    -> tensor<?x2xf32> {\n"
    "  %0 = fuse.linear %x, %w\n"
    "    : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>\n"
    "  %1 = fuse.activation relu %0 : tensor<?x2xf32> -> tensor<?x2xf32>\n"
    "  return %1 : tensor<?x2xf32>\n"
    "}\n";

/* An f32 tensor on the CPU. */
static DLTensor makeTensor(void *data, int64_t *shape, int32_t ndim) {
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

#endif /* FUSE_TEST_CAPI_LINEAR_H */
