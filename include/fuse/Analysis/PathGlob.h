//===- PathGlob.h - Select modules by their path ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A path is a sequence of module names separated by dots. Globs select paths:
//
//   *       any characters within one segment
//   **      any number of segments, including none; must be a whole segment
//   ?       one character
//   [0-12]  a number from 0 to 12; [a-c] and [!a] are classes of characters
//   {a,b}   one of the alternatives
//   else    itself
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ANALYSIS_PATHGLOB_H
#define FUSE_ANALYSIS_PATHGLOB_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <memory>
#include <string>
#include <vector>

namespace fuse {

class PathGlob {
public:
  /// Parses a glob. The error names the glob and the reason.
  static llvm::Expected<PathGlob> create(llvm::StringRef text);

  llvm::StringRef getText() const { return text; }

  /// Whether the entire `path` matches. The path of a model is empty.
  bool match(llvm::StringRef path) const;
  /// The same for a path that is split at its dots.
  bool match(llvm::ArrayRef<llvm::StringRef> names) const;

  /// Whether the path of a parent matches everything but the last segment.
  bool matchParent(llvm::ArrayRef<llvm::StringRef> names) const;
  /// Whether the name of a child matches the last segment. A last segment `**`
  /// names no child in particular and matches none.
  bool matchChild(llvm::StringRef name) const;
  bool endsInAnyDepth() const { return !segments.back().pattern; }

private:
  /// A segment without a pattern is `**`. Patterns refer to their text, so the
  /// text is on the heap, where moving a glob does not invalidate it.
  struct Segment {
    std::shared_ptr<const std::string> text;
    std::shared_ptr<const llvm::GlobPattern> pattern;
  };

  static bool matchSegments(llvm::ArrayRef<Segment> segments,
                            llvm::ArrayRef<llvm::StringRef> names);

  std::string text;
  std::vector<Segment> segments;
};

/// Splits a path into names; the empty path has none.
llvm::SmallVector<llvm::StringRef> splitPath(llvm::StringRef path);

} // namespace fuse

#endif // FUSE_ANALYSIS_PATHGLOB_H
