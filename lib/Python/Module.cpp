//===- Module.cpp - The extension module fuse_call ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Extension.h"

using namespace fuse::python;

static PyMethodDef functions[] = {
    {"connect", connect, METH_VARARGS,
     "Sets the functions of PyTorch and libfuse that calls use."},
    {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "fuse_call",
    "The usual call of a fused module, without Python on its path.",
    -1,
    functions,
    nullptr,
    nullptr,
    nullptr,
    nullptr};

PyMODINIT_FUNC PyInit_fuse_call() {
  return guarded([&] {
    Ref module = Ref::check(PyModule_Create(&definition));
    std::pair<const char *, PyTypeObject *(*)()> types[] = {
        {"Ambient", makeAmbientType},   {"Guard", makeGuardType},
        {"Launcher", makeLauncherType}, {"Call", makeCallType},
        {"Identity", makeIdentityType}, {"Part", makePartType}};
    for (auto [name, make] : types) {
      Ref type = Ref::check(reinterpret_cast<PyObject *>(make()));
      if (PyModule_AddObjectRef(module.get(), name, type.get()) != 0)
        throw ErrorSet();
    }
    return module.release();
  });
}
