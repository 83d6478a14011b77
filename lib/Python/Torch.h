//===- Torch.h - What calls ask of PyTorch and libfuse ----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_PYTHON_TORCH_H
#define FUSE_LIB_PYTHON_TORCH_H

#include "Extension.h"

#include <cstdint>
#include <vector>

namespace fuse::python {

/// The table behind `torch.Tensor.__dlpack_c_exchange_api__`, whose layout
/// DLPack 1.3 fixes. Only the functions that are called have types.
struct ExchangeTable {
  uint32_t major;
  uint32_t minor;
  ExchangeTable *previous;
  void *allocate;
  void *toManaged;
  void *fromManaged;
  /// A view of a tensor, which lives as long as the tensor is not changed.
  int (*getView)(void *tensor, DLTensor *view);
  /// The stream on which PyTorch launches now.
  int (*getStream)(DLDeviceType type, int32_t id, void **stream);
};

/// Functions of PyTorch and libfuse, which `connect` sets once.
struct Connection {
  const ExchangeTable *table = nullptr;
  fuse_status (*launch)(fuse_instance *, const fuse_launch_args *) = nullptr;
  fuse_status (*getWorkspaceSize)(const fuse_instance *,
                                  const DLTensor *const *, size_t,
                                  size_t *) = nullptr;
  /// `torch.Tensor`.
  Ref tensor;
  /// `torch.empty`, `torch.empty_like`, `torch.Tensor.detach`, and
  /// `torch.Tensor.is_neg`.
  Ref empty;
  Ref emptyLike;
  Ref detach;
  Ref isNegated;
  /// Names of attributes.
  Ref type;
  Ref version;
  Ref requiresGrad;
  Ref modules;
  Ref forward;
  Ref site;
  Ref inputs;
  Ref result;
  Ref parts;
};

/// The connection of this process.
Connection &getConnection();

/// A view of a tensor; false if PyTorch cannot give one.
bool getView(PyObject *tensor, DLTensor &view);

/// Whether the elements of `view` follow each other in row-major order.
bool isContiguous(const DLTensor &view);

/// Whether nothing in the process or the thread wants to see a call: autocast,
/// transforms, modes, tracing, a capture.
class Ambient {
public:
  /// Each of `questions` is a tuple of a function, its argument or None, and
  /// the object that it returns in the usual case; or of a dict, a key, and the
  /// object that is there.
  explicit Ambient(PyObject *questions);

  bool holds() const;

  void visit(visitproc visit, void *data, int &result) const;

private:
  struct Question {
    Ref subject;
    Ref argument;
    Ref expected;

    bool holds() const;
  };
  std::vector<Question> questions;
};

/// The value of an object of type `Ambient`; null, with an error, for others.
const Ambient *getAmbient(PyObject *object);

} // namespace fuse::python

#endif // FUSE_LIB_PYTHON_TORCH_H
