//===- Compiler.hpp - The C interface to the compiler for C++ ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Owners of the handles of fuse-c/Compiler.h, like those of the runtime in
// fuse-c/Fuse.hpp:
//
//   Context context;
//   Module module(context, text);
//   module.run("builtin.module(fuse-kernel-formation-pipeline)");
//   CompileOptions options;
//   options.chip = "sm_90a";
//   Program program(module.compile(options), Device::cuda(0));
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_C_COMPILER_HPP
#define FUSE_C_COMPILER_HPP

#include "fuse-c/Compiler.h"
#include "fuse-c/Fuse.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace fuse::cxx {

/// Options with their defaults. The caller owns the strings.
struct CompileOptions : fuse_compile_options {
  CompileOptions() { fuse_compile_options_init(this); }
};

/// The state of the compiler in a process. One thread at a time may use a
/// context.
class Context : public Handle<fuse_context, fuse_context_destroy> {
public:
  using RemarkHandler = std::function<void(const fuse_remark &)>;
  using DiagnosticHandler = std::function<void(
      fuse_severity severity, const char *location, const char *message)>;

  Context() : Handle(create(fuse_context_create)) {}

  /// Calls `handler` for every site that is fused or refused. An empty handler
  /// removes the current one. The handler must not throw. Modules call it while
  /// the context exists.
  void onRemark(RemarkHandler handler) {
    auto owned = std::make_unique<RemarkHandler>(std::move(handler));
    check(fuse_context_set_remark_handler(
        get(), *owned ? callRemark : nullptr, owned.get()));
    remark = std::move(owned);
  }
  /// Does the same for every diagnostic.
  void onDiagnostic(DiagnosticHandler handler) {
    auto owned = std::make_unique<DiagnosticHandler>(std::move(handler));
    check(fuse_context_set_diagnostic_handler(
        get(), *owned ? callDiagnostic : nullptr, owned.get()));
    diagnostic = std::move(owned);
  }
  /// Traces passes and phases to a file for Perfetto. An empty path ends the
  /// trace.
  void trace(const std::string &path) {
    check(fuse_context_set_trace(get(), path.empty() ? nullptr : path.c_str()));
  }

  Context(Context &&other) = default;
  Context &operator=(Context &&other) {
    Context taken(std::move(other));
    std::swap(static_cast<Handle &>(*this), static_cast<Handle &>(taken));
    remark.swap(taken.remark);
    diagnostic.swap(taken.diagnostic);
    return *this;
  }
  /// Removes the handlers, since modules may outlive the context.
  ~Context() {
    if (!get())
      return;
    (void)fuse_context_set_remark_handler(get(), nullptr, nullptr);
    (void)fuse_context_set_diagnostic_handler(get(), nullptr, nullptr);
  }

private:
  static void callRemark(const fuse_remark *remark, void *handler) {
    (*static_cast<RemarkHandler *>(handler))(*remark);
  }
  static void callDiagnostic(fuse_severity severity, const char *location,
                             const char *message, void *handler) {
    (*static_cast<DiagnosticHandler *>(handler))(severity, location, message);
  }

  std::unique_ptr<RemarkHandler> remark;
  std::unique_ptr<DiagnosticHandler> diagnostic;
};

/// A directory of artifacts.
class Cache : public Handle<fuse_cache, fuse_cache_destroy> {
public:
  /// An empty path stands for the default.
  explicit Cache(const std::string &directory = "")
      : Handle(create([&](fuse_cache **made) {
          return fuse_cache_open(
              directory.empty() ? nullptr : directory.c_str(), made);
        })) {}
};

class Module : public Handle<fuse_module, fuse_module_destroy> {
public:
  using Handle::Handle;
  Module(const Context &context, std::string_view text)
      : Handle(create([&](fuse_module **made) {
          return fuse_module_parse(context.get(), text.data(), text.size(),
                                   made);
        })) {}

  Module clone() const {
    return Module(create(
        [&](fuse_module **made) { return fuse_module_clone(get(), made); }));
  }
  void run(const std::string &pipeline) {
    check(fuse_module_run(get(), pipeline.c_str()));
  }
  std::string print() const {
    char *text = nullptr;
    size_t length = 0;
    check(fuse_module_print(get(), &text, &length));
    std::unique_ptr<char, void (*)(char *)> owned(text, fuse_string_free);
    return std::string(text, length);
  }
  Artifact compile(const CompileOptions &options = {}) const {
    return Artifact(Artifact::create([&](fuse_artifact **made) {
      return fuse_module_compile(get(), &options, made);
    }));
  }
  /// Looks for the artifact in the cache first. `result` may be null.
  Artifact compile(const CompileOptions &options, const Cache &cache,
                   fuse_cache_result *result = nullptr) const {
    return Artifact(Artifact::create([&](fuse_artifact **made) {
      return fuse_module_compile_cached(get(), &options, cache.get(), made,
                                        result);
    }));
  }
};

} // namespace fuse::cxx

#endif // FUSE_C_COMPILER_HPP
