// RUN: fuse-opt %s --fuse-emit-ptx=plan=- --split-input-file \
// RUN:   --verify-diagnostics -o /dev/null

// Plans that no pass writes.

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a packed weight without a number.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{packed = "x"}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a size with two results.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{bytes = 4 : i64, size = affine_map<() -> (1, 2)>}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a size without bytes.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{size = affine_map<() -> (1)>}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a place in no buffer.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{offset = 0 : i64}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a place without an offset.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{buffer = "ws0"}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a map without an element.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{buffer = "ws0", offset = 0 : i64, map = {rows = 8 : i64, columns = 8 : i64, box_rows = 8 : i64, box_columns = 8 : i64, swizzle = 128 : i64}}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a map without rows.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [{args = [{buffer = "ws0", offset = 0 : i64, map = {columns = 8 : i64, element = bf16}}], block = array<i64: 32, 1, 1>,
    grid = affine_map<() -> (1, 1, 1)>, kernel = @code::@k}], symbols = [], workspace = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has no weight that is a dictionary.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [], workspace = [], symbols = [], max_tokens = 8 : i64,
  zeroed = 0 : i64, tokens = [], packed = [1]}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a weight without operands.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [], workspace = [], symbols = [], max_tokens = 8 : i64,
  zeroed = 0 : i64, tokens = [],
  packed = [{recipe = "r", tiles = 1 : i64, steps = 1 : i64, bytes = 1 : i64}]}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has no limit.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [], workspace = [], symbols = [], zeroed = 0 : i64,
  tokens = [], packed = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has no number of tokens.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  launches = [], workspace = [], symbols = [], max_tokens = 8 : i64,
  zeroed = 0 : i64, tokens = [1], packed = []}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a range without launches.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  symbols = [], ranges = [{workspace = [], upto = 8 : i64}]}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a range without an end.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  symbols = [], ranges = [{workspace = [], launches = [], upto = "x"}]}}

// -----

gpu.binary @code [#gpu.object<#nvvm.target, assembly = "ptx">]
// It has a range that is a number.
// expected-error@+1 {{has a malformed fuse.launch_plan}}
func.func private @f(tensor<8xf32>) attributes {fuse.launch_plan = {
  symbols = [], ranges = [8]}}
