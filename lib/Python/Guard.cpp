//===- Guard.cpp - Whether modules are what they were ---------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Guard.h"
#include "Object.h"
#include "Torch.h"

using namespace fuse::python;

void Guard::walk(PyObject *container, Leaves &leaves) {
  bool isDict = PyDict_Check(container);
  if (!isDict && !PyList_Check(container) && !PyTuple_Check(container) &&
      !PyAnySet_Check(container)) {
    leaves.objects.push_back(Ref::borrow(container));
    return;
  }
  Py_ssize_t size = PyObject_Size(container);
  if (size < 0)
    throw ErrorSet();
  leaves.sizes.push_back(size);
  if (isDict) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(container, &at, &key, &value);) {
      leaves.objects.push_back(Ref::borrow(key));
      walk(value, leaves);
    }
    return;
  }
  Ref iterator = Ref::check(PyObject_GetIter(container));
  while (Ref item = Ref::steal(PyIter_Next(iterator.get())))
    walk(item.get(), leaves);
  if (PyErr_Occurred())
    throw ErrorSet();
}

Guard::Guard(PyObject *spec) {
  auto forEach = [&](Py_ssize_t part, auto body) {
    Ref list = getItem(spec, part);
    for (Py_ssize_t i = 0, size = getSize(list.get()); i < size; ++i)
      body(getItem(list.get(), i));
  };
  auto requireDict = [](const Ref &ref) {
    if (!PyDict_Check(ref.get())) {
      PyErr_SetString(PyExc_TypeError, "expected a dict");
      throw ErrorSet();
    }
  };
  forEach(0, [&](Ref dict) {
    requireDict(dict);
    dicts.push_back({dict, PyDict_Size(dict.get()), values.size()});
    PyObject *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict.get(), &at, nullptr, &value);)
      values.push_back(Ref::borrow(value));
  });
  forEach(1, [&](Ref dict) {
    requireDict(dict);
    empty.push_back(dict);
  });
  forEach(2, [&](Ref object) {
    PyObject *type = reinterpret_cast<PyObject *>(Py_TYPE(object.get()));
    classes.emplace_back(object, Ref::borrow(type));
  });
  forEach(3, [&](Ref type) {
    Ref forward =
        Ref::check(PyObject_GetAttr(type.get(), getConnection().forward.get()));
    forwards.emplace_back(type, forward);
  });
  forEach(4, [&](Ref container) {
    Leaves leaves;
    walk(container.get(), leaves);
    containers.emplace_back(container, std::move(leaves));
  });
}

bool Guard::holds() const {
  for (const Dict &dict : dicts) {
    if (PyDict_Size(dict.dict.get()) != dict.size)
      return false;
    PyObject *value;
    const Ref *expected = &values[dict.first];
    for (Py_ssize_t at = 0; PyDict_Next(dict.dict.get(), &at, nullptr, &value);)
      if (value != (expected++)->get())
        return false;
  }
  for (const Ref &dict : empty)
    if (PyDict_Size(dict.get()) != 0)
      return false;
  for (const auto &[object, type] : classes)
    if (reinterpret_cast<PyObject *>(Py_TYPE(object.get())) != type.get())
      return false;
  for (const auto &[type, forward] : forwards) {
    Ref found =
        Ref::check(PyObject_GetAttr(type.get(), getConnection().forward.get()));
    if (found.get() != forward.get())
      return false;
  }
  for (const auto &[container, before] : containers) {
    Leaves now;
    walk(container.get(), now);
    if (now.sizes != before.sizes ||
        now.objects.size() != before.objects.size())
      return false;
    for (size_t i = 0; i < now.objects.size(); ++i)
      if (now.objects[i].get() != before.objects[i].get())
        return false;
  }
  return true;
}

void Guard::visit(visitproc visit, void *data, int &result) const {
  auto go = [&](const Ref &ref) {
    if (!result && ref)
      result = visit(ref.get(), data);
  };
  for (const Dict &dict : dicts)
    go(dict.dict);
  for (const Ref &value : values)
    go(value);
  for (const Ref &dict : empty)
    go(dict);
  for (const auto *pairs : {&classes, &forwards})
    for (const auto &[first, second] : *pairs) {
      go(first);
      go(second);
    }
  for (const auto &[container, leaves] : containers) {
    go(container);
    for (const Ref &object : leaves.objects)
      go(object);
  }
}

static PyObject *sameGuard(PyObject *self, PyObject *) {
  return guarded(
      [&] { return PyBool_FromLong(Object<Guard>::get(self).holds()); });
}

static PyMethodDef guardMethods[] = {
    {"same", sameGuard, METH_NOARGS,
     "Whether nothing was replaced, added or removed since."},
    {nullptr, nullptr, 0, nullptr}};

static PyTypeObject *guardType;

PyTypeObject *fuse::python::makeGuardType() {
  return guardType = Object<Guard>::makeType("fuse_call.Guard", guardMethods);
}

const Guard *fuse::python::getGuard(PyObject *object) {
  if (Py_TYPE(object) != guardType) {
    PyErr_SetString(PyExc_TypeError, "expected a Guard");
    return nullptr;
  }
  return &Object<Guard>::get(object);
}
