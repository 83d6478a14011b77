// RUN: rm -rf %t && mkdir %t && cp /bin/true %t/ptxas
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda PATH=%t \
// RUN:   FAKE_CUDA_SCRIPT=/dev/null \
// RUN:   %fuse_obj_root/bin/fuse-c-misuse-test 2>&1 | FileCheck %s
// Errors of a caller and their messages, on the CPU and on the fake GPU. Each
// line is one error; nothing crashes.

#define _DEFAULT_SOURCE

#include "Linear.h"
#include "fuse-c/Kernels.h"

#include <signal.h>
#include <sys/resource.h>

static const char *const mlp =
    "func.func @mlp(%x: tensor<?x64xbf16>,\n"
    "    %up: tensor<64x64xbf16> {fuse.parameter = \"up\"},\n"
    "    %down: tensor<64x64xbf16> {fuse.parameter = \"down\"})\n"
    "    -> tensor<?x64xbf16> {\n"
    "  %0 = fuse.mlp %x up(%up) down(%down) act(relu) rounding(exact)\n"
    "    : (tensor<?x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16>)\n"
    "      -> tensor<?x64xbf16>\n"
    "  return %0 : tensor<?x64xbf16>\n"
    "}\n";

static fuse_artifact *compileForGPU(const char *text) {
  fuse_compile_options options;
  fuse_compile_options_init(&options);
  options.chip = "sm_90a";
  options.cpu = "";
  options.tokens = 16;
  return compile(text, &options);
}

static void compileWrongly(void) {
  fuse_context *context = NULL;
  fuse_module *module = NULL;
  fuse_artifact *artifact = NULL;
  fuse_compile_options options;
  char deep[1000] = "";
  expect(fuse_context_create(&context));
  // CHECK: no text: FUSE_ERROR_INVALID_ARGUMENT
  report("no text", fuse_module_parse(context, NULL, 3, &module));
  // CHECK: bad text: FUSE_ERROR_PARSE
  report("bad text", fuse_module_parse(context, "func", 4, &module));
  expect(fuse_module_parse(context, mlp, strlen(mlp), &module));
  // The trace file is written when the trace ends.
  expect(fuse_context_set_trace(context, "/dev/full"));
  // CHECK: full trace: FUSE_ERROR_IO: /dev/full: No space left on device
  report("full trace", fuse_context_set_trace(context, "/dev/null"));
  expect(fuse_context_set_trace(context, NULL));
  // CHECK: bad pipeline: FUSE_ERROR_INVALID_ARGUMENT: pipeline
  // CHECK-SAME: 'builtin.module(nothing)'
  report("bad pipeline", fuse_module_run(module, "builtin.module(nothing)"));
  // CHECK: deep pipeline: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}nested more than
  memset(deep, '(', sizeof(deep) - 1);
  report("deep pipeline", fuse_module_run(module, deep));
  memset(&options, 0, sizeof(options));
  // CHECK: failing pass: FUSE_ERROR_PASS: {{.*}}no module matches
  report("failing pass",
         fuse_module_run(module, "builtin.module(fuse-list-modules{paths=a})"));
  // CHECK: no pipeline: FUSE_ERROR_INVALID_ARGUMENT: 'module' or 'pipeline' is
  report("no pipeline", fuse_module_run(module, NULL));
  // CHECK: no clone: FUSE_ERROR_INVALID_ARGUMENT: 'module' or 'clone' is null
  report("no clone", fuse_module_clone(module, NULL));
  // CHECK: no artifact: FUSE_ERROR_INVALID_ARGUMENT: 'module' or 'artifact' is
  report("no artifact", fuse_module_compile(module, NULL, NULL));
  // CHECK: no cache: FUSE_ERROR_INVALID_ARGUMENT: 'module', 'cache' or
  // CHECK-SAME: 'artifact' is null
  report("no cache",
         fuse_module_compile_cached(module, NULL, NULL, &artifact, NULL));
  // CHECK: no place for it: FUSE_ERROR_INVALID_ARGUMENT: 'cache' is null
  report("no place for it", fuse_cache_open(NULL, NULL));
  // CHECK: no configuration: FUSE_ERROR_INVALID_ARGUMENT: 'module' or 'config'
  report("no configuration", fuse_module_bind_slots(module, NULL, NULL));
  // CHECK: nothing to unbind: FUSE_ERROR_INVALID_ARGUMENT: 'module' is null
  report("nothing to unbind", fuse_module_unbind_slots(NULL, NULL));
  // CHECK: no size: FUSE_ERROR_INVALID_ARGUMENT: 'size' is 0
  report("no size", fuse_module_compile(module, &options, &artifact));
  fuse_compile_options_init(&options);
  options.assemble = 3;
  // CHECK: bad assemble: FUSE_ERROR_INVALID_ARGUMENT: 'assemble' is 3, expected
  // CHECK-SAME: 0, 1 or 2
  report("bad assemble", fuse_module_compile(module, &options, &artifact));
  fuse_compile_options_init(&options);
  options.chip = "sm_1";
  // CHECK: bad chip: FUSE_ERROR_PASS: {{.*}}sm_1
  report("bad chip", fuse_module_compile(module, &options, &artifact));
  fuse_compile_options_init(&options);
  options.cpu = "z80";
  // CHECK: bad processor: FUSE_ERROR_PASS: unknown processor 'z80'; there are
  report("bad processor", fuse_module_compile(module, &options, &artifact));
  fuse_compile_options_init(&options);
  options.cpu = "";
  options.chip = "sm_90a";
  options.tokens = -5;
  // CHECK: bad tokens: FUSE_ERROR_PASS: {{.*}}-5
  report("bad tokens", fuse_module_compile(module, &options, &artifact));
  fuse_module_destroy(module);
  fuse_context_destroy(context);
}

