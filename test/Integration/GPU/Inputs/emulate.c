//===- emulate.c - Blocks of a GPU kernel on one CPU thread ---------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every thread of a block is a coroutine. A barrier yields until all threads
// have reached it. Blocks run one after the other, so workgroup memory can be a
// global variable.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

enum { MaxThreads = 1024, StackSize = 64 * 1024, MaxArguments = 16 };

typedef void (*Kernel)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t);

static ucontext_t scheduler, threads[MaxThreads];
static char *stacks[MaxThreads];
static int isDone[MaxThreads];
static uint32_t current, blockX, blockY;
static Kernel kernel;
static uint64_t args[MaxArguments];

uint32_t fuse_thread_x(void) { return current; }
uint32_t fuse_block_x(void) { return blockX; }
uint32_t fuse_block_y(void) { return blockY; }
void fuse_barrier(void) { swapcontext(&threads[current], &scheduler); }

static void runThread(void) {
  // A callee ignores arguments beyond those that it declares.
  kernel(args[0], args[1], args[2], args[3], args[4], args[5], args[6], args[7],
         args[8], args[9], args[10], args[11], args[12], args[13], args[14],
         args[15]);
  isDone[current] = 1;
}

/// Returns 0, or 1 if only some threads of a block reached a barrier.
static int runBlock(uint32_t numThreads) {
  for (uint32_t i = 0; i < numThreads; ++i) {
    if (!stacks[i])
      stacks[i] = malloc(StackSize);
    getcontext(&threads[i]);
    threads[i].uc_stack.ss_sp = stacks[i];
    threads[i].uc_stack.ss_size = StackSize;
    threads[i].uc_link = &scheduler;
    makecontext(&threads[i], runThread, 0);
    isDone[i] = 0;
  }
  for (;;) {
    uint32_t numDone = 0;
    for (current = 0; current < numThreads; ++current) {
      swapcontext(&scheduler, &threads[current]);
      numDone += isDone[current];
    }
    if (numDone == numThreads)
      return 0;
    if (numDone != 0)
      return 1;
  }
}

int fuse_launch(void *function, uint64_t gridX, uint64_t gridY,
                uint32_t numThreads, const uint64_t *arguments,
                uint32_t numArguments) {
  if (numThreads > MaxThreads || numArguments > MaxArguments)
    return 2;
  kernel = (Kernel)function;
  for (uint32_t i = 0; i < numArguments; ++i)
    args[i] = arguments[i];
  for (blockY = 0; blockY < gridY; ++blockY)
    for (blockX = 0; blockX < gridX; ++blockX)
      if (runBlock(numThreads))
        return 1;
  return 0;
}
