// RUN: fuse-c-runtime-test %t.fuse 2>&1 | FileCheck %s
// A C program that compiles, saves, loads and runs a linear layer with SiLU on
// 3 tokens, with weights that are bound once.

#include "Linear.h"

static int deleted;

static void onDelete(struct DLManagedTensorVersioned *tensor) { ++deleted; }

static void onDeleteLegacy(DLManagedTensor *tensor) { deleted += 10; }

// Uses of a tensor of DLPack 1.x.
static void view(struct DLManagedTensorVersioned *tensor) {
  const DLTensor *found = NULL;
  report("view", fuse_tensor_view(tensor, /*writable=*/1, &found));
  printf("%s\n", found == &tensor->dl_tensor ? "same tensor" : "another one");
  tensor->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  report("view to read", fuse_tensor_view(tensor, /*writable=*/0, &found));
  report("view to write", fuse_tensor_view(tensor, /*writable=*/1, &found));
  tensor->flags = 0;
  tensor->version.major = DLPACK_MAJOR_VERSION + 1;
  report("newer view", fuse_tensor_view(tensor, /*writable=*/0, &found));
  tensor->version.major = DLPACK_MAJOR_VERSION;
}

static void run(const fuse_artifact *artifact) {
  fuse_device *device = NULL;
  fuse_program *program = NULL;
  fuse_instance *instance = NULL;
  fuse_signature signature;
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0}, w[4] = {1, 1, 1, -1};
  int64_t xShape[2] = {3, 2}, yShape[2] = {3, 2}, wShape[2] = {2, 2};
  DLTensor input = makeTensor(x, xShape, 2), output = makeTensor(y, yShape, 2);
  const DLTensor *inputs[1] = {&input}, *outputs[1] = {&output};
  float v[4] = {0, 2, 0, 0};
  struct DLManagedTensorVersioned weight;
  DLManagedTensor legacy;
  fuse_launch_args args = makeLaunch(inputs, outputs);
  int64_t shape[2] = {0, 0};
  size_t numInputs = 0, workspace = 1;

  memset(&weight, 0, sizeof(weight));
  weight.version.major = DLPACK_MAJOR_VERSION;
  weight.version.minor = DLPACK_MINOR_VERSION;
  weight.deleter = onDelete;
  weight.dl_tensor = makeTensor(w, wShape, 2);
  view(&weight);
  memset(&legacy, 0, sizeof(legacy));
  legacy.deleter = onDeleteLegacy;
  legacy.dl_tensor = makeTensor(v, wShape, 2);

  report("device", fuse_device_open_cpu(&device));
  if (report("load", fuse_program_load(artifact, device, &program)))
    return;
  report("signature", fuse_program_signature(program, 0, &signature));
  printf("@%s: %d arguments, %d results, %s\n", signature.name,
         (int)signature.num_arguments, (int)signature.num_results,
         signature.arguments[1].parameter);
  report("instance", fuse_instance_create(program, "f", &instance));
  report("early", fuse_launch(instance, &args));
  report("unbound", fuse_instance_prepare(instance));
  report("bind", fuse_instance_bind(instance, 1, &weight));
  report("prepare", fuse_instance_prepare(instance));
  fuse_instance_num_inputs(instance, &numInputs);
  fuse_instance_workspace_size(instance, inputs, 1, &workspace);
  report("shape", fuse_instance_result_shape(instance, inputs, 1, 0, shape));
  printf("%d input, %d bytes of workspace, result %dx%d\n", (int)numInputs,
         (int)workspace, (int)shape[0], (int)shape[1]);
  report("launch", fuse_launch(instance, &args));
  printf("y = %g %g %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5]);
  report("wait", fuse_device_wait(device, NULL, 1000));

  yShape[0] = 2;
  report("short output", fuse_launch(instance, &args));
  yShape[0] = 3;
  args.num_inputs = 0;
  report("no input", fuse_launch(instance, &args));

  // An instance keeps the objects that it was made from alive.
  fuse_device_destroy(device);
  fuse_program_destroy(program);
  args.num_inputs = 1;
  report("launch again", fuse_launch(instance, &args));

  // Another weight replaces the first one, which is released.
  report("no argument", fuse_instance_bind_legacy(instance, 7, &legacy));
  report("bind legacy", fuse_instance_bind_legacy(instance, 1, &legacy));
  printf("%d deleted\n", deleted);
  report("prepare again", fuse_instance_prepare(instance));
  report("launch other", fuse_launch(instance, &args));
  printf("y = %g %g %g %g %g %g\n", y[0], y[1], y[2], y[3], y[4], y[5]);
  fuse_instance_destroy(instance);
  printf("%d deleted\n", deleted);
}

