//===- TextLimits.cpp - Limits of untrusted text --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Support/TextLimits.h"
#include "fuse/Support/IRVersion.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

using llvm::createStringError;

/// First bytes of MLIR bytecode.
static constexpr llvm::StringLiteral kBytecodeStart = "ML\xefR";

llvm::Error fuse::checkTextLimits(llvm::StringRef text) {
  if (text.size() > kMaxTextSize)
    return createStringError("text has %zu bytes, the limit is %zu",
                             text.size(), kMaxTextSize);
  if (text.starts_with(kBytecodeStart))
    return createStringError("bytecode is only read from trusted places; "
                             "convert it to text with fuse-opt");
  return checkForParser(text);
}

static bool isWord(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '$' || c == '.';
}

/// Whether `text` begins with `array<index`, with any white space in between.
static bool isArrayOfIndex(llvm::StringRef text) {
  for (llvm::StringRef token : {"array", "<", "index"}) {
    if (!text.consume_front(token))
      return false;
    for (text = text.ltrim(); text.consume_front("//"); text = text.ltrim())
      text = text.drop_until([](char c) { return c == '\n'; });
  }
  return text.empty() || !isWord(text.front());
}

llvm::Error fuse::checkForParser(llvm::StringRef text) {
  // Angle brackets are counted separately, since arrows and comparisons use
  // them.
  unsigned brackets = 0, angles = 0, line = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (c) {
    case '\n':
      ++line;
      break;
    case 'a':
      if ((i == 0 || !isWord(text[i - 1])) && isArrayOfIndex(text.substr(i)))
        return createStringError("an array of index in line %u", line);
      break;
    case '"':
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        if (text[i] == '\\')
          ++i;
      // An unterminated string ends at its line; the parser reports it.
      if (i < text.size() && text[i] == '\n')
        ++line;
      break;
    case '/':
      if (next == '/') {
        i = text.find('\n', i);
        if (i == llvm::StringRef::npos)
          return llvm::Error::success();
        ++line;
      }
      break;
    case '(':
    case '[':
    case '{':
      ++brackets;
      break;
    case ')':
    case ']':
    case '}':
      brackets -= brackets > 0;
      break;
    case '<':
      angles += next != '=';
      break;
    case '-':
      i += next == '>';
      break;
    case '>':
      if (next == '=')
        ++i;
      else
        angles -= angles > 0;
      break;
    default:
      break;
    }
    if (brackets > kMaxTextDepth || angles > kMaxTextDepth)
      return createStringError("brackets are nested more than %u deep in line "
                               "%u",
                               kMaxTextDepth, line);
  }
  return llvm::Error::success();
}

llvm::Error fuse::checkInputFiles(int argc, const char *const *argv) {
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef path = argv[i];
    if (path.starts_with("-") || !llvm::sys::fs::is_regular_file(path))
      continue;
    auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
    if (!buffer || (*buffer)->getBuffer().starts_with(kBytecodeStart))
      continue;
    if (llvm::Error error = checkForParser((*buffer)->getBuffer()))
      return createStringError(path + ": " + llvm::toString(std::move(error)));
  }
  return llvm::Error::success();
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
fuse::readText(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer)
    return createStringError(buffer.getError(),
                             "cannot open input file '" + path +
                                 "': " + buffer.getError().message());
  llvm::Error error = checkTextLimits((*buffer)->getBuffer());
  if (!error)
    error = upgradeBuffer(*buffer);
  if (error)
    return createStringError(path + ": " + llvm::toString(std::move(error)));
  return std::move(*buffer);
}
