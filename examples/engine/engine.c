/*===- engine.c - An engine author's walk through the C interface ----------===*
 *
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Compiles a block, writes it to a file, loads it as a host without the
 * compiler would, and serves batches of several sizes; then does what a host
 * must not, and prints what it is told. examples/embed is a host in C++, with
 * GPUs, streams and graphs.
 *
 *   cc -I$PREFIX/include engine.c -L$PREFIX/lib -lfuse -lfuse-rt -lm -o engine
 *   ./engine block.fuse
 *
 *===----------------------------------------------------------------------===*/

#include "fuse-c/Compiler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 4, HIDDEN = 8, MOST = 16 };

/* Two linear maps with an activation between them. Weights are bound by the
 * names of the parameters. */
static const char text[] =
    "func.func @block(%x: tensor<?x4xf32>,\n"
    "    %up: tensor<8x4xf32> {fuse.parameter = \"up.weight\"},\n"
    "    %down: tensor<4x8xf32> {fuse.parameter = \"down.weight\"})\n"
    "    -> tensor<?x4xf32> {\n"
    "  %h = fuse.linear %x, %up\n"
    "    : (tensor<?x4xf32>, tensor<8x4xf32>) -> tensor<?x8xf32>\n"
    "  %a = fuse.activation relu %h : tensor<?x8xf32> -> tensor<?x8xf32>\n"
    "  %y = fuse.linear %a, %down\n"
    "    : (tensor<?x8xf32>, tensor<4x8xf32>) -> tensor<?x4xf32>\n"
    "  return %y : tensor<?x4xf32>\n"
    "}\n";

/* Every function that can fail returns a status and sets an error message. */
static void check(fuse_status status, const char *what) {
  if (status == FUSE_OK)
    return;
  fprintf(stderr, "engine: %s: %s (%s)\n", what, fuse_last_error(),
          fuse_status_name(status));
  exit(1);
}

static void print_remark(const fuse_remark *remark, void *user_data) {
  (void)user_data;
  printf("%s %s: %s\n", remark->kind, remark->name, remark->text);
}

/* ---- 1. Compile, on a machine with the compiler. ---- */

static void write_artifact(const char *path) {
  fuse_context *context;
  fuse_module *module;
  fuse_artifact *artifact;
  fuse_compile_options options;

  check(fuse_context_create(&context), "context");
  check(fuse_context_set_remark_handler(context, print_remark, NULL),
        "remarks");
  check(fuse_module_parse(context, text, strlen(text), &module), "parse");
  check(fuse_module_run(module, "builtin.module(func.func(fuse-form-kernels))"),
        "form kernels");
  fuse_compile_options_init(&options);
  /* Code for every machine of this level, and for processes without the
   * compiler. For a GPU, add one line: options.chip = "sm_90a". */
  options.cpu = "x86-64-v3";
#ifdef __aarch64__
  options.cpu = "native";
#endif
  options.link = 1;
  check(fuse_module_compile(module, &options, &artifact), "compile");
  check(fuse_artifact_save(artifact, path), "save");
  fuse_artifact_destroy(artifact);
  fuse_module_destroy(module);
  fuse_context_destroy(context);
}

/* ---- 2. Create tensors. They are those of DLPack, and are not copied. ---- */

