//===- Npy.cpp - NumPy's array files --------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/IO/Npy.h"
#include "fuse/Support/OutputFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <cstring>

using namespace llvm;
using namespace fuse;

namespace {

struct Header {
  /// Kind and width, as in `f4`.
  std::string descr;
  SmallVector<int64_t> shape;
};

/// Reads the Python literal that describes an array:
/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
class HeaderParser {
public:
  explicit HeaderParser(StringRef text) : text(text) {}

  Expected<Header> parse();

private:
  bool consume(StringRef token) {
    text = text.ltrim(" \n");
    return text.consume_front(token);
  }
  Error expect(StringRef token) {
    if (consume(token))
      return Error::success();
    return createStringError("header: expected '" + token + "' before '" +
                             text.take_front(16) + "'");
  }
  Expected<std::string> parseString();
  Error parseShape(SmallVector<int64_t> &shape);

  StringRef text;
};

} // namespace

Expected<std::string> HeaderParser::parseString() {
  if (Error error = expect("'"))
    return std::move(error);
  size_t end = text.find('\'');
  if (end == StringRef::npos)
    return createStringError("header: string without an end");
  std::string value = text.take_front(end).str();
  text = text.drop_front(end + 1);
  return value;
}

Error HeaderParser::parseShape(SmallVector<int64_t> &shape) {
  if (Error error = expect("("))
    return error;
  while (!consume(")")) {
    text = text.ltrim(' ');
    uint64_t size;
    if (text.consumeInteger(10, size) || size > uint64_t(1) << 48)
      return createStringError("header: expected a size before '" +
                               text.take_front(16) + "'");
    // Python 2 wrote long integers with a suffix.
    text.consume_front("L");
    shape.push_back(static_cast<int64_t>(size));
    if (shape.size() > 8)
      return createStringError("more than 8 dimensions");
    if (!consume(",") && !text.ltrim(' ').starts_with(")"))
      return createStringError("header: expected ')' before '" +
                               text.take_front(16) + "'");
  }
  return Error::success();
}

Expected<Header> HeaderParser::parse() {
  Header header;
  bool seen[3] = {false, false, false};
  if (Error error = expect("{"))
    return std::move(error);
  while (!consume("}")) {
    Expected<std::string> key = parseString();
    if (!key)
      return key.takeError();
    if (Error error = expect(":"))
      return std::move(error);
    if (*key == "descr") {
      seen[0] = true;
      Expected<std::string> value = parseString();
      if (!value)
        return value.takeError();
      header.descr = *value;
    } else if (*key == "fortran_order") {
      seen[1] = true;
      if (consume("True"))
        return createStringError("array is in Fortran order, expected C order");
      if (Error error = expect("False"))
        return std::move(error);
    } else if (*key == "shape") {
      seen[2] = true;
      if (Error error = parseShape(header.shape))
        return std::move(error);
    } else {
      return createStringError("header: unknown key '" + *key + "'");
    }
    consume(",");
  }
  if (!seen[0] || !seen[1] || !seen[2])
    return createStringError(
        "header: expected the keys descr, fortran_order and shape");
  return header;
}

/// Reads the tensor in the type that the file states.
static Expected<HostTensor> parseNpy(StringRef bytes, ElementType wanted) {
  StringRef rest = bytes;
  if (!rest.consume_front("\x93NUMPY") || rest.size() < 4)
    return createStringError("not a .npy file");
  unsigned major = static_cast<unsigned char>(rest[0]);
  if (major < 1 || major > 3)
    return createStringError("format version " + Twine(major) +
                             " is unknown, expected 1, 2 or 3");
  size_t width = major == 1 ? 2 : 4;
  rest = rest.drop_front(2);
  if (rest.size() < width)
    return createStringError("file ends in its header");
  size_t length = width == 2 ? support::endian::read16le(rest.data())
                             : support::endian::read32le(rest.data());
  rest = rest.drop_front(width);
  if (rest.size() < length)
    return createStringError("file ends in its header");
  Expected<Header> header = HeaderParser(rest.take_front(length)).parse();
  if (!header)
    return header.takeError();
  rest = rest.drop_front(length);

  StringRef descr = header->descr;
  if (descr.starts_with(">"))
    return createStringError("type '" + descr + "' is big-endian");
  StringRef kind = descr.ltrim("<|=");
  std::optional<ElementType> type =
      StringSwitch<std::optional<ElementType>>(kind)
          .Case("f8", ElementType::F64)
          .Case("f4", ElementType::F32)
          .Case("f2", ElementType::F16)
          .Case("i8", ElementType::I64)
          .Case("i4", ElementType::I32)
          .Case("i1", ElementType::I8)
          .Default(std::nullopt);
  if (!type && (kind == "V2" || kind == "u2") && getSize(wanted) == 2)
    type = wanted;
  if (!type && (kind == "V1" || kind == "u1") && getSize(wanted) == 1)
    type = wanted;
  if (!type)
    return createStringError("type '" + descr + "' cannot become " +
                             getName(wanted));

  int64_t expected = getSize(*type);
  for (int64_t size : header->shape)
    if (MulOverflow(expected, size, expected))
      return createStringError("shape is too large");
  if (static_cast<uint64_t>(expected) != rest.size())
    return createStringError("shape and type need " + Twine(expected) +
                             " bytes, the file has " + Twine(rest.size()));
  Expected<HostTensor> tensor = HostTensor::create(*type, header->shape);
  if (tensor)
    std::memcpy(tensor->getData(), rest.data(), rest.size());
  return tensor;
}

Expected<HostTensor> fuse::readNpy(StringRef path, ElementType type) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false,
                                      /*RequiresNullTerminator=*/false);
  if (!buffer)
    return createStringError(buffer.getError(),
                             path + ": " + buffer.getError().message());
  Expected<HostTensor> tensor = parseNpy((*buffer)->getBuffer(), type);
  if (tensor && tensor->getType() != type)
    tensor = tensor->convertExactly(type);
  if (!tensor)
    return createStringError(path + ": " + llvm::toString(tensor.takeError()));
  return tensor;
}

Error fuse::writeNpy(StringRef path, const HostTensor &tensor) {
  ElementType type = tensor.getType();
  if (type == ElementType::BF16 || type == ElementType::F8E4M3FN ||
      type == ElementType::F8E5M2) {
    Expected<HostTensor> wide = tensor.convertExactly(ElementType::F32);
    if (!wide)
      return wide.takeError();
    return writeNpy(path, *wide);
  }
  StringRef name = getName(type);
  std::string header;
  raw_string_ostream os(header);
  os << "{'descr': '" << (getSize(type) == 1 ? '|' : '<') << name.front()
     << getSize(type) << "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.getShape())
    os << size << ", ";
  os << "), }";
  // Magic, version, length and header together have a multiple of 64 bytes.
  size_t total = alignTo(10 + header.size() + 1, 64);
  header.append(total - 10 - header.size() - 1, ' ');
  header.push_back('\n');

  return writeFile(path, [&](raw_ostream &out) {
    char length[2];
    support::endian::write16le(length, static_cast<uint16_t>(header.size()));
    out << StringRef("\x93NUMPY\x01\x00", 8) << StringRef(length, 2) << header
        << StringRef(tensor.getData(), tensor.getNumBytes());
    return Error::success();
  });
}
