//===- CudaInstance.cpp - Run functions on a CUDA device ------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse-c/Runtime.h"
#include "fuse/Runtime/CUDA/CudaDevice.h"
#include "fuse/Runtime/CUDA/PackKernel.h"
#include "fuse/Runtime/Core/Concurrency.h"
#include "fuse/Runtime/Core/Failure.h"
#include "fuse/Runtime/Core/Packing.h"

#include <algorithm>
#include <cstring>

using namespace fuse::runtime;
using namespace fuse::runtime::cuda;

/// Alignment of workspace buffers in bytes.
static constexpr uint64_t kAlignment = 256;

namespace {

/// Workspace on a device, and the tensor maps of matrices in it.
class CudaWorkspace : public Workspace {
public:
  CudaWorkspace(std::shared_ptr<const CudaDevice> device, size_t bytes,
                const Function &function)
      : device(device), memory(std::move(device), bytes, "a workspace"),
        function(function), zeroed(function.device->zeroedBytes),
        maps(function.device->numMaps) {
    memory.zero(zeroed);
  }

  Extent getExtent() const override {
    return {reinterpret_cast<void *>(memory.get()), memory.size(), zeroed};
  }

  /// Last use, since launches on two streams would write the same memory.
  LastUse lastUse;

  std::shared_ptr<const CudaDevice> device;
  DeviceMemory memory;
  /// Other functions would misread the semaphores and tensor maps.
  const Function &function;
  size_t zeroed;
  /// Tensor maps by their number in the function, each with the address that it
  /// describes. They are cached because addresses seldom change.
  std::vector<std::pair<DevicePtr, TensorMap>> maps;
};

class CudaInstance : public Instance {
public:
  CudaInstance(std::shared_ptr<CudaProgram> program,
               std::shared_ptr<const CudaDevice> device,
               const Function &function)
      : Instance(program, function, function.device->scales),
        cudaProgram(std::move(program)), device(std::move(device)),
        code(*function.device), rangeName("fuse " + function.label) {}

  std::unique_ptr<Workspace> createWorkspace(size_t bytes) override;

protected:
  void checkPlace(const TensorView &view, bool isBound,
                  const std::string &what) const override;
  void prepareCode(const Views &arguments, SharedWeights *shared) override;
  std::function<void()> loadCode(int64_t tokens) override;
  size_t computeWorkspaceSize(const Views &arguments) const override;
  void launchCode(const Views &tensors, const LaunchOptions &options) override;

private:
  /// Values that kernel parameters of a launch point to.
  struct Scratch {
    std::vector<int64_t> symbols;
    std::vector<DevicePtr> buffers;
    std::vector<uint64_t> values;
    std::vector<void *> pointers;
  };

  void evaluatePlanSymbols(const Views &tensors,
                           std::vector<int64_t> &values) const;
  const LaunchPlan &getPlan(const std::vector<int64_t> &symbols) const;
  uint64_t layOut(const LaunchPlan &plan, const int64_t *symbols,
                  DevicePtr base, std::vector<DevicePtr> *buffers) const;
  /// A packed weight on the device.
  struct Placed {
    std::shared_ptr<DeviceMemory> memory;
    /// Addresses of the matrices that were packed.
    std::vector<const char *> sources;
  };

  void pack(const PackedWeight &packed, const Views &arguments,
            std::shared_ptr<DeviceMemory> &memory);
  void packAll(const Views &arguments, SharedWeights *shared);
  std::vector<char> download(const TensorView &view, const TensorSpec &spec);
  void checkResidency(const Launch &launch, KernelFunction kernel) const;
  KernelFunction loadKernel(const Launch &launch) const;
  void copyIfRead(const KernelArgument &argument, const Views &arguments);
  void encodeMap(const KernelArgument &argument, DevicePtr address,
                 TensorMap &map) const;
  void *getParameter(const KernelArgument &argument, const Views &tensors,
                     Scratch &scratch, CudaWorkspace *workspace) const;
  void launchKernel(const Launch &launch, KernelFunction kernel,
                    const LaunchOptions &options, bool overlaps,
                    bool isExclusive, Scratch &scratch) const;

