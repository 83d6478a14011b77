//===- PathGlob.cpp - Select modules by their path ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Segments are LLVM glob patterns. What LLVM does not know are `**`, which is
// matched here, and ranges of numbers, which become alternatives.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PathGlob.h"
#include "fuse/Support/Inject.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace fuse;
using llvm::ArrayRef;
using llvm::Expected;
using llvm::SmallVector;
using llvm::StringRef;

/// Alternatives that one segment may stand for. Every path is held against
/// each of them.
static constexpr uint64_t maxAlternatives = 1024;

static llvm::Error makeError(StringRef glob, const llvm::Twine &what) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "path glob '" + glob + "': " + what);
}

/// Splits at the dots outside of brackets and braces.
static Expected<SmallVector<StringRef>> splitGlob(StringRef glob) {
  SmallVector<StringRef> segments;
  size_t begin = 0;
  char closing = 0;
  for (size_t i = 0; i < glob.size(); ++i) {
    char c = glob[i];
    if (c == '\\')
      ++i;
    else if (closing && c == '.')
      return makeError(glob, llvm::Twine("'.' between '") +
                                 (closing == '}' ? "{" : "[") + "' and '" +
                                 llvm::Twine(closing) +
                                 "'; alternatives are parts of one segment");
    else if (closing)
      closing = c == closing ? 0 : closing;
    else if (c == '{' || c == '[')
      closing = c == '{' ? '}' : ']';
    else if (c == '.') {
      segments.push_back(glob.slice(begin, i));
      begin = i + 1;
    }
  }
  segments.push_back(glob.substr(begin));
  return segments;
}

/// Writes `[8-11]` as `{8,9,10,11}`.
static Expected<std::string> expandNumbers(StringRef glob, StringRef segment) {
  std::string text;
  while (!segment.empty()) {
    size_t open = segment.find('[');
    size_t close = segment.find(']', open);
    if (open == StringRef::npos || close == StringRef::npos)
      break;
    text += segment.take_front(open);
    StringRef range = segment.slice(open + 1, close);
    auto [low, high] = range.split('-');
    uint64_t first, last;
    bool escaped = open && segment[open - 1] == '\\';
    if (escaped || low.getAsInteger(10, first) || high.getAsInteger(10, last)) {
      text += segment.slice(open, close + 1);
    } else {
      if (first > last)
        return makeError(glob, "range [" + range + "] ends before it begins");
      if (last - first >= maxAlternatives)
        return makeError(glob, "range [" + range + "] has more than " +
                                   llvm::Twine(maxAlternatives) + " numbers");
      text += '{';
      // By their count: the last number may be the largest there is.
      uint64_t count = last - first + 1 - isInjected("glob-range");
      for (uint64_t i = 0; i < count; ++i)
        text += (i == 0 ? "" : ",") + llvm::utostr(first + i);
      text += '}';
    }
    segment = segment.substr(close + 1);
  }
  return text + segment.str();
}

Expected<PathGlob> PathGlob::create(StringRef text) {
  PathGlob glob;
  glob.text = text.str();
  Expected<SmallVector<StringRef>> segments = splitGlob(text);
  if (!segments)
    return segments.takeError();
  for (StringRef segment : *segments) {
    if (segment.empty())
      return makeError(text,
                       text.empty() ? "is empty" : "has an empty segment");
    if (segment == "**" || (isInjected("glob-star") && segment == "*")) {
      glob.segments.push_back({});
      continue;
    }
    if (segment.contains("**"))
      return makeError(text, "'**' must be a segment of its own, got '" +
                                 segment + "'");
    Expected<std::string> expanded = expandNumbers(text, segment);
    if (!expanded)
      return expanded.takeError();
    auto stored = std::make_shared<const std::string>(std::move(*expanded));
    Expected<llvm::GlobPattern> pattern =
        llvm::GlobPattern::create(*stored, maxAlternatives);
    if (!pattern)
      return makeError(text, llvm::toString(pattern.takeError()));
    glob.segments.push_back(
        {stored, std::make_shared<const llvm::GlobPattern>(*pattern)});
  }
  return glob;
}

bool PathGlob::matchSegments(ArrayRef<Segment> segments,
                             ArrayRef<StringRef> names) {
  // As for `*` within a string: it is enough to come back to the last `**`.
  ArrayRef<Segment> retrySegments;
  ArrayRef<StringRef> retryNames;
  bool canRetry = false;
  while (true) {
    if (!segments.empty() && !segments.front().pattern) {
      segments = retrySegments = segments.drop_front();
      retryNames = names;
      canRetry = true;
      continue;
    }
    if (segments.empty() && names.empty())
      return true;
    if (!segments.empty() && !names.empty() &&
        segments.front().pattern->match(names.front())) {
      segments = segments.drop_front();
      names = names.drop_front();
      continue;
    }
    if (!canRetry || retryNames.empty())
      return false;
    names = retryNames = retryNames.drop_front();
    segments = retrySegments;
  }
}

bool PathGlob::match(StringRef path) const { return match(splitPath(path)); }

bool PathGlob::match(ArrayRef<StringRef> names) const {
  return matchSegments(segments, names);
}

bool PathGlob::matchParent(ArrayRef<StringRef> names) const {
  return matchSegments(ArrayRef(segments).drop_back(), names);
}

bool PathGlob::matchChild(StringRef name) const {
  const Segment &last = segments.back();
  return last.pattern && last.pattern->match(name);
}

SmallVector<StringRef> fuse::splitPath(StringRef path) {
  SmallVector<StringRef> names;
  if (!path.empty())
    path.split(names, '.');
  return names;
}
