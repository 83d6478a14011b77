//===- ContainerTest.cpp - Tests of the container format ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GetFailure.h"
#include "TemporaryDirectory.h"
#include "TestArtifact.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "gtest/gtest.h"

#include <cctype>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fuse;
using namespace fuse::runtime;
using namespace fuse::test;

TEST(Sha256Test, HasTheDigestsOfTheStandard) {
  EXPECT_EQ(toHex(getDigest("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(toHex(getDigest("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  // Hash pieces that do not align with the blocks.
  Sha256 sha;
  for (int i = 0; i < 1000; ++i)
    sha.update(std::string(1000, 'a'));
  EXPECT_EQ(toHex(sha.finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, HasTheSameDigestsByInstructions) {
  if (!Sha256::hasInstructions())
    GTEST_SKIP() << "the processor has no instructions for SHA-256";
  std::vector<uint8_t> data(9 * Sha256::kBlockSize);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  for (size_t count = 0; count <= 9; ++count) {
    Sha256::State portable = {1, 2, 3, 4, 5, 6, 7, 0xffffffff};
    Sha256::State other = portable;
    Sha256::processPortably(portable, data.data(), count);
    Sha256::processByInstructions(other, data.data(), count);
    EXPECT_EQ(portable, other);
  }
}

TEST(Sha256Test, ParsesHexadecimalDigits) {
  std::string text =
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  EXPECT_EQ(parseDigest(text), getDigest("abc"));
  std::string upper = text;
  for (char &c : upper)
    c = static_cast<char>(std::toupper(c));
  EXPECT_EQ(parseDigest(upper), getDigest("abc"));
  for (const std::string &bad :
       {std::string(), text.substr(1), text + "0", " " + text.substr(1),
        text.substr(1) + "g", std::string(64, '\0')})
    EXPECT_EQ(parseDigest(bad), std::nullopt) << bad;
}

TEST(ContainerTest, GivesBackWhatWasWritten) {
  std::string bytes = writeContainer({{1, "manifest"}, {7, ""}, {5, "x"}});
  std::vector<Section> sections = readContainer(bytes);
  ASSERT_EQ(sections.size(), 3u);
  EXPECT_EQ(sections[0].data, "manifest");
  EXPECT_EQ(sections[1].kind, 7u);
  EXPECT_EQ(sections[1].data, "");
  EXPECT_EQ(sections[2].data, "x");
  EXPECT_TRUE(readContainer(writeContainer({})).empty());
}

/// The status of reading a file.
static fuse_status read(const std::string &bytes, std::string *why = nullptr) {
  try {
    Artifact artifact(bytes);
    return FUSE_OK;
  } catch (const Failure &failure) {
    if (why)
      *why = failure.getMessage();
    EXPECT_FALSE(failure.getMessage().empty());
    return failure.getStatus();
  }
}

TEST(ContainerTest, NoticesEveryFlippedByte) {
  std::string good = makeArtifact(kManifest);
  ASSERT_EQ(read(good), FUSE_OK);
  for (size_t i = 0; i < good.size(); ++i)
    for (char mask : {'\x01', '\x80', '\xff'}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ mask);
      fuse_status status = read(bad);
      // Earlier versions can be read, and the checksum covers the version.
      uint32_t version = getFormatVersion(bad);
      bool isOther = version < kOldestFormatVersion || version > kFormatVersion;
      EXPECT_EQ(status, isOther ? FUSE_ERROR_VERSION : FUSE_ERROR_FORMAT)
          << "byte " << i;
    }
}

TEST(ContainerTest, NoticesEveryOtherLength) {
  std::string good = makeArtifact(kManifest);
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(read(good.substr(0, size)), FUSE_ERROR_FORMAT) << size;
  EXPECT_EQ(read(good + '\0'), FUSE_ERROR_FORMAT);
}

/// Changes a number of the header or of an entry, and corrects the checksum.
static std::string patch(std::string bytes, size_t offset, uint64_t value,
                         size_t count) {
  for (size_t i = 0; i < count; ++i)
    bytes[offset + i] = static_cast<char>(value >> (8 * i));
  Sha256 sha;
  sha.update(std::string_view(bytes).substr(0, 24));
  sha.update(std::string_view(bytes).substr(56));
  Digest digest = sha.finish();
  bytes.replace(24, 32, reinterpret_cast<const char *>(digest.data()), 32);
  return bytes;
}

// A valid checksum does not make the contents trustworthy.
TEST(ContainerTest, TrustsNoLength) {
  std::string good = makeArtifact(kManifest), why;
  for (uint64_t value :
       {uint64_t(0), uint64_t(1) << 31, ~uint64_t(0), ~uint64_t(0) - 64}) {
    EXPECT_NE(read(patch(good, 12, value, 4)), FUSE_OK);
    for (size_t entry : {56, 80, 104})
      for (size_t field : {8, 16})
        EXPECT_EQ(read(patch(good, entry + field, value, 8)),
                  FUSE_ERROR_FORMAT);
  }
  // A section begins where the previous one ends, after zero padding.
  EXPECT_EQ(read(patch(good, 56 + 8, 0, 8), &why), FUSE_ERROR_FORMAT);
  EXPECT_EQ(why, "the artifact is damaged: section 0 is out of place");
  uint64_t first = readContainer(good)[0].data.size();
  EXPECT_EQ(read(patch(good, 56 + 16, first - 1, 8), &why), FUSE_ERROR_FORMAT);
  EXPECT_EQ(why, "the artifact is damaged: there is data before section 1");
  EXPECT_EQ(read(good.substr(0, 20), &why), FUSE_ERROR_FORMAT);
  EXPECT_EQ(why, "the artifact is damaged: it ends after 20 bytes");
  EXPECT_EQ(read(patch(good, 12, 1 << 20, 4), &why), FUSE_ERROR_FORMAT);
  EXPECT_EQ(why, "the artifact is damaged: its header says there are 1048576 "
                 "sections");
  EXPECT_EQ(read(patch(good, 8, kFormatVersion + 1, 4), &why),
            FUSE_ERROR_VERSION);
  EXPECT_EQ(why, "the artifact has version " +
                     std::to_string(kFormatVersion + 1) +
                     " of the format, this library reads versions " +
                     std::to_string(kOldestFormatVersion) + " to " +
                     std::to_string(kFormatVersion));
}

// Files of an earlier release are read. For older ones, the error names the
// version.
TEST(ContainerTest, ReadsEarlierVersions) {
  std::string bytes = makeArtifact(kManifest), why;
  EXPECT_EQ(getFormatVersion(bytes), 4u);
  std::string old = patch(bytes, 8, 2, 4);
  EXPECT_EQ(getFormatVersion(old), 2u);
  EXPECT_EQ(read(old, &why), FUSE_OK) << why;
  EXPECT_EQ(read(patch(bytes, 8, 1, 4), &why), FUSE_ERROR_VERSION);
  EXPECT_EQ(why, "the artifact has version 1 of the format, this library reads "
                 "versions 2 to 7");
}

// The version tells a reader whether it supports all parts of the file.
TEST(ContainerTest, WritesTheVersionOfWhatIsInside) {
  auto getVersion = [](std::string_view code) {
    return getFormatVersion(writeContainer(
        {{FUSE_SECTION_MANIFEST, "{}"}, {FUSE_SECTION_HOST_OBJECT, code}}));
  };
  EXPECT_EQ(getVersion("\x7f"
                       "ELF"),
            4u);
  EXPECT_EQ(getVersion("!<arch>\n"), 5u);
  EXPECT_EQ(getVersion("!<arch>"), 4u);
  EXPECT_EQ(getVersion(""), 4u);
  // A manifest may need a later version than the sections.
  EXPECT_EQ(getFormatVersion(
                writeContainer({{FUSE_SECTION_MANIFEST, "{}"}}, /*least=*/7)),
            7u);
}

TEST(ContainerTest, WritesFilesAtOnce) {
  TemporaryDirectory temporary;
  const std::filesystem::path &directory = temporary.get();
  std::string path = directory / "a";
  writeFileAtomically(path, "one");
  writeFileAtomically(path, "two");
  EXPECT_EQ(readFile(path), "two");
  // No other file is left in the directory.
  size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(directory))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);
  EXPECT_EQ(getFailure([&] { readFile(directory); }),
            directory.string() + ": not a regular file");
  EXPECT_THROW(writeFileAtomically(directory / "no" / "a", "x"), Failure);
  EXPECT_THROW(writeFileAtomically(directory, "x"), Failure);
  // A file over the limit is refused before it is read.
  std::ofstream(directory / "large").close();
  std::filesystem::resize_file(directory / "large", kMaxFileBytes + 1);
  EXPECT_THROW(readFile(directory / "large"), Failure);
  // A pipe stays a pipe; so must /dev/null.
  std::string pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  writeFileAtomically(pipe, "three");
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof(text)), 5);
  EXPECT_STREQ(text, "three");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  ::close(reader);
}
