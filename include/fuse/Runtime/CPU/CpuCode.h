//===- CpuCode.h - Machine code for this process ----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_RUNTIME_CPU_CPUCODE_H
#define FUSE_RUNTIME_CPU_CPUCODE_H

#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Manifest.h"

#include <memory>

namespace fuse::runtime {

/// What this machine is, with level "native".
CpuTarget getThisCpu();

/// Whether this process may use the tiles of AMX, which Linux grants on
/// request. `FUSE_AMX=0` in the environment is a no.
bool hasTiles();

/// Levels that code for the architecture of this machine can be restricted to,
/// or only those it has, weakest first.
std::vector<std::string> getCpuLevels(bool ofThisMachine);

/// Throws `Failure` unless this machine has every instruction of `target`.
void checkCpu(const CpuTarget &target);

/// Code in this process. It leaves with the object.
class LoadedCode {
public:
  virtual ~LoadedCode();

  /// The address of a function. Throws `Failure` when there is none.
  void *lookup(const std::string &symbol) const;

  /// Loads a section, which is a shared or a relocatable object.
  static std::shared_ptr<LoadedCode> load(const Section &section);

protected:
  virtual void *find(const char *symbol) const = 0;
};

void setObjectLinker(const fuse_object_linker *linker);

} // namespace fuse::runtime

#endif // FUSE_RUNTIME_CPU_CPUCODE_H
