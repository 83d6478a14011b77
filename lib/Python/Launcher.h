//===- Launcher.h - Launches of one instance on tensors ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_PYTHON_LAUNCHER_H
#define FUSE_LIB_PYTHON_LAUNCHER_H

#include "Extension.h"

#include <cstdint>
#include <vector>

namespace fuse::python {

/// Inputs and results of one launch, without memory of their own.
struct LaunchTensors {
  /// More tensors are launched through ctypes.
  static constexpr size_t kMost = 16;

  DLTensor views[kMost];
  const DLTensor *pointers[kMost];
  size_t numInputs = 0;
  size_t numOutputs = 0;

  DLTensor &add() {
    size_t at = numInputs + numOutputs;
    pointers[at] = &views[at];
    return views[at];
  }
};

/// Launches on the stream that PyTorch uses, with one workspace per stream.
class Launcher {
public:
  /// `args` are the address of the instance, an object that keeps it alive,
  /// the type and the number of the device, and a function that takes a number
  /// of bytes and a stream and returns the address of a workspace and an object
  /// that keeps it alive; and a function that tells whether a graph is captured
  /// on the current stream, or None.
  explicit Launcher(PyObject *args);

  DLDevice getDevice() const { return device; }

  /// A launch, which keeps Python's lock on a GPU: kernels of two launches on
  /// a stream must not mix. Launches on a CPU give it back meanwhile. Fails
  /// while a graph is captured, whose launches need another workspace.
  fuse_status launch(const LaunchTensors &tensors);

  void visit(visitproc visit, void *data, int &result) const;

private:
  fuse_workspace *getWorkspace(const LaunchTensors &tensors, void *stream);

  struct Workspace {
    void *stream;
    size_t size;
    fuse_workspace *workspace;
    Ref owner;
  };

  fuse_instance *instance;
  Ref owner;
  DLDevice device;
  Ref takeWorkspace;
  Ref isCapturing;
  std::vector<Workspace> workspaces;
};

/// The launcher of an object of its type; null, with an error, for others.
Launcher *getLauncher(PyObject *object);

} // namespace fuse::python

#endif // FUSE_LIB_PYTHON_LAUNCHER_H
