//===- Guard.h - Whether modules are what they were -------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_PYTHON_GUARD_H
#define FUSE_LIB_PYTHON_GUARD_H

#include "Extension.h"

#include <vector>

namespace fuse::python {

/// What modules consist of, as identities of objects. Python makes it
/// (fuse_mlir/support/module_snapshot.py has the meaning of each part).
class Guard {
public:
  /// `spec` has: dicts whose values must stay, dicts that must stay empty,
  /// objects whose class must stay, classes whose `forward` must stay, and
  /// containers whose leaves must stay.
  explicit Guard(PyObject *spec);

  /// Whether nothing was replaced, added or removed since.
  bool holds() const;

  void visit(visitproc visit, void *data, int &result) const;

private:
  struct Dict {
    Ref dict;
    Py_ssize_t size;
    /// Index of its first value in `values`.
    size_t first;
  };

  /// Objects and sizes of a container in the order in which it is walked.
  struct Leaves {
    std::vector<Ref> objects;
    std::vector<Py_ssize_t> sizes;
  };
  static void walk(PyObject *container, Leaves &leaves);

  std::vector<Dict> dicts;
  std::vector<Ref> values;
  std::vector<Ref> empty;
  std::vector<std::pair<Ref, Ref>> classes;
  std::vector<std::pair<Ref, Ref>> forwards;
  std::vector<std::pair<Ref, Leaves>> containers;
};

/// The guard of an object of type `Guard`; null, with an error, for others.
const Guard *getGuard(PyObject *object);

} // namespace fuse::python

#endif // FUSE_LIB_PYTHON_GUARD_H
