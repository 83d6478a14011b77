//===- Part.cpp - The usual call of a place that hands out a result -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A part stands where a linear was whose norm runs one kernel for all linears
// that read it. Its input is what the place of the norm returned: the norm's
// result or a stand-in, with a list of the results. Each is taken from the list
// once, so that it does not live as long as the stand-in.
//
//===----------------------------------------------------------------------===//

#include "Object.h"
#include "Torch.h"

using namespace fuse::python;

namespace {

class Part {
public:
  /// `args` are the id of the site, the class of stand-ins, and the number of
  /// the result.
  explicit Part(PyObject *args) {
    PyObject *object, *type;
    if (!PyArg_ParseTuple(args, "UOn", &object, &type, &index))
      throw ErrorSet();
    site = Ref::borrow(object);
    pending = Ref::borrow(type);
  }

  /// The result, or none if Python has to look at the arguments.
  Ref run(PyObject *args, PyObject *kwargs) const {
    const Connection &connection = getConnection();
    if (PyTuple_Size(args) != 1 || PyDict_Size(kwargs) != 0)
      return Ref();
    PyObject *value = PyTuple_GetItem(args, 0);
    auto *type = reinterpret_cast<PyObject *>(Py_TYPE(value));
    if (type != pending.get() && type != connection.tensor.get())
      return Ref();
    Ref found = Ref::steal(PyObject_GetAttr(value, connection.site.get()));
    Ref parts = Ref::steal(PyObject_GetAttr(value, connection.parts.get()));
    // Stand-ins of other sites, and results of other kinds of sites.
    if (!found || !parts || !PyList_Check(parts.get()) ||
        PyUnicode_Compare(found.get(), site.get()) != 0) {
      PyErr_Clear();
      return Ref();
    }
    if (type != pending.get() && !isUnchanged(value))
      return Ref();
    Ref result = Ref::borrow(PyList_GetItem(parts.get(), index));
    if (!result || result.get() == Py_None) {
      PyErr_Clear();
      return Ref();
    }
    if (PyList_SetItem(parts.get(), index, Ref::borrow(Py_None).release()) != 0)
      throw ErrorSet();
    return result;
  }

  void visit(visitproc visit, void *data, int &result) const {
    for (const Ref *ref : {&site, &pending})
      if (!result)
        result = visit(ref->get(), data);
  }

private:
  /// Whether nothing has written to the result of a norm. Tensors of inference
  /// mode do not count writes.
  static bool isUnchanged(PyObject *norm) {
    Ref version =
        Ref::steal(PyObject_GetAttr(norm, getConnection().version.get()));
    if (!version) {
      PyErr_Clear();
      return true;
    }
    return getInteger(version.get()) == 0;
  }

  Ref site;
  Ref pending;
  Py_ssize_t index;
};

} // namespace

PyTypeObject *fuse::python::makePartType() {
  return Object<Part>::makeType("fuse_call.Part", nullptr, Object<Part>::call);
}
