//===- FloatEnvironment.h - Floating-point state of a thread ----*- C++ -*-===//
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

/// While an object exists, the thread has the default floating-point state: it
/// rounds to nearest, keeps subnormal numbers, and does not trap. A host
/// process may have changed the state, and its new threads inherit it. Kernels
/// and constant folding depend on the defaults. The destructor restores the
/// previous state, without new exception flags.
class FloatEnvironment {
public:
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;

#if defined(__x86_64__)
  // Leaves the x87 state alone, since saving it takes ten times as long.
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
