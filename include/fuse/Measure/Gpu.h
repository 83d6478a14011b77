//===- Gpu.h - Launches, graphs and times on one GPU ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a program that measures needs beside the runtime: memory for tensors, a
// stream, graphs and events. All functions throw `runtime::Failure`.
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
  /// Sets every byte, in the order of the stream.
  void set(uint8_t value, void *stream) const;

private:
  std::shared_ptr<const Gpu> gpu;
  unsigned long long address = 0;
  size_t bytes;
};

/// Launches that are replayed as one.
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

/// One device. After a wait that timed out or a failed kernel nothing of it can
/// be used any more, by this process.
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
  /// Ten times the major plus the minor number.
  int getCapability() const;
  int getOrdinal() const { return ordinal; }

  void *createStream() const;
  /// Sets bytes of device memory, in the order of the stream.
  void set(void *data, uint8_t value, size_t bytes, void *stream) const;
  /// Waits for a stream, at most so long.
  void wait(void *stream, uint64_t timeoutMs) const;
  /// What `body` enqueues on the stream.
  GpuGraph capture(void *stream, const std::function<void()> &body) const;

  /// Microseconds of each graph in `rounds` turns. Each replay comes after
  /// `flush` has been written, which leaves nothing else in L2, and all graphs
  /// take turns, so that clocks and temperature are the same for all. `failed`
  /// is called with the index of a graph that does not end in time, before the
  /// exception.
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