/* A disk without space for a single byte. */
static void compileOnFullDisk(void) {
  fuse_context *context = NULL;
  fuse_module *module = NULL;
  fuse_artifact *artifact = NULL;
  fuse_compile_options options;
  struct rlimit most, none;
  expect(fuse_context_create(&context));
  expect(fuse_module_parse(context, mlp, strlen(mlp), &module));
  fuse_compile_options_init(&options);
  options.cpu = "";
  options.chip = "sm_80";
  options.assemble = 2;
  getrlimit(RLIMIT_FSIZE, &most);
  none = most;
  none.rlim_cur = 0;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &none);
  fuse_status status = fuse_module_compile(module, &options, &artifact);
  setrlimit(RLIMIT_FSIZE, &most);
  // CHECK: full disk: FUSE_ERROR_PASS: {{.*}}code.ptx: File too large
  report("full disk", status);
  // CHECK: full pipe: FUSE_ERROR_PASS: {{.*}}/dev/full: No space left on device
  report("full pipe",
         fuse_module_run(module, "builtin.module(fuse-gpu-pipeline,"
                                 "fuse-emit-ptx{output=/dev/full})"));
  fuse_module_destroy(module);
  fuse_context_destroy(context);
}

static void loadWrongly(const fuse_artifact *artifact) {
  fuse_artifact *other = NULL;
  fuse_device *device = NULL;
  fuse_program *program = NULL;
  size_t size = 0;
  const char *bytes = fuse_artifact_bytes(artifact, &size);
  char *copy = malloc(size);
  memcpy(copy, bytes, size);
  // CHECK: nothing: FUSE_ERROR_FORMAT
  report("nothing", fuse_artifact_from_bytes(copy, 0, &other));
  // CHECK: truncated: FUSE_ERROR_FORMAT
  report("truncated", fuse_artifact_from_bytes(copy, size - 1, &other));
  copy[8] = 99;
  // CHECK: newer: FUSE_ERROR_VERSION: the artifact has version 99
  report("newer", fuse_artifact_from_bytes(copy, size, &other));
  copy[8] = bytes[8];
  copy[size - 1] ^= 1;
  // CHECK: damaged: FUSE_ERROR_FORMAT
  report("damaged", fuse_artifact_from_bytes(copy, size, &other));
  free(copy);
  expect(fuse_device_open_cpu(&device));
  // CHECK: no code for it: FUSE_ERROR_TARGET
  report("no code for it", fuse_program_load(artifact, device, &program));
  fuse_device_destroy(device);
  // CHECK: no such device: FUSE_ERROR_{{[A-Z_]+}}: {{.*}}-1
  report("no such device", fuse_device_open_cuda(-1, &device));
}

/* Tensors with the alignment of vectors. */
static union {
  char bytes[64 * 64 * 2];
  long double vector;
} room[3];

