//===- Container.h - Files of checksummed sections --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The outer form of an artifact. All numbers are little-endian.
//
//   0   8 bytes  magic
//   8   u32      version of the format
//   12  u32      number of sections
//   16  u64      size of the file
//   24  32 bytes SHA-256 of the file without these 32 bytes
//   56           one entry per section: u32 kind, u32 zero, u64 offset,
//                u64 size
//
// Sections follow in the order of the entries, each at the next multiple of 64,
// with zeros between them and nothing after the last.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_CONTAINER_H
#define FUSE_RUNTIME_CORE_CONTAINER_H

#include "fuse/Runtime/Core/Sha256.h"

#include <string>
#include <string_view>
#include <vector>

namespace fuse::runtime {

constexpr uint32_t kFormatVersion = 5;
/// Files of this version on have all that is read; newer ones may have more.
constexpr uint32_t kOldestFormatVersion = 2;
/// Files larger than this are refused. Weights are not in them.
constexpr uint64_t kMaxFileBytes = uint64_t(1) << 30;

struct Section {
  uint32_t kind;
  std::string_view data;
};

/// Makes the bytes of a file, in the earliest version that has what is in it.
std::string writeContainer(const std::vector<Section> &sections);

/// The sections of a file, which point into `bytes`. Throws `Failure` unless
/// every byte is as it was written.
std::vector<Section> readContainer(std::string_view bytes);

/// The version in the header of a file that could be read.
uint32_t getFormatVersion(std::string_view bytes);

/// The contents of a regular file of at most `kMaxFileBytes`.
std::string readFile(const std::string &path);

/// Writes a file under another name in the same directory, and renames it when
/// it is complete and on disk. Pipes and devices are written to as they are.
void writeFileAtomically(const std::string &path, std::string_view bytes);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_CONTAINER_H