static DLTensor view(float *data, int64_t *shape) {
  DLTensor tensor = {0};
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

/* ---- 3. Compute the expected result. ---- */

static void reference(const float *x, const float *up, const float *down,
                      float *y, int rows) {
  for (int row = 0; row < rows; ++row) {
    float hidden[HIDDEN];
    for (int i = 0; i < HIDDEN; ++i) {
      hidden[i] = 0;
      for (int k = 0; k < WIDTH; ++k)
        hidden[i] += x[row * WIDTH + k] * up[i * WIDTH + k];
      hidden[i] = hidden[i] > 0 ? hidden[i] : 0;
    }
    for (int i = 0; i < WIDTH; ++i) {
      float sum = 0;
      for (int k = 0; k < HIDDEN; ++k)
        sum += hidden[k] * down[i * HIDDEN + k];
      y[row * WIDTH + i] = sum;
    }
  }
}

int main(int argc, char **argv) {
  fuse_artifact *artifact;
  fuse_device *device;
  fuse_program *program;
  fuse_instance *instance;
  fuse_signature signature;
  float up[HIDDEN * WIDTH], down[WIDTH * HIDDEN], x[MOST * WIDTH],
      y[MOST * WIDTH], expected[MOST * WIDTH];
  int64_t up_shape[] = {HIDDEN, WIDTH}, down_shape[] = {WIDTH, HIDDEN};

  if (argc != 2) {
    fprintf(stderr, "usage: engine FILE.fuse\n");
    return 2;
  }
  write_artifact(argv[1]);

  /* ---- 4. Load. The compiler is not needed from here on. ---- */
  check(fuse_artifact_load(argv[1], &artifact), "load");
  check(fuse_device_open_cpu(&device), "device");
  check(fuse_program_load(artifact, device, &program), "program");
  check(fuse_program_signature(program, 0, &signature), "signature");
  for (size_t i = 0; i < signature.num_arguments; ++i)
    printf("argument %zu: %s\n", i,
           signature.arguments[i].parameter ? signature.arguments[i].parameter
                                            : "an input");

  /* ---- 5. Bind weights once. A launch then neither allocates nor packs. ----
   */
  for (int i = 0; i < HIDDEN * WIDTH; ++i) {
    up[i] = (float)((i * 7) % 11 - 5) / 4;
    down[i] = (float)((i * 5) % 13 - 6) / 8;
  }
  DLTensor up_view = view(up, up_shape), down_view = view(down, down_shape);
  check(fuse_instance_create(program, NULL, &instance), "instance");
  check(fuse_instance_bind_parameter(instance, "up.weight", &up_view), "bind");
  check(fuse_instance_bind_parameter(instance, "down.weight", &down_view),
        "bind");
  check(fuse_instance_prepare(instance), "prepare");

  /* ---- 6. Serve. ---- */
  for (int rows = 1; rows <= MOST; rows *= 4) {
    int64_t shape[] = {rows, WIDTH};
    float worst = 0;
    for (int i = 0; i < rows * WIDTH; ++i)
      x[i] = (float)((i * 3) % 17 - 8) / 8;
    DLTensor in = view(x, shape), out = view(y, shape);
    const DLTensor *inputs[] = {&in}, *outputs[] = {&out};
    fuse_launch_args args = {sizeof args, inputs, 1, outputs, 1, NULL, NULL, 0};
    check(fuse_launch(instance, &args), "launch");
    reference(x, up, down, expected, rows);
    for (int i = 0; i < rows * WIDTH; ++i)
      worst = fmaxf(worst, fabsf(y[i] - expected[i]));
    printf("%d rows: %s\n", rows, worst < 1e-5f ? "right" : "wrong");
    if (worst >= 1e-5f)
      return 1;
  }

  /* ---- 7. Errors are messages, not crashes. ---- */
  int64_t narrow[] = {2, WIDTH - 1}, wide[] = {2, WIDTH};
  DLTensor in = view(x, narrow), out = view(y, wide);
  const DLTensor *inputs[] = {&in}, *outputs[] = {&out};
  fuse_launch_args args = {sizeof args, inputs, 1, outputs, 1, NULL, NULL, 0};
  if (fuse_launch(instance, &args) != FUSE_OK)
    printf("refused: %s\n", fuse_last_error());
  if (fuse_instance_bind_parameter(instance, "gate.weight", &up_view) !=
      FUSE_OK)
    printf("refused: %s\n", fuse_last_error());

  fuse_instance_destroy(instance);
  fuse_program_destroy(program);
  fuse_device_destroy(device);
  fuse_artifact_destroy(artifact);
  return 0;
}
