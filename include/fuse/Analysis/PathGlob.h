//===- PathGlob.h - Select modules by their path ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A path is a chain of module names with dots between them. The rules of
// globs, with examples, are in docs/PathGlobs.md:
//
//   *       any characters within one segment
//   **      any number of segments, none included; a segment of its own
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
  /// Parses a glob. The error names the glob and what is wrong with it.
  static llvm::Expected<PathGlob> create(llvm::StringRef text);

  llvm::StringRef getText() const { return text; }

  /// Whether the whole of `path` matches. The path of a model is empty.
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
  /// A segment without a pattern is `**`. Patterns refer to their text, which
  /// therefore stays where it is when a glob is moved.
  struct Segment {
    std::shared_ptr<const std::string> text;
    std::shared_ptr<const llvm::GlobPattern> pattern;
  };

  static bool matchSegments(llvm::ArrayRef<Segment> segments,
                            llvm::ArrayRef<llvm::StringRef> names);

  std::string text;
  std::vector<Segment> segments;
};

/// The names that a path consists of; none for the empty path.
llvm::SmallVector<llvm::StringRef> splitPath(llvm::StringRef path);

} // namespace fuse

#endif // FUSE_ANALYSIS_PATHGLOB_H
