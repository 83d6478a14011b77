//===- Torch.cpp - What calls ask of PyTorch and libfuse ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Torch.h"
#include "Object.h"

using namespace fuse::python;

Connection &fuse::python::getConnection() {
  // Never destroyed: Python may be gone when destructors run.
  static Connection *connection = new Connection();
  return *connection;
}

bool fuse::python::getView(PyObject *tensor, DLTensor &view) {
  if (getConnection().table->getView(tensor, &view) == 0)
    return true;
  // Sparse tensors, types that DLPack does not know.
  PyErr_Clear();
  return false;
}

bool fuse::python::isContiguous(const DLTensor &view) {
  if (!view.strides)
    return true;
  int64_t expected = 1;
  for (int32_t dim = view.ndim; dim-- > 0;) {
    if (view.shape[dim] != 1 && view.strides[dim] != expected)
      return false;
    expected *= view.shape[dim];
  }
  return true;
}

Ambient::Ambient(PyObject *list) {
  for (Py_ssize_t i = 0, size = getSize(list); i < size; ++i) {
    Ref item = getItem(list, i);
    questions.push_back({getItem(item.get(), 0), getItem(item.get(), 1),
                         getItem(item.get(), 2)});
  }
}

bool Ambient::Question::holds() const {
  if (PyDict_Check(subject.get()))
    return PyDict_GetItemWithError(subject.get(), argument.get()) ==
           expected.get();
  Ref found = Ref::check(argument.get() == Py_None
                             ? PyObject_CallNoArgs(subject.get())
                             : PyObject_CallFunctionObjArgs(
                                   subject.get(), argument.get(), nullptr));
  return found.get() == expected.get();
}

bool Ambient::holds() const {
  for (const Question &question : questions)
    if (!question.holds())
      return false;
  return true;
}

void Ambient::visit(visitproc visit, void *data, int &result) const {
  for (const Question &question : questions)
    for (const Ref *ref :
         {&question.subject, &question.argument, &question.expected})
      if (!result && *ref)
        result = visit(ref->get(), data);
}

static void *getAddress(PyObject *object) {
  void *address = PyLong_AsVoidPtr(object);
  if (!address && PyErr_Occurred())
    throw ErrorSet();
  return address;
}

/// connect(addresses, torch, names): sets the connection of this process.
///
/// `addresses` are those of fuse_launch and fuse_instance_workspace_size,
/// `torch` has the capsule of the table, the class and the functions of
/// `Connection` in its order.
PyObject *fuse::python::connect(PyObject *, PyObject *args) {
  return guarded([&]() -> PyObject * {
    PyObject *addresses, *torch;
    if (!PyArg_ParseTuple(args, "OO", &addresses, &torch))
      throw ErrorSet();
    Connection made;
    made.table = static_cast<const ExchangeTable *>(
        PyCapsule_GetPointer(getItem(torch, 0).get(), "dlpack_exchange_api"));
    if (!made.table)
      throw ErrorSet();
    if (made.table->major != 1 || !made.table->getView ||
        !made.table->getStream) {
      PyErr_Format(PyExc_RuntimeError,
                   "PyTorch exchanges tensors by DLPack %u.%u; expected 1.3 or "
                   "a later 1.x",
                   made.table->major, made.table->minor);
      throw ErrorSet();
    }
    made.launch = reinterpret_cast<decltype(made.launch)>(
        getAddress(getItem(addresses, 0).get()));
    made.getWorkspaceSize = reinterpret_cast<decltype(made.getWorkspaceSize)>(
        getAddress(getItem(addresses, 1).get()));
    Ref *objects[] = {&made.tensor, &made.empty, &made.emptyLike, &made.detach,
                      &made.isNegated};
    for (size_t i = 0; i < std::size(objects); ++i)
      *objects[i] = getItem(torch, i + 1);
    std::pair<Ref *, const char *> names[] = {
        {&made.type, "__class__"},
        {&made.version, "_version"},
        {&made.requiresGrad, "requires_grad"},
        {&made.modules, "_modules"},
        {&made.forward, "forward"},
        {&made.site, "_fuse_site"},
        {&made.inputs, "_fuse_inputs"},
        {&made.result, "_fuse_whole"},
        {&made.parts, "_fuse_parts"}};
    for (auto [ref, name] : names)
      *ref = Ref::check(PyUnicode_InternFromString(name));
    getConnection() = std::move(made);
    Py_RETURN_NONE;
  });
}

//===----------------------------------------------------------------------===//
// Python
//===----------------------------------------------------------------------===//

static PyObject *ambientHolds(PyObject *self, PyObject *) {
  return guarded(
      [&] { return PyBool_FromLong(Object<Ambient>::get(self).holds()); });
}

static PyMethodDef ambientMethods[] = {
    {"holds", ambientHolds, METH_NOARGS,
     "Whether all questions have their usual answers."},
    {nullptr, nullptr, 0, nullptr}};

static PyTypeObject *ambientType;

PyTypeObject *fuse::python::makeAmbientType() {
  return ambientType =
             Object<Ambient>::makeType("fuse_call.Ambient", ambientMethods);
}

const Ambient *fuse::python::getAmbient(PyObject *object) {
  if (Py_TYPE(object) != ambientType) {
    PyErr_SetString(PyExc_TypeError, "expected an Ambient");
    return nullptr;
  }
  return &Object<Ambient>::get(object);
}
