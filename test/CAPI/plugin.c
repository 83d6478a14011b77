// RUN: fuse-c-plugin-test %fuse_obj_root/lib/libfuse.so.0 | FileCheck %s
//
// A program that loads fuse as a plugin. It calls dlopen with local scope, so
// that fuse has to bring libm itself. It destroys handles before the handles
// made from them, forks between two launches, calls dlclose, and starts again.

// CHECK: round 0: other thread same, child 0, dlclose 0
// CHECK: round 1: other thread same, child 0, dlclose 0

#include "Tensor.h"
#include "fuse-c/Compiler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Its kernel calls expf, which is in libm and not in libc.
static const char text[] =
    "func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {\n"
    "  %y = fuse.activation silu %x : tensor<?x8xf32> -> tensor<?x8xf32>\n"
    "  return %y : tensor<?x8xf32>\n"
    "}\n";

#define FUNCTIONS(X)                                                           \
  X(artifact_destroy)                                                          \
  X(context_create)                                                            \
  X(context_destroy)                                                           \
  X(device_destroy)                                                            \
  X(device_open_cpu)                                                           \
  X(instance_create)                                                           \
  X(instance_destroy)                                                          \
  X(instance_prepare)                                                          \
  X(last_error)                                                                \
  X(launch)                                                                    \
  X(module_compile)                                                            \
  X(module_destroy)                                                            \
  X(module_parse)                                                              \
  X(program_destroy)                                                           \
  X(program_load)                                                              \
  X(set_num_threads)

#define DECLARE(NAME) __typeof__(fuse_##NAME) *NAME;
static struct {
  FUNCTIONS(DECLARE)
} api;

static void *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
#define FIND(NAME) *(void **)&api.NAME = dlsym(library, "fuse_" #NAME);
  FUNCTIONS(FIND)
  return library;
}

static void expect(fuse_status status) {
  if (status == FUSE_OK)
    return;
  fprintf(stderr, "%d: %s\n", (int)status, api.last_error());
  exit(1);
}

enum { kTokens = 512 };
static float x[kTokens * 8], y[kTokens * 8], other[kTokens * 8];

static fuse_instance *compile(void) {
  fuse_context *context = NULL;
  fuse_module *module = NULL;
  fuse_artifact *artifact = NULL;
  fuse_device *device = NULL;
  fuse_program *program = NULL;
  fuse_instance *instance = NULL;
  expect(api.context_create(&context));
  expect(api.module_parse(context, text, sizeof(text) - 1, &module));
  api.context_destroy(context);
  expect(api.module_compile(module, NULL, &artifact));
  api.module_destroy(module);
  expect(api.device_open_cpu(&device));
  expect(api.program_load(artifact, device, &program));
  api.device_destroy(device);
  api.artifact_destroy(artifact);
  expect(api.instance_create(program, "f", &instance));
  api.program_destroy(program);
  expect(api.instance_prepare(instance));
  return instance;
}

static void launch(fuse_instance *instance, float *result) {
  int64_t shape[2] = {kTokens, 8};
  DLTensor input = makeTensor(x, shape, 2);
  DLTensor output = makeTensor(result, shape, 2);
  const DLTensor *inputs[1] = {&input}, *outputs[1] = {&output};
  fuse_launch_args args = makeLaunch(inputs, outputs);
  expect(api.launch(instance, &args));
}

static void *launchOther(void *instance) {
  launch((fuse_instance *)instance, other);
  return NULL;
}

// Launches code of the parent, and its own code.
static int runChild(fuse_instance *instance) {
  pid_t child = fork();
  int status = 1;
  if (child == 0) {
    launch(instance, other);
    int failed = memcmp(y, other, sizeof(y)) != 0;
    api.instance_destroy(instance);
    instance = compile();
    launch(instance, other);
    failed |= memcmp(y, other, sizeof(y)) != 0;
    api.instance_destroy(instance);
    _exit(failed);
  }
  waitpid(child, &status, 0);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: fuse-c-plugin-test LIBRARY\n");
    return 2;
  }
  for (int i = 0; i < kTokens * 8; ++i)
    x[i] = (float)(i % 37) / 8 - 2;
  for (int round = 0; round < 2; ++round) {
    void *library = load(argv[1]);
    pthread_t thread;
    expect(api.set_num_threads(3));
    fuse_instance *instance = compile();
    launch(instance, y);
    pthread_create(&thread, NULL, launchOther, instance);
    pthread_join(thread, NULL);
    int differs = memcmp(y, other, sizeof(y)) != 0;
    int child = runChild(instance);
    api.instance_destroy(instance);
    printf("round %d: other thread %s, child %d, ", round,
           differs ? "differs" : "same", child);
    printf("dlclose %d\n", dlclose(library));
  }
  return 0;
}