  /// Declared before members that live in its context.
  std::shared_ptr<CudaProgram> cudaProgram;
  std::shared_ptr<const CudaDevice> device;
  const DeviceCode &code;
  std::string rangeName;
  /// Kernels of each plan's launches; empty for plans that are not loaded.
  std::vector<std::vector<KernelFunction>> kernels;
  /// Device copies of bound arguments that are on the CPU, by argument.
  std::vector<DeviceMemory> copies;
  std::vector<Placed> packedWeights;
  /// Addresses of the constants.
  std::vector<DevicePtr> constants;
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

void CudaInstance::checkPlace(const TensorView &view, bool isBound,
                              const std::string &what) const {
  DLDevice place = view.device;
  bool onDevice = (place.device_type == kDLCUDA &&
                   place.device_id == device->getOrdinal()) ||
                  place.device_type == kDLCUDAManaged;
  bool onHost = place.device_type == kDLCPU || place.device_type == kDLCUDAHost;
  if (!onDevice && !(isBound && onHost))
    throw Failure(
        FUSE_ERROR_TENSOR,
        what + " is on device " + std::to_string(place.device_type) + ":" +
            std::to_string(place.device_id) +
            ", expected CUDA (2:" + std::to_string(device->getOrdinal()) + ")" +
            (isBound ? " or the CPU" : ""));
  // Scheduled kernels use vector loads, and a misaligned address ends the
  // context. Kernels of the portable path load single elements.
  constexpr uintptr_t vectorBytes = 16;
  uintptr_t rest = reinterpret_cast<uintptr_t>(view.data) % vectorBytes;
  if (onDevice && function.maxTokens > 0 && rest != 0)
    throw Failure(FUSE_ERROR_TENSOR,
                  what + " is misaligned by " + std::to_string(rest) +
                      " bytes: kernels of " + function.name +
                      " require addresses that are multiples of 16");
}

std::vector<char> CudaInstance::download(const TensorView &view,
                                         const TensorSpec &spec) {
  std::vector<char> bytes(getNumBytes(spec, view.shape));
  CurrentContext current(*device);
  device->call(
      device->getDriver().cuMemcpyDtoH(
          bytes.data(), reinterpret_cast<DevicePtr>(view.data), bytes.size()),
      "cuMemcpyDtoH", std::to_string(bytes.size()) + " bytes");
  return bytes;
}

/// Packs into `memory`, or into new memory if it is null.
void CudaInstance::pack(const PackedWeight &packed, const Views &arguments,
                        std::shared_ptr<DeviceMemory> &memory) {
  if (!memory)
    memory =
        std::make_shared<DeviceMemory>(device, packed.bytes, "packed weights");
  std::vector<DevicePtr> onDevice;
  for (size_t operand : packed.operands)
    if (arguments[operand].device.device_type == kDLCUDA)
      onDevice.push_back(reinterpret_cast<DevicePtr>(arguments[operand].data));
  if (onDevice.size() == packed.operands.size() &&
      device->getPackKernel().pack(packed, function, onDevice, memory->get()))
    return;
  std::vector<std::vector<char>> downloads;
  std::vector<const char *> operands;
  for (size_t operand : packed.operands) {
    const TensorView &view = arguments[operand];
    if (view.device.device_type == kDLCUDA) {
      downloads.push_back(download(view, function.arguments[operand]));
      operands.push_back(downloads.back().data());
    } else {
      operands.push_back(view.data);
    }
  }
  std::vector<char> image(packed.bytes);
  packWeights(packed, function, operands, image.data());
  memory->upload(image.data(), image.size());
}

/// Packs all weights that are not in `shared` yet. Packed copies of tensors
/// whose contents changed are replaced in place, because captured graphs and
/// other instances read them there.
void CudaInstance::packAll(const Views &arguments, SharedWeights *shared) {
  std::vector<Placed> before = std::move(packedWeights);
  packedWeights.clear();
  before.resize(code.packed.size());
  std::vector<Placed> placed(code.packed.size());
  bool isReplacing = false;
  for (size_t i = 0; i < placed.size(); ++i) {
    for (size_t operand : code.packed[i].operands) {
      if (!arguments[operand].shape)
        throw Failure(FUSE_ERROR_STATE, nameArgument(function, operand) +
                                            " is packed and has to be bound");
      placed[i].sources.push_back(arguments[operand].data);
    }
    // Free memory of other tensors first: there may be room for only one copy.
    if (before[i].sources != placed[i].sources)
      before[i].memory.reset();
    isReplacing |= before[i].memory != nullptr;
  }
  if (isReplacing) {
    CurrentContext current(*device);
    device->call(device->getDriver().cuCtxSynchronize(), "cuCtxSynchronize");
  }
  DLDevice onDevice = {kDLCUDA, device->getOrdinal()};
  for (size_t i = 0; i < placed.size(); ++i) {
    const PackedWeight &packed = code.packed[i];
    Placed &place = placed[i];
    if (shared)
      place.memory = std::static_pointer_cast<DeviceMemory>(
          shared->find(onDevice, packed, place.sources));
    if (place.memory)
      continue;
    place.memory = std::move(before[i].memory);
    pack(packed, arguments, place.memory);
    if (shared)
      shared->entries.push_back(
          {onDevice, packed, place.sources, place.memory});
  }
  packedWeights = std::move(placed);
}

/// Number of blocks in a launch, unless it depends on the inputs.
static std::optional<int64_t> countBlocks(const Launch &launch) {
  int64_t blocks = 1;
  for (const Expression &size : launch.grid) {
    if (!size.isConstant())
      return std::nullopt;
    blocks *= size.evaluate(nullptr);
  }
  return blocks;
}

/// Whether blocks can start one by one as SMs become free, and all start in the
/// end. A cluster needs several free SMs at once.
static bool canStartInParts(const Launch &launch) {
  return countBlocks(launch) &&
         launch.cluster == std::array<unsigned, 3>{1, 1, 1};
}

/// Checks that blocks that wait for each other fit on the device together. If
/// the grid depends on the inputs, the driver checks it in the cooperative
/// launch.
void CudaInstance::checkResidency(const Launch &launch,
                                  KernelFunction kernel) const {
  std::optional<int64_t> blocks = countBlocks(launch);
  if (!launch.cooperative || !blocks)
    return;
  int perMultiprocessor = 0;
  int threads = launch.block[0] * launch.block[1] * launch.block[2];
  CurrentContext current(*device);
  device->call(device->getDriver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                   &perMultiprocessor, kernel, threads, launch.sharedBytes),
               "cuOccupancyMaxActiveBlocksPerMultiprocessor", launch.kernel);
  int64_t most = int64_t(perMultiprocessor) * device->getMultiprocessors();
  if (*blocks > most)
    throw Failure(FUSE_ERROR_TARGET, launch.kernel + " needs " +
                                         std::to_string(*blocks) +
                                         " resident blocks, device " +
                                         std::to_string(device->getOrdinal()) +
                                         " holds " + std::to_string(most));
}

KernelFunction CudaInstance::loadKernel(const Launch &launch) const {
  const CudaModule &module =
      cudaProgram->getModule(code.modules[launch.module], code.chip);
  KernelFunction kernel = module.getKernel(launch.kernel);
  if (launch.sharedBytes > 0) {
    CurrentContext current(*device);
    device->call(
        device->getDriver().cuFuncSetAttribute(
            kernel, kFunctionMaxDynamicShared, int(launch.sharedBytes)),
        "cuFuncSetAttribute",
        launch.kernel + " with " + std::to_string(launch.sharedBytes) +
            " bytes of shared memory");
  }
  if (launch.carveout) {
    CurrentContext current(*device);
    // A failure costs speed only.
    (void)device->getDriver().cuFuncSetAttribute(
        kernel, kFunctionPreferredCarveout, int(*launch.carveout));
  }
  checkResidency(launch, kernel);
  return kernel;
}

/// Copies a bound tensor that is on the host and that a kernel reads unpacked.
void CudaInstance::copyIfRead(const KernelArgument &argument,
                              const Views &arguments) {
  using Kind = KernelArgument::Kind;
  bool readsTensor =
      argument.kind == Kind::Tensor ||
      (argument.kind == Kind::TensorMap && !argument.inWorkspace);
  size_t index = argument.index;
  if (!readsTensor || index >= arguments.size() || !arguments[index].shape ||
      copies[index].get())
    return;
  const TensorView &view = arguments[index];
  if (view.device.device_type == kDLCUDA ||
      view.device.device_type == kDLCUDAManaged)
    return;
  size_t bytes = getNumBytes(function.arguments[index], view.shape);
  DeviceMemory copy(device, bytes, nameArgument(function, index));
  copy.upload(view.data, bytes);
  copies[index] = std::move(copy);
}

void CudaInstance::prepareCode(const Views &arguments, SharedWeights *shared) {
  device->check();
  ProfilerRange range("fuse prepare " + function.name);
  copies.clear();
  kernels.clear();
  constants.clear();
  for (const Constant &constant : code.constants)
    constants.push_back(cudaProgram->getConstant(constant));
  packAll(arguments, shared);
  // Only tensors that kernels read unpacked have to be on the device.
  copies.resize(function.arguments.size());
  for (const LaunchPlan &plan : code.plans)
    for (const Launch &launch : plan.launches)
      for (const KernelArgument &argument : launch.arguments)
        copyIfRead(argument, arguments);
  device->waitForDefaultStream();
}

std::function<void()> CudaInstance::loadCode(int64_t tokens) {
  device->check();
  // Modules with kernels for more tokens may not be needed.
  size_t count = &code.getPlan(tokens) - code.plans.data() + 1;
  std::vector<bool> isNeeded(code.modules.size());
  for (size_t i = 0; i < count; ++i)
    if (i >= kernels.size() || kernels[i].empty())
      for (const Launch &launch : code.plans[i].launches)
        isNeeded[launch.module] = true;
  std::vector<const KernelModule *> modules;
  for (size_t i = 0; i < isNeeded.size(); ++i)
    if (isNeeded[i])
      modules.push_back(&code.modules[i]);
  runConcurrently(modules.size(), [&](size_t i) {
    (void)cudaProgram->getModule(*modules[i], code.chip);
  });
  std::vector<std::vector<KernelFunction>> loaded(count);
  for (size_t i = 0; i < count; ++i)
    if (i >= kernels.size() || kernels[i].empty())
      for (size_t j = 0; j < code.plans[i].launches.size(); ++j)
        loaded[i].push_back(loadKernel(code.plans[i].launches[j]));
  return [this, loaded = std::move(loaded)] {
    kernels.resize(code.plans.size());
    for (size_t i = 0; i < loaded.size(); ++i)
      if (kernels[i].empty())
        kernels[i] = loaded[i];
  };
}

std::unique_ptr<Workspace> CudaInstance::createWorkspace(size_t bytes) {
  device->check();
  if (code.zeroedBytes > bytes)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "a workspace of " + std::to_string(bytes) +
                      " bytes is too small for " + function.name +
                      ", which needs " + std::to_string(code.zeroedBytes) +
                      " for semaphores and tagged partial sums alone");
  auto workspace = std::make_unique<CudaWorkspace>(device, bytes, function);
  // A kernel that starts earlier would read uninitialized semaphores and hang.
  device->waitForDefaultStream();
  return workspace;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

void CudaInstance::evaluatePlanSymbols(const Views &tensors,
                                       std::vector<int64_t> &values) const {
  values.clear();
  for (Symbol::Place place : code.symbols) {
    if (place.argument >= tensors.size())
      throw Failure(FUSE_ERROR_UNSUPPORTED,
                    "a size of " + function.name +
                        " depends on one of its results");
    values.push_back(tensors[place.argument].shape[place.dim]);
  }
  for (const Expression &number : function.tokens)
    if (int64_t tokens = number.evaluate(values.data());
        function.maxTokens > 0 && tokens > function.maxTokens)
      throw Failure(FUSE_ERROR_TENSOR, function.name + " supports at most " +
                                           std::to_string(function.maxTokens) +
                                           " tokens, got " +
                                           std::to_string(tokens));
}

/// The plan for the number of tokens that the symbols give.
const LaunchPlan &
CudaInstance::getPlan(const std::vector<int64_t> &symbols) const {
  return code.getPlan(
      code.plans.size() > 1 ? function.tokens[0].evaluate(symbols.data()) : 0);
}

/// Computes where each workspace buffer begins, and returns the total in bytes.
uint64_t CudaInstance::layOut(const LaunchPlan &plan, const int64_t *symbols,
                              DevicePtr base,
                              std::vector<DevicePtr> *buffers) const {
  uint64_t end = 0;
  for (const Expression &size : plan.workspace) {
    end = (end + kAlignment - 1) / kAlignment * kAlignment;
    if (buffers)
      buffers->push_back(base + end);
    int64_t bytes = size.evaluate(symbols);
    if (bytes < 0 || bytes > int64_t(1) << 48)
      throw Failure(FUSE_ERROR_TENSOR, "a workspace buffer of " +
                                           function.name + " has " +
                                           std::to_string(bytes) + " bytes");
    end += static_cast<uint64_t>(bytes);
  }
  return end;
}

size_t CudaInstance::computeWorkspaceSize(const Views &arguments) const {
  thread_local std::vector<int64_t> symbols;
  evaluatePlanSymbols(arguments, symbols);
  // A workspace for some tokens has to suffice for fewer tokens, which may use
  // another plan. If the number of tokens is not itself a size, it is kept,
  // which is an upper bound.
  const LaunchPlan &last = getPlan(symbols);
  uint64_t bytes = layOut(last, symbols.data(), 0, nullptr);
  for (const LaunchPlan *plan = code.plans.data(); plan != &last; ++plan) {
    if (std::optional<size_t> symbol = function.tokens[0].getSymbol())
      symbols[*symbol] = plan->upTo;
    bytes = std::max(bytes, layOut(*plan, symbols.data(), 0, nullptr));
  }
  return bytes;
}

void CudaInstance::encodeMap(const KernelArgument &argument, DevicePtr address,
                             TensorMap &map) const {
  struct MapType {
    const char *name;
    int type;
    unsigned bytes;
  };
  static constexpr MapType types[] = {{"i8", 0, 1},     {"f8E4M3FN", 0, 1},
                                      {"f8E5M2", 0, 1}, {"f16", 6, 2},
                                      {"f32", 7, 4},    {"bf16", 9, 2}};
  const MapType *type = nullptr;
  for (const MapType &candidate : types)
    if (argument.element == candidate.name)
      type = &candidate;
  int swizzle = argument.swizzle == 0     ? 0
                : argument.swizzle == 32  ? 1
                : argument.swizzle == 64  ? 2
                : argument.swizzle == 128 ? 3
                                          : -1;
  if (!type || swizzle < 0)
    throw Failure(FUSE_ERROR_FORMAT,
                  "there is no tensor map of " + argument.element +
                      " with a swizzle of " + std::to_string(argument.swizzle) +
                      " bytes");
  uint64_t sizes[] = {argument.columns, argument.rows};
  uint64_t strides[] = {argument.columns * type->bytes};
  unsigned box[] = {argument.boxColumns, argument.boxRows};
  unsigned steps[] = {1, 1};
  constexpr int promoteL2To128Bytes = 2;
  device->call(device->getDriver().cuTensorMapEncodeTiled(
                   &map, type->type, /*rank=*/2,
                   reinterpret_cast<void *>(address), sizes, strides, box,
                   steps, /*interleave=*/0, swizzle, promoteL2To128Bytes,
                   /*fill=*/0),
               "cuTensorMapEncodeTiled",
               std::to_string(argument.rows) + "x" +
                   std::to_string(argument.columns) + "x" + argument.element);
}

/// Address of a parameter's value, valid until the launch has been made.
void *CudaInstance::getParameter(const KernelArgument &argument,
                                 const Views &tensors, Scratch &scratch,
                                 CudaWorkspace *workspace) const {
  using Kind = KernelArgument::Kind;
  auto getTensor = [&](size_t index) -> uint64_t {
    if (index < copies.size() && copies[index].get())
      return copies[index].get();
    return reinterpret_cast<uint64_t>(tensors[index].data);
  };
  uint64_t value = 0;
  switch (argument.kind) {
  case Kind::Tensor:
    value = getTensor(argument.index);
    break;
  case Kind::Workspace:
    value = scratch.buffers[argument.index] + argument.offset;
    break;
  case Kind::Size: {
    int64_t size = argument.size.evaluate(scratch.symbols.data());
    std::memcpy(&value, &size, 8);
    break;
  }
  case Kind::Value:
    value = argument.bits;
    break;
  case Kind::Scalar:
    std::memcpy(&value, &scalars[argument.index], 4);
    break;
  case Kind::Packed:
    value = packedWeights[argument.index].memory->get();
    break;
  case Kind::Constant:
    value = constants[argument.index];
    break;
  case Kind::TensorMap: {
    if (!workspace)
      throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                    function.name + " needs a workspace");
    DevicePtr address = argument.inWorkspace
                            ? scratch.buffers[argument.index] + argument.offset
                            : getTensor(argument.index);
    auto &[mapped, map] = workspace->maps[argument.map];
    if (mapped != address) {
      encodeMap(argument, address, map);
      mapped = address;
    }
    return &map;
  }
  }
  scratch.values.push_back(value);
  return &scratch.values.back();
}

