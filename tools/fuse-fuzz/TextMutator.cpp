//===- TextMutator.cpp - Damaged copies of valid text ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextMutator.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fuse;
using llvm::StringRef;

/// The length of the token at the start of `text`, which must not be empty.
static size_t getTokenLength(StringRef text) {
  auto isWord = [](char c) {
    return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
  };
  if (text.front() == '"') {
    size_t end = text.find('"', 1);
    return end == StringRef::npos ? text.size() : end + 1;
  }
  size_t prefix = StringRef("%#@!^-").contains(text.front()) ? 1 : 0;
  size_t length = prefix + text.drop_front(prefix).take_while(isWord).size();
  return std::max<size_t>(length, 1);
}

static std::vector<std::string> tokenize(StringRef text) {
  std::vector<std::string> tokens;
  std::string space;
  while (!text.empty()) {
    if (text.starts_with("//")) {
      text = text.drop_until([](char c) { return c == '\n'; });
      continue;
    }
    if (llvm::isSpace(text.front())) {
      space = text.front() == '\n' ? "\n" : " ";
      text = text.drop_front();
      continue;
    }
    size_t length = getTokenLength(text);
    tokens.push_back(space + text.take_front(length).str());
    space.clear();
    text = text.drop_front(length);
  }
  return tokens;
}

/// The generic form of `text`, or an empty string if it does not parse.
static std::string printGeneric(MLIRContext *context, StringRef text) {
  ScopedDiagnosticHandler quiet(context,
                                [](Diagnostic &) { return success(); });
  auto module = parseSourceString<ModuleOp>(
      text, ParserConfig(context, /*verifyAfterParse=*/false));
  std::string printed;
  llvm::raw_string_ostream os(printed);
  if (module)
    module->print(os, OpPrintingFlags().printGenericOpForm());
  return printed;
}

std::string fuse::findModules(StringRef folder,
                              std::vector<std::string> &paths) {
  std::error_code error;
  llvm::sys::fs::recursive_directory_iterator it(folder, error), end;
  for (; it != end && !error; it.increment(error))
    if (StringRef(it->path()).ends_with(".mlir"))
      paths.push_back(it->path());
  llvm::sort(paths);
  return error
             ? ("cannot read folder '" + folder + "': " + error.message()).str()
             : "";
}

std::string TextMutator::load(StringRef folder, MLIRContext *context) {
  std::vector<std::string> paths;
  if (std::string problem = findModules(folder, paths); !problem.empty())
    return problem;
  for (const std::string &path : paths) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    if (!buffer)
      return "cannot read '" + path + "': " + buffer.getError().message();
    llvm::SmallVector<StringRef> texts;
    (*buffer)->getBuffer().split(texts, "\n}\n");
    for (StringRef text : texts) {
      std::string section = (text + "\n}\n").str();
      sections.push_back(tokenize(section));
      sections.push_back(tokenize(printGeneric(context, section)));
    }
  }
  llvm::erase_if(sections, [](const auto &tokens) { return tokens.empty(); });
  if (sections.empty())
    return ("folder '" + folder + "' has no .mlir files").str();
  for (const auto &tokens : sections)
    llvm::append_range(vocabulary, tokens);
  for (const char *token :
       {" 0", " -1", " 9223372036854775807", " 0x7FF8000000000000", " 1.0e400",
        " []", " {}", " <", " \"\"", " ?x", " tensor<f32>", " unit",
        " tensor<0xf32>", " array<i32: 0>", " #fuse.rounding<exact>"})
    vocabulary.push_back(token);
  return {};
}

/// The kind of a token, derived from its first character.
static char getKind(StringRef token) {
  token = token.ltrim();
  char first = token.empty() ? ' ' : token.front();
  if (llvm::isDigit(first))
    return '0';
  // Dimensions after a question mark, as in ?x64xbf16.
  if (first == 'x' && token.size() > 1 && llvm::isDigit(token[1]))
    return 'x';
  return llvm::isAlpha(first) || first == '_' ? 'a' : first;
}

/// Removes an entry `name = value` of a list of attributes, with the comma
/// after it or, for the last entry, before it.
static void dropAttribute(std::vector<std::string> &tokens, Random &random) {
  std::vector<size_t> starts;
  for (size_t i = 1; i < tokens.size(); ++i)
    if (StringRef(tokens[i]).trim() == "=" && getKind(tokens[i - 1]) == 'a')
      starts.push_back(i - 1);
  if (starts.empty())
    return;
  size_t first = random.oneOf(llvm::ArrayRef(starts)), last = first;
  for (unsigned depth = 0; last < tokens.size(); ++last) {
    StringRef token = StringRef(tokens[last]).trim();
    if (token == "," && depth == 0)
      break;
    if (token == "(" || token == "[" || token == "{" || token == "<")
      ++depth;
    bool isArrow = last > 0 && StringRef(tokens[last - 1]).trim() == "-";
    if (token == ")" || token == "]" || token == "}" ||
        (token == ">" && !isArrow)) {
      if (depth == 0)
        break;
      --depth;
    }
  }
  if (last < tokens.size() && StringRef(tokens[last]).trim() == ",")
    ++last;
  else if (first > 0 && StringRef(tokens[first - 1]).trim() == ",")
    --first;
  tokens.erase(tokens.begin() + first, tokens.begin() + last);
}

std::string TextMutator::generate(Random &random) const {
  std::vector<std::string> tokens = random.oneOf(llvm::ArrayRef(sections));
  for (unsigned i = random.below(3) + 1; i > 0 && !tokens.empty(); --i) {
    size_t at = random.below(tokens.size());
    size_t other = random.below(tokens.size());
    switch (random.below(9)) {
    case 0:
      tokens.erase(tokens.begin() + at);
      break;
    case 1:
      tokens.insert(tokens.begin() + at, tokens[other]);
      break;
    case 2:
      tokens[at] = random.oneOf(llvm::ArrayRef(vocabulary));
      break;
    case 3:
      dropAttribute(tokens, random);
      break;
    default: {
      // Text that parses tests more, so most tokens are replaced by tokens of
      // the same kind: operands from the same section, others from anywhere.
      llvm::ArrayRef<std::string> source(tokens);
      if (random.percent(50))
        source = vocabulary;
      for (unsigned attempt = 0; attempt < 50; ++attempt) {
        std::string token = random.oneOf(source);
        if (getKind(token) != getKind(tokens[at]) || token == tokens[at])
          continue;
        tokens[at] = token;
        break;
      }
      break;
    }
    }
  }
  return llvm::join(tokens, "");
}