static DLTensor view(int index, int64_t *shape, DLDeviceType type) {
  DLTensor tensor = makeTensor(room[index].bytes, shape, 2);
  tensor.device.device_type = type;
  tensor.dtype.code = kDLBfloat;
  tensor.dtype.bits = 16;
  return tensor;
}

static void launchWrongly(const fuse_artifact *artifact) {
  fuse_device *device = NULL;
  fuse_program *program = NULL;
  fuse_instance *instance = NULL;
  fuse_workspace *workspace = NULL, *small = NULL;
  fuse_signature signature;
  int64_t weights[2] = {64, 64}, tokens[2] = {16, 64}, result[2] = {16, 64};
  DLTensor weight = view(0, weights, kDLCPU);
  DLTensor x = view(1, tokens, kDLCUDA), y = view(2, result, kDLCUDA);
  const DLTensor *inputs[1] = {&x}, *outputs[1] = {&y};
  fuse_launch_args args = makeLaunch(inputs, outputs);
  size_t bytes = 0;
  const float scales[1] = {0.5f}, *found = NULL;

  expect(fuse_device_open_cuda(0, &device));
  expect(fuse_program_load(artifact, device, &program));
  // CHECK: no such function: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}'g'; there
  // CHECK-SAME: are mlp
  report("no such function", fuse_instance_create(program, "g", &instance));
  // CHECK: no such signature: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}1 functions
  report("no such signature", fuse_program_signature(program, 1, &signature));
  expect(fuse_instance_create(program, NULL, &instance));
  // CHECK: early size: FUSE_ERROR_STATE: {{.*}}not prepared
  report("early size",
         fuse_instance_workspace_size(instance, inputs, 1, &bytes));
  // CHECK: no such argument: FUSE_ERROR_INVALID_ARGUMENT: mlp has 3 arguments
  report("no such argument", fuse_instance_bind_view(instance, 3, &weight));
  // CHECK: no such parameter: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}there are
  // CHECK-SAME: up, down
  report("no such parameter",
         fuse_instance_bind_parameter(instance, "gate", &weight));
  weight.dtype.bits = 32;
  // CHECK: wrong type: FUSE_ERROR_TENSOR
  report("wrong type", fuse_instance_bind_view(instance, 1, &weight));
  weight.dtype.bits = 16;
  weight.data = room[0].bytes + 1;
  // CHECK: unaligned: FUSE_ERROR_TENSOR: {{.*}}not aligned
  report("unaligned", fuse_instance_bind_view(instance, 1, &weight));
  weight.data = NULL;
  // CHECK: no data: FUSE_ERROR_TENSOR: {{.*}}no data
  report("no data", fuse_instance_bind_view(instance, 1, &weight));
  weight.data = room[0].bytes;
  expect(fuse_instance_bind_parameter(instance, "up", &weight));
  // CHECK: half bound: FUSE_ERROR_STATE: argument 2 of mlp (down)
  report("half bound", fuse_instance_prepare(instance));
  expect(fuse_instance_bind_parameter(instance, "down", &weight));
  // CHECK: no scales: FUSE_ERROR_INVALID_ARGUMENT: the code of mlp has 0
  // CHECK-SAME: static scales, got 1
  report("no scales", fuse_instance_set_scales(instance, scales, 1));
  // CHECK: null scales: FUSE_ERROR_INVALID_ARGUMENT: one of these is null:
  // scales
  report("null scales", fuse_instance_set_scales(instance, NULL, 1));
  // CHECK: no such scales: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}1 functions
  report("no such scales", fuse_program_scales(program, 1, &found, &bytes));
  expect(fuse_program_scales(program, 0, &found, &bytes));
  // CHECK: no limit: FUSE_ERROR_INVALID_ARGUMENT: a limit of -1 tokens
  report("no limit", fuse_instance_limit_tokens(instance, -1));
  expect(fuse_instance_limit_tokens(instance, 8));
  expect(fuse_instance_prepare(instance));
  // CHECK: no such result: FUSE_ERROR_INVALID_ARGUMENT: mlp has 1 results,
  // there CHECK-SAME: is none with index 1
  report("no such result",
         fuse_instance_result_shape(instance, inputs, 1, 1, result));
  // CHECK: two inputs: FUSE_ERROR_INVALID_ARGUMENT: mlp takes 1 inputs, got 2
  report("two inputs",
         fuse_instance_workspace_size(instance, inputs, 2, &bytes));
  expect(fuse_instance_workspace_size(instance, inputs, 1, &bytes));
  expect(fuse_workspace_create(instance, bytes, &workspace));
  // CHECK: tiny: FUSE_ERROR_INVALID_ARGUMENT: a workspace of 1 bytes is too
  // CHECK-SAME: small
  report("tiny", fuse_workspace_create(instance, 1, &small));
  // CHECK: huge: FUSE_ERROR_DEVICE_MEMORY
  report("huge", fuse_workspace_create(instance, (size_t)1 << 62, &small));
  // CHECK: no workspace: FUSE_ERROR_INVALID_ARGUMENT: mlp needs a workspace of
  tokens[0] = result[0] = 8;
  report("no workspace", fuse_launch(instance, &args));
  args.workspace = workspace;
  // CHECK: good: FUSE_OK
  report("good", fuse_launch(instance, &args));
  tokens[0] = result[0] = 0;
  // CHECK: no tokens: FUSE_OK
  report("no tokens", fuse_launch(instance, &args));
  tokens[0] = result[0] = 16;
  // CHECK: over the limit: FUSE_ERROR_STATE: {{.*}}limited to 8 tokens, got 16
  report("over the limit", fuse_launch(instance, &args));
  tokens[0] = result[0] = 17;
  // CHECK: over the most: FUSE_ERROR_TENSOR: mlp supports at most 16 tokens,
  // CHECK-SAME: got 17
  report("over the most", fuse_launch(instance, &args));
  tokens[0] = result[0] = -1;
  // CHECK: negative: FUSE_ERROR_TENSOR: argument 0 of mlp has size -1
  report("negative", fuse_launch(instance, &args));
  tokens[0] = result[0] = 8;
  x.device.device_id = 5;
  // CHECK: other device: FUSE_ERROR_TENSOR: {{.*}}on device 2:5, expected
  // CHECK-SAME: CUDA (2:0)
  report("other device", fuse_launch(instance, &args));
  x.device.device_id = 0;
  x.device.device_type = kDLCPU;
  // CHECK: host tensor: FUSE_ERROR_TENSOR: {{.*}}on device 1:0, expected
  // CHECK-SAME: CUDA (2:0)
  report("host tensor", fuse_launch(instance, &args));
  x.device.device_type = kDLCUDA;
  y.data = room[1].bytes;
  // CHECK: in place: FUSE_ERROR_TENSOR: result 0 of mlp overlaps argument 0
  // CHECK-SAME: of mlp
  report("in place", fuse_launch(instance, &args));
  y.data = room[2].bytes;
  inputs[0] = NULL;
  // CHECK: null input: FUSE_ERROR_TENSOR: argument 0 of mlp is null
  report("null input", fuse_launch(instance, &args));
  inputs[0] = &x;
  args.inputs = NULL;
  // CHECK: null inputs: FUSE_ERROR_INVALID_ARGUMENT: the list of inputs is null
  report("null inputs", fuse_launch(instance, &args));
  args.inputs = inputs;
  args.outputs = NULL;
  // CHECK: null outputs: FUSE_ERROR_INVALID_ARGUMENT: the list of outputs is
  report("null outputs", fuse_launch(instance, &args));
  args.outputs = outputs;
  args.num_outputs = 2;
  // CHECK: two outputs: FUSE_ERROR_INVALID_ARGUMENT: mlp has 1 results, got 2
  report("two outputs", fuse_launch(instance, &args));
  args.num_outputs = 1;
  x.byte_offset = 2;
  // CHECK: odd address: FUSE_ERROR_TENSOR: {{.*}}is misaligned by 2
  // CHECK-SAME: bytes
  report("odd address", fuse_launch(instance, &args));
  x.byte_offset = 0;
  args.flags = 64;
  // CHECK: unknown flag: FUSE_ERROR_INVALID_ARGUMENT: 'flags' has 64
  report("unknown flag", fuse_launch(instance, &args));
  args.flags = 0;
  expect(fuse_device_set_exclusive(device, 1));
  expect(fuse_launch(instance, &args));
  args.stream = &room;
  // CHECK: two streams: FUSE_ERROR_STATE: device 0 is exclusive, and kernels
  report("two streams", fuse_launch(instance, &args));
  args.stream = NULL;
  expect(fuse_device_set_exclusive(device, 0));
  args.size = 8;
  // CHECK: old header: FUSE_ERROR_INVALID_ARGUMENT: 'size' is 8
  report("old header", fuse_launch(instance, &args));
  args.size = sizeof(args);

  // Destroys everything while the launch may still be running on the device.
  expect(fuse_launch(instance, &args));
  fuse_program_destroy(program);
  fuse_instance_destroy(instance);
  fuse_workspace_destroy(workspace);
  // CHECK: at last: FUSE_OK
  report("at last", fuse_device_wait(device, NULL, 1000));
  fuse_device_destroy(device);
}

