//===- CacheTest.cpp - Tests of the cache on disk -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Cache.h"
#include "TemporaryDirectory.h"
#include "fuse/Runtime/Core/Failure.h"
#include "gtest/gtest.h"

#include <filesystem>
#include <fstream>
#include <random>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuse;
using namespace fuse::runtime;
using namespace fuse::test;
namespace fs = std::filesystem;

namespace {

class CacheTest : public testing::Test {
protected:
  std::string getEntry(const Digest &key) {
    return path + "/" + toHex(key) + ".fuse";
  }
  std::string open(const std::string &directory) {
    try {
      Cache cache(directory);
      return "";
    } catch (const Failure &failure) {
      return failure.getMessage();
    }
  }

  TemporaryDirectory root;
  std::string path = root / "cache";
};

} // namespace

static std::string readAll(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

static void writeAll(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(CacheTest, FindsWhatWasStored) {
  Cache cache(path);
  Digest one = getDigest("one"), two = getDigest("two");
  EXPECT_FALSE(cache.find(one));
  EXPECT_TRUE(cache.store(one, "first"));
  EXPECT_TRUE(cache.store(two, ""));
  EXPECT_EQ(cache.find(one), "first");
  EXPECT_EQ(cache.find(two), "");
  EXPECT_TRUE(cache.store(one, "again"));
  EXPECT_EQ(Cache(path + "/").find(one), "again");
  EXPECT_EQ(cache.getStats().entries, 2u);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

// A damaged entry is never returned, and is removed once it has been read.
TEST_F(CacheTest, NoticesEveryFlippedByteAndEveryLength) {
  Cache cache(path);
  Digest key = getDigest("key");
  ASSERT_TRUE(cache.store(key, "the content of the entry"));
  std::string good = readAll(getEntry(key));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1 << i % 8);
    writeAll(getEntry(key), bad);
    EXPECT_FALSE(cache.find(key)) << "byte " << i;
    EXPECT_FALSE(fs::exists(getEntry(key)));
    writeAll(getEntry(key), good.substr(0, i));
    EXPECT_FALSE(cache.find(key)) << "length " << i;
  }
  writeAll(getEntry(key), good);
  EXPECT_EQ(cache.find(key), "the content of the entry");
  EXPECT_EQ(cache.getStats().otherFiles, 1u);
}

// A valid file under another name is not returned either.
TEST_F(CacheTest, ChecksTheKeyInTheFile) {
  Cache cache(path);
  Digest one = getDigest("one"), two = getDigest("two");
  ASSERT_TRUE(cache.store(one, "first"));
  fs::copy_file(getEntry(one), getEntry(two));
  EXPECT_EQ(cache.verify(), 1u);
  EXPECT_FALSE(cache.find(two));
  EXPECT_EQ(cache.find(one), "first");
}

TEST_F(CacheTest, RefusesHostileDirectories) {
  fs::create_directory(root / "real");
  fs::create_directory_symlink(root / "real", root / "link");
  EXPECT_EQ(open(root / "link"), "cache " + std::string(root / "link") +
                                     ": it is a link or no directory");
  writeAll(root / "file", "");
  EXPECT_EQ(open(root / "file"), "cache " + std::string(root / "file") +
                                     ": it is a link or no directory");
  for (mode_t mode : {0777, 0770, 0722}) {
    ::chmod((root / "real").c_str(), mode);
    EXPECT_EQ(open(root / "real"), "cache " + std::string(root / "real") +
                                       ": others can write to it");
  }
  ::chmod((root / "real").c_str(), 0700);
  EXPECT_EQ(open(root / "real"), "");
  EXPECT_NE(open(""), "");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown((root / "real").c_str(), 12345, 0), 0);
    EXPECT_EQ(open(root / "real"),
              "cache " + std::string(root / "real") +
                  ": it belongs to user 12345, expected 0");
  }
}

TEST_F(CacheTest, FollowsNoLinksInside) {
  Cache cache(path);
  Digest key = getDigest("key"), other = getDigest("other");
  ASSERT_TRUE(cache.store(other, "content"));
  writeAll(root / "elsewhere", readAll(getEntry(other)));
  fs::create_symlink(root / "elsewhere", getEntry(key));
  EXPECT_FALSE(cache.find(key));
  // Storing replaces the link and not its target.
  EXPECT_TRUE(cache.store(key, "mine"));
  EXPECT_FALSE(fs::is_symlink(getEntry(key)));
  EXPECT_EQ(readAll(root / "elsewhere"), readAll(getEntry(other)));
  fs::remove(getEntry(key));
  fs::create_directory(getEntry(key));
  EXPECT_FALSE(cache.find(key));
}

TEST_F(CacheTest, StoringMayFail) {
  Cache cache(path);
  Digest key = getDigest("key");
  fs::remove_all(path);
  EXPECT_FALSE(cache.store(key, "content"));
  EXPECT_FALSE(cache.find(key));
}

TEST_F(CacheTest, CollectsWhatWasNotUsedForLongest) {
  Cache cache(path);
  std::vector<Digest> keys;
  for (int i = 0; i < 4; ++i) {
    keys.push_back(getDigest(std::to_string(i)));
    ASSERT_TRUE(cache.store(keys[i], std::string(1000, 'x')));
    fs::last_write_time(getEntry(keys[i]), fs::file_time_type::clock::now() -
                                               std::chrono::hours(10 - i));
  }
  // Using the oldest entry makes it the newest.
  EXPECT_TRUE(cache.find(keys[0]));
  uint64_t bytes = cache.getStats().bytes;
  EXPECT_EQ(cache.collect(bytes), 0u);
  EXPECT_EQ(cache.collect(bytes / 2), 2u);
  EXPECT_TRUE(cache.find(keys[0]));
  EXPECT_FALSE(cache.find(keys[1]));
  EXPECT_TRUE(cache.find(keys[3]));
  // Old temporary files are removed, recent ones are kept.
  writeAll(path + "/tmp.1.0", "half");
  writeAll(path + "/tmp.2.0", "half");
  fs::last_write_time(path + "/tmp.2.0",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  writeAll(path + "/another's", "file");
  EXPECT_EQ(cache.collect(bytes), 1u);
  EXPECT_TRUE(fs::exists(path + "/tmp.1.0"));
  EXPECT_EQ(cache.clear(), 3u);
  EXPECT_TRUE(fs::exists(path + "/another's"));
}

// 8 processes with 200 uses each always find complete content of the right key.
TEST_F(CacheTest, IsNeverReadMixed) {
  constexpr int processes = 8, uses = 200, keys = 5;
  auto getContent = [](int key, int writer) {
    return "key " + std::to_string(key) + "\n" +
           std::string(5000 + 997 * writer, char('a' + writer));
  };
  std::vector<pid_t> children;
  for (int process = 0; process < processes; ++process) {
    pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      int bad = 0;
      std::mt19937 random(process);
      Cache cache(path);
      for (int i = 0; i < uses; ++i) {
        int number = random() % keys;
        Digest key = getDigest(std::to_string(number));
        std::optional<std::string> found = cache.find(key);
        bool known = !found;
        for (int writer = 0; writer < processes && !known; ++writer)
          known = *found == getContent(number, writer);
        bad += !known;
        if (!found || random() % 4 == 0)
          bad += !cache.store(key, getContent(number, process));
        if (random() % 50 == 0)
          cache.collect(3 * 5000);
      }
      ::_exit(bad > 0 ? 1 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  Cache cache(path);
  EXPECT_EQ(cache.verify(), 0u);
  EXPECT_EQ(cache.getStats().otherFiles, 0u);
}
