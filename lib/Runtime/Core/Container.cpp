//===- Container.cpp - Files of checksummed sections ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Container.h"
#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Failure.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fuse::runtime;

static constexpr std::string_view kMagic("FUSEART\0", 8);
static constexpr size_t kDigestOffset = 24, kHeaderBytes = 56, kEntryBytes = 24;
static constexpr uint32_t kMaxSections = 1 << 16;
static constexpr size_t kAlignment = 64;

//===----------------------------------------------------------------------===//
// Bytes
//===----------------------------------------------------------------------===//

static uint64_t getInt(std::string_view bytes, size_t offset, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i)
    value |= uint64_t(static_cast<uint8_t>(bytes[offset + i])) << (8 * i);
  return value;
}

static void putInt(std::string &bytes, size_t offset, uint64_t value,
                   size_t count) {
  for (size_t i = 0; i < count; ++i)
    bytes[offset + i] = static_cast<char>(value >> (8 * i));
}

static uint64_t align(uint64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

static Digest getFileDigest(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes.substr(0, kDigestOffset));
  sha.update(bytes.substr(kHeaderBytes));
  return sha.finish();
}

static std::string_view toBytes(const Digest &digest) {
  return {reinterpret_cast<const char *>(digest.data()), digest.size()};
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

/// Earliest format version that can represent the sections. Version 5 allows
/// archives in place of one object; older libraries would pass them to a
/// linker. Version 6 has constants, which older libraries do not upload.
/// `version` is the earliest one for the content of the manifest.
static uint32_t getWrittenVersion(const std::vector<Section> &sections,
                                  uint32_t version) {
  constexpr std::string_view archiveMagic = "!<arch>\n";
  for (const Section &section : sections) {
    if (section.kind == FUSE_SECTION_CONSTANTS)
      version = std::max(version, uint32_t(6));
    else if (section.kind == FUSE_SECTION_HOST_OBJECT &&
             section.data.substr(0, archiveMagic.size()) == archiveMagic)
      version = std::max(version, uint32_t(5));
  }
  return version;
}

std::string fuse::runtime::writeContainer(const std::vector<Section> &sections,
                                          uint32_t least) {
  size_t end = kHeaderBytes + sections.size() * kEntryBytes;
  std::string bytes(end, '\0');
  for (size_t i = 0; i < sections.size(); ++i) {
    bytes.resize(align(bytes.size()), '\0');
    size_t entry = kHeaderBytes + i * kEntryBytes;
    putInt(bytes, entry, sections[i].kind, 4);
    putInt(bytes, entry + 8, bytes.size(), 8);
    putInt(bytes, entry + 16, sections[i].data.size(), 8);
    bytes.append(sections[i].data);
  }
  bytes.replace(0, kMagic.size(), kMagic);
  putInt(bytes, 8, getWrittenVersion(sections, least), 4);
  putInt(bytes, 12, sections.size(), 4);
  putInt(bytes, 16, bytes.size(), 8);
  Digest digest = getFileDigest(bytes);
  bytes.replace(kDigestOffset, digest.size(), toBytes(digest));
  return bytes;
}

uint32_t fuse::runtime::getFormatVersion(std::string_view bytes) {
  return static_cast<uint32_t>(getInt(bytes, 8, 4));
}

[[noreturn]] static void damaged(const std::string &why) {
  throw Failure(FUSE_ERROR_FORMAT, "the artifact is damaged: " + why);
}

std::vector<Section> fuse::runtime::readContainer(std::string_view bytes) {
  if (bytes.size() < kMagic.size() || bytes.substr(0, kMagic.size()) != kMagic)
    throw Failure(FUSE_ERROR_FORMAT, "this is not an artifact of fuse");
  if (bytes.size() < kHeaderBytes)
    damaged("it ends after " + std::to_string(bytes.size()) + " bytes");
  uint32_t version = getFormatVersion(bytes);
  if (version < kOldestFormatVersion || version > kFormatVersion)
    throw Failure(FUSE_ERROR_VERSION,
                  "the artifact has version " + std::to_string(version) +
                      " of the format, this library reads versions " +
                      std::to_string(kOldestFormatVersion) + " to " +
                      std::to_string(kFormatVersion));
  uint64_t size = getInt(bytes, 16, 8);
  if (size != bytes.size())
    damaged("it has " + std::to_string(bytes.size()) +
            " bytes, its header says " + std::to_string(size));
  if (toBytes(getFileDigest(bytes)) !=
      bytes.substr(kDigestOffset, sizeof(Digest)))
    damaged("its checksum is wrong");

  // The checksum matched, so an error from here on is the writer's. Nothing is
  // trusted all the same.
  uint64_t count = getInt(bytes, 12, 4);
  if (count > kMaxSections ||
      count > (bytes.size() - kHeaderBytes) / kEntryBytes)
    damaged("its header says there are " + std::to_string(count) + " sections");
  uint64_t end = kHeaderBytes + count * kEntryBytes;
  std::vector<Section> sections;
  for (uint64_t i = 0; i < count; ++i) {
    size_t entry = kHeaderBytes + i * kEntryBytes;
    uint64_t offset = getInt(bytes, entry + 8, 8);
    uint64_t length = getInt(bytes, entry + 16, 8);
    if (getInt(bytes, entry + 4, 4) != 0 || offset != align(end) ||
        offset > bytes.size() || length > bytes.size() - offset)
      damaged("section " + std::to_string(i) + " is out of place");
    if (bytes.substr(end, offset - end).find_first_not_of('\0') !=
        std::string_view::npos)
      damaged("there is data before section " + std::to_string(i));
    sections.push_back({static_cast<uint32_t>(getInt(bytes, entry, 4)),
                        bytes.substr(offset, length)});
    end = offset + length;
  }
  if (end != bytes.size())
    damaged("there is data after the last section");
  return sections;
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

namespace {

class FileDescriptor {
public:
  explicit FileDescriptor(int fd) : fd(fd) {}
  FileDescriptor(const FileDescriptor &) = delete;
  FileDescriptor &operator=(const FileDescriptor &) = delete;
  ~FileDescriptor() {
    if (fd >= 0)
      ::close(fd);
  }
  int get() const { return fd; }
  /// Closes early, to detect errors of close.
  bool close() { return ::close(std::exchange(fd, -1)) == 0; }

private:
  int fd;
};

} // namespace

[[noreturn]] static void failIO(const std::string &path) {
  throw Failure(FUSE_ERROR_IO, path + ": " + std::strerror(errno));
}

std::string fuse::runtime::readFile(const std::string &path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    failIO(path);
  struct stat info;
  if (::fstat(file.get(), &info) != 0)
    failIO(path);
  if (!S_ISREG(info.st_mode))
    throw Failure(FUSE_ERROR_IO, path + ": not a regular file");
  if (static_cast<uint64_t>(info.st_size) > kMaxFileBytes)
    throw Failure(FUSE_ERROR_FORMAT,
                  path + ": " + std::to_string(info.st_size) +
                      " bytes are more than an artifact can have, which is " +
                      std::to_string(kMaxFileBytes));
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count =
        ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      failIO(path);
    // Another process has shortened the file. The content checks report it.
    if (count == 0)
      break;
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

static bool writeAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

void fuse::runtime::writeFileAtomically(const std::string &path,
                                        std::string_view bytes) {
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.get() < 0 || !writeAll(file.get(), bytes) || !file.close())
      failIO(path);
    return;
  }
  static std::atomic<unsigned> counter;
  std::string temporary = path + ".tmp." + std::to_string(::getpid()) + "." +
                          std::to_string(counter++);
  FileDescriptor file(
      ::open(temporary.c_str(),
             O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0)
    failIO(path);
  if (!writeAll(file.get(), bytes) || ::fsync(file.get()) != 0 ||
      !file.close() || ::rename(temporary.c_str(), path.c_str()) != 0) {
    int code = errno;
    ::unlink(temporary.c_str());
    errno = code;
    failIO(path);
  }
  // A rename is durable only after its directory has been synchronized.
  size_t slash = path.rfind('/');
  std::string directory =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  FileDescriptor parent(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() >= 0)
    (void)::fsync(parent.get());
}
