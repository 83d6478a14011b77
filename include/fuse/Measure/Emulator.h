//===- Emulator.h - Work without a GPU --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_EMULATOR_H
#define FUSE_MEASURE_EMULATOR_H

#include <cstdint>

namespace fuse::measure {

/// Makes the runtime load the emulator from `lib/fuse-emulated` beside the
/// program's directory, unless FUSE_CUDA_LIBRARY names a library. Throws
/// `runtime::Failure` if the emulator does not exist. Has no effect once the
/// driver is loaded.
void chooseEmulator();

/// Selects the emulator's interleaving seed: the `index`th one after
/// FUSE_EMULATOR_SEED. It applies when a device that is not open is opened. A
/// GPU ignores it.
void chooseOrder(uint64_t index);

} // namespace fuse::measure

#endif // FUSE_MEASURE_EMULATOR_H
