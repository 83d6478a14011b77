//===- Fuse.hpp - The C interface for C++ -----------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Owners of the handles of fuse-c, with exceptions for failures. Everything is
// inline on top of the C interface, so it needs no additional library and works
// with any C++17 compiler. Pass `get()` to functions that have no wrapper here.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_C_FUSE_HPP
#define FUSE_C_FUSE_HPP

#include "fuse-c/Runtime.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace fuse::cxx {

/// A call that failed: its status, and its message as `what()`.
class Error : public std::runtime_error {
public:
  Error(fuse_status status, const std::string &message)
      : std::runtime_error(message), status(status) {}
  fuse_status getStatus() const { return status; }

private:
  fuse_status status;
};

inline void check(fuse_status status) {
  if (status != FUSE_OK)
    throw Error(status, fuse_last_error());
}

/// Owns a handle.
template <typename T, void (*Destroy)(T *)>
class Handle {
public:
  Handle() = default;
  explicit Handle(T *handle) : handle(handle) {}

  T *get() const { return handle.get(); }
  explicit operator bool() const { return bool(handle); }

  /// The value that `make` writes through its pointer argument.
  template <typename Make>
  static T *create(Make make) {
    T *made = nullptr;
    check(make(&made));
    return made;
  }

private:
  struct Deleter {
    void operator()(T *made) const { Destroy(made); }
  };
  std::unique_ptr<T, Deleter> handle;
};

class Artifact : public Handle<fuse_artifact, fuse_artifact_destroy> {
public:
  using Handle::Handle;
  static Artifact load(const std::string &path) {
    return Artifact(create([&](fuse_artifact **made) {
      return fuse_artifact_load(path.c_str(), made);
    }));
  }
  /// Loads a file whose SHA-256 is `sha256`, in hexadecimal digits.
  static Artifact load(const std::string &path, const std::string &sha256) {
    return Artifact(create([&](fuse_artifact **made) {
      return fuse_artifact_load_checked(path.c_str(), sha256.c_str(), made);
    }));
  }
  void save(const std::string &path) const {
    check(fuse_artifact_save(get(), path.c_str()));
  }
};

class Device : public Handle<fuse_device, fuse_device_destroy> {
public:
  using Handle::Handle;
  static Device cpu() { return Device(create(fuse_device_open_cpu)); }
  static Device cuda(int32_t ordinal) {
    return Device(create([&](fuse_device **made) {
      return fuse_device_open_cuda(ordinal, made);
    }));
  }
  void wait(void *stream, uint64_t timeoutMs) const {
    check(fuse_device_wait(get(), stream, timeoutMs));
  }
  /// Promises that no two kernels whose blocks wait for each other run at the
  /// same time; see fuse_device_set_exclusive.
  void setExclusive(bool isExclusive) const {
    check(fuse_device_set_exclusive(get(), isExclusive));
  }
};

/// Sets the number of threads of CPU launches. 0 restores the default.
inline void setNumThreads(uint32_t count) {
  check(fuse_set_num_threads(count));
}

class Program : public Handle<fuse_program, fuse_program_destroy> {
public:
  Program(const Artifact &artifact, const Device &device)
      : Handle(create([&](fuse_program **made) {
          return fuse_program_load(artifact.get(), device.get(), made);
        })) {}
  size_t getNumFunctions() const { return fuse_program_num_functions(get()); }
  fuse_signature getSignature(size_t function) const {
    fuse_signature signature;
    check(fuse_program_signature(get(), function, &signature));
    return signature;
  }
  /// The static scales that the code of a function was compiled with.
  std::vector<float> getScales(size_t function) const {
    const float *scales = nullptr;
    size_t count = 0;
    check(fuse_program_scales(get(), function, &scales, &count));
    return {scales, scales + count};
  }
};

class Workspace : public Handle<fuse_workspace, fuse_workspace_destroy> {
public:
  using Handle::Handle;
};

using Tensors = std::vector<const DLTensor *>;

/// Packed weights that the instances on one device share.
class SharedWeights
    : public Handle<fuse_shared_weights, fuse_shared_weights_destroy> {
public:
  SharedWeights() : Handle(create(fuse_shared_weights_create)) {}
};

class Instance : public Handle<fuse_instance, fuse_instance_destroy> {
public:
  /// `function` may be null if there is only one.
  Instance(const Program &program, const char *function)
      : Handle(create([&](fuse_instance **made) {
          return fuse_instance_create(program.get(), function, made);
        })) {}

  void bind(size_t argument, const DLTensor &tensor) {
    check(fuse_instance_bind_view(get(), argument, &tensor));
  }
  /// Replaces the static scales of later launches.
  void setScales(const std::vector<float> &scales) {
    check(fuse_instance_set_scales(get(), scales.data(), scales.size()));
  }
  void limitTokens(int64_t tokens) {
    check(fuse_instance_limit_tokens(get(), tokens));
  }
  void prepare() { check(fuse_instance_prepare(get())); }
  void prepare(SharedWeights &shared) {
    check(fuse_instance_prepare_shared(get(), shared.get()));
  }
  std::vector<int64_t> getResultShape(const Tensors &inputs, size_t result,
                                      size_t rank) const {
    std::vector<int64_t> shape(rank);
    check(fuse_instance_result_shape(get(), inputs.data(), inputs.size(),
                                     result, shape.data()));
    return shape;
  }
  Workspace createWorkspace(const Tensors &inputs) {
    size_t bytes = 0;
    check(fuse_instance_workspace_size(get(), inputs.data(), inputs.size(),
                                       &bytes));
    return Workspace(Workspace::create([&](fuse_workspace **made) {
      return fuse_workspace_create(get(), bytes, made);
    }));
  }
  void launch(const Tensors &inputs, const Tensors &outputs,
              const Workspace &workspace = {}, void *stream = nullptr,
              uint32_t flags = 0) {
    fuse_launch_args args = {};
    args.size = sizeof(args);
    args.inputs = inputs.data();
    args.num_inputs = inputs.size();
    args.outputs = outputs.data();
    args.num_outputs = outputs.size();
    args.workspace = workspace.get();
    args.stream = stream;
    args.flags = flags;
    check(fuse_launch(get(), &args));
  }
};

} // namespace fuse::cxx

#endif // FUSE_C_FUSE_HPP
