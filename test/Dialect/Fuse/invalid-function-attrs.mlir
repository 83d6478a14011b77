// RUN: fuse-opt %s -split-input-file -verify-diagnostics

// Attributes of functions, arguments and results: unknown names, and values of
// another type.

// expected-error @below {{'func.func' op argument 0 'fuse.parameter' must be the name of a parameter or its symbol in a model, got 7 : i32}}
func.func private @number(f32 {fuse.parameter = 7 : i32})

// -----

// expected-error @below {{argument 0 'fuse.parameter' must be the name of a parameter or its symbol in a model, got ""}}
func.func private @empty(f32 {fuse.parameter = ""})

// -----

// expected-error @below {{argument 1 has no attribute 'fuse.bogus'; an argument has fuse.parameter, fuse.shard, fuse.name, fuse.default, fuse.result}}
func.func private @argument(f32 {fuse.name = "x"}, f32 {fuse.bogus})

// -----

// expected-error @below {{argument 0 'fuse.name' must be the name of an argument, got 1 : i64}}
func.func private @name(f32 {fuse.name = 1})

// -----

// expected-error @below {{argument 0 'fuse.result' must be a unit attribute, got true}}
func.func private @written(memref<f32> {fuse.result = true})

// -----

// expected-error @below {{result 1 has no attribute 'fuse.parameter'; a result has fuse.name, fuse.shard, fuse.observed}}
func.func private @result() -> (f32, f32 {fuse.parameter = "w"})

// -----

// expected-error @below {{result 0 'fuse.name' must be the name of a result, got 1 : i64}}
func.func private @result_name() -> (f32 {fuse.name = 1})

// -----

// expected-error @below {{result 0 'fuse.observed' must be an array of names, got ["up", 1]}}
func.func private @observed() -> (f32 {fuse.observed = ["up", 1]})

// -----

// expected-error @below {{'func.func' op has no attribute 'fuse.bogus'; a function has fuse.must_fuse, fuse.expect_sites, fuse.group, fuse.constant_scales, fuse.ranks, fuse.library, fuse.launch_plan, fuse.cpu_plan, fuse.checks, fuse.equal_sizes}}
func.func private @function() attributes {fuse.bogus}

// -----

// expected-error @below {{'fuse.group' must be a unit attribute, got 1 : i64}}
func.func private @group() attributes {fuse.group = 1}

// -----

// expected-error @below {{'fuse.library' must be the path of a shared library, got 1 : i64}}
func.func private @library() attributes {fuse.library = 1}

// -----

// expected-error @below {{'fuse.launch_plan' must be a dictionary, got []}}
func.func private @launch_plan() attributes {fuse.launch_plan = []}

// -----

// expected-error @below {{'fuse.equal_sizes' must be an array of pairs of arguments and dimensions, got [array<i64: 0>]}}
func.func private @equal_sizes() attributes {fuse.equal_sizes = [array<i64: 0>]}

// -----

// expected-error @below {{'fuse.cpu_plan' must be a dictionary, got []}}
func.func private @cpu_plan() attributes {fuse.cpu_plan = []}

// -----

// expected-error @below {{'fuse.checks' must be an array of dictionaries, got [1]}}
func.func private @checks() attributes {fuse.checks = [1]}

// -----

// expected-error @below {{'fuse.refusals' must be a dictionary of refusals, got []}}
nn.model @m class "M" attributes {fuse.refusals = []} {
}
