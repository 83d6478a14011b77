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

constexpr uint32_t kFormatVersion = 7;
/// Version from which on files contain all that is read. Newer ones may contain
/// more.
constexpr uint32_t kOldestFormatVersion = 2;
/// Largest size of a file in bytes; larger files are refused. Weights are not
/// stored in the file.
constexpr uint64_t kMaxFileBytes = uint64_t(1) << 30;

struct Section {
  uint32_t kind;
  std::string_view data;
};

/// Serializes the sections in the earliest format version that supports them.
/// `least` is the earliest version that can represent the manifest.
std::string writeContainer(const std::vector<Section> &sections,
                           uint32_t least = 4);

/// The sections of a file, which point into `bytes`. Throws `Failure` if the
/// checksum or the structure is wrong.
std::vector<Section> readContainer(std::string_view bytes);

/// The format version in the header of a file that `readContainer` accepts.
uint32_t getFormatVersion(std::string_view bytes);

/// The contents of a regular file of at most `kMaxFileBytes`.
std::string readFile(const std::string &path);

/// Writes a temporary file in the same directory, and renames it when it is
/// complete and on disk. Writes to pipes and devices directly.
void writeFileAtomically(const std::string &path, std::string_view bytes);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_CONTAINER_H
