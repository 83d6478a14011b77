//===- Gpu.cpp - Launches, graphs and times on one GPU --------------------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "fuse/Measure/Gpu.h"
#include "fuse/Runtime/CUDA/CudaDevice.h"
#include "fuse/Runtime/Core/Failure.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

using namespace fuse;
using namespace fuse::runtime;
using namespace fuse::runtime::cuda;
using namespace fuse::measure;

/// Driver functions that only measuring programs call, with the requested
/// versions.
#define FUSE_DRIVER_FUNCTIONS(F)                                               \
  F(cuDeviceGetName, 2000, (char *, int, int))                                 \
  F(cuMemsetD8Async, 3020, (DevicePtr, unsigned char, size_t, Stream))         \
  F(cuStreamCreate, 2000, (Stream *, unsigned))                                \
  F(cuStreamDestroy, 4000, (Stream))                                           \
  F(cuStreamBeginCapture, 10010, (Stream, int))                                \
  F(cuStreamEndCapture, 10000, (Stream, void **))                              \
  F(cuGraphInstantiateWithFlags, 11040, (void **, void *, unsigned long long)) \
  F(cuGraphLaunch, 10000, (void *, Stream))                                    \
  F(cuGraphDestroy, 10000, (void *))                                           \
  F(cuGraphExecDestroy, 10000, (void *))                                       \
  F(cuEventElapsedTime, 2000, (float *, Event, Event))

struct Gpu::Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define FUSE_DRIVER_MEMBER(NAME, VERSION, PARAMETERS) int(*NAME) PARAMETERS;
  FUSE_DRIVER_FUNCTIONS(FUSE_DRIVER_MEMBER)
#undef FUSE_DRIVER_MEMBER
};

/// The CUDA device behind the interface that `openCuda` returns.
static const CudaDevice &getCuda(const Gpu &gpu) {
  return static_cast<const CudaDevice &>(gpu.getDevice());
}

#define CALL(NAME, ...) getCuda(*this).call(functions->NAME(__VA_ARGS__), #NAME)

//===----------------------------------------------------------------------===//
// Buffers and graphs
//===----------------------------------------------------------------------===//

GpuBuffer::GpuBuffer(std::shared_ptr<const Gpu> owner, size_t size)
    : gpu(std::move(owner)), bytes(size) {
  const CudaDevice &device = getCuda(*gpu);
  CurrentContext current(device);
  device.call(
      device.getDriver().cuMemAlloc(&address, std::max<size_t>(size, 16)),
      "cuMemAlloc", std::to_string(size) + " bytes");
}

GpuBuffer::GpuBuffer(GpuBuffer &&other) noexcept
    : gpu(other.gpu), address(std::exchange(other.address, 0)),
      bytes(other.bytes) {}

GpuBuffer::~GpuBuffer() {
  const CudaDevice &device = getCuda(*gpu);
  if (!address || !device.canRelease())
    return;
  try {
    CurrentContext current(device);
    (void)device.getDriver().cuMemFree(address);
  } catch (const Failure &) {
    // The memory is gone together with its context.
  }
}

void *GpuBuffer::get() const { return reinterpret_cast<void *>(address); }

void GpuBuffer::upload(const std::string &content) const {
  const CudaDevice &device = getCuda(*gpu);
  CurrentContext current(device);
  if (!content.empty())
    device.call(device.getDriver().cuMemcpyHtoD(
                    address, content.data(), std::min(bytes, content.size())),
                "cuMemcpyHtoD");
}

std::string GpuBuffer::download() const {
  const CudaDevice &device = getCuda(*gpu);
  CurrentContext current(device);
  std::string content(bytes, '\0');
  if (bytes > 0)
    device.call(device.getDriver().cuMemcpyDtoH(content.data(), address, bytes),
                "cuMemcpyDtoH");
  return content;
}

void GpuBuffer::set(uint8_t value, void *stream) const {
  gpu->set(get(), value, bytes, stream);
}

GpuGraph::GpuGraph(std::shared_ptr<const Gpu> gpu, void *executable)
    : gpu(std::move(gpu)), executable(executable) {}

GpuGraph::GpuGraph(GpuGraph &&other) noexcept
    : gpu(other.gpu), executable(std::exchange(other.executable, nullptr)) {}

GpuGraph::~GpuGraph() {
  if (executable && getCuda(*gpu).canRelease())
    (void)gpu->functions->cuGraphExecDestroy(executable);
}

void GpuGraph::launch(void *stream) const {
  const CudaDevice &device = getCuda(*gpu);
  CurrentContext current(device);
  device.call(
      gpu->functions->cuGraphLaunch(executable, static_cast<Stream>(stream)),
      "cuGraphLaunch");
}

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

std::shared_ptr<Gpu> Gpu::open(int ordinal) {
  return std::shared_ptr<Gpu>(new Gpu(ordinal));
}

