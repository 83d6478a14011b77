//===- Launcher.cpp - Launches of one instance on tensors -----------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Launcher.h"
#include "Object.h"
#include "Torch.h"

using namespace fuse::python;

Launcher::Launcher(PyObject *args) {
  PyObject *address, *keeper, *take, *capturing;
  int type, id;
  if (!PyArg_ParseTuple(args, "OOiiOO", &address, &keeper, &type, &id, &take,
                        &capturing))
    throw ErrorSet();
  instance = static_cast<fuse_instance *>(PyLong_AsVoidPtr(address));
  if (!instance) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_ValueError, "expected the address of an instance");
    throw ErrorSet();
  }
  owner = Ref::borrow(keeper);
  device = {static_cast<DLDeviceType>(type), id};
  takeWorkspace = Ref::borrow(take);
  if (capturing != Py_None)
    isCapturing = Ref::borrow(capturing);
}

fuse_workspace *Launcher::getWorkspace(const LaunchTensors &tensors,
                                       void *stream) {
  size_t size = 0;
  if (getConnection().getWorkspaceSize(instance, tensors.pointers,
                                       tensors.numInputs, &size) != FUSE_OK ||
      size == 0)
    return nullptr;
  for (Workspace &known : workspaces)
    if (known.stream == stream && known.size >= size)
      return known.workspace;
  Ref made = Ref::check(PyObject_CallFunction(
      takeWorkspace.get(), "nK", static_cast<Py_ssize_t>(size),
      static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(stream))));
  Workspace workspace = {stream, size, nullptr, getItem(made.get(), 1)};
  workspace.workspace = static_cast<fuse_workspace *>(
      PyLong_AsVoidPtr(getItem(made.get(), 0).get()));
  if (!workspace.workspace)
    throw ErrorSet();
  for (Workspace &known : workspaces)
    if (known.stream == stream) {
      known = workspace;
      return known.workspace;
    }
  workspaces.push_back(workspace);
  return workspace.workspace;
}

fuse_status Launcher::launch(const LaunchTensors &tensors) {
  const Connection &connection = getConnection();
  fuse_launch_args args = {};
  args.size = sizeof(args);
  args.inputs = tensors.pointers;
  args.num_inputs = tensors.numInputs;
  args.outputs = tensors.pointers + tensors.numInputs;
  args.num_outputs = tensors.numOutputs;
  if (device.device_type == kDLCPU) {
    fuse_status status;
    Py_BEGIN_ALLOW_THREADS status = connection.launch(instance, &args);
    Py_END_ALLOW_THREADS return status;
  }
  if (connection.table->getStream(device.device_type, device.device_id,
                                  &args.stream) != 0)
    throw ErrorSet();
  // A graph is never captured on the default stream.
  if (args.stream && isCapturing) {
    Ref captures = Ref::check(PyObject_CallNoArgs(isCapturing.get()));
    if (captures.get() != Py_False)
      return FUSE_ERROR_STATE;
  }
  args.workspace = getWorkspace(tensors, args.stream);
  return connection.launch(instance, &args);
}

void Launcher::visit(visitproc visit, void *data, int &result) const {
  auto go = [&](const Ref &ref) {
    if (!result && ref)
      result = visit(ref.get(), data);
  };
  go(owner);
  go(takeWorkspace);
  go(isCapturing);
  for (const Workspace &known : workspaces)
    go(known.owner);
}

/// launch(inputs, outputs): the status, or -1 for tensors that ctypes has to
/// describe: too many, strided, or of a type that DLPack does not know.
static PyObject *launch(PyObject *self, PyObject *args) {
  return guarded([&]() -> PyObject * {
    PyObject *inputs, *outputs;
    if (!PyArg_ParseTuple(args, "OO", &inputs, &outputs))
      throw ErrorSet();
    Py_ssize_t numInputs = getSize(inputs), numOutputs = getSize(outputs);
    LaunchTensors tensors;
    // Views refer to sizes that the tensors own.
    std::vector<Ref> alive;
    if (size_t(numInputs + numOutputs) > LaunchTensors::kMost)
      return PyLong_FromLong(-1);
    for (Py_ssize_t i = 0; i < numInputs + numOutputs; ++i) {
      bool isInput = i < numInputs;
      alive.push_back(isInput ? getItem(inputs, i)
                              : getItem(outputs, i - numInputs));
      DLTensor &view = tensors.add();
      if (!getView(alive.back().get(), view) || !isContiguous(view))
        return PyLong_FromLong(-1);
      view.strides = nullptr;
      ++(isInput ? tensors.numInputs : tensors.numOutputs);
    }
    return PyLong_FromLong(Object<Launcher>::get(self).launch(tensors));
  });
}

static PyMethodDef launcherMethods[] = {
    {"launch", launch, METH_VARARGS,
     "Launches on contiguous tensors; the status, or -1 for tensors of which "
     "PyTorch gives no view."},
    {nullptr, nullptr, 0, nullptr}};

static PyTypeObject *launcherType;

PyTypeObject *fuse::python::makeLauncherType() {
  return launcherType =
             Object<Launcher>::makeType("fuse_call.Launcher", launcherMethods);
}

Launcher *fuse::python::getLauncher(PyObject *object) {
  if (Py_TYPE(object) != launcherType) {
    PyErr_SetString(PyExc_TypeError, "expected a Launcher");
    return nullptr;
  }
  return &Object<Launcher>::get(object);
}
