//===- Cache.cpp - Compiled artifacts on disk -----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Cache.h"
#include "fuse/Runtime/Core/Container.h"
#include "fuse/Runtime/Core/Failure.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fuse::runtime;

/// Section kinds of an entry, which differ from those of artifacts.
static constexpr uint32_t kKeySection = 1001, kContentSection = 1002;
static constexpr std::string_view kEntrySuffix = ".fuse",
                                  kDamagedSuffix = ".damaged",
                                  kTemporaryPrefix = "tmp.";
/// Age in seconds after which a temporary file counts as left by a writer that
/// did not finish. No writer takes this long.
static constexpr time_t kStaleSeconds = 3600;

//===----------------------------------------------------------------------===//
// The directory
//===----------------------------------------------------------------------===//

[[noreturn]] static void fail(const std::string &path, const std::string &why) {
  throw Failure(FUSE_ERROR_IO, "cache " + path + ": " + why);
}

/// Creates a directory and its parents, accessible to this user only.
static void makeDirectories(const std::string &path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string prefix = path.substr(0, end);
    if (!prefix.empty() && ::mkdir(prefix.c_str(), 0700) != 0 &&
        errno != EEXIST)
      fail(prefix, std::strerror(errno));
    if (end == std::string::npos)
      return;
  }
}

Cache::Cache(const std::string &directoryPath) : path(directoryPath) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  if (path.empty())
    fail(path, "the name is empty");
  makeDirectories(path);
  directory =
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0)
    fail(path, errno == ELOOP || errno == ENOTDIR
                   ? "it is a link or no directory"
                   : std::strerror(errno));
  // A user who can write here chooses the code that this process runs.
  struct stat info;
  std::string problem;
  if (::fstat(directory, &info) != 0)
    problem = std::strerror(errno);
  else if (info.st_uid != ::geteuid())
    problem = "it belongs to user " + std::to_string(info.st_uid) +
              ", expected " + std::to_string(::geteuid());
  else if (info.st_mode & (S_IWGRP | S_IWOTH))
    problem = "others can write to it";
  if (!problem.empty()) {
    ::close(directory);
    fail(path, problem);
  }
}

Cache::~Cache() {
  if (directory >= 0)
    ::close(directory);
}

static bool endsWith(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() &&
         text.substr(text.size() - suffix.size()) == suffix;
}

/// A cache file, identified by its name.
struct Cache::File {
  std::string name;
  uint64_t bytes;
  timespec used;
  bool isEntry, isTemporary;
};

template <typename Visit>
void Cache::forEachFile(Visit visit) const {
  int copy = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (!stream) {
    if (copy >= 0)
      ::close(copy);
    fail(path, std::strerror(errno));
  }
  while (dirent *entry = ::readdir(stream)) {
    std::string name = entry->d_name;
    File file = {name,
                 0,
                 {},
                 endsWith(name, kEntrySuffix),
                 name.rfind(kTemporaryPrefix, 0) == 0};
    if (!file.isEntry && !file.isTemporary && !endsWith(name, kDamagedSuffix))
      continue;
    struct stat info;
    if (::fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode))
      continue;
    file.bytes = static_cast<uint64_t>(info.st_size);
    file.used = info.st_mtim;
    visit(file);
  }
  ::closedir(stream);
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

static std::string getName(const Digest &key) {
  return toHex(key) + std::string(kEntrySuffix);
}

static std::string_view toBytes(const Digest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

/// Reads a whole file, or nothing.
static std::optional<std::string> readAll(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid() ||
      static_cast<uint64_t>(info.st_size) > kMaxFileBytes)
    return std::nullopt;
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return std::nullopt;
    done += static_cast<size_t>(count);
  }
  return bytes;
}

/// The content of an entry, or nothing if the bytes do not belong to this name.
static std::optional<std::string> parseEntry(std::string_view bytes,
                                             const std::string &name) {
  std::vector<Section> sections;
  try {
    sections = readContainer(bytes);
  } catch (const Failure &) {
    return std::nullopt;
  }
  if (sections.size() != 2 || sections[0].kind != kKeySection ||
      sections[1].kind != kContentSection ||
      sections[0].data.size() != sizeof(Digest))
    return std::nullopt;
  Digest stored;
  std::memcpy(stored.data(), sections[0].data.data(), stored.size());
  if (getName(stored) != name)
    return std::nullopt;
  return std::string(sections[1].data);
}

