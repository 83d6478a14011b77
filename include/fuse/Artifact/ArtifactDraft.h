//===- ArtifactDraft.h - An artifact before it is a file --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_ARTIFACT_ARTIFACTDRAFT_H
#define FUSE_ARTIFACT_ARTIFACTDRAFT_H

#include "fuse/Artifact/DeviceCode.h"
#include "mlir/IR/DialectRegistry.h"

#include <deque>
#include <mutex>

namespace fuse {

/// Everything that an artifact is written from.
struct ArtifactDraft {
  /// Without functions.
  llvm::json::Object manifest;
  /// Of functions, without code for GPUs.
  std::vector<llvm::json::Object> descriptions;
  /// Sections after the manifest, with their kinds.
  std::vector<std::pair<uint32_t, std::string>> sections;
  DeviceProgram device;

  /// The index that the section will have.
  int64_t addSection(uint32_t kind, std::string data) {
    sections.push_back({kind, std::move(data)});
    return sections.size();
  }
  /// Makes it independent of the context of the module.
  void detach();
};

/// Compiles a module as far as `compileToArtifact` does, but for scheduled
/// kernels.
llvm::Expected<ArtifactDraft> draftArtifact(mlir::ModuleOp module,
                                            const CompileOptions &options);

/// The bytes of the artifact. Kernels without PTX are named in the manifest by
/// their number in `device.modules`, as `deferred`.
llvm::Expected<std::string> writeArtifact(ArtifactDraft draft);

/// An artifact in memory whose scheduled kernels are compiled when they are
/// needed. Its functions may be called by several threads at once.
class DeferredArtifact {
public:
  DeferredArtifact(ArtifactDraft draft, mlir::DialectRegistry dialects,
                   CompileOptions options);

  /// PTX of a module of `device`. It is compiled once.
  llvm::Expected<llvm::StringRef> getModule(size_t number);
  /// The whole artifact, as `compileToArtifact` gives it.
  llvm::Expected<llvm::StringRef> getFile();

private:
  ArtifactDraft draft;
  mlir::DialectRegistry dialects;
  CompileOptions options;
  /// Held while the module is compiled, and for reading its PTX.
  std::deque<std::mutex> mutexes;
  std::mutex fileMutex;
  std::string file;
};

} // namespace fuse

#endif // FUSE_ARTIFACT_ARTIFACTDRAFT_H