/* The function with its weights on a device, and a workspace for 8 tokens. */
typedef struct {
  fuse_instance *instance;
  fuse_workspace *workspace;
} ready;

static ready prepare(const fuse_artifact *artifact, fuse_device *device,
                     const DLTensor *x) {
  fuse_program *program = NULL;
  ready made = {NULL, NULL};
  int64_t weights[2] = {64, 64};
  DLTensor weight = view(0, weights, kDLCPU);
  const DLTensor *inputs[1] = {x};
  size_t bytes = 0;
  expect(fuse_program_load(artifact, device, &program));
  expect(fuse_instance_create(program, NULL, &made.instance));
  fuse_program_destroy(program);
  expect(fuse_instance_bind_parameter(made.instance, "up", &weight));
  expect(fuse_instance_bind_parameter(made.instance, "down", &weight));
  expect(fuse_instance_prepare(made.instance));
  expect(fuse_instance_workspace_size(made.instance, inputs, 1, &bytes));
  expect(fuse_workspace_create(made.instance, bytes, &made.workspace));
  return made;
}

static void swapWorkspaces(const fuse_artifact *forGPU) {
  fuse_artifact *forCPU = compile(mlp, NULL);
  fuse_device *devices[2] = {NULL, NULL};
  ready on[2];
  int64_t tokens[2] = {8, 64};
  int i;
  expect(fuse_device_open_cpu(&devices[0]));
  expect(fuse_device_open_cuda(0, &devices[1]));
  for (i = 0; i < 2; ++i) {
    DLTensor x = view(1, tokens, i ? kDLCUDA : kDLCPU);
    on[i] = prepare(i ? forGPU : forCPU, devices[i], &x);
  }
  for (i = 0; i < 2; ++i) {
    DLTensor x = view(1, tokens, i ? kDLCUDA : kDLCPU), y = x;
    const DLTensor *inputs[1] = {&x}, *outputs[1] = {&y};
    fuse_launch_args args = makeLaunch(inputs, outputs);
    y.data = room[2].bytes;
    args.workspace = on[i].workspace;
    // CHECK: its own: FUSE_OK
    // CHECK-NEXT: a GPU's: FUSE_ERROR_INVALID_ARGUMENT: the workspace is of
    // CHECK-SAME: another device
    // CHECK-NEXT: its own: FUSE_OK
    // CHECK-NEXT: the CPU's: FUSE_ERROR_INVALID_ARGUMENT: the workspace is of
    // CHECK-SAME: another device
    report("its own", fuse_launch(on[i].instance, &args));
    args.workspace = on[1 - i].workspace;
    report(i ? "the CPU's" : "a GPU's", fuse_launch(on[i].instance, &args));
  }
  for (i = 0; i < 2; ++i) {
    fuse_instance_destroy(on[i].instance);
    fuse_workspace_destroy(on[i].workspace);
    fuse_device_destroy(devices[i]);
  }
  fuse_artifact_destroy(forCPU);
}

int main(void) {
  fuse_artifact *artifact = NULL;
  compileWrongly();
  compileOnFullDisk();
  artifact = compileForGPU(mlp);
  loadWrongly(artifact);
  launchWrongly(artifact);
  swapWorkspaces(artifact);
  fuse_artifact_destroy(artifact);
  // CHECK: no instance: FUSE_ERROR_INVALID_ARGUMENT
  report("no instance", fuse_launch(NULL, NULL));
  fuse_instance_destroy(NULL);
  // CHECK: done
  puts("done");
  return 0;
}
