//===- Call.cpp - The usual call of a fused module ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A call object knows everything that a call of a fused module asks before it
// launches: what the arguments are, that no mode of PyTorch wants to see the
// call, that modules and weights are those that the kernel was made for. If all
// of that holds, the call launches the kernel and returns its result. Otherwise
// it returns None, and Python decides: it repairs, or refuses with a reason.
//
// fuse_mlir/compiler/fast_calls.py makes call objects.
//
//===----------------------------------------------------------------------===//

#include "Guard.h"
#include "Launcher.h"
#include "Object.h"
#include "Torch.h"

using namespace fuse::python;

namespace {

/// Where an argument comes in: by position, or by name.
struct Slot {
  Py_ssize_t position = -1;
  Ref name;

  explicit Slot(Ref object) {
    if (PyLong_Check(object.get()))
      position = getInteger(object.get());
    else
      name = std::move(object);
  }

  /// The argument, borrowed; null if there is none.
  PyObject *find(PyObject *args, PyObject *kwargs) const {
    if (name)
      return PyDict_GetItemWithError(kwargs, name.get());
    return position < PyTuple_Size(args) ? PyTuple_GetItem(args, position)
                                         : nullptr;
  }
};

/// A tensor that the kernel reads in each call.
struct Input {
  Slot slot;
  DLDataType dtype;
  int32_t rank;
  int64_t features;
};

/// A weight that the kernel has packed, or reads where it is.
struct Weight {
  /// Where the model has it, such as the parameters of a module.
  Ref dict;
  Ref key;
  Ref value;
  void *data;
  /// -1 if its values do not count, or are not counted.
  long long version;

  /// Whether it is the same tensor with the same memory and values.
  bool holds() const;
};

/// A dimension of the result: that of an input, or a fixed size.
struct Size {
  /// -1 for a fixed size.
  int input;
  /// The number of the dimension, or the size.
  int64_t value;
};

/// A result of the kernel.
struct Result {
  std::vector<Size> sizes;
  DLDataType dtype;
  /// Named arguments of `torch.empty`.
  Ref options;
};

/// A place after the first one: names from the parent of the members on, and
/// the module that is expected there.
struct Place {
  std::vector<Ref> path;
  Ref module;

  bool holds(PyObject *owner) const;
};

/// What one call passes to the launch, on the stack.
struct Arguments {
  /// Results have no more dimensions.
  static constexpr size_t kMostDims = 8;

  LaunchTensors tensors;
  PyObject *given[LaunchTensors::kMost];
  /// Sizes of the tensors of kernels that compute rows.
  int64_t flat[LaunchTensors::kMost][2];
  /// The first input as it was given.
  DLTensor first;
  /// Of the results.
  int64_t shapes[LaunchTensors::kMost][kMostDims];
  int64_t rows;

  /// Leaves out the strides of a contiguous view, and merges all dimensions
  /// but the last one if the kernel is `byRows`.
  void setShape(DLTensor &view, bool byRows) {
    view.strides = nullptr;
    if (!byRows || view.ndim < 1)
      return;
    int64_t *sizes = flat[&view - tensors.views];
    sizes[0] = 1;
    for (int32_t dim = 0; dim + 1 < view.ndim; ++dim)
      sizes[0] *= view.shape[dim];
    sizes[1] = view.shape[view.ndim - 1];
    view.shape = sizes;
    view.ndim = 2;
  }
};

class Call {
public:
  explicit Call(PyObject *args);

  /// The result, or none if Python has to run the call.
  Ref run(PyObject *args, PyObject *kwargs);

  void visit(visitproc visit, void *data, int &result) const;

  /// Whether the last call came to modules or weights that are others.
  bool isStale = false;
  /// Calls that launched.
  long long count = 0;

private:
  bool readInputs(PyObject *args, PyObject *kwargs, Arguments &out) const;
  bool readInput(size_t index, PyObject *tensor, Arguments &out) const;
  bool hasRows(int64_t count) const;
  bool hasPlaces() const;
  bool hasMembers() const;
  bool needsGradients(const Arguments &arguments) const;
  Ref allocate(size_t index, const Arguments &arguments) const;
  Ref mark(const std::vector<Ref> &made, const Arguments &arguments) const;

