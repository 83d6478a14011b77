//===- CpuProgram.cpp - Run functions on the CPU --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Runtime/CPU/CpuCode.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Instance.h"
#include "fuse/Runtime/Core/Packing.h"
#include "fuse/Runtime/Core/ThreadPool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include <sys/mman.h>

using namespace fuse::runtime;

namespace {

/// Entry point of generated code. Its array has a pointer to room for the
/// descriptors of all results, if any, and one to each argument's descriptor.
using EntryPoint = void (*)(void **);

/// Number of 8-byte words in a memref descriptor: allocated pointer, aligned
/// pointer, offset, sizes and strides.
static size_t getDescriptorWords(size_t rank) { return 3 + 2 * rank; }

static void writeDescriptor(const TensorView &view, size_t rank,
                            int64_t *words) {
  words[0] = words[1] = reinterpret_cast<intptr_t>(view.data);
  words[2] = 0;
  int64_t stride = 1;
  for (size_t dim = rank; dim-- > 0;) {
    words[3 + dim] = view.shape[dim];
    words[3 + rank + dim] = stride;
    stride *= view.shape[dim];
  }
}

/// Memory aligned for vector loads. Large blocks use huge pages: weights are
/// read from end to end, and small pages would add reads of page tables. Large
/// blocks are mapped so that the system gets them back when they are freed;
/// malloc may keep freed memory.
class HostMemory {
public:
  HostMemory() = default;
  HostMemory(size_t bytes, const std::string &what) : bytes(bytes) {
    if (bytes >= kLargePage)
      map();
    else if (::posix_memalign(&data, 64, std::max<size_t>(bytes, 64)) != 0)
      data = nullptr;
    if (!data)
      throw Failure(FUSE_ERROR_OUT_OF_MEMORY, "no memory for " + what + " of " +
                                                  std::to_string(bytes) +
                                                  " bytes");
  }
  HostMemory(HostMemory &&other) noexcept { swap(other); }
  HostMemory &operator=(HostMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~HostMemory() {
    if (mapped)
      (void)::munmap(mapped, mappedBytes);
    else
      std::free(data);
  }

  char *get() const { return static_cast<char *>(data); }
  size_t size() const { return bytes; }

private:
  static constexpr size_t kLargePage = 2 << 20;

  /// Maps one huge page more than needed. Untouched pages use no memory.
  void map() {
    if (bytes > SIZE_MAX - kLargePage)
      return;
    mappedBytes = bytes + kLargePage;
    void *found = ::mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
      return;
    mapped = found;
    uintptr_t address = reinterpret_cast<uintptr_t>(found);
    size_t past = address % kLargePage;
    data = static_cast<char *>(found) + (past ? kLargePage - past : 0);
    (void)::madvise(data, bytes, MADV_HUGEPAGE);
  }
  void swap(HostMemory &other) noexcept {
    std::swap(data, other.data);
    std::swap(bytes, other.bytes);
    std::swap(mapped, other.mapped);
    std::swap(mappedBytes, other.mappedBytes);
  }

  void *data = nullptr;
  size_t bytes = 0;
  /// The mapping around `data`, if there is one.
  void *mapped = nullptr;
  size_t mappedBytes = 0;
};

struct CpuWorkspace : Workspace {
  explicit CpuWorkspace(size_t bytes) : memory(bytes, "a workspace") {}
  HostMemory memory;
};

/// Code of a function: the portable code, the phases of the plan, or both.
struct CpuEntries {
  EntryPoint portable = nullptr;
  std::vector<EntryPoint> phases;
};

class CpuInstance : public Instance {
public:
  CpuInstance(std::shared_ptr<Program> program, const Function &function,
              const CpuEntries &entries)
      : Instance(std::move(program), function, function.cpu->scales),
        entries(entries),
        plan(function.cpu->plan ? &*function.cpu->plan : nullptr) {}

