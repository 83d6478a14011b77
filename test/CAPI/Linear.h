/*===- Linear.h - A linear layer that C programs compile and run ----------===//
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*/

#ifndef FUSE_TEST_CAPI_LINEAR_H
#define FUSE_TEST_CAPI_LINEAR_H

#include "Tensor.h"
#include "fuse-c/Compiler.h"

#include <stdio.h>
#include <stdlib.h>
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

/* Prints the outcome of a call. */
static inline fuse_status report(const char *what, fuse_status status) {
  printf("%s: %s%s%s\n", what, fuse_status_name(status),
         status == FUSE_OK ? "" : ": ",
         status == FUSE_OK ? "" : fuse_last_error());
  fflush(stdout);
  return status;
}

/* Ends the program where a call fails. */
static inline void expect(fuse_status status) {
  if (status == FUSE_OK)
    return;
  report("unexpected", status);
  exit(1);
}

/* Code for this machine, or what the options say. */
static inline fuse_artifact *compile(const char *text,
                                     const fuse_compile_options *options) {
  fuse_context *context = NULL;
  fuse_module *module = NULL;
  fuse_artifact *artifact = NULL;
  expect(fuse_context_create(&context));
  expect(fuse_module_parse(context, text, strlen(text), &module));
  expect(fuse_module_compile(module, options, &artifact));
  fuse_module_destroy(module);
  fuse_context_destroy(context);
  return artifact;
}

#endif /* FUSE_TEST_CAPI_LINEAR_H */