void CudaInstance::launchKernel(const Launch &launch, KernelFunction kernel,
                                const LaunchOptions &options, bool overlaps,
                                bool isExclusive, Scratch &scratch) const {
  unsigned grid[3];
  for (size_t i = 0; i < 3; ++i) {
    int64_t size = launch.grid[i].evaluate(scratch.symbols.data());
    // An empty grid has nothing to do, and the driver refuses it.
    if (size == 0)
      return;
    if (size < 0 || size > (i == 0 ? INT32_MAX : 65535))
      throw Failure(FUSE_ERROR_TENSOR, launch.kernel + " would have " +
                                           std::to_string(size) +
                                           " blocks in one dimension");
    grid[i] = static_cast<unsigned>(size);
  }
  LaunchAttribute attributes[3] = {};
  unsigned count = 0;
  if (overlaps) {
    attributes[count].id = kAttributeProgrammatic;
    attributes[count++].value.numbers[0] = 1;
  }
  // Cooperative launches are needed even if the launch overlaps its
  // predecessor. Otherwise two grids that share the device could each hold SMs
  // that the other waits for.
  if (launch.cooperative &&
      !(isExclusive && overlaps && canStartInParts(launch))) {
    attributes[count].id = kAttributeCooperative;
    attributes[count++].value.numbers[0] = 1;
  }
  if (launch.cluster[0] * launch.cluster[1] * launch.cluster[2] > 1) {
    attributes[count].id = kAttributeCluster;
    std::memcpy(attributes[count++].value.numbers, launch.cluster.data(),
                sizeof(launch.cluster));
  }
  LaunchConfig config = {grid[0],
                         grid[1],
                         grid[2],
                         launch.block[0],
                         launch.block[1],
                         launch.block[2],
                         launch.sharedBytes,
                         static_cast<Stream>(options.stream),
                         attributes,
                         count};
  device->call(device->getDriver().cuLaunchKernelEx(
                   &config, kernel, scratch.pointers.data(), nullptr),
               "cuLaunchKernelEx", launch.kernel);
}

