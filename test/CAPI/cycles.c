// RUN: fuse-c-cycles-test 4 | FileCheck %s
// CHECK: 4 cycles, {{[0-9]+}} KiB at the start, {{[0-9]+}} KiB at the end
// CHECK-NEXT: {{[0-9]+}} open files at the start, {{[0-9]+}} at the end
//
// Compiles, loads, runs and destroys repeatedly. From 100 cycles on, memory may
// grow by at most 1 % after the first tenth, and the number of open files must
// not grow at all. scripts/soak.sh runs thousands of cycles.

#include "Linear.h"

#include <dirent.h>
#include <unistd.h>

static void cycle(void) {
  fuse_artifact *artifact = compile(source, NULL);
  fuse_device *device = NULL;
  fuse_program *program = NULL;
  fuse_instance *instance = NULL;
  float x[6] = {1, 2, 3, 4, 5, 6}, y[6] = {0}, w[4] = {1, 1, 1, -1};
  int64_t shape[2] = {3, 2}, weightShape[2] = {2, 2};
  DLTensor input = makeTensor(x, shape, 2), output = makeTensor(y, shape, 2);
  DLTensor weight = makeTensor(w, weightShape, 2);
  const DLTensor *inputs[1] = {&input}, *outputs[1] = {&output};
  fuse_launch_args args = makeLaunch(inputs, outputs);

  expect(fuse_device_open_cpu(&device));
  expect(fuse_program_load(artifact, device, &program));
  expect(fuse_instance_create(program, "f", &instance));
  expect(fuse_instance_bind_parameter(instance, "up.weight", &weight));
  expect(fuse_instance_prepare(instance));
  expect(fuse_launch(instance, &args));
  if (y[0] != 3 || y[5] != 0)
    exit(1);
  fuse_instance_destroy(instance);
  fuse_program_destroy(program);
  fuse_device_destroy(device);
  fuse_artifact_destroy(artifact);
}

static long getMemory(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
    exit(1);
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static int countFiles(void) {
  int count = 0;
  DIR *directory = opendir("/proc/self/fd");
  while (directory && readdir(directory))
    ++count;
  if (directory)
    closedir(directory);
  return count;
}

int main(int argc, char **argv) {
  long count = argc == 2 ? atol(argv[1]) : 0, first = 0;
  int files = 0;
  if (count <= 0) {
    fprintf(stderr, "usage: fuse-c-cycles-test COUNT\n");
    return 2;
  }
  for (long i = 0; i < count; ++i) {
    cycle();
    // Allocators and the compiler's tables have reached their size by then.
    if (i == count / 10) {
      first = getMemory();
      files = countFiles();
    }
  }
  printf("%ld cycles, %ld KiB at the start, %ld KiB at the end\n", count, first,
         getMemory());
  printf("%d open files at the start, %d at the end\n", files, countFiles());
  if (count >= 100 &&
      (getMemory() > first + first / 100 || countFiles() > files)) {
    fprintf(stderr, "error: resources grow\n");
    return 1;
  }
  return 0;
}
