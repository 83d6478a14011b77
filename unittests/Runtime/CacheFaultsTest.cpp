//===- CacheFaultsTest.cpp - The cache with failing system calls ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// This file overrides the system calls of the cache with versions that fail on
// request: each call, with each error, or with half of the bytes read or
// written. Writers are killed at random times. In all cases a later reader
// finds the stored content or nothing, and a later writer can store.
//
//===----------------------------------------------------------------------===//

#include "TemporaryDirectory.h"
#include "fuse/Runtime/Core/Cache.h"
#include "fuse/Runtime/Core/Failure.h"
#include "gtest/gtest.h"

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <filesystem>
#include <random>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuse::runtime;
namespace fs = std::filesystem;

namespace {

/// The call of the armed thread that fails, and its failure.
struct Faults {
  /// Number of calls until the failing one; 0 if none fails.
  int countdown = 0;
  /// The error, or 0 to process only half of the bytes.
  int error = 0;
  bool happened = false;

  /// Whether the current call has to fail.
  bool strike() {
    if (countdown == 0 || --countdown > 0)
      return false;
    happened = true;
    errno = error;
    return true;
  }
  void arm(int call, int code) {
    countdown = call;
    error = code;
    happened = false;
  }
};

thread_local Faults faults;

} // namespace

extern "C" {

int openat(int directory, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (faults.strike() && faults.error)
    return -1;
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode));
}

ssize_t read(int fd, void *bytes, size_t count) {
  if (faults.strike()) {
    if (faults.error)
      return -1;
    count = (count + 1) / 2;
  }
  return ::syscall(SYS_read, fd, bytes, count);
}

ssize_t write(int fd, const void *bytes, size_t count) {
  if (faults.strike()) {
    if (faults.error)
      return -1;
    count = (count + 1) / 2;
  }
  return ::syscall(SYS_write, fd, bytes, count);
}

int fsync(int fd) {
  if (faults.strike() && faults.error)
    return -1;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int renameat(int from, const char *name, int to, const char *other) noexcept {
  if (faults.strike() && faults.error)
    return -1;
  return static_cast<int>(::syscall(SYS_renameat2, from, name, to, other, 0));
}

int unlinkat(int directory, const char *name, int flags) noexcept {
  if (faults.strike() && faults.error)
    return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, directory, name, flags));
}

int fstat(int fd, struct stat *info) noexcept {
  if (faults.strike() && faults.error)
    return -1;
  return static_cast<int>(::syscall(SYS_fstat, fd, info));
}

} // extern "C"

namespace {

class CacheFaultsTest : public testing::Test {
protected:
  void TearDown() override { faults.arm(0, 0); }

  fuse::test::TemporaryDirectory root;
  Digest key = getDigest("key");
  const std::string content = std::string(3000, 'c');
};

const int kErrors[] = {ENOSPC, EIO, EINTR, EACCES, EMFILE, EROFS, 0};

} // namespace

TEST_F(CacheFaultsTest, StoringFailsOrStores) {
  unsigned numFailed = 0, numStored = 0;
  for (int error : kErrors) {
    int call = 1;
    for (;; ++call) {
      std::string path = root / "store";
      fs::remove_all(path);
      Cache cache(path);
      faults.arm(call, error);
      bool stored = cache.store(key, content);
      faults.countdown = 0;
      if (!faults.happened)
        break;
      (stored ? numStored : numFailed) += 1;
      std::optional<std::string> found = cache.find(key);
      EXPECT_EQ(found.has_value(), stored) << "error " << error;
      EXPECT_TRUE(!found || *found == content);
      // Interrupted and short calls are continued.
      if (error == EINTR && call == 2)
        EXPECT_TRUE(stored);
      if (error == 0)
        EXPECT_TRUE(stored);
      EXPECT_TRUE(cache.store(key, content));
      EXPECT_EQ(cache.find(key), content);
    }
    // At least open, write, sync, rename, and sync of the directory.
    EXPECT_GE(call, 5) << "calls of a store are not seen";
  }
  EXPECT_GT(numFailed, 15u);
  EXPECT_GT(numStored, 5u);
}

TEST_F(CacheFaultsTest, FindingFailsOrFinds) {
  unsigned numMissed = 0, numFound = 0;
  for (int error : kErrors) {
    int call = 1;
    for (;; ++call) {
      std::string path = root / "find";
      fs::remove_all(path);
      Cache cache(path);
      ASSERT_TRUE(cache.store(key, content));
      faults.arm(call, error);
      std::optional<std::string> found = cache.find(key);
      faults.countdown = 0;
      if (!faults.happened)
        break;
      (found ? numFound : numMissed) += 1;
      EXPECT_TRUE(!found || *found == content);
      if (error == 0)
        EXPECT_TRUE(found);
      // A miss costs a compilation, after which the cache works again.
      EXPECT_TRUE(cache.store(key, content));
      EXPECT_EQ(cache.find(key), content);
    }
    EXPECT_GE(call, 3) << "calls of a search are not seen";
  }
  EXPECT_GT(numMissed, 10u);
  EXPECT_GT(numFound, 3u);
}

TEST_F(CacheFaultsTest, CollectingMayFail) {
  for (int error : {EIO, EACCES})
    for (int call = 1;; ++call) {
      std::string path = root / "collect";
      fs::remove_all(path);
      Cache cache(path);
      ASSERT_TRUE(cache.store(key, content));
      faults.arm(call, error);
      try {
        (void)cache.collect(0);
      } catch (const Failure &failure) {
        // The caller gets an error for the entry that cannot be read.
        EXPECT_EQ(failure.getStatus(), FUSE_ERROR_IO);
      }
      faults.countdown = 0;
      std::optional<std::string> found = cache.find(key);
      EXPECT_TRUE(!found || *found == content);
      if (!faults.happened)
        break;
    }
}

// Killed writers of two keys damage neither entry.
TEST_F(CacheFaultsTest, SurvivesKilledWriters) {
  std::string path = root / "killed";
  auto getContent = [](int number) {
    return std::string(200000 + number, char('a' + number % 26));
  };
  std::mt19937 random(1);
  Cache cache(path);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(cache.store(getDigest(std::to_string(i)), getContent(i)));
  for (int turn = 0; turn < 50; ++turn) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int i = 0;; i = (i + 1) % 2)
        (void)cache.store(getDigest(std::to_string(i)), getContent(i));
    }
    ::usleep(random() % 4000);
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(cache.find(getDigest(std::to_string(i))), getContent(i));
  }
  EXPECT_EQ(cache.verify(), 0u);
  EXPECT_TRUE(cache.store(key, content));
  EXPECT_EQ(cache.find(key), content);
}
