/*===- OldGlibc.c - Functions that older C libraries lack -----------------===*\
|*
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
|*===----------------------------------------------------------------------===*|
|*
|* Linked into libfuse with static libraries of LLVM and C++. It then loads on
|* systems with an older glibc than that of the build.
|*
\*===----------------------------------------------------------------------===*/

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* From glibc 2.36. std::random_device of libstdc++ calls it. */
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof(value)) != 0)
    abort();
  return value;
}
