//===- Emulator.h - Work without a GPU --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_EMULATOR_H
#define FUSE_MEASURE_EMULATOR_H

#include <cstdint>

namespace fuse::measure {

/// Lets the runtime load the emulator beside the folder of the program, unless
/// FUSE_CUDA_LIBRARY names a library. Throws `runtime::Failure` when it is not
/// there. Has no effect once the driver is loaded.
void chooseEmulator();

/// In what order the emulator does what is in none, from when a device is
/// opened on that is not open: the one that FUSE_EMULATOR_SEED asks for, or
/// the `index`th one after it. A GPU does as it likes.
void chooseOrder(uint64_t index);

} // namespace fuse::measure

#endif // FUSE_MEASURE_EMULATOR_H
