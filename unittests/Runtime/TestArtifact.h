//===- TestArtifact.h - A handwritten artifact ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_UNITTESTS_RUNTIME_TESTARTIFACT_H
#define FUSE_UNITTESTS_RUNTIME_TESTARTIFACT_H

#include "fuse-c/Runtime.h"
#include "fuse/Runtime/Core/Container.h"
#include "nlohmann/json.hpp"

namespace fuse::test {

/// A function on [?, 64] tokens with one packed and one plain weight, which
/// launches one kernel of each kind.
inline constexpr const char *kManifest = R"json({
  "producer": "a test",
  "functions": [{
    "name": "f",
    "sites": [{"site": "f#0"}, {"op": "fuse.mlp"}],
    "arguments": [
      {"type": "bf16", "shape": [-1, 64]},
      {"type": "bf16", "shape": [256, 64], "parameter": "up"},
      {"type": "bf16", "shape": [64], "parameter": "norm"}],
    "results": [{"type": "bf16", "shape": [-1, 64], "sizes": ["s0", 64]}],
    "symbols": [{"places": [[0, 0]]}],
    "cuda": {
      "chip": "sm_90a",
      "modules": [{"ptx": 1, "cubin": 2, "ptx_version": 80}],
      "symbols": [[0, 0]], "max_tokens": 64, "tokens": ["s0"],
      "workspace": [8192, ["mul", "s0", 128]], "zeroed_bytes": 1024,
      "packed": [{"recipe": "rows_256", "operands": [1], "tiles": 1,
                  "steps": 1, "bytes": 32768}],
      "launches": [
        {"kernel": "first", "grid": [4, 1, 1], "block": [384, 1, 1],
         "shared_bytes": 1000, "cooperative": true, "dependent": true,
         "args": [
           {"packed": 0}, {"workspace": 0, "offset": 512},
           {"map": {"rows": 64, "columns": 64, "box_rows": 64,
                    "box_columns": 64, "swizzle": 128, "element": "bf16"},
            "workspace": 0, "offset": 1024},
           {"size": "s0", "bytes": 4}, {"value": 0.5, "type": "f32"}]},
        {"kernel": "second", "grid": [["ceildiv", "s0", 2], 2, 1],
         "block": [128, 2, 1], "cluster": [2, 1, 1],
         "args": [{"tensor": 0}, {"tensor": 2}, {"tensor": 3},
                  {"workspace": 1}, {"size": ["mul", "s0", 64]}]}]}}]
})json";

/// The bytes of an artifact with this manifest.
inline std::string makeArtifact(const std::string &manifest) {
  return runtime::writeContainer({{FUSE_SECTION_MANIFEST, manifest},
                                  {FUSE_SECTION_PTX, ".version 8.0\n"},
                                  {FUSE_SECTION_CUBIN, "\x7f"
                                                       "ELF..."}});
}

} // namespace fuse::test

#endif // FUSE_UNITTESTS_RUNTIME_TESTARTIFACT_H
