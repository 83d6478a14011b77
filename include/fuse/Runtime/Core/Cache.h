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

/// A directory with one checksummed file per entry. Any number of processes may
/// use it at the same time.
///
/// An entry that is damaged or belongs to another key counts as a miss and is
/// put aside. Only files of this user are read, from a directory that only this
/// user can write to.
class Cache {
public:
  /// Creates the directory if it does not exist. Throws `Failure` if the
  /// directory is not safe: a link, owned by another user, or writable by
  /// others.
  explicit Cache(const std::string &path);
  Cache(const Cache &) = delete;
  Cache &operator=(const Cache &) = delete;
  ~Cache();

  const std::string &getPath() const { return path; }

  /// The content stored under a key.
  std::optional<std::string> find(const Digest &key) const;
  /// Stores all of `content` or nothing. Returns whether that worked; a full
  /// disk is not an error.
  bool store(const Digest &key, std::string_view content) const;

  struct Stats {
    uint64_t entries = 0, bytes = 0;
    /// Files that were put aside or left by a writer that did not finish.
    uint64_t otherFiles = 0, otherBytes = 0;
  };
  Stats getStats() const;
  /// Reads every entry, puts damaged ones aside and returns their number.
  uint64_t verify() const;
  /// Removes files that were put aside or left by writers, and then the least
  /// recently used entries until at most `maxBytes` remain. Returns the number
  /// of removed files.
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
