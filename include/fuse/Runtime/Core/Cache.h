//===- Cache.h - Compiled artifacts on disk ---------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_CACHE_H
#define FUSE_RUNTIME_CORE_CACHE_H

#include "fuse/Runtime/Core/Sha256.h"

#include <optional>
#include <string>

namespace fuse::runtime {

/// A directory with one checksummed file per entry, for any number of processes
/// at the same time.
///
/// An entry that is damaged, or belongs to another key, is a miss and is put
/// aside. Only files of this user are read, in a directory that only this user
/// can write to.
class Cache {
public:
  /// Makes the directory if it is not there. Throws `Failure` when it is not
  /// safe: a link, of another owner, or writable by others.
  explicit Cache(const std::string &path);
  Cache(const Cache &) = delete;
  Cache &operator=(const Cache &) = delete;
  ~Cache();

  const std::string &getPath() const { return path; }

  /// What was stored under a key.
  std::optional<std::string> find(const Digest &key) const;
  /// Stores `content`, all of it or nothing. Returns whether that worked: a
  /// full disk is not a reason to fail.
  bool store(const Digest &key, std::string_view content) const;

  struct Stats {
    uint64_t entries = 0, bytes = 0;
    /// Files that were put aside or that a writer left behind.
    uint64_t otherFiles = 0, otherBytes = 0;
  };
  Stats getStats() const;
  /// Reads every entry, puts damaged ones aside and returns their number.
  uint64_t verify() const;
  /// Removes what was put aside and left behind, and then the entries that were
  /// not used for longest, until at most `maxBytes` are left. Returns the
  /// number of files that went.
  uint64_t collect(uint64_t maxBytes) const;
  /// Removes everything that this class puts into the directory.
  uint64_t clear() const;

private:
  struct File;

  std::optional<std::string> read(const std::string &name, bool isUse) const;
  template <typename Visit>
  void forEachFile(Visit visit) const;

  std::string path;
  int directory = -1;
};

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_CACHE_H