/// The content of an entry, or nothing if it is missing, damaged or belongs to
/// another key. Damaged entries are put aside.
std::optional<std::string> Cache::read(const std::string &name,
                                       bool isUse) const {
  int fd = ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return std::nullopt;
  std::optional<std::string> bytes = readAll(fd);
  // Update the time of use, since recently used entries are kept longest.
  if (bytes && isUse)
    (void)::futimens(fd, nullptr);
  ::close(fd);
  std::optional<std::string> content;
  if (bytes)
    content = parseEntry(*bytes, name);
  if (!content) {
    std::string aside = name + std::string(kDamagedSuffix);
    (void)::renameat(directory, name.c_str(), directory, aside.c_str());
  }
  return content;
}

std::optional<std::string> Cache::find(const Digest &key) const {
  return read(getName(key), /*isUse=*/true);
}

bool Cache::store(const Digest &key, std::string_view content) const {
  static std::atomic<unsigned> counter;
  std::string bytes =
      writeContainer({{kKeySection, toBytes(key)}, {kContentSection, content}});
  std::string temporary = std::string(kTemporaryPrefix) +
                          std::to_string(::getpid()) + "." +
                          std::to_string(counter++);
  int fd = ::openat(directory, temporary.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return false;
  std::string_view rest = bytes;
  bool good = true;
  while (good && !rest.empty()) {
    ssize_t count = ::write(fd, rest.data(), rest.size());
    if (count < 0 && errno == EINTR)
      continue;
    good = count >= 0;
    if (good)
      rest.remove_prefix(static_cast<size_t>(count));
  }
  good = good && ::fsync(fd) == 0;
  good = ::close(fd) == 0 && good;
  good = good && ::renameat(directory, temporary.c_str(), directory,
                            getName(key).c_str()) == 0;
  if (!good)
    (void)::unlinkat(directory, temporary.c_str(), 0);
  else
    (void)::fsync(directory);
  return good;
}

//===----------------------------------------------------------------------===//
// Care
//===----------------------------------------------------------------------===//

Cache::Stats Cache::getStats() const {
  Stats stats;
  forEachFile([&](const File &file) {
    (file.isEntry ? stats.entries : stats.otherFiles) += 1;
    (file.isEntry ? stats.bytes : stats.otherBytes) += file.bytes;
  });
  return stats;
}

uint64_t Cache::verify() const {
  std::vector<std::string> names;
  forEachFile([&](const File &file) {
    if (file.isEntry)
      names.push_back(file.name);
  });
  uint64_t damaged = 0;
  for (const std::string &name : names)
    damaged += !read(name, /*isUse=*/false);
  return damaged;
}

uint64_t Cache::collect(uint64_t maxBytes) const {
  std::vector<File> entries;
  uint64_t bytes = 0, removed = 0;
  time_t now = ::time(nullptr);
  forEachFile([&](const File &file) {
    if (file.isEntry) {
      bytes += file.bytes;
      entries.push_back(file);
      return;
    }
    // A temporary file may still be being written.
    if (!file.isTemporary || now - file.used.tv_sec > kStaleSeconds)
      removed += ::unlinkat(directory, file.name.c_str(), 0) == 0;
  });
  std::sort(entries.begin(), entries.end(), [](const File &l, const File &r) {
    if (l.used.tv_sec != r.used.tv_sec)
      return l.used.tv_sec < r.used.tv_sec;
    return l.used.tv_nsec < r.used.tv_nsec;
  });
  for (const File &entry : entries) {
    if (bytes <= maxBytes)
      break;
    if (::unlinkat(directory, entry.name.c_str(), 0) == 0) {
      bytes -= entry.bytes;
      ++removed;
    }
  }
  return removed;
}

uint64_t Cache::clear() const {
  uint64_t removed = 0;
  forEachFile([&](const File &file) {
    removed += ::unlinkat(directory, file.name.c_str(), 0) == 0;
  });
  return removed;
}
