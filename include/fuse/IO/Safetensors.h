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

/// Parses JSON that may come from anywhere: limits its nesting and refuses
/// duplicate keys.
llvm::Expected<llvm::json::Value> parseShallowJSON(llvm::StringRef text);

/// Element type of a type as safetensors spells it, if kernels can have it.
std::optional<ElementType> parseSafetensorsType(llvm::StringRef dtype);
/// A type as safetensors spells it.
llvm::StringRef getSafetensorsType(ElementType type);

/// A safetensors file, mapped into memory.
///
/// Opening checks everything the header says before any of it is used: length
/// and nesting of the header, duplicate keys, types, shapes, and that the
/// tensors cover the data without gap, overlap or trailing bytes.
class SafetensorsFile {
public:
  static llvm::Expected<SafetensorsFile> open(llvm::StringRef path);

  /// The tensor called `name`, whose type and shape have to be those of
  /// `spec`.
  llvm::Expected<HostTensor> read(llvm::StringRef name,
                                  const TensorSpec &spec) const;
  llvm::SmallVector<llvm::StringRef> getNames() const;

  /// A tensor as the file stores it.
  struct Entry {
    /// Type as the file spells it.
    std::string dtype;
    llvm::SmallVector<int64_t> shape;
    llvm::StringRef data;
  };
  /// The tensor called `name`, or null.
  const Entry *lookup(llvm::StringRef name) const;
  /// The whole header, as it stands in the file.
  llvm::StringRef getHeader() const { return header; }
  /// What the file says of itself under `key`, or nothing.
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
