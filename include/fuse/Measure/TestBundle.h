//===- TestBundle.h - Artifacts with inputs to run them on ------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A test bundle carries artifacts from the compiler's machine to the machine
// with the GPU. It is a container like an artifact. Its first section lists in
// JSON the functions to run, with their artifacts and arguments. Tensors are
// drawn from pools of values, so the file stays small. All functions throw
// `runtime::Failure`.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_DEVICETEST_H
#define FUSE_MEASURE_DEVICETEST_H

#include "fuse/Measure/Gpu.h"
#include "fuse/Measure/Values.h"
#include "nlohmann/json.hpp"

#include <map>

namespace fuse::measure {

/// Section kinds. Those of artifacts have smaller numbers.
enum : uint32_t {
  kDescriptionSection = 64,
  kArtifactSection = 65,
  kPoolSection = 66,
  kExpectedSection = 67,
  /// Two f64 for each value of a result; see `findOutside`.
  kContractSection = 68
};

/// A tensor of random values.
struct Argument {
  std::string element;
  std::vector<int64_t> shape;
  /// Section of the pool.
  size_t pool = 0;
  uint64_t seed = 0;
  /// Whether the argument is a weight, which is bound once.
  bool bound = false;

  size_t getCount() const;
};

/// A test bundle: the description of its functions, and sections with artifacts
/// and data.
class TestBundle {
public:
  /// Reads a file, whose description must have this format and version.
  TestBundle(const std::string &path, const std::string &format, int version);

  const nlohmann::json &getDescription() const { return description; }
  /// The section with this index in the file, which must be of this kind.
  std::string_view getSection(size_t index, uint32_t kind) const;
  /// Parses the JSON description of an argument.
  Argument readArgument(const nlohmann::json &object) const;

private:
  std::string bytes;
  std::vector<runtime::Section> sections;
  nlohmann::json description;
};

/// Values of arguments in host memory. Their addresses are stable, so that
/// instances can share packed weights.
class ArgumentStore {
public:
  /// Starts empty. Values are added by `put`.
  ArgumentStore() = default;
  /// Other values are drawn from pools of the file.
  explicit ArgumentStore(const TestBundle &file) : file(&file) {}

  const std::string &get(const Argument &argument);
  void put(const Argument &argument, std::string value);
  void clear() { values.clear(); }

private:
  const TestBundle *file = nullptr;
  std::map<std::tuple<std::string, std::vector<int64_t>, size_t, uint64_t>,
           std::string>
      values;
};

/// Arguments that are bound before a function runs on a device: parameters of
/// the model, and weights that are packed.
std::vector<bool> findBound(const runtime::Function &function);

/// A function on a GPU with all of its tensors.
class Call {
public:
  /// Loads `artifact` and prepares its function `name`, or its only function.
  /// `shared` may be null.
  Call(std::shared_ptr<Gpu> gpu, std::string_view artifact,
       const std::string &name, const std::vector<Argument> &arguments,
       ArgumentStore &store, runtime::SharedWeights *shared);
  /// Prepares the function of `first` with other tensors, such as the next
  /// layer of a model. Both share one program and one workspace, so launches
  /// must use a single stream.
  Call(const Call &first, const std::vector<Argument> &arguments,
       ArgumentStore &store, runtime::SharedWeights *shared);

  void launch(void *stream, uint32_t flags = 0) const;
  /// Fills the results with a value that no kernel writes everywhere.
  void poison(void *stream) const;
  /// Does the same for the part of the workspace that a launch must write
  /// before it reads it.
  void poisonWorkspace(void *stream) const;
  std::vector<std::string> download() const;
  const std::vector<int64_t> &getResultShape(size_t result) const {
    return shapes[function->arguments.size() + result];
  }
  const runtime::Function &getFunction() const { return *function; }

private:
  /// Binds or uploads the arguments and allocates the results.
  void prepare(const std::vector<Argument> &arguments, ArgumentStore &store,
               runtime::SharedWeights *shared);

  std::shared_ptr<Gpu> gpu;
  std::shared_ptr<runtime::Program> program;
  const runtime::Function *function = nullptr;
  std::unique_ptr<runtime::Instance> instance;
  std::shared_ptr<runtime::Workspace> workspace;
  std::vector<GpuBuffer> buffers;
  /// Index of the first result's buffer.
  size_t firstResult = 0;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLTensor> inputs, outputs;
};

} // namespace fuse::measure

#endif // FUSE_MEASURE_DEVICETEST_H
