//===- Safetensors.cpp - Files of named tensors ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IO/Safetensors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace llvm;
using namespace fuse;

/// Limits the nesting, because llvm::json recurses on it, and counts the keys,
/// because llvm::json silently drops duplicates.
static Expected<size_t> scanJSON(StringRef text) {
  constexpr unsigned maxDepth = 8;
  unsigned depth = 0;
  size_t numKeys = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        inString = false;
      continue;
    }
    if (c == '"')
      inString = true;
    else if (c == ':')
      ++numKeys;
    else if (c == '{' || c == '[') {
      if (++depth > maxDepth)
        return createStringError("header is nested more than " +
                                 Twine(maxDepth) + " deep");
    } else if ((c == '}' || c == ']') && depth-- == 0) {
      return createStringError("header has unbalanced brackets");
    }
  }
  return numKeys;
}

static size_t countKeys(const json::Value &value) {
  size_t count = 0;
  if (const json::Object *object = value.getAsObject()) {
    for (const auto &[key, member] : *object)
      count += 1 + countKeys(member);
  } else if (const json::Array *array = value.getAsArray()) {
    for (const json::Value &member : *array)
      count += countKeys(member);
  }
  return count;
}

Expected<json::Value> fuse::parseShallowJSON(StringRef text) {
  if (!json::isUTF8(text))
    return createStringError("header is not UTF-8");
  Expected<size_t> numKeys = scanJSON(text);
  if (!numKeys)
    return numKeys.takeError();
  Expected<json::Value> parsed = json::parse(text);
  if (!parsed)
    return createStringError("header: " + llvm::toString(parsed.takeError()));
  if (countKeys(*parsed) != *numKeys)
    return createStringError("header has a key twice");
  return parsed;
}

/// Bits of an element, or 0 for a type that is not in the format.
static unsigned getBits(StringRef dtype) {
  return StringSwitch<unsigned>(dtype)
      .Cases({"F64", "I64", "U64", "C64"}, 64)
      .Cases({"F32", "I32", "U32"}, 32)
      .Cases({"F16", "BF16", "I16", "U16"}, 16)
      .Cases({"F8_E4M3", "F8_E5M2", "F8_E8M0", "I8", "U8", "BOOL"}, 8)
      .Cases({"F6_E2M3", "F6_E3M2"}, 6)
      .Case("F4", 4)
      .Default(0);
}

std::optional<ElementType> fuse::parseSafetensorsType(StringRef dtype) {
  return StringSwitch<std::optional<ElementType>>(dtype)
      .Case("F64", ElementType::F64)
      .Case("F32", ElementType::F32)
      .Case("F16", ElementType::F16)
      .Case("BF16", ElementType::BF16)
      .Case("F8_E4M3", ElementType::F8E4M3FN)
      .Case("F8_E5M2", ElementType::F8E5M2)
      .Case("I64", ElementType::I64)
      .Case("I32", ElementType::I32)
      .Case("I8", ElementType::I8)
      .Default(std::nullopt);
}

StringRef fuse::getSafetensorsType(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return "F64";
  case ElementType::F32:
    return "F32";
  case ElementType::F16:
    return "F16";
  case ElementType::BF16:
    return "BF16";
  case ElementType::F8E4M3FN:
    return "F8_E4M3";
  case ElementType::F8E5M2:
    return "F8_E5M2";
  case ElementType::I64:
    return "I64";
  case ElementType::I32:
    return "I32";
  case ElementType::I8:
    return "I8";
  }
  llvm_unreachable("unknown element type");
}

/// Reads the header's entry for the tensor called `name`. `data` has the data
/// of all tensors.
static Expected<SafetensorsFile::Entry>
parseEntry(StringRef name, const json::Object &fields, StringRef data) {
  auto fail = [&](const Twine &why) {
    return createStringError("tensor '" + name + "' " + why);
  };
  std::optional<StringRef> dtype = fields.getString("dtype");
  const json::Array *shape = fields.getArray("shape");
  const json::Array *offsets = fields.getArray("data_offsets");
  if (!dtype || !shape || !offsets || offsets->size() != 2 ||
      fields.size() != 3)
    return fail("needs dtype, shape and two data_offsets, and nothing else");
  SafetensorsFile::Entry entry;
  entry.dtype = dtype->str();
  uint64_t bits = getBits(*dtype);
  if (bits == 0)
    return fail("has unknown type '" + *dtype + "'");
  if (shape->size() > 8)
    return fail("has more than 8 dimensions");
  for (const json::Value &size : *shape) {
    std::optional<int64_t> number = size.getAsInteger();
    if (!number || *number < 0)
      return fail("has a size that is not a natural number");
    entry.shape.push_back(*number);
    bool overflow;
    bits = SaturatingMultiply<uint64_t>(bits, *number, &overflow);
    if (overflow)
      return fail("is too large");
  }
  if (bits % 8 != 0)
    return fail("does not end at a byte");
  std::optional<uint64_t> begin = (*offsets)[0].getAsUINT64();
  std::optional<uint64_t> end = (*offsets)[1].getAsUINT64();
  if (!begin || !end || *begin > *end || *end > data.size())
    return fail("has data_offsets outside of the file");
  if (*end - *begin != bits / 8)
    return fail("has " + Twine(*end - *begin) +
                " bytes, its shape and type need " + Twine(bits / 8));
  entry.data = data.slice(*begin, *end);
  return entry;
}

