//===- Sha256.h - Digests of artifacts --------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_SHA256_H
#define FUSE_RUNTIME_CORE_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fuse::runtime {

using Digest = std::array<uint8_t, 32>;

/// SHA-256 of FIPS 180-4. The runtime does not link LLVM, which has one as
/// well.
class Sha256 {
public:
  static constexpr size_t kBlockSize = 64;
  using State = std::array<uint32_t, 8>;

  void update(std::string_view bytes);
  Digest finish();

  /// Whether the processor has instructions for the rounds. On an EPYC, they
  /// make digests five times as fast, and digests are most of the time that a
  /// cached artifact takes.
  static bool hasInstructions();
  static void processPortably(State &state, const uint8_t *blocks,
                              size_t count);
  /// Requires `hasInstructions`.
  static void processByInstructions(State &state, const uint8_t *blocks,
                                    size_t count);

private:
  void process(const uint8_t *blocks, size_t count);

  State state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, kBlockSize> buffer = {};
  size_t buffered = 0;
  uint64_t length = 0;
};

Digest getDigest(std::string_view bytes);
/// The digest as 64 hexadecimal digits.
std::string toHex(const Digest &digest);
/// The digest that 64 hexadecimal digits of either case denote, or nothing.
std::optional<Digest> parseDigest(std::string_view hex);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_SHA256_H
