//===- PathGlob.cpp - Select modules by their path ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Segments are LLVM glob patterns with two extensions: `**` is matched here,
// and ranges of numbers are expanded to alternatives.
//
//===----------------------------------------------------------------------===//

#include "fuse/Analysis/PathGlob.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <optional>

using namespace fuse;
using llvm::ArrayRef;
using llvm::Expected;
using llvm::SmallVector;
using llvm::StringRef;

/// Maximum number of alternatives of one segment. Matching tries each of them
/// for every path.
static constexpr uint64_t kMaxAlternatives = 1024;

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

/// Whether this text in brackets looks like numbers: `10,12`, `0-`. As a
/// character class it would silently match single digits.
static bool looksLikeNumbers(StringRef text) {
  return text.find_first_of("0123456789") != StringRef::npos &&
         text.find_first_of("-,") != StringRef::npos &&
         text.find_first_not_of("0123456789-, ") == StringRef::npos;
}

/// Appends the numbers of `range` to `text`; returns false if it is not a
/// range. Inside of open braces no second pair of braces is added.
static Expected<bool> appendNumbers(StringRef glob, StringRef range,
                                    bool braces, std::string &text) {
  auto [low, high] = range.split('-');
  uint64_t first, last;
  if (low.getAsInteger(10, first) || high.getAsInteger(10, last)) {
    if (!looksLikeNumbers(range))
      return false;
    return makeError(glob, "'[" + range +
                               "]' is not a range of numbers; expected "
                               "[first-last], or {a,b} for single ones");
  }
  if (first > last)
    return makeError(glob, "range [" + range + "] ends before it begins");
  if (last - first >= kMaxAlternatives)
    return makeError(glob, "range [" + range + "] has more than " +
                               llvm::Twine(kMaxAlternatives) + " numbers");
  // Counted, because `last + 1` may overflow.
  uint64_t count = last - first + 1;
  braces &= count > 1;
  text += braces ? "{" : "";
  for (uint64_t i = 0; i < count; ++i)
    text += (i == 0 ? "" : ",") + llvm::utostr(first + i);
  text += braces ? "}" : "";
  return true;
}

/// Rewrites `[8-11]` as `{8,9,10,11}`, and a single alternative without braces,
/// because LLVM requires two.
static Expected<std::string> expandAlternatives(StringRef glob,
                                                StringRef segment) {
  std::string text;
  std::optional<size_t> brace;
  for (size_t i = 0; i < segment.size(); ++i) {
    char c = segment[i];
    size_t close = c == '[' ? segment.find(']', i) : StringRef::npos;
    if (c == '\\') {
      text += segment.substr(i++, 2);
    } else if (close != StringRef::npos) {
      bool isAlternative =
          brace && (text.back() == '{' || text.back() == ',') &&
          StringRef(",}").contains(segment.substr(close + 1, 1));
      Expected<bool> numbers = appendNumbers(glob, segment.slice(i + 1, close),
                                             !isAlternative, text);
      if (!numbers)
        return numbers.takeError();
      if (!*numbers)
        text += segment.slice(i, close + 1);
      i = close;
    } else if (c == '}' && brace) {
      StringRef inner = StringRef(text).substr(*brace + 1);
      if (inner.empty() || inner.contains(','))
        text += c;
      else
        text.erase(*brace, 1);
      brace.reset();
    } else {
      if (c == '{' && !brace)
        brace = text.size();
      text += c;
    }
  }
  return text;
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
    if (segment == "**") {
      glob.segments.push_back({});
      continue;
    }
    if (segment.contains("**"))
      return makeError(text,
                       "'**' must be a whole segment, got '" + segment + "'");
    Expected<std::string> expanded = expandAlternatives(text, segment);
    if (!expanded)
      return expanded.takeError();
    auto stored = std::make_shared<const std::string>(std::move(*expanded));
    Expected<llvm::GlobPattern> pattern =
        llvm::GlobPattern::create(*stored, kMaxAlternatives);
    if (!pattern)
      return makeError(text, llvm::toString(pattern.takeError()));
    glob.segments.push_back(
        {stored, std::make_shared<const llvm::GlobPattern>(*pattern)});
  }
  return glob;
}

bool PathGlob::matchSegments(ArrayRef<Segment> segments,
                             ArrayRef<StringRef> names) {
  // As with `*` in a string, backtracking to the last `**` is sufficient.
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