  std::unique_ptr<Workspace> createWorkspace(size_t bytes) override {
    if (bytes > 0 && !plan)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    function.name + " needs no workspace on the CPU");
    return std::make_unique<CpuWorkspace>(bytes);
  }

protected:
  void checkPlace(const TensorView &view, bool isBound,
                  const std::string &what) const override {
    if (view.device.device_type != kDLCPU &&
        view.device.device_type != kDLCUDAHost)
      throw Failure(FUSE_ERROR_TENSOR,
                    what + " is on a device of type " +
                        std::to_string(view.device.device_type) +
                        ", expected the CPU (1)");
  }
  void prepareCode(const Views &arguments, SharedWeights *shared) override;
  size_t computeWorkspaceSize(const Views &arguments) const override {
    return isScheduled ? getWorkspaceSize(getNumTokens(arguments)) : 0;
  }
  void launchCode(const Views &tensors, const LaunchOptions &options) override {
    if (options.workspace && !dynamic_cast<CpuWorkspace *>(options.workspace))
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "the workspace is of another device");
    if (isScheduled)
      launchPhases(tensors, options);
    else
      launchPortable(tensors);
  }

private:
  size_t getNumTokens(const Views &arguments) const;
  size_t getWorkspaceSize(size_t numTokens) const;
  void launchPortable(const Views &tensors);
  void launchPhases(const Views &tensors, const LaunchOptions &options);

  const CpuEntries &entries;
  const CpuPlan *plan;
  /// Whether the weights that the plan packs are bound.
  bool isScheduled = false;
  std::vector<std::shared_ptr<HostMemory>> packedWeights;
};

class CpuProgram : public Program {
public:
  CpuProgram(std::shared_ptr<const Artifact> source,
             std::shared_ptr<Device> device)
      : Program(std::move(source)) {
    const Manifest &manifest = getArtifact().manifest;
    if (manifest.cpuTarget)
      checkCpu(*manifest.cpuTarget);
    for (const Function &function : manifest.functions) {
      if (!function.cpu)
        continue;
      std::shared_ptr<LoadedCode> &unit = code[function.cpu->section];
      if (!unit)
        unit = LoadedCode::load(getArtifact().sections[function.cpu->section]);
      auto lookup = [&](const std::string &symbol) {
        return reinterpret_cast<EntryPoint>(unit->lookup(symbol));
      };
      CpuEntries found;
      if (!function.cpu->symbol.empty())
        found.portable = lookup(function.cpu->symbol);
      if (const std::optional<CpuPlan> &plan = function.cpu->plan) {
        for (const PackedWeight &packed : plan->packed)
          checkPacking(packed, function);
        for (const CpuPhase &phase : plan->phases)
          found.phases.push_back(lookup(phase.symbol));
      }
      entries.push_back(std::move(found));
      functions.push_back(&function);
    }
    if (functions.empty())
      throw Failure(FUSE_ERROR_TARGET, "the artifact has no code for the CPU");
  }

  std::unique_ptr<Instance> instantiate(const Function &function) override {
    auto it = std::find(functions.begin(), functions.end(), &function);
    return std::make_unique<CpuInstance>(shared_from_this(), function,
                                         entries[it - functions.begin()]);
  }

  const ScaleTable &getScales(const Function &function) const override {
    return function.cpu->scales;
  }

private:
  std::map<size_t, std::shared_ptr<LoadedCode>> code;
  std::vector<CpuEntries> entries;
};

