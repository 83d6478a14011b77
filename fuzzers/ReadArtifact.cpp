//===- ReadArtifact.cpp - Fuzz artifacts ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first byte selects whether the rest is a file or the manifest of an
// otherwise valid file. Few inputs have a file with a valid checksum. Valid
// artifacts are also loaded on the CPU.
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Container.h"

#include <cstdint>
#include <cstdlib>

using namespace fuse;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  std::string_view rest(reinterpret_cast<const char *>(data + 1), size - 1);
  std::string bytes(rest);
  if (data[0] % 2)
    bytes = runtime::writeContainer({{FUSE_SECTION_MANIFEST, rest},
                                     {FUSE_SECTION_PTX, ".version 8.0\n"},
                                     {FUSE_SECTION_CUBIN, "\x7f"
                                                          "ELF"}});
  fuse_artifact *artifact = nullptr;
  if (fuse_artifact_from_bytes(bytes.data(), bytes.size(), &artifact))
    return 0;
  // Accepted bytes are returned unchanged.
  size_t length = 0;
  const void *stored = fuse_artifact_bytes(artifact, &length);
  if (std::string_view(static_cast<const char *>(stored), length) != bytes)
    std::abort();
  for (size_t i = 0; i <= fuse_artifact_num_sections(artifact); ++i) {
    fuse_section section;
    (void)fuse_artifact_section(artifact, i, &section);
  }
  fuse_device *device = nullptr;
  fuse_program *program = nullptr;
  if (!fuse_device_open_cpu(&device) &&
      !fuse_program_load(artifact, device, &program)) {
    for (size_t i = 0; i <= fuse_program_num_functions(program); ++i) {
      fuse_signature signature;
      (void)fuse_program_signature(program, i, &signature);
    }
    fuse_program_destroy(program);
  }
  fuse_device_destroy(device);
  fuse_artifact_destroy(artifact);
  return 0;
}
