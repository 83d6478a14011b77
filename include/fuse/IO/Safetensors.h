//===- Safetensors.h - Files of named tensors -------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IO_SAFETENSORS_H
#define FUSE_IO_SAFETENSORS_H

#include "fuse/IO/HostTensor.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <optional>

namespace fuse {

/// Parses untrusted JSON: limits its nesting and refuses duplicate keys.
llvm::Expected<llvm::json::Value> parseShallowJSON(llvm::StringRef text);

/// The element type of a safetensors type name, if kernels support it.
std::optional<ElementType> parseSafetensorsType(llvm::StringRef dtype);
/// The safetensors name of a type.
llvm::StringRef getSafetensorsType(ElementType type);

/// A safetensors file, mapped into memory.
///
/// Opening checks the whole header before any of it is used: its length and
/// nesting, duplicate keys, types and shapes. The tensors must cover the data
/// without gaps, overlaps or trailing bytes.
class SafetensorsFile {
public:
  static llvm::Expected<SafetensorsFile> open(llvm::StringRef path);

  /// Reads the tensor called `name`, whose type and shape must match `spec`.
  llvm::Expected<HostTensor> read(llvm::StringRef name,
                                  const TensorSpec &spec) const;
  llvm::SmallVector<llvm::StringRef> getNames() const;

  /// A tensor as the file stores it.
  struct Entry {
    /// Type name in the file.
    std::string dtype;
    llvm::SmallVector<int64_t> shape;
    llvm::StringRef data;
  };
  /// The tensor called `name`, or null.
  const Entry *lookup(llvm::StringRef name) const;
  /// The text of the header.
  llvm::StringRef getHeader() const { return header; }
  /// The metadata of the file under `key`, if present.
  std::optional<llvm::StringRef> getMetadata(llvm::StringRef key) const;

private:
  llvm::Error parse(llvm::StringRef bytes);

  std::string path;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  llvm::StringRef header;
  llvm::StringMap<std::string> metadata;
  llvm::StringMap<Entry> entries;
};

} // namespace fuse

#endif // FUSE_IO_SAFETENSORS_H