Gpu::Gpu(int ordinal)
    : ordinal(ordinal), device(openCuda(ordinal)),
      functions(std::make_unique<Functions>()) {
#define FUSE_DRIVER_LOAD(NAME, VERSION, PARAMETERS)                            \
  functions->NAME = reinterpret_cast<decltype(functions->NAME)>(               \
      findFunction(#NAME, VERSION));
  FUSE_DRIVER_FUNCTIONS(FUSE_DRIVER_LOAD)
#undef FUSE_DRIVER_LOAD
}

Gpu::~Gpu() {
  if (getCuda(*this).canRelease())
    for (void *stream : streams)
      (void)functions->cuStreamDestroy(static_cast<Stream>(stream));
}

std::string Gpu::getName() const {
  char name[256] = {};
  CALL(cuDeviceGetName, name, sizeof(name) - 1, ordinal);
  return name;
}

std::string Gpu::getDriverVersion() const {
  return printVersion(getCuda(*this).getDriver().version);
}

int Gpu::getMultiprocessors() const {
  return getCuda(*this).getMultiprocessors();
}

int Gpu::getCapability() const { return getCuda(*this).getCapability(); }

void *Gpu::createStream() const {
  CurrentContext current(getCuda(*this));
  Stream stream = nullptr;
  constexpr unsigned nonBlocking = 1;
  CALL(cuStreamCreate, &stream, nonBlocking);
  streams.push_back(stream);
  return stream;
}

void Gpu::set(void *data, uint8_t value, size_t bytes, void *stream) const {
  const CudaDevice &cuda = getCuda(*this);
  CurrentContext current(cuda);
  if (bytes > 0)
    cuda.call(functions->cuMemsetD8Async(reinterpret_cast<DevicePtr>(data),
                                         value, bytes,
                                         static_cast<Stream>(stream)),
              "cuMemsetD8Async");
}

void Gpu::wait(void *stream, uint64_t timeoutMs) const {
  device->wait(stream, timeoutMs);
}

GpuGraph Gpu::capture(void *stream, const std::function<void()> &body) const {
  CurrentContext current(getCuda(*this));
  constexpr int threadLocal = 1;
  CALL(cuStreamBeginCapture, static_cast<Stream>(stream), threadLocal);
  void *graph = nullptr, *executable = nullptr;
  try {
    body();
  } catch (const Failure &) {
    // End the capture even after an error.
    (void)functions->cuStreamEndCapture(static_cast<Stream>(stream), &graph);
    throw;
  }
  CALL(cuStreamEndCapture, static_cast<Stream>(stream), &graph);
  int code = functions->cuGraphInstantiateWithFlags(&executable, graph, 0);
  (void)functions->cuGraphDestroy(graph);
  getCuda(*this).call(code, "cuGraphInstantiateWithFlags");
  return GpuGraph(shared_from_this(), executable);
}

namespace {

/// An event that records time.
class TimedEvent {
public:
  explicit TimedEvent(const CudaDevice &device) : device(device) {
    device.call(device.getDriver().cuEventCreate(&event, 0), "cuEventCreate");
  }
  TimedEvent(TimedEvent &&other) noexcept
      : device(other.device), event(std::exchange(other.event, nullptr)) {}
  ~TimedEvent() {
    if (event && device.canRelease())
      (void)device.getDriver().cuEventDestroy(event);
  }
  void record(void *stream) const {
    device.call(
        device.getDriver().cuEventRecord(event, static_cast<Stream>(stream)),
        "cuEventRecord");
  }
  bool isDone() const {
    return device.getDriver().cuEventQuery(event) == kSuccess;
  }
  Event get() const { return event; }

private:
  const CudaDevice &device;
  Event event = nullptr;
};

} // namespace

std::vector<std::vector<double>>
Gpu::time(const std::vector<const GpuGraph *> &graphs, int rounds,
          const GpuBuffer &flush, void *stream, uint64_t timeoutMs,
          const std::function<void(size_t)> &failed) const {
  CurrentContext current(getCuda(*this));
  std::vector<std::vector<double>> times(graphs.size());
  std::vector<TimedEvent> begins, ends;
  for (size_t i = 0; i < graphs.size(); ++i) {
    begins.emplace_back(getCuda(*this));
    ends.emplace_back(getCuda(*this));
  }
  // The preceding graph affects the clock of the next, so each round uses
  // another order.
  std::vector<size_t> order(graphs.size());
  std::iota(order.begin(), order.end(), 0);
  std::minstd_rand random;
  // Rounds that are not counted and warm up clocks and instruction caches.
  constexpr int warmUp = 2;
  for (int round = 0; round < rounds + warmUp; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (size_t i : order) {
      flush.set(uint8_t(round), stream);
      begins[i].record(stream);
      graphs[i]->launch(stream);
      ends[i].record(stream);
    }
    try {
      wait(stream, timeoutMs);
    } catch (const Failure &) {
      for (size_t i : order) {
        if (!ends[i].isDone()) {
          failed(i);
          break;
        }
      }
      throw;
    }
    for (size_t i = 0; i < graphs.size() && round >= warmUp; ++i) {
      float ms = 0;
      CALL(cuEventElapsedTime, &ms, begins[i].get(), ends[i].get());
      times[i].push_back(ms * 1000.0);
    }
  }
  return times;
}
