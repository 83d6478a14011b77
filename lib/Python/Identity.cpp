//===- Identity.cpp - The usual call of an identity -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An identity stands where a member of a fused chain was, and passes on the
// result of the kernel, which the first place of the chain returned.
//
//===----------------------------------------------------------------------===//

#include "Object.h"
#include "Torch.h"

using namespace fuse::python;

namespace {

class Identity {
public:
  /// `args` are the id of the site, the class of results that identities pass
  /// on, and whether no identity follows.
  explicit Identity(PyObject *args) {
    PyObject *object, *type;
    int last;
    if (!PyArg_ParseTuple(args, "UOp", &object, &type, &last))
      throw ErrorSet();
    site = Ref::borrow(object);
    pending = Ref::borrow(type);
    isLast = last;
  }

  /// The result, or none if Python has to look at the arguments.
  Ref run(PyObject *args, PyObject *kwargs) const {
    const Connection &connection = getConnection();
    if (PyTuple_Size(args) != 1 || PyDict_Size(kwargs) != 0)
      return Ref();
    PyObject *value = PyTuple_GetItem(args, 0);
    if (reinterpret_cast<PyObject *>(Py_TYPE(value)) != pending.get())
      return Ref();
    Ref found = Ref::steal(PyObject_GetAttr(value, connection.site.get()));
    if (!found || PyUnicode_Compare(found.get(), site.get()) != 0) {
      PyErr_Clear();
      return Ref();
    }
    if (!isLast)
      return Ref::borrow(value);
    // Results of calls that Python ran have none.
    Ref result = Ref::steal(PyObject_GetAttr(value, connection.result.get()));
    if (!result)
      PyErr_Clear();
    return result;
  }

  void visit(visitproc visit, void *data, int &result) const {
    for (const Ref *ref : {&site, &pending})
      if (!result)
        result = visit(ref->get(), data);
  }

private:
  Ref site;
  Ref pending;
  bool isLast;
};

} // namespace

PyTypeObject *fuse::python::makeIdentityType() {
  return Object<Identity>::makeType("fuse_call.Identity", nullptr,
                                    Object<Identity>::call);
}