  Ref guardOwner;
  const Guard *guard;
  Ref launcherOwner;
  Launcher *launcher;
  Ref ambientOwner;
  const Ambient *ambient;
  /// `torch.is_grad_enabled`.
  Ref isGradEnabled;
  /// Numbers of positional and of named arguments.
  Py_ssize_t numArgs;
  Py_ssize_t numNamed;
  std::vector<Input> inputs;
  std::vector<std::pair<Slot, Ref>> constants;
  std::vector<Weight> weights;
  /// A weak reference to the parent, and places among its children.
  Ref parent;
  std::vector<Place> places;
  /// First and last numbers of rows that the kernel runs for.
  std::vector<std::pair<int64_t, int64_t>> rows;
  bool byRows;
  /// Boundary in bytes that inputs begin at.
  size_t alignment;
  std::vector<Result> results;
  /// The id of the site, and the class of results that identities pass on;
  /// None if there are no identities.
  Ref site;
  Ref pending;
  bool tellsInputs;
  /// Whether each place after the first one returns a result of its own.
  bool handsOut;
  /// Whether the first result is what the first place returns.
  bool returnsFirst;
};

bool isSame(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

DLDataType getType(PyObject *pair) {
  return {static_cast<uint8_t>(getInteger(pair, 0)),
          static_cast<uint8_t>(getInteger(pair, 1)), 1};
}

template <typename Body>
void forEach(PyObject *list, Body body) {
  for (Py_ssize_t i = 0, size = getSize(list); i < size; ++i)
    body(getItem(list, i).get());
}

} // namespace

//===----------------------------------------------------------------------===//
// Construction
//===----------------------------------------------------------------------===//

Call::Call(PyObject *args) {
  PyObject *guardObject, *launcherObject, *ambientObject, *inputList,
      *constantList, *weightList, *parentObject, *placeList, *rowList,
      *resultList, *siteObject, *pendingType, *gradEnabled;
  int isByRows, bytes, tells, hands, first;
  if (!PyArg_ParseTuple(args, "OOOOnnOOOOOOpiOOOppp", &guardObject,
                        &launcherObject, &ambientObject, &gradEnabled, &numArgs,
                        &numNamed, &inputList, &constantList, &weightList,
                        &parentObject, &placeList, &rowList, &isByRows, &bytes,
                        &resultList, &siteObject, &pendingType, &tells, &hands,
                        &first))
    throw ErrorSet();
  if (!(guard = getGuard(guardObject)) ||
      !(launcher = getLauncher(launcherObject)) ||
      !(ambient = getAmbient(ambientObject)))
    throw ErrorSet();
  ambientOwner = Ref::borrow(ambientObject);
  guardOwner = Ref::borrow(guardObject);
  launcherOwner = Ref::borrow(launcherObject);
  isGradEnabled = Ref::borrow(gradEnabled);
  forEach(inputList, [&](PyObject *item) {
    inputs.push_back({Slot(getItem(item, 0)), getType(getItem(item, 1).get()),
                      static_cast<int32_t>(getInteger(item, 2)),
                      getInteger(item, 3)});
  });
  forEach(constantList, [&](PyObject *item) {
    constants.emplace_back(Slot(getItem(item, 0)), getItem(item, 1));
  });
  forEach(weightList, [&](PyObject *item) {
    Weight weight = {getItem(item, 0), getItem(item, 1), getItem(item, 2),
                     PyLong_AsVoidPtr(getItem(item, 3).get()),
                     getInteger(item, 4)};
    if (!PyDict_Check(weight.dict.get()))
      PyErr_SetString(PyExc_TypeError, "a weight is expected in a dict");
    if (PyErr_Occurred())
      throw ErrorSet();
    weights.push_back(std::move(weight));
  });
  parent = Ref::borrow(parentObject);
  forEach(placeList, [&](PyObject *item) {
    Place place = {{}, getItem(item, 1)};
    forEach(getItem(item, 0).get(),
            [&](PyObject *name) { place.path.push_back(Ref::borrow(name)); });
    places.push_back(std::move(place));
  });
  forEach(rowList, [&](PyObject *item) {
    rows.emplace_back(getInteger(item, 0), getInteger(item, 1));
  });
  byRows = isByRows;
  alignment = bytes;
  bool isShort = true;
  forEach(resultList, [&](PyObject *item) {
    Result result = {{}, getType(getItem(item, 1).get()), getItem(item, 2)};
    forEach(getItem(item, 0).get(), [&](PyObject *size) {
      result.sizes.push_back(
          {static_cast<int>(getInteger(size, 0)), getInteger(size, 1)});
    });
    isShort &= result.sizes.size() <= Arguments::kMostDims;
    results.push_back(std::move(result));
  });
  if (inputs.empty() || results.empty() ||
      inputs.size() + results.size() > LaunchTensors::kMost || !isShort ||
      bytes < 1) {
    PyErr_SetString(PyExc_ValueError,
                    "expected up to 16 inputs and results, at least one of "
                    "each, results of up to 8 dimensions, and a positive "
                    "alignment");
    throw ErrorSet();
  }
  site = Ref::borrow(siteObject);
  pending = Ref::borrow(pendingType);
  tellsInputs = tells;
  handsOut = hands;
  returnsFirst = first;
}

void Call::visit(visitproc visit, void *data, int &result) const {
  auto go = [&](const Ref &ref) {
    if (!result && ref)
      result = visit(ref.get(), data);
  };
  for (const Ref *ref : {&guardOwner, &launcherOwner, &ambientOwner,
                         &isGradEnabled, &parent, &site, &pending})
    go(*ref);
  for (const Result &result : results)
    go(result.options);
  for (const Input &input : inputs)
    go(input.slot.name);
  for (const auto &[slot, value] : constants) {
    go(slot.name);
    go(value);
  }
  for (const Weight &weight : weights)
    for (const Ref *ref : {&weight.dict, &weight.key, &weight.value})
      go(*ref);
  for (const Place &place : places) {
    for (const Ref &name : place.path)
      go(name);
    go(place.module);
  }
}

//===----------------------------------------------------------------------===//
// What a call asks
//===----------------------------------------------------------------------===//

bool Weight::holds() const {
  if (PyDict_GetItemWithError(dict.get(), key.get()) != value.get())
    return false;
  DLTensor view;
  if (!getView(value.get(), view) ||
      static_cast<char *>(view.data) + view.byte_offset != data)
    return false;
  if (version < 0)
    return true;
  Ref now =
      Ref::check(PyObject_GetAttr(value.get(), getConnection().version.get()));
  return getInteger(now.get()) == version;
}

bool Call::hasRows(int64_t count) const {
  for (auto [first, last] : rows)
    if (count >= first && count <= last)
      return true;
  return false;
}

bool Place::holds(PyObject *owner) const {
  Ref at = Ref::borrow(owner);
  for (const Ref &name : path) {
    Ref children =
        Ref::check(PyObject_GetAttr(at.get(), getConnection().modules.get()));
    if (!PyDict_Check(children.get()))
      return false;
    PyObject *child = PyDict_GetItemWithError(children.get(), name.get());
    if (!child)
      return false;
    at = Ref::borrow(child);
  }
  return at.get() == module.get();
}

bool Call::hasPlaces() const {
  if (places.empty())
    return true;
  // The function of the limited API for this will not stay in it.
  Ref owner = Ref::check(PyObject_CallNoArgs(parent.get()));
  if (owner.get() == Py_None)
    return false;
  for (const Place &place : places)
    if (!place.holds(owner.get()))
      return false;
  return true;
}

bool Call::hasMembers() const {
  if (!hasPlaces() || !guard->holds())
    return false;
  for (const Weight &weight : weights)
    if (!weight.holds())
      return false;
  return true;
}

bool Call::readInput(size_t index, PyObject *tensor, Arguments &out) const {
  const Input &input = inputs[index];
  DLDevice device = launcher->getDevice();
  DLTensor &view = out.tensors.add();
  ++out.tensors.numInputs;
  if (!tensor ||
      reinterpret_cast<PyObject *>(Py_TYPE(tensor)) !=
          getConnection().tensor.get() ||
      !getView(tensor, view) || !isSame(view.dtype, input.dtype) ||
      view.device.device_type != device.device_type ||
      view.device.device_id != device.device_id || view.ndim != input.rank ||
      view.ndim < 1 || view.shape[view.ndim - 1] != input.features ||
      !isContiguous(view))
    return false;
  // Wrappers of transforms have no data.
  auto address = reinterpret_cast<uintptr_t>(view.data) + view.byte_offset;
  if (!view.data || address % alignment != 0)
    return false;
  for (size_t result = 0; result < results.size(); ++result)
    for (size_t dim = 0; dim < results[result].sizes.size(); ++dim)
      if (const Size &size = results[result].sizes[dim];
          size.input == static_cast<int>(index))
        out.shapes[result][dim] = view.shape[size.value];
  if (index == 0) {
    out.first = view;
    out.rows = 1;
    for (int32_t dim = 0; dim + 1 < view.ndim; ++dim)
      out.rows *= view.shape[dim];
  }
  out.setShape(view, byRows);
  return true;
}

bool Call::readInputs(PyObject *args, PyObject *kwargs, Arguments &out) const {
  if (PyTuple_Size(args) != numArgs || PyDict_Size(kwargs) != numNamed)
    return false;
  for (const auto &[slot, value] : constants)
    if (slot.find(args, kwargs) != value.get())
      return false;
  for (size_t result = 0; result < results.size(); ++result)
    for (size_t dim = 0; dim < results[result].sizes.size(); ++dim)
      if (const Size &size = results[result].sizes[dim]; size.input < 0)
        out.shapes[result][dim] = size.value;
  for (size_t i = 0; i < inputs.size(); ++i) {
    out.given[i] = inputs[i].slot.find(args, kwargs);
    if (!readInput(i, out.given[i], out))
      return false;
  }
  // Nothing is launched for results without elements.
  for (size_t result = 0; result < results.size(); ++result)
    for (size_t dim = 0; dim < results[result].sizes.size(); ++dim)
      if (out.shapes[result][dim] == 0)
        return false;
  return out.rows > 0;
}

bool Call::needsGradients(const Arguments &arguments) const {
  Ref enabled = Ref::check(PyObject_CallNoArgs(isGradEnabled.get()));
  if (enabled.get() == Py_False)
    return false;
  auto requiresGrad = [](PyObject *tensor) {
    return Ref::check(
               PyObject_GetAttr(tensor, getConnection().requiresGrad.get()))
               .get() != Py_False;
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (requiresGrad(arguments.given[i]))
      return true;
  for (const Weight &weight : weights)
    if (requiresGrad(weight.value.get()))
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// The call
//===----------------------------------------------------------------------===//

Ref Call::allocate(size_t index, const Arguments &arguments) const {
  const Connection &connection = getConnection();
  const Result &result = results[index];
  const int64_t *sizes = arguments.shapes[index];
  size_t rank = result.sizes.size();
  // A result like the first input is the usual case, and the faster one.
  const DLTensor &first = arguments.first;
  bool isLike = isSame(result.dtype, first.dtype) &&
                static_cast<int32_t>(rank) == first.ndim;
  for (size_t i = 0; isLike && i < rank; ++i)
    isLike = sizes[i] == first.shape[i];
  if (isLike)
    return Ref::check(PyObject_CallFunctionObjArgs(
        connection.emptyLike.get(), arguments.given[0], nullptr));
  Ref shape = Ref::check(PyTuple_New(rank));
  for (size_t i = 0; i < rank; ++i)
    if (PyTuple_SetItem(shape.get(), i, PyLong_FromLongLong(sizes[i])) != 0)
      throw ErrorSet();
  Ref args = Ref::check(PyTuple_Pack(1, shape.get()));
  return Ref::check(
      PyObject_Call(connection.empty.get(), args.get(), result.options.get()));
}

/// Makes the result one that only identities read, and which has the tensor
/// that the last identity returns: what a model reads before is an
/// intermediate, which does not exist. If the places hand out results, it is a
/// view of the input, which has the type and shape of that intermediate, or the
/// intermediate itself.
Ref Call::mark(const std::vector<Ref> &made, const Arguments &arguments) const {
  const Connection &connection = getConnection();
  Ref result;
  auto set = [&](const Ref &name, const Ref &value) {
    if (PyObject_SetAttr(result.get(), name.get(), value.get()) != 0)
      throw ErrorSet();
  };
  auto alias = [&](PyObject *tensor) {
    return Ref::check(
        PyObject_CallFunctionObjArgs(connection.detach.get(), tensor, nullptr));
  };
  if (handsOut) {
    Ref parts = Ref::check(PyList_New(0));
    for (size_t i = returnsFirst; i < made.size(); ++i)
      if (PyList_Append(parts.get(), made[i].get()) != 0)
        throw ErrorSet();
    result = returnsFirst ? made.front() : alias(arguments.given[0]);
    set(connection.parts, parts);
  } else {
    result = Ref(made.front());
    set(connection.result, alias(result.get()));
  }
  if (!returnsFirst)
    set(connection.type, pending);
  set(connection.site, site);
  if (tellsInputs) {
    Ref ids = Ref::check(PyTuple_New(inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (PyTuple_SetItem(ids.get(), i,
                          PyLong_FromVoidPtr(arguments.given[i])) != 0)
        throw ErrorSet();
    set(connection.inputs, ids);
  }
  return result;
}

Ref Call::run(PyObject *args, PyObject *kwargs) {
  Arguments arguments;
  if (!readInputs(args, kwargs, arguments) || !hasRows(arguments.rows) ||
      !ambient->holds())
    return Ref();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Ref isNegated = Ref::check(PyObject_CallFunctionObjArgs(
        getConnection().isNegated.get(), arguments.given[i], nullptr));
    if (isNegated.get() != Py_False)
      return Ref();
  }
  isStale = !hasMembers();
  if (isStale || needsGradients(arguments))
    return Ref();

  std::vector<Ref> made;
  for (size_t i = 0; i < results.size(); ++i) {
    made.push_back(allocate(i, arguments));
    DLTensor &output = arguments.tensors.add();
    ++arguments.tensors.numOutputs;
    if (!getView(made.back().get(), output) || !isContiguous(output))
      return Ref();
    arguments.setShape(output, byRows);
  }
  // After a failure Python launches again and names the reason.
  if (launcher->launch(arguments.tensors) != FUSE_OK)
    return Ref();
  ++count;
  return site.get() == Py_None ? std::move(made.front())
                               : mark(made, arguments);
}

//===----------------------------------------------------------------------===//
// Python
//===----------------------------------------------------------------------===//

static PyObject *isStale(PyObject *self, void *) {
  return PyBool_FromLong(Object<Call>::get(self).isStale);
}

static PyObject *getCount(PyObject *self, void *) {
  return PyLong_FromLongLong(Object<Call>::get(self).count);
}

static PyGetSetDef callAttributes[] = {
    {"stale", isStale, nullptr,
     "Whether the last call came to modules or weights that are others.",
     nullptr},
    {"count", getCount, nullptr, "Calls that launched.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyTypeObject *fuse::python::makeCallType() {
  return Object<Call>::makeType("fuse_call.Call", nullptr, Object<Call>::call,
                                callAttributes);
}