int main(int argc, char **argv) {
  fuse_artifact *artifact = NULL;
  fuse_compile_options options;
  if (argc != 2)
    return 2;
  artifact = compile(source, NULL);
  // CHECK: view: FUSE_OK
  // CHECK-NEXT: same tensor
  // CHECK-NEXT: view to read: FUSE_OK
  // CHECK-NEXT: view to write: FUSE_ERROR_TENSOR: the tensor is read-only
  // CHECK-NEXT: newer view: FUSE_ERROR_TENSOR: {{.*}}expected 1.x
  // CHECK: load: FUSE_OK
  // CHECK: @f: 2 arguments, 1 results, up.weight
  // CHECK: instance: FUSE_OK
  // CHECK: early: FUSE_ERROR_STATE: the instance of f is not prepared
  // CHECK: unbound: FUSE_ERROR_STATE: argument 1 of f (up.weight) is a
  // CHECK-SAME: parameter and is not bound
  // CHECK: bind: FUSE_OK
  // CHECK: prepare: FUSE_OK
  // CHECK: shape: FUSE_OK
  // CHECK: 1 input, 0 bytes of workspace, result 3x2
  // CHECK: launch: FUSE_OK
  // CHECK: y = 3 0 7 0 11 0
  // CHECK: wait: FUSE_OK
  // CHECK: short output: FUSE_ERROR_TENSOR: result 0 of f has size 2 in
  // CHECK-SAME: dimension 0, the inputs make it 3
  // CHECK: no input: FUSE_ERROR_INVALID_ARGUMENT: argument 0 of f is neither
  // CHECK-SAME: bound nor an input: there are 0 inputs
  // CHECK: launch again: FUSE_OK
  // CHECK: no argument: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}7
  // CHECK: bind legacy: FUSE_OK
  // CHECK-NEXT: 1 deleted
  // CHECK: prepare again: FUSE_OK
  // CHECK: launch other: FUSE_OK
  // CHECK-NEXT: y = 4 0 8 0 12 0
  // CHECK-NEXT: 11 deleted
  run(artifact);
  fuse_artifact_destroy(artifact);

  // The same from a file, with code that the operating system loads.
  fuse_compile_options_init(&options);
  options.link = 1;
  artifact = compile(source, &options);
  // CHECK: save: FUSE_OK
  report("save", fuse_artifact_save(artifact, argv[1]));
  fuse_artifact_destroy(artifact);
  // CHECK: open: FUSE_OK
  if (report("open", fuse_artifact_load(argv[1], &artifact)))
    return 1;
  // CHECK: load: FUSE_OK
  // CHECK: y = 3 0 7 0 11 0
  // CHECK: bind legacy: FUSE_OK
  // CHECK-NEXT: 12 deleted
  // CHECK: 22 deleted
  run(artifact);
  fuse_artifact_destroy(artifact);

  // The same again, only if the file has the expected SHA-256.
  // CHECK: wrong digest: FUSE_ERROR_FORMAT: {{.*}}.fuse: its SHA-256 is
  // CHECK-SAME: {{[0-9a-f]+}}, expected 00000000{{0+$}}
  char digest[65];
  memset(digest, '0', 64);
  digest[64] = '\0';
  report("wrong digest",
         fuse_artifact_load_checked(argv[1], digest, &artifact));
  const char *is = strstr(fuse_last_error(), "SHA-256 is ");
  memcpy(digest, is + strlen("SHA-256 is "), 64);
  // CHECK: right digest: FUSE_OK
  if (report("right digest",
             fuse_artifact_load_checked(argv[1], digest, &artifact)))
    return 1;
  fuse_artifact_destroy(artifact);
  digest[63] = 'x';
  // CHECK: no digest: FUSE_ERROR_INVALID_ARGUMENT: {{.*}}.fuse: '{{.*}}x' is
  // CHECK-SAME: not a SHA-256, expected 64 hexadecimal digits
  report("no digest", fuse_artifact_load_checked(argv[1], digest, &artifact));
  // CHECK: null digest: FUSE_ERROR_INVALID_ARGUMENT: one of these is null
  report("null digest", fuse_artifact_load_checked(argv[1], NULL, &artifact));

  // CHECK: no file: FUSE_ERROR_IO: nowhere.fuse: No such file or directory
  report("no file", fuse_artifact_load("nowhere.fuse", &artifact));
  return 0;
}
