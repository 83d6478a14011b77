//===- probe.cpp - Throughput of a CPU's memory and multipliers -----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// usage: probe THREADS SECONDS BYTES...
//
// Prints the multiplications and additions per second in f32 and in bf16 (0
// without AVX512-BF16). For each size, prints the bytes per second of repeated
// reads of a buffer of this size. Each is the best of several runs, in which
// all threads begin and end together. benchmarks/host_cpu.py builds the program
// for the current machine.
//
//===----------------------------------------------------------------------===//

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <sys/mman.h>

#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

using Clock = std::chrono::steady_clock;

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Vector __attribute__((vector_size(4 * kLanes)));

/// Number of independent sums in flight: more than the number of units times
/// their latency.
constexpr int kSums = 12;

static void keep(Vector &value) {
#ifdef __x86_64__
  asm volatile("" : "+v"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

template <typename Step>
static double multiply(Step step) {
  Vector sums[kSums] = {}, x = Vector{} + 0.5f, y = Vector{} + 0.25f;
  constexpr int kSteps = 100000;
  for (int i = 0; i < kSteps; ++i)
    for (Vector &sum : sums) {
      step(sum, x, y);
      keep(sum);
    }
  return double(kSteps) * kSums;
}

static double multiplyF32() {
  return 2.0 * kLanes *
         multiply([](Vector &sum, Vector &x, Vector &y) { sum += x * y; });
}

static double multiplyBF16() {
#ifdef __AVX512BF16__
  return 4.0 * kLanes * multiply([](Vector &sum, Vector &x, Vector &y) {
           asm("vdpbf16ps %1, %2, %0" : "+v"(sum) : "v"(x), "v"(y));
         });
#else
  return 0;
#endif
}

static double read(const char *data, size_t bytes) {
  Vector sums[4] = {};
  constexpr size_t kStep = sizeof(sums);
  size_t steps = bytes / kStep;
  for (size_t i = 0; i < steps; ++i)
    for (int j = 0; j < 4; ++j)
      sums[j] += *reinterpret_cast<const Vector *>(data + i * kStep +
                                                   j * sizeof(Vector));
  for (Vector &sum : sums)
    keep(sum);
  return double(steps) * kStep;
}

/// Highest throughput of all threads together in one run, per second.
static double measure(unsigned threads, double seconds,
                      const std::function<double(unsigned)> &run) {
  double best = 0;
  auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    std::atomic<unsigned> ready{0};
    std::vector<double> done(threads);
    std::vector<Clock::time_point> starts(threads), stops(threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        run(t);
        ++ready;
        while (ready < threads) {
        }
        starts[t] = Clock::now();
        done[t] = run(t);
        stops[t] = Clock::now();
      });
    double sum = 0;
    for (unsigned t = 0; t < threads; ++t) {
      all[t].join();
      sum += done[t];
    }
    auto first = *std::min_element(starts.begin(), starts.end());
    auto last = *std::max_element(stops.begin(), stops.end());
    best = std::max(best,
                    sum / std::chrono::duration<double>(last - first).count());
  } while (Clock::now() < end);
  return best;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: probe THREADS SECONDS BYTES...\n");
    return 2;
  }
  unsigned threads = std::max(1, std::atoi(argv[1]));
  double seconds = std::atof(argv[2]);
  std::printf("{\"f32_flops\": %.4g, ", measure(threads, seconds, [](unsigned) {
                return multiplyF32();
              }));
  std::printf(
      "\"bf16_flops\": %.4g, \"read_bytes\": {",
      measure(threads, seconds, [](unsigned) { return multiplyBF16(); }));
  for (int i = 3; i < argc; ++i) {
    size_t bytes = std::strtoull(argv[i], nullptr, 10);
    size_t part = bytes / threads / 4096 * 4096;
    void *data;
    if (part == 0 || posix_memalign(&data, 2 << 20, part * threads) != 0)
      return 1;
    madvise(data, part * threads, MADV_HUGEPAGE);
    std::memset(data, 0, part * threads);
    double rate = measure(threads, seconds, [&](unsigned t) {
      return read(static_cast<char *>(data) + t * part, part);
    });
    std::printf("%s\"%zu\": %.4g", i > 3 ? ", " : "", bytes, rate);
    std::free(data);
  }
  std::printf("}}\n");
  return 0;
}
