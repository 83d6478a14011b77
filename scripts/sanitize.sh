#!/usr/bin/env bash
#===- sanitize.sh - Run the tests under sanitizers -------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/sanitize.sh
#            [address | thread | compiler | threads | lit | python |
#             calls-address | calls-thread]...
#
# Installs the sanitizers' runtime, builds the tests of the runtime, which link
# no LLVM, and runs them:
#   address   with AddressSanitizer and UndefinedBehaviorSanitizer
#   thread    with ThreadSanitizer
#   compiler  as address, for the tests of multithreaded compilation, which need
#             the whole compiler: two cores build it in ten minutes
#   threads   as thread, for the same tests; LLVM, MLIR and single-threaded
#             parts of the compiler are not instrumented and not checked
#   lit       as compiler, for the lit suite: all tools and C programs
#   python    as compiler, for the Python tests, which load it as a library; the
#             interpreter and PyTorch are not instrumented
#   calls-address  as address, for the Python tests that call fused modules,
#             compiled modules and slots in 16 threads while weights change;
#             the compiler, that of build/dev, is not instrumented either
#   calls-thread  as thread, for the same tests
# Without arguments it runs the first two. The last line is the sum over all;
# the exit status is nonzero if a test failed.
#
#===------------------------------------------------------------------------===#

set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
source scripts/counting.sh

# run_gtest BINARY: adds its tests to the sum. A sanitizer report ends the
# program, which then leaves no counts.
run_gtest() {
  local report name=${1##*/}
  report=$(mktemp)
  "$1" --gtest_brief=1 --gtest_output="json:$report"
  count_report "$name" $? "$report"
  rm -f "$report"
}

# run_lit: allocations that are too large return null, as those of other
# allocators do.
run_lit() {
  local report
  report=$(mktemp)
  ASAN_OPTIONS=$ASAN_OPTIONS:allocator_may_return_null=1 \
    /usr/lib/llvm-22/bin/lit -sv --output "$report" build/asan/test
  count_report lit $? "$report"
  rm -f "$report"
}

# run_python: the sanitizer has to be loaded before the library that needs it,
# so it is preloaded into the interpreter. The tools are linked with it.
run_python() {
  local bin=build/asan/python tool preload report
  mkdir -p $bin
  for tool in build/asan/bin/fuse-*; do
    printf '#!/bin/sh\nunset LD_PRELOAD\nexec "%s" "$@"\n' "$root/$tool" \
      >"$bin/${tool##*/}"
    chmod +x "$bin/${tool##*/}"
  done
  preload=$(clang-22 -print-file-name="libclang_rt.asan-$(uname -m).so")
  # Without libstdc++, exceptions of libraries that are loaded later are
  # unknown.
  preload="$preload $(clang-22 -print-file-name=libstdc++.so.6)"
  report=$(mktemp)
  (cd python && LD_PRELOAD=$preload FUSE_BIN=$root/$bin \
    FUSE_LIBRARY=$root/build/asan/lib/libfuse.so \
    ../.venv/bin/python -m tests "$report")
  count_python "$report"
  LD_PRELOAD=$preload FUSE_BIN=$root/$bin \
    FUSE_LIBRARY=$root/build/asan/lib/libfuse.so \
    PYTHONPATH=$root/python:$root/benchmarks \
    .venv/bin/python -m tests "$report" benchmarks/tests
  count_python "$report" benchmarks
  rm -f "$report"
}

# run_calls PRESET: libfuse of build/dev with the runtime and the extension of a
# preset, whose name is also that of the sanitizer's library.
run_calls() {
  local folder=build/$1/calls preload report
  mkdir -p "$folder"
  require cp build/dev/lib/libfuse.so "build/$1/lib/fuse_call.abi3.so" "$folder"
  preload=$(clang-22 -print-file-name="libclang_rt.$1-$(uname -m).so")
  preload="$preload $(clang-22 -print-file-name=libstdc++.so.6)"
  preload="$preload $root/build/$1/lib/libfuse-rt.so.0"
  report=$(mktemp)
  (cd python && LD_PRELOAD=$preload FUSE_LIBRARY=$root/$folder/libfuse.so \
    ../.venv/bin/python -m tests "$report" tests "*.test_threads_see_*")
  count_python "$report" "calls, $1"
  rm -f "$report"
}

say "Setting up"
require scripts/setup.sh --sanitizers

asan_options=detect_stack_use_after_return=1:strict_string_checks=1
# LLVM and MLIR are not instrumented, and both sides contain the inline code of
# their headers. One side may thus poison an arena or a vector, or define a
# variable, without the knowledge of the other.
llvm_options=$asan_options:allow_user_poisoning=0:detect_container_overflow=0
llvm_options=$llvm_options:detect_odr_violation=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# A test creates threads in a process that was forked from one with threads.
tsan_options=halt_on_error=1:die_after_fork=0
[ $# -gt 0 ] || set -- address thread
for what in "$@"; do
  export TSAN_OPTIONS=$tsan_options
  case $what in
  address) preset=asan tests=FuseRuntimeTests options=$asan_options ;;
  thread) preset=tsan tests=FuseRuntimeTests options= ;;
  compiler) preset=asan tests=FuseArtifactTests options=$llvm_options ;;
  threads)
    preset=tsan-compiler tests=FuseArtifactTests options=
    # Locks of LLVM are not instrumented, so the data that they guard would be
    # reported as races.
    TSAN_OPTIONS=$tsan_options:ignore_noninstrumented_modules=1
    ;;
  lit) preset=asan tests=all options=$llvm_options ;;
  python)
    preset=asan tests="fuse-c fuse-rt fuse-opt fuse-run fuse-explain"
    # Python and PyTorch do not free their memory at the end.
    options=$llvm_options:detect_leaks=0
    ;;
  calls-address)
    preset=asan tests="fuse-rt fuse-call"
    options=$llvm_options:detect_leaks=0
    ;;
  calls-thread)
    preset=tsan tests="fuse-rt fuse-call" options=
    TSAN_OPTIONS=$tsan_options:ignore_noninstrumented_modules=1
    ;;
  *)
    printf "error: unknown argument '%s', expected %s or calls-thread\n" \
      "$what" "address, thread, compiler, threads, lit, python, calls-address" >&2
    exit 2
    ;;
  esac
  say "Building with preset $preset"
  require cmake --preset "$preset"
  # shellcheck disable=SC2086
  require cmake --build "build/$preset" --target $tests
  say "$tests"
  export ASAN_OPTIONS=$options
  case $what in
  lit) run_lit ;;
  python) run_python ;;
  calls-*) run_calls $preset ;;
  *) run_gtest "build/$preset/bin/$tests" ;;
  esac
done
say "Result"
finish
