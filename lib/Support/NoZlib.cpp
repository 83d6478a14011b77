//===- NoZlib.cpp - LLVM without zlib and zstd ----------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Replaces LLVM's callers of zlib and zstd where LLVM is linked statically, so
// that libfuse needs neither. LLVM compresses only debug information and
// profiles, which fuse does not have, and asks first whether it can.
//
//===----------------------------------------------------------------------===//

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CRC.h"
#include "llvm/Support/Compression.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/ErrorHandling.h"

using namespace llvm;

//===----------------------------------------------------------------------===//
// Checksums
//===----------------------------------------------------------------------===//

uint32_t llvm::crc32(uint32_t crc, ArrayRef<uint8_t> data) {
  crc = ~crc;
  for (uint8_t byte : data) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

uint32_t llvm::crc32(ArrayRef<uint8_t> data) { return crc32(0, data); }

void JamCRC::update(ArrayRef<uint8_t> data) { CRC = ~crc32(~CRC, data); }

//===----------------------------------------------------------------------===//
// Compression
//===----------------------------------------------------------------------===//

static constexpr const char *kReason = "fuse has no compression in LLVM";

static Error refuse() { return createStringError(kReason); }

[[noreturn]] static void stop() { report_fatal_error(kReason); }

bool compression::zlib::isAvailable() { return false; }

void compression::zlib::compress(ArrayRef<uint8_t>, SmallVectorImpl<uint8_t> &,
                                 int) {
  stop();
}

Error compression::zlib::decompress(ArrayRef<uint8_t>, uint8_t *, size_t &) {
  return refuse();
}

Error compression::zlib::decompress(ArrayRef<uint8_t>,
                                    SmallVectorImpl<uint8_t> &, size_t) {
  return refuse();
}

bool compression::zstd::isAvailable() { return false; }

void compression::zstd::compress(ArrayRef<uint8_t>, SmallVectorImpl<uint8_t> &,
                                 int, bool) {
  stop();
}

Error compression::zstd::decompress(ArrayRef<uint8_t>, uint8_t *, size_t &) {
  return refuse();
}

Error compression::zstd::decompress(ArrayRef<uint8_t>,
                                    SmallVectorImpl<uint8_t> &, size_t) {
  return refuse();
}

const char *compression::getReasonIfUnsupported(Format) { return kReason; }

void compression::compress(Params, ArrayRef<uint8_t>,
                           SmallVectorImpl<uint8_t> &) {
  stop();
}

Error compression::decompress(DebugCompressionType, ArrayRef<uint8_t>,
                              uint8_t *, size_t) {
  return refuse();
}

Error compression::decompress(Format, ArrayRef<uint8_t>,
                              SmallVectorImpl<uint8_t> &, size_t) {
  return refuse();
}

Error compression::decompress(DebugCompressionType, ArrayRef<uint8_t>,
                              SmallVectorImpl<uint8_t> &, size_t) {
  return refuse();
}
