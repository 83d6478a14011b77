//===- FloatEnvironment.h - How a thread rounds -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SUPPORT_FLOATENVIRONMENT_H
#define FUSE_SUPPORT_FLOATENVIRONMENT_H

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace fuse {

/// While one exists, the thread rounds to nearest, keeps subnormal numbers, and
/// no operation traps, as at the start of a program. Hosts may have set it
/// otherwise, and threads that they start inherit that; kernels and what the
/// compiler computes count on the defaults. What the host had comes back, with
/// no flag raised in between.
class FloatEnvironment {
public:
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;

#if defined(__x86_64__)
  // Without the registers of the x87, which take ten times as long.
  FloatEnvironment() : saved(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatEnvironment() { _mm_setcsr(saved); }

private:
  unsigned saved;
#else
  FloatEnvironment() {
    std::fegetenv(&saved);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved); }

private:
  std::fenv_t saved;
#endif
};

} // namespace fuse

#endif // FUSE_SUPPORT_FLOATENVIRONMENT_H
