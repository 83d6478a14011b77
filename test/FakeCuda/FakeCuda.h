//===- FakeCuda.h - A scripted fake of the CUDA driver ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A shared object called libcuda.so.1 with the functions of the driver that
// fuse calls. Device memory is host memory, kernels do nothing, and every call
// can be made to fail with the functions below. Programs that cannot call these
// use a script (see FakeCuda.cpp), which also sets the duration of launches.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_TEST_FAKECUDA_H
#define FUSE_TEST_FAKECUDA_H

#include <cstdint>

/// The arguments of a launch.
struct FakeLaunch {
  char kernel[64];
  unsigned grid[3], block[3], sharedBytes;
  void *stream;
  /// Whether its stream does not wait for a copy or a fill that may still be in
  /// flight.
  bool copiesInFlight;
  /// The device whose context was current, and the one of the kernel's module.
  int device, moduleDevice;
  /// -1 for none.
  int cooperative, programmatic;
  int cluster[3];
  /// Shared memory that its kernel prefers, in percent of the maximum, or -1 if
  /// none was set.
  int carveout;
  int numParameters;
  uint64_t parameters[16];
};

struct FakeCuda {
  /// Forgets calls, launches and scripted failures. Handles stay.
  void (*reset)();
  /// Makes the n-th call of a function from now on fail, counted from one.
  void (*fail)(const char *function, int nth, int code);
  /// "devices", "capability", "multiprocessors", "version", "blocks" per
  /// multiprocessor, "ready" (whether events complete), "cubin" (whether cubins
  /// load), "ptx" (the newest version of PTX, times ten), "capturing" (a stream
  /// that a graph captures, 0 for none).
  void (*set)(const char *name, int value);
  /// Makes a function missing; null for none.
  void (*hide)(const char *function);
  int (*countCalls)(const char *function);
  /// Number of contexts, modules, events, streams, graphs and blocks of memory
  /// that were not released.
  int (*countHandles)();
  int (*countLaunches)();
  const FakeLaunch *(*getLaunch)(int index);
  /// Declares a kernel called `name` with the size in bytes of each parameter.
  void (*declare)(const char *name, int numParameters, const int *bytes);
};

extern "C" const FakeCuda *getFakeCuda();

#endif // FUSE_TEST_FAKECUDA_H
