//===- Object.h - Python objects that hold one of C++ -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_PYTHON_OBJECT_H
#define FUSE_LIB_PYTHON_OBJECT_H

#include "Extension.h"

#include <memory>

namespace fuse::python {

/// Python objects that own a `T`, which has a constructor from the arguments
/// and a `visit` for Python's search for cycles.
template <typename T>
struct Object {
  PyObject_HEAD T *value;

  static T &get(PyObject *self) {
    return *reinterpret_cast<Object *>(self)->value;
  }

  /// object(args, kwargs), of a `T` with `run`: the result, or None.
  static PyObject *call(PyObject *self, PyObject *args, PyObject *) {
    return guarded([&]() -> PyObject * {
      PyObject *positional, *named;
      if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &positional,
                            &PyDict_Type, &named))
        throw ErrorSet();
      Ref result = get(self).run(positional, named);
      if (!result)
        Py_RETURN_NONE;
      return result.release();
    });
  }

  static PyTypeObject *makeType(const char *name, PyMethodDef *methods,
                                ternaryfunc call = nullptr,
                                PyGetSetDef *attributes = nullptr) {
    PyType_Slot slots[9] = {
        {Py_tp_new, reinterpret_cast<void *>(create)},
        {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
        {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
        {Py_tp_clear, reinterpret_cast<void *>(clear)}};
    PyType_Slot *next = slots + 4;
    if (methods)
      *next++ = {Py_tp_methods, methods};
    if (call)
      *next++ = {Py_tp_call, reinterpret_cast<void *>(call)};
    if (attributes)
      *next++ = {Py_tp_getset, attributes};
    *next = {0, nullptr};
    PyType_Spec spec = {name, sizeof(Object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
    return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  }

private:
  static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *) {
    return guarded([&]() -> PyObject * {
      // First the value: Python may look at the object as soon as it is there.
      auto value = std::make_unique<T>(args);
      auto allocate =
          reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
      Ref object = Ref::check(allocate(type, 0));
      reinterpret_cast<Object *>(object.get())->value = value.release();
      return object.release();
    });
  }

  static int traverse(PyObject *self, visitproc visit, void *data) {
    int result = visit(reinterpret_cast<PyObject *>(Py_TYPE(self)), data);
    if (T *value = reinterpret_cast<Object *>(self)->value)
      value->visit(visit, data, result);
    return result;
  }

  // A cycle is broken elsewhere: dicts of modules, which all cycles contain,
  // are cleared. Another thread may be in a call of this object.
  static int clear(PyObject *) { return 0; }

  static void destroy(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    delete reinterpret_cast<Object *>(self)->value;
    PyObject_GC_Del(self);
    Py_DECREF(type);
  }
};

} // namespace fuse::python

#endif // FUSE_LIB_PYTHON_OBJECT_H