class CpuDevice : public Device {
public:
  std::shared_ptr<Program>
  load(std::shared_ptr<const Artifact> artifact) override {
    return std::make_shared<CpuProgram>(std::move(artifact),
                                        shared_from_this());
  }
  void check() const override {}
  void wait(void *stream, uint64_t timeoutMs) override {}
  void setExclusive(bool isExclusive) override {
    throw Failure(FUSE_ERROR_UNSUPPORTED,
                  "launches on the CPU do not overlap; only a CUDA device can "
                  "be exclusive");
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// The scheduled path
//===----------------------------------------------------------------------===//

/// Alignment of workspace buffers in bytes.
static constexpr size_t kAlignment = 64;

void CpuInstance::prepareCode(const Views &arguments, SharedWeights *shared) {
  packedWeights.clear();
  isScheduled = plan != nullptr;
  if (!plan)
    return;
  std::vector<std::vector<const char *>> operands;
  for (const PackedWeight &packed : plan->packed) {
    operands.emplace_back();
    for (size_t operand : packed.operands) {
      const TensorView &view = arguments[operand];
      if (!view.shape && entries.portable) {
        isScheduled = false;
        return;
      }
      if (!view.shape)
        throw Failure(FUSE_ERROR_STATE, nameArgument(function, operand) +
                                            " is packed and has to be bound");
      operands.back().push_back(view.data);
    }
  }
  constexpr DLDevice onCpu = {kDLCPU, 0};
  for (size_t i = 0; i < plan->packed.size(); ++i) {
    const PackedWeight &packed = plan->packed[i];
    std::shared_ptr<HostMemory> memory;
    if (shared)
      memory = std::static_pointer_cast<HostMemory>(
          shared->find(onCpu, packed, operands[i]));
    if (!memory) {
      memory = std::make_shared<HostMemory>(packed.bytes, "packed weights");
      packWeights(packed, function, operands[i], memory->get());
      if (shared)
        shared->entries.push_back({onCpu, packed, operands[i], memory});
    }
    packedWeights.push_back(std::move(memory));
  }
}

size_t CpuInstance::getNumTokens(const Views &arguments) const {
  const TensorView &view = arguments[plan->input];
  size_t rank = function.arguments[plan->input].shape.size(), count = 1;
  for (size_t dim = 0; dim + 1 < rank; ++dim)
    count *= static_cast<size_t>(view.shape[dim]);
  return count;
}

static size_t alignUp(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

size_t CpuInstance::getWorkspaceSize(size_t numTokens) const {
  size_t total = 0;
  for (uint64_t bytes : plan->workspace) {
    size_t size;
    if (__builtin_mul_overflow(bytes, numTokens, &size) ||
        size > SIZE_MAX - total - kAlignment)
      throw Failure(FUSE_ERROR_OUT_OF_MEMORY, "the workspace of " +
                                                  std::to_string(numTokens) +
                                                  " tokens has no size");
    total += alignUp(size);
  }
  return total;
}

namespace {

/// A phase and its buffers. The buffers are flat memrefs, of which only the
/// address is read.
struct PhaseCall {
  static constexpr size_t kWords = 5;

  static void run(void *context, size_t first, size_t last) {
    const auto &call = *static_cast<PhaseCall *>(context);
    // Each thread has its own range.
    int64_t range[3] = {call.numTokens, static_cast<int64_t>(first),
                        static_cast<int64_t>(last)};
    int64_t rangeWords[kWords] = {reinterpret_cast<intptr_t>(range),
                                  reinterpret_cast<intptr_t>(range), 0, 3, 1};
    void *pointers[1 + kMaxPhaseArguments] = {rangeWords};
    std::copy_n(call.buffers, call.numBuffers, pointers + 1);
    call.entry(pointers);
  }

  EntryPoint entry;
  int64_t numTokens;
  size_t numBuffers = 0;
  void *buffers[kMaxPhaseArguments];
  int64_t words[kMaxPhaseArguments][kWords];
};

} // namespace

static size_t divideUp(size_t number, size_t by) {
  return (number + by - 1) / by;
}

/// Number of tokens per task for which the thread with the most tasks has the
/// least work. Threads share few panels equally only if tokens are divided.
static size_t getTaskTokens(const CpuPhase &phase, size_t numTokens,
                            size_t numThreads) {
  if (!phase.multiple)
    return phase.tokens;
  // A task reads a panel, which takes about as long as multiplying it by this
  // many tokens once it is in a cache.
  constexpr size_t kReading = 8;
  // More parts of the tokens than needed to have room in the task.
  constexpr size_t kMoreParts = 8;
  size_t largest = phase.tokens / phase.multiple * phase.multiple;
  size_t least = divideUp(numTokens, largest);
  size_t best = largest, bestCost = SIZE_MAX;
  for (size_t parts = least; parts <= least + kMoreParts; ++parts) {
    size_t each = divideUp(divideUp(numTokens, parts), phase.multiple);
    size_t tokens = std::min(each * phase.multiple, largest);
    size_t tasks = phase.panels * divideUp(numTokens, tokens);
    size_t cost = divideUp(tasks, numThreads) * (tokens + kReading);
    if (cost < bestCost) {
      best = tokens;
      bestCost = cost;
    }
    if (tokens == phase.multiple)
      break;
  }
  return best;
}

void CpuInstance::launchPhases(const Views &tensors,
                               const LaunchOptions &options) {
  size_t numTokens = getNumTokens(tensors);
  if (numTokens == 0)
    return;
  size_t bytes = getWorkspaceSize(numTokens);
  // Without a workspace, each calling thread uses its own, which grows.
  thread_local HostMemory ownMemory;
  char *memory;
  if (options.workspace) {
    auto *given = static_cast<CpuWorkspace *>(options.workspace);
    if (given->memory.size() < bytes)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    "the workspace has " +
                        std::to_string(given->memory.size()) + " bytes, " +
                        function.name + " needs " + std::to_string(bytes));
    memory = given->memory.get();
  } else {
    if (ownMemory.size() < bytes)
      ownMemory = HostMemory(bytes, "a workspace");
    memory = ownMemory.get();
  }
  using Kind = CpuPhase::Argument::Kind;
  ThreadPool &pool = ThreadPool::get();
  PhaseCall call;
  for (size_t i = 0; i < plan->phases.size(); ++i) {
    const CpuPhase &phase = plan->phases[i];
    call.entry = entries.phases[i];
    call.numBuffers = 0;
    for (const CpuPhase::Argument &argument : phase.arguments) {
      char *data = memory;
      if (argument.kind == Kind::Tensor)
        data = tensors[argument.index].data;
      else if (argument.kind == Kind::Packed)
        data = packedWeights[argument.index]->get();
      else
        for (size_t buffer = 0; buffer < argument.index; ++buffer)
          data += alignUp(plan->workspace[buffer] * numTokens);
      int64_t *words = call.words[call.numBuffers];
      words[0] = words[1] = reinterpret_cast<intptr_t>(data);
      words[2] = words[3] = 0;
      words[4] = 1;
      call.buffers[call.numBuffers++] = words;
    }
    size_t tokens = getTaskTokens(phase, numTokens, pool.getNumThreads());
    call.numTokens = static_cast<int64_t>(numTokens);
    if (phase.multiple)
      call.numTokens |= static_cast<int64_t>(tokens << CpuPhase::kTokenBits);
    pool.run(phase.panels * divideUp(numTokens, tokens), PhaseCall::run, &call);
  }
}

//===----------------------------------------------------------------------===//
// The portable path
//===----------------------------------------------------------------------===//

void CpuInstance::launchPortable(const Views &tensors) {
  size_t numArguments = function.arguments.size();
  size_t numResultWords = 0, numWords = 0;
  for (const TensorSpec &spec : function.results)
    numResultWords += getDescriptorWords(spec.shape.size());
  for (const TensorSpec &spec : function.arguments)
    numWords += getDescriptorWords(spec.shape.size());
  // Kept between calls: a call allocates only if the generated code does.
  thread_local std::vector<int64_t> words;
  thread_local std::vector<void *> pointers;
  words.assign(numResultWords + numWords, 0);
  pointers.clear();
  int64_t *next = words.data();
  if (numResultWords > 0)
    pointers.push_back(next);
  next += numResultWords;
  for (size_t i = 0; i < numArguments; ++i) {
    size_t rank = function.arguments[i].shape.size();
    writeDescriptor(tensors[i], rank, next);
    pointers.push_back(next);
    next += getDescriptorWords(rank);
  }
  // The code only reads them.
  for (const float &scalar : scalars)
    pointers.push_back(const_cast<float *>(&scalar));
  entries.portable(pointers.data());

  // This function owns the results from here on, even if one of them is wrong.
  std::string problem;
  const int64_t *result = words.data();
  for (size_t i = 0; i < function.results.size(); ++i) {
    const TensorSpec &spec = function.results[i];
    size_t rank = spec.shape.size();
    const TensorView &output = tensors[numArguments + i];
    if (!std::equal(output.shape, output.shape + rank, result + 3)) {
      TensorSpec actual = spec, given = spec;
      actual.shape.assign(result + 3, result + 3 + rank);
      given.shape.assign(output.shape, output.shape + rank);
      problem = nameResult(function, i) + " is " + toString(actual) +
                ", the output is " + toString(given);
    } else if (size_t bytes = getNumBytes(spec, output.shape)) {
      std::memcpy(output.data,
                  reinterpret_cast<const char *>(result[1]) +
                      result[2] * (spec.dtype.bits / 8),
                  bytes);
    }
    result += getDescriptorWords(rank);
  }
  pointers.clear();
  result = words.data();
  for (const TensorSpec &spec : function.results) {
    auto *allocation = reinterpret_cast<void *>(result[0]);
    // Two results may share one buffer.
    if (std::find(pointers.begin(), pointers.end(), allocation) ==
        pointers.end()) {
      pointers.push_back(allocation);
      std::free(allocation);
    }
    result += getDescriptorWords(spec.shape.size());
  }
  if (!problem.empty())
    throw Failure(FUSE_ERROR_TENSOR, problem);
}

std::shared_ptr<Device> fuse::runtime::openCpu() {
  // Reports an invalid FUSE_NUM_THREADS early.
  (void)ThreadPool::get();
  return std::make_shared<CpuDevice>();
}