Error SafetensorsFile::parse(StringRef bytes) {
  constexpr uint64_t maxHeader = 100'000'000;
  if (bytes.size() < 8)
    return createStringError("file of " + Twine(bytes.size()) +
                             " bytes is shorter than the length of a header");
  uint64_t length = support::endian::read64le(bytes.data());
  if (length > maxHeader || length > bytes.size() - 8)
    return createStringError("header of " + Twine(length) +
                             " bytes does not fit into the file");
  header = bytes.substr(8, length);
  StringRef text = header.rtrim(' ');
  StringRef data = bytes.drop_front(8 + length);
  if (!text.starts_with("{"))
    return createStringError("header does not start with '{'");
  Expected<json::Value> parsed = parseShallowJSON(text);
  if (!parsed)
    return parsed.takeError();
  const json::Object *object = parsed->getAsObject();
  if (!object)
    return createStringError("header is not an object");

  SmallVector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[key, value] : *object) {
    StringRef name = key;
    const json::Object *fields = value.getAsObject();
    if (!fields)
      return createStringError("tensor '" + name + "' is not an object");
    if (name == "__metadata__") {
      for (const auto &[metaKey, metaValue] : *fields) {
        std::optional<StringRef> metaText = metaValue.getAsString();
        if (!metaText)
          return createStringError("__metadata__ has a value that is not a "
                                   "string");
        metadata[StringRef(metaKey)] = metaText->str();
      }
      continue;
    }
    Expected<Entry> entry = parseEntry(name, *fields, data);
    if (!entry)
      return entry.takeError();
    uint64_t begin = entry->data.data() - data.data();
    ranges.emplace_back(begin, begin + entry->data.size());
    entries.try_emplace(name, std::move(*entry));
  }
  // Refuse bytes that belong to no tensor or to two: they could hide data.
  llvm::sort(ranges);
  uint64_t covered = 0;
  for (auto [begin, end] : ranges) {
    if (begin != covered)
      return createStringError("data has a gap or an overlap at byte " +
                               Twine(std::min(begin, covered)));
    covered = end;
  }
  if (covered != data.size())
    return createStringError("file has " + Twine(data.size() - covered) +
                             " bytes after the last tensor");
  return Error::success();
}

Expected<SafetensorsFile> SafetensorsFile::open(StringRef path) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(),
                             path + ": " + buffer.getError().message());
  SafetensorsFile file;
  file.path = path.str();
  file.buffer = std::move(*buffer);
  if (Error error = file.parse(file.buffer->getBuffer()))
    return createStringError(path + ": " + llvm::toString(std::move(error)));
  return file;
}

Expected<HostTensor> SafetensorsFile::read(StringRef name,
                                           const TensorSpec &spec) const {
  auto it = entries.find(name);
  if (it == entries.end()) {
    SmallVector<StringRef> names = getNames();
    return createStringError(path + ": no tensor '" + name + "'; there are " +
                             join(names, ", "));
  }
  const Entry &entry = it->second;
  std::optional<ElementType> type = parseSafetensorsType(entry.dtype);
  bool sameShape = entry.shape.size() == spec.shape.size();
  for (auto [actual, expected] : zip(entry.shape, spec.shape))
    sameShape &= expected < 0 || actual == expected;
  if (!type || *type != spec.type || !sameShape) {
    std::string text;
    for (int64_t size : entry.shape)
      text += std::to_string(size) + "x";
    return createStringError(path + ": tensor '" + name + "' is " + text +
                             entry.dtype + ", expected " +
                             fuse::toString(spec.type, spec.shape));
  }
  Expected<HostTensor> tensor = HostTensor::create(*type, entry.shape);
  if (tensor)
    std::memcpy(tensor->getData(), entry.data.data(), entry.data.size());
  return tensor;
}

const SafetensorsFile::Entry *SafetensorsFile::lookup(StringRef name) const {
  auto it = entries.find(name);
  return it == entries.end() ? nullptr : &it->second;
}

std::optional<StringRef> SafetensorsFile::getMetadata(StringRef key) const {
  auto it = metadata.find(key);
  if (it == metadata.end())
    return std::nullopt;
  return it->second;
}

SmallVector<StringRef> SafetensorsFile::getNames() const {
  SmallVector<StringRef> names;
  for (const auto &entry : entries)
    names.push_back(entry.getKey());
  llvm::sort(names);
  return names;
}
