//===- Instance.h - Functions that can be launched --------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CORE_INSTANCE_H
#define FUSE_RUNTIME_CORE_INSTANCE_H

#include "fuse/Runtime/Core/Tensors.h"

#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>

namespace fuse::runtime {

class Instance;

/// What makes code when it is needed. Called by several threads at once.
class CodeSource {
public:
  virtual ~CodeSource();

  /// PTX of the module with a number. It lives as long as the source.
  virtual std::string_view getModule(size_t number) const = 0;
  /// The bytes of the artifact with all of its code.
  virtual std::string_view getFile() const = 0;
};

/// A file in memory, checked.
struct Artifact {
  /// With `source`, the file may lack code.
  explicit Artifact(std::string bytes,
                    std::shared_ptr<const CodeSource> source = nullptr);

  std::string bytes;
  std::shared_ptr<const CodeSource> source;
  std::vector<Section> sections;
  Manifest manifest;
};

/// What a launch writes between kernels.
class Workspace {
public:
  /// Its memory on its device; of its start, `zeroed` bytes have a meaning from
  /// one launch to the next.
  struct Extent {
    void *data = nullptr;
    size_t size = 0, zeroed = 0;
  };

  virtual ~Workspace();
  virtual Extent getExtent() const { return {}; }
};

/// Packed weights that the instances on each device share. Entries live as long
/// as an instance that was prepared with them.
struct SharedWeights {
  struct Entry {
    /// Where `memory` is: weights of the host may be packed for several.
    DLDevice place;
    PackedWeight packed;
    /// Where the matrices lie that were packed; they have not changed since.
    std::vector<const char *> sources;
    std::weak_ptr<void> memory;
  };
  std::vector<Entry> entries;

  /// What was packed on a device of the same matrices in the same way, or null.
  std::shared_ptr<void> find(DLDevice place, const PackedWeight &packed,
                             const std::vector<const char *> &sources) const;
};

/// The code of an artifact on a device.
class Program : public std::enable_shared_from_this<Program> {
public:
  explicit Program(std::shared_ptr<const Artifact> artifact)
      : artifact(std::move(artifact)) {}
  virtual ~Program();

  const Artifact &getArtifact() const { return *artifact; }
  /// Functions that have code for the device, in the order of the artifact.
  std::vector<const Function *> functions;

  virtual std::unique_ptr<Instance> instantiate(const Function &function) = 0;

private:
  std::shared_ptr<const Artifact> artifact;
};

class Device : public std::enable_shared_from_this<Device> {
public:
  virtual ~Device();

  virtual std::shared_ptr<Program>
  load(std::shared_ptr<const Artifact> artifact) = 0;
  /// Throws `Failure` when the device is unusable.
  virtual void check() const = 0;
  virtual void wait(void *stream, uint64_t timeoutMs) = 0;
  /// See `fuse_device_set_exclusive`.
  virtual void setExclusive(bool isExclusive) = 0;
};

std::shared_ptr<Device> openCpu();
/// Loads the driver if it has not been.
std::shared_ptr<Device> openCuda(int ordinal);

/// What a launch is told beside its inputs.
struct LaunchOptions {
  const DLTensor *const *outputs = nullptr;
  size_t numOutputs = 0;
  Workspace *workspace = nullptr;
  void *stream = nullptr;
  uint32_t flags = 0;
};

/// A function of a program and the tensors bound to its arguments. Launches of
/// several threads run at the same time; binding and preparing wait for them.
class Instance {
public:
  Instance(std::shared_ptr<Program> program, const Function &function)
      : program(std::move(program)), function(function),
        bound(function.arguments.size()) {}
  virtual ~Instance();

  const Function &getFunction() const { return function; }

  /// Binds a tensor, which `release` gives back. It is called if and only if
  /// the tensor was taken.
  void bind(size_t argument, const DLTensor *tensor,
            std::function<void()> release);
  /// With `shared`, tensors that another instance has packed in the same way
  /// are not packed again.
  void prepare(SharedWeights *shared = nullptr);
  /// Launches will have at most `tokens` tokens. What they need is loaded now
  /// or, before the instance is prepared, then.
  void limitTokens(int64_t tokens);
  size_t getNumInputs() const;
  void getResultShape(const DLTensor *const *inputs, size_t numInputs,
                      size_t result, int64_t *shape) const;
  size_t getWorkspaceSize(const DLTensor *const *inputs,
                          size_t numInputs) const;
  virtual std::unique_ptr<Workspace> createWorkspace(size_t bytes) = 0;
  void launch(const DLTensor *const *inputs, size_t numInputs,
              const LaunchOptions &options);

protected:
  /// The tensors of one launch: arguments, followed by results.
  using Views = std::vector<TensorView>;

  /// Throws `Failure` unless a tensor is where the code can use it. Bound
  /// tensors may be moved by `prepareCode`.
  virtual void checkPlace(const TensorView &view, bool isBound,
                          const std::string &what) const = 0;
  /// Called with a view of each argument that is bound.
  virtual void prepareCode(const Views &arguments, SharedWeights *shared) = 0;
  /// Loads code for up to `tokens` tokens, as far as it has not been, while
  /// launches go on. What it returns makes it known to them.
  virtual std::function<void()> loadCode(int64_t tokens) {
    return [] {};
  }
  virtual size_t computeWorkspaceSize(const Views &arguments) const = 0;
  virtual void launchCode(const Views &tensors,
                          const LaunchOptions &options) = 0;

  std::shared_ptr<Program> program;
  const Function &function;
  /// Most tokens that code has to be loaded for.
  int64_t limit = INT64_MAX;

private:
  void collectArguments(const DLTensor *const *inputs, size_t numInputs,
                        bool needsData, Views &views) const;
  void requirePrepared() const;
  void checkOverlap(const Views &views) const;

  /// Held while code is prepared or loaded; taken before `mutex`.
  std::mutex loading;
  mutable std::shared_mutex mutex;
  std::vector<HeldTensor> bound;
  /// Views of what is bound, into `bound`.
  std::vector<DLTensor> boundViews;
  bool prepared = false;
};

std::string nameArgument(const Function &function, size_t index);
std::string nameResult(const Function &function, size_t index);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_INSTANCE_H
