//===- Gpu.h - Launches, graphs and times on one GPU ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parts that a program that measures needs in addition to the runtime: memory
// for tensors, a stream, graphs and events. All functions throw
// `runtime::Failure`.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_MEASURE_GPU_H
#define FUSE_MEASURE_GPU_H

#include "fuse/Runtime/Core/Instance.h"

#include <functional>
#include <memory>

namespace fuse::measure {

class Gpu;

/// Memory of a GPU.
class GpuBuffer {
public:
  GpuBuffer(std::shared_ptr<const Gpu> gpu, size_t bytes);
  GpuBuffer(GpuBuffer &&other) noexcept;
  GpuBuffer(const GpuBuffer &) = delete;
  ~GpuBuffer();

  void *get() const;
  size_t size() const { return bytes; }
  void upload(const std::string &content) const;
  std::string download() const;
  /// Sets every byte, in stream order.
  void set(uint8_t value, void *stream) const;

private:
  std::shared_ptr<const Gpu> gpu;
  unsigned long long address = 0;
  size_t bytes;
};

/// Captured launches that are replayed as one.
class GpuGraph {
public:
  GpuGraph(std::shared_ptr<const Gpu> gpu, void *executable);
  GpuGraph(GpuGraph &&other) noexcept;
  GpuGraph(const GpuGraph &) = delete;
  ~GpuGraph();

  void launch(void *stream) const;

private:
  std::shared_ptr<const Gpu> gpu;
  void *executable;
};

/// One device. After a time-out or a failed kernel, this process cannot use the
/// device any more.
class Gpu : public std::enable_shared_from_this<Gpu> {
public:
  /// Loads the driver.
  static std::shared_ptr<Gpu> open(int ordinal);
  ~Gpu();
  Gpu(const Gpu &) = delete;

  runtime::Device &getDevice() const { return *device; }
  std::string getName() const;
  /// Such as "12.4".
  std::string getDriverVersion() const;
  int getMultiprocessors() const;
  /// Ten times the major plus the minor number of the compute capability.
  int getCapability() const;
  int getOrdinal() const { return ordinal; }

  void *createStream() const;
  /// Sets bytes of device memory, in stream order.
  void set(void *data, uint8_t value, size_t bytes, void *stream) const;
  /// Waits for a stream, for at most `timeoutMs` milliseconds.
  void wait(void *stream, uint64_t timeoutMs) const;
  /// Captures the work that `body` enqueues on the stream.
  GpuGraph capture(void *stream, const std::function<void()> &body) const;

  /// Returns the time of each graph in each of `rounds` rounds, in
  /// microseconds. `flush` is written before each replay so that it fills L2.
  /// All graphs take turns, so that clocks and temperature are the same for
  /// all. If a graph does not end in time, `failed` is called with its index
  /// before the exception.
  std::vector<std::vector<double>>
  time(const std::vector<const GpuGraph *> &graphs, int rounds,
       const GpuBuffer &flush, void *stream, uint64_t timeoutMs,
       const std::function<void(size_t)> &failed) const;

private:
  friend class GpuBuffer;
  friend class GpuGraph;
  struct Functions;

  explicit Gpu(int ordinal);

  int ordinal;
  std::shared_ptr<runtime::Device> device;
  std::unique_ptr<Functions> functions;
  mutable std::vector<void *> streams;
};

} // namespace fuse::measure

#endif // FUSE_MEASURE_GPU_H
