//===- SlotConfig.h - Which kernels a user wants ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/how-to/bind-slots.md describes the file format.
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_SLOTS_SLOTCONFIG_H
#define FUSE_SLOTS_SLOTCONFIG_H

#include "fuse/IR/FuseAttrs.h"
#include "llvm/Support/Error.h"

#include <map>
#include <string>
#include <vector>

namespace fuse {

/// Kernels by op (`rms_norm`) or by op and variant (`rms_norm/unweighted`).
using SlotBindingMap = std::map<std::string, std::string>;

/// Bindings for the calls at some paths.
struct SlotOverride {
  std::string path;
  SlotBindingMap bind;
};

/// What is asked for the calls of one model, or of all.
struct SlotRequest {
  SlotBindingMap bind;
  /// Later ones win.
  std::vector<SlotOverride> overrides;
};

/// Where and for what the kernels have to run.
struct SlotTarget {
  DeviceType device = DeviceType::CPU;
  /// Compute capability of a GPU, as in `sm_90`.
  unsigned capability = 0;
  KernelMode mode = KernelMode::Inference;

  /// `device_type=gpu, compute_capability=90`.
  std::string toText() const;
};

struct SlotConfig {
  /// `cpu`, or a chip such as `sm_90`; `cpu` when empty.
  std::string target;
  /// `inference`, `training`, or one of them with `|compile`; `inference` when
  /// empty.
  std::string mode;
  /// Files of kernels to register before anything is bound.
  std::vector<std::string> kernels;
  /// Name of one of `presets`, or `fuse` for all generated kernels.
  std::string preset;
  std::map<std::string, SlotBindingMap> presets;
  SlotRequest request;
  /// By name of the model; these win over `request`.
  std::map<std::string, SlotRequest> models;
  /// What the calls get that nothing else names; unbound when empty.
  std::string otherwise;
  /// Whether bound calls may be bound to another kernel.
  bool rebind = false;
  /// Whether a kernel may replace a registered one of the same key.
  bool force = false;
  /// Bind the calls of these models only; all when empty.
  std::vector<std::string> only;
  /// Only decide and report: no kernel is built and no call changes.
  bool check = false;

  /// Reads YAML, of which JSON is a part. `name` is for messages; relative
  /// paths of kernels start at `directory`.
  static llvm::Expected<SlotConfig> parse(llvm::StringRef text,
                                          llvm::StringRef name,
                                          llvm::StringRef directory = "");
  static llvm::Expected<SlotConfig> parseFile(llvm::StringRef path);

  /// Adds `op=kernel`, or `path:op=kernel` with a path glob; with `model@` in
  /// front for one model.
  llvm::Error addBinding(llvm::StringRef text);

  /// What `target` and `mode` say.
  llvm::Expected<SlotTarget> getTarget() const;
};

} // namespace fuse

#endif // FUSE_SLOTS_SLOTCONFIG_H
