//===- Extension.h - What the extension shares ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// References, errors and types of the extension module `fuse_call`. It uses
// Python's limited API and PyTorch's table of C functions for DLPack, both of
// which are stable, so that one binary serves every version of both. It links
// neither PyTorch nor libfuse.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_PYTHON_EXTENSION_H
#define FUSE_LIB_PYTHON_EXTENSION_H

// The oldest Python of which the limited API is used.
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "fuse-c/Runtime.h"

#include <exception>
#include <utility>

namespace fuse::python {

/// A Python error is set.
struct ErrorSet {};

/// An owned reference, or none.
class Ref {
public:
  Ref() = default;
  /// Takes over the reference that a function of Python returned.
  static Ref steal(PyObject *object) {
    Ref ref;
    ref.object = object;
    return ref;
  }
  /// The same for a function that returns null after an error.
  static Ref check(PyObject *object) {
    if (!object)
      throw ErrorSet();
    return steal(object);
  }
  static Ref borrow(PyObject *object) {
    Py_XINCREF(object);
    return steal(object);
  }
  Ref(const Ref &other) : object(other.object) { Py_XINCREF(object); }
  Ref(Ref &&other) noexcept : object(std::exchange(other.object, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object, other.object);
    return *this;
  }
  ~Ref() { Py_XDECREF(object); }

  PyObject *get() const { return object; }
  PyObject *release() { return std::exchange(object, nullptr); }
  explicit operator bool() const { return object != nullptr; }

private:
  PyObject *object = nullptr;
};

/// Calls `body`, which returns a new reference; null where it threw.
template <typename Body>
PyObject *guarded(Body body) {
  try {
    return body();
  } catch (const ErrorSet &) {
    return nullptr;
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

/// `object[i]` of a sequence.
inline Ref getItem(PyObject *sequence, Py_ssize_t i) {
  return Ref::check(PySequence_GetItem(sequence, i));
}

/// The number of items of a sequence.
inline Py_ssize_t getSize(PyObject *sequence) {
  Py_ssize_t size = PySequence_Size(sequence);
  if (size < 0)
    throw ErrorSet();
  return size;
}

/// A Python integer.
inline long long getInteger(PyObject *object) {
  long long value = PyLong_AsLongLong(object);
  if (value == -1 && PyErr_Occurred())
    throw ErrorSet();
  return value;
}

inline long long getInteger(PyObject *sequence, Py_ssize_t i) {
  return getInteger(getItem(sequence, i).get());
}

/// Types of the module, which is initialized once in a process.
PyTypeObject *makeAmbientType();
PyTypeObject *makeGuardType();
PyTypeObject *makeCallType();
PyTypeObject *makeLauncherType();
PyTypeObject *makeIdentityType();
PyTypeObject *makePartType();

/// `connect(...)`: see Torch.cpp.
PyObject *connect(PyObject *module, PyObject *args);

} // namespace fuse::python

#endif // FUSE_LIB_PYTHON_EXTENSION_H
