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

/// Generates code when it is first needed. Several threads may call it at once.
class CodeSource {
public:
  virtual ~CodeSource();

  /// PTX of the module with this number. The text lives as long as the source.
  virtual std::string_view getModule(size_t number) const = 0;
  /// The bytes of the artifact with all of its code.
  virtual std::string_view getFile() const = 0;
};

/// A verified file in memory.
struct Artifact {
  /// With `source`, the file may lack code.
  explicit Artifact(std::string bytes,
                    std::shared_ptr<const CodeSource> source = nullptr);

  std::string bytes;
  std::shared_ptr<const CodeSource> source;
  std::vector<Section> sections;
  Manifest manifest;
};

/// Memory that a launch writes between kernels.
class Workspace {
public:
  /// The memory on its device. The first `zeroed` bytes keep their meaning
  /// between launches.
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
    /// Device of `memory`. One entry's source weights on the host may be packed
    /// for several devices.
    DLDevice place;
    PackedWeight packed;
    /// Addresses of the packed matrices, whose contents have not changed since.
    std::vector<const char *> sources;
    std::weak_ptr<void> memory;
  };
  std::vector<Entry> entries;

  /// The memory with the same matrices packed in the same way on `place`, or
  /// null.
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
  /// The static scales of the code of one of `functions`.
  virtual const ScaleTable &getScales(const Function &function) const = 0;

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
/// Loads the driver on the first call.
std::shared_ptr<Device> openCuda(int ordinal);

/// Arguments of a launch other than the inputs.
struct LaunchOptions {
  const DLTensor *const *outputs = nullptr;
  size_t numOutputs = 0;
  Workspace *workspace = nullptr;
  void *stream = nullptr;
  uint32_t flags = 0;
};

/// A function of a program and the tensors bound to its arguments. Several
/// threads may launch it at the same time. Binding and preparing wait for these
/// launches.
class Instance {
public:
  /// `scales` is the table of the code for the device; it is a part of
  /// `function`.
  Instance(std::shared_ptr<Program> program, const Function &function,
           const ScaleTable &scales)
      : program(std::move(program)), function(function),
        scalars(scales.evaluate(scales.scales)),
        bound(function.arguments.size()), scales(scales) {}
  virtual ~Instance();

  const Function &getFunction() const { return function; }

  /// Binds a tensor and takes ownership: `release` is called later if and only
  /// if this call succeeds.
  void bind(size_t argument, const DLTensor *tensor,
            std::function<void()> release);
  /// Replaces the static scales of later launches, in the order of the table.
  void setScales(const std::vector<float> &values);
  /// With `shared`, reuses tensors that another instance has packed in the same
  /// way.
  void prepare(SharedWeights *shared = nullptr);
  /// Limits launches to at most `tokens` tokens. The required code is loaded
  /// now or, if the instance is not prepared yet, in `prepare`.
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

  /// Throws `Failure` unless the code can use a tensor where it is.
  /// `prepareCode` may move bound tensors.
  virtual void checkPlace(const TensorView &view, bool isBound,
                          const std::string &what) const = 0;
  /// Called with views of the arguments; only bound ones have a shape.
  virtual void prepareCode(const Views &arguments, SharedWeights *shared) = 0;
  /// Loads missing code for up to `tokens` tokens while launches continue. The
  /// returned function publishes the code to launches.
  virtual std::function<void()> loadCode(int64_t tokens) {
    return [] {};
  }
  virtual size_t computeWorkspaceSize(const Views &arguments) const = 0;
  virtual void launchCode(const Views &tensors,
                          const LaunchOptions &options) = 0;

  std::shared_ptr<Program> program;
  const Function &function;
  /// The numbers that follow from the scales, as the code reads them.
  std::vector<float> scalars;
  /// Largest number of tokens for which code has to be loaded.
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
  const ScaleTable &scales;
  /// Views into `bound`.
  std::vector<DLTensor> boundViews;
  bool prepared = false;
};

std::string nameArgument(const Function &function, size_t index);
std::string nameResult(const Function &function, size_t index);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CORE_INSTANCE_H