void CudaInstance::launchCode(const Views &tensors,
                              const LaunchOptions &options) {
  device->check();
  ProfilerRange range(rangeName);
  // Kept between calls: launches do not allocate after the buffers have grown.
  thread_local Scratch scratch;
  evaluatePlanSymbols(tensors, scratch.symbols);
  scratch.buffers.clear();
  auto *workspace = dynamic_cast<CudaWorkspace *>(options.workspace);
  if (options.workspace &&
      (!workspace || workspace->device->getOrdinal() != device->getOrdinal()))
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "the workspace is of another device");
  if (workspace && &workspace->function != &function)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  "the workspace is of another function, " +
                      workspace->function.name + "; make one for " +
                      function.name);
  DevicePtr base = workspace ? workspace->memory.get() : 0;
  const LaunchPlan &plan = getPlan(scratch.symbols);
  if (kernels[&plan - code.plans.data()].size() != plan.launches.size())
    throw Failure(FUSE_ERROR_STATE,
                  "the instance of " + function.name + " is limited to " +
                      std::to_string(limit) + " tokens, got " +
                      std::to_string(
                          function.tokens[0].evaluate(scratch.symbols.data())));
  uint64_t needed =
      layOut(plan, scratch.symbols.data(), base, &scratch.buffers);
  uint64_t given = workspace ? workspace->memory.size() : 0;
  if (needed > given)
    throw Failure(FUSE_ERROR_INVALID_ARGUMENT,
                  function.name + " needs a workspace of " +
                      std::to_string(needed) + " bytes, got " +
                      std::to_string(given));
  bool isOrdered = (options.flags & FUSE_LAUNCH_ORDERED) != 0;
  bool isExclusive = device->isExclusive() && plan.hasWaitingBlocks();
  CurrentContext current(*device);
  struct Entered {
    ~Entered() {
      if (use)
        use->leave(device);
    }
    const CudaDevice &device;
    LastUse *use;
  };
  Entered ofDevice{
      *device, isExclusive ? device->enterExclusive(options.stream, isOrdered)
                           : nullptr};
  if (workspace &&
      !workspace->lastUse.enter(*device, options.stream, isOrdered))
    throw Failure(FUSE_ERROR_STATE,
                  "the workspace is in use by a launch on another stream; wait "
                  "for that stream, or make a workspace for each");
  Entered ofWorkspace{*device, workspace ? &workspace->lastUse : nullptr};
  const auto &loaded = kernels[&plan - code.plans.data()];
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch &launch = plan.launches[i];
    scratch.values.clear();
    scratch.pointers.clear();
    // Reserve, since `scratch.pointers` points into the values.
    scratch.values.reserve(launch.arguments.size());
    for (const KernelArgument &argument : launch.arguments)
      scratch.pointers.push_back(
          getParameter(argument, tensors, scratch, workspace));
    // The preceding launch is this function's own, or the caller permits
    // overlap.
    bool overlaps = launch.dependent &&
                    (i > 0 || (options.flags & FUSE_LAUNCH_OVERLAP) != 0);
    launchKernel(launch, loaded[i], options, overlaps, isExclusive, scratch);
  }
}

std::unique_ptr<Instance>
cuda::createCudaInstance(std::shared_ptr<CudaProgram> program,
                         std::shared_ptr<const CudaDevice> device,
                         const Function &function) {
  return std::make_unique<CudaInstance>(std::move(program), std::move(device),
                                        function);
}
