//===- Emulator.cpp - Work without a GPU ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/Emulator.h"
#include "fuse/Runtime/Core/Failure.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace fuse;
namespace fs = std::filesystem;

static constexpr const char *kLibraryVariable = "FUSE_CUDA_LIBRARY";
static constexpr const char *kSeedVariable = "FUSE_EMULATOR_SEED";

void measure::chooseEmulator() {
  if (const char *named = std::getenv(kLibraryVariable); named && *named)
    return;
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  fs::path library = program.parent_path().parent_path() / "lib" /
                     "fuse-emulated" / "libcuda.so.1";
  if (error || !fs::exists(library, error))
    throw runtime::Failure(
        FUSE_ERROR_NO_DRIVER,
        "there is no emulator at " + library.string() +
            "; name a library with the functions of the CUDA "
            "driver by " +
            kLibraryVariable);
  ::setenv(kLibraryVariable, library.c_str(), /*overwrite=*/1);
}

void measure::chooseOrder(uint64_t index) {
  static const std::string first = [] {
    const char *text = std::getenv(kSeedVariable);
    return std::string(text ? text : "0");
  }();
  uint64_t seed = 0;
  const char *end = first.data() + first.size();
  auto [last, error] = std::from_chars(first.data(), end, seed);
  // The emulator reports an invalid number.
  if (error == std::errc() && last == end)
    ::setenv(kSeedVariable, std::to_string(seed + index).c_str(),
             /*overwrite=*/1);
}
