//===- Sha256.cpp - Digests of artifacts ----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/Core/Sha256.h"

#include <algorithm>
#include <cstring>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

using namespace fuse::runtime;

/// Whether `n` has no divisor but 1 and itself.
static constexpr bool isPrime(unsigned n) {
  for (unsigned i = 2; i * i <= n; ++i)
    if (n % i == 0)
      return false;
  return n > 1;
}

/// First 32 bits of the fraction of the cube roots of the first 64 primes.
static std::array<uint32_t, 64> makeConstants() {
  std::array<uint32_t, 64> constants;
  unsigned prime = 1;
  for (uint32_t &constant : constants) {
    do
      ++prime;
    while (!isPrime(prime));
    // The largest r with (r / 2^32)^3 <= prime, by bisection in integers.
    uint64_t low = 0, high = uint64_t(8) << 32;
    while (high - low > 1) {
      uint64_t mid = low + (high - low) / 2;
      auto wide = static_cast<unsigned __int128>(mid);
      // mid is under 2^35, so that its cube is under 2^105.
      bool tooLarge =
          wide * wide * wide > (static_cast<unsigned __int128>(prime) << 96);
      (tooLarge ? high : low) = mid;
    }
    constant = static_cast<uint32_t>(low);
  }
  return constants;
}

static uint32_t rotate(uint32_t x, unsigned n) {
  return x >> n | x << (32 - n);
}

static const std::array<uint32_t, 64> &getConstants() {
  static const std::array<uint32_t, 64> constants = makeConstants();
  return constants;
}

static void processBlock(Sha256::State &state, const uint8_t *block) {
  const std::array<uint32_t, 64> &constants = getConstants();
  uint32_t w[64];
  for (unsigned i = 0; i < 16; ++i)
    w[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 |
           uint32_t(block[4 * i + 2]) << 8 | block[4 * i + 3];
  for (unsigned i = 16; i < 64; ++i) {
    uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (unsigned i = 0; i < 64; ++i) {
    uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + constants[i] + w[i];
    uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  uint32_t sums[] = {a, b, c, d, e, f, g, h};
  for (unsigned i = 0; i < 8; ++i)
    state[i] += sums[i];
}

void Sha256::processPortably(State &state, const uint8_t *blocks,
                             size_t count) {
  for (; count > 0; --count, blocks += kBlockSize)
    processBlock(state, blocks);
}

#ifdef __x86_64__

bool Sha256::hasInstructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d))
    return false;
  bool hasSse41 = c >> 19 & 1;
  return hasSse41 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1);
}

/// Two instructions make four rounds. They expect the eight words of the state
/// in two vectors, from high to low: a b e f, and c d g h.
__attribute__((target("sha,sse4.1"))) void
Sha256::processByInstructions(State &state, const uint8_t *blocks,
                              size_t count) {
  const std::array<uint32_t, 64> &constants = getConstants();
  auto load = [](const void *from) __attribute__((target("sha,sse4.1"))) {
    return _mm_loadu_si128(static_cast<const __m128i *>(from));
  };
  const __m128i bigEndian =
      _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m128i cdab = _mm_shuffle_epi32(load(&state[0]), 0xb1);
  __m128i efgh = _mm_shuffle_epi32(load(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; count > 0; --count, blocks += kBlockSize) {
    __m128i abefBefore = abef, cdghBefore = cdgh;
    // The last sixteen words of the message schedule.
    __m128i w[4];
    for (unsigned i = 0; i < 16; ++i) {
      __m128i &next = w[i % 4];
      if (i < 4) {
        next = _mm_shuffle_epi8(load(blocks + 16 * i), bigEndian);
      } else {
        __m128i last = w[(i + 3) % 4];
        __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(next, w[(i + 1) % 4]),
                                    _mm_alignr_epi8(last, w[(i + 2) % 4], 4));
        next = _mm_sha256msg2_epu32(sum, last);
      }
      __m128i words = _mm_add_epi32(next, load(&constants[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, words);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(words, 0x0e));
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(&state[0]),
                   _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(&state[4]),
                   _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool Sha256::hasInstructions() { return false; }

void Sha256::processByInstructions(State &state, const uint8_t *blocks,
                                   size_t count) {
  processPortably(state, blocks, count);
}

#endif

void Sha256::process(const uint8_t *blocks, size_t count) {
  static const bool hasThem = hasInstructions();
  (hasThem ? processByInstructions : processPortably)(state, blocks, count);
}

void Sha256::update(std::string_view bytes) {
  length += bytes.size();
  while (!bytes.empty()) {
    if (size_t blocks = bytes.size() / kBlockSize; buffered == 0 && blocks) {
      process(reinterpret_cast<const uint8_t *>(bytes.data()), blocks);
      bytes.remove_prefix(blocks * kBlockSize);
      continue;
    }
    size_t count = std::min(buffer.size() - buffered, bytes.size());
    std::memcpy(buffer.data() + buffered, bytes.data(), count);
    buffered += count;
    bytes.remove_prefix(count);
    if (buffered == buffer.size()) {
      process(buffer.data(), 1);
      buffered = 0;
    }
  }
}

Digest Sha256::finish() {
  uint64_t bits = length * 8;
  update(std::string_view("\x80", 1));
  while (buffered != 56)
    update(std::string_view("\0", 1));
  char tail[8];
  for (unsigned i = 0; i < 8; ++i)
    tail[i] = static_cast<char>(bits >> (56 - 8 * i));
  update(std::string_view(tail, 8));
  Digest digest;
  for (unsigned i = 0; i < 32; ++i)
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - i % 4 * 8));
  return digest;
}

Digest fuse::runtime::getDigest(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes);
  return sha.finish();
}

std::string fuse::runtime::toHex(const Digest &digest) {
  std::string text;
  for (uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::optional<Digest> fuse::runtime::parseDigest(std::string_view hex) {
  Digest digest = {};
  if (hex.size() != 2 * digest.size())
    return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    char c = hex[i];
    int value = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (value < 0)
      return std::nullopt;
    digest[i / 2] = static_cast<uint8_t>(digest[i / 2] << 4 | value);
  }
  return digest;
}
