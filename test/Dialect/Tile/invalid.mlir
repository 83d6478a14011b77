// RUN: fuse-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{'tile.kernel' op must lie in a gpu.module}}
tile.kernel @k() blocks(1) threads(32) shared_bytes(0) {
  tile.return
}

// -----

gpu.module @m {
  // expected-error@+1 {{has 48 threads: expected a multiple of 32 up to 1024}}
  tile.kernel @k() blocks(1) threads(48) shared_bytes(0) {
    tile.return
  }
}

// -----

gpu.module @m {
  // expected-error@+1 {{has 0 blocks: expected 1 to 65535}}
  tile.kernel @k() blocks(0) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

gpu.module @m {
  // expected-error@+1 {{has 300000 bytes of shared memory: expected at most 232448}}
  tile.kernel @k() blocks(1) threads(32) shared_bytes(300000) {
    tile.return
  }
}

// -----

gpu.module @m {
  // expected-error@+1 {{has an argument of type 'f64': expected a global buffer, a tensor map, i32 or f32}}
  tile.kernel @k(%x: f64) blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

gpu.module @m {
  // expected-error@+1 {{has an argument of type '!tile.buffer<f32, shared>': expected a global buffer}}
  tile.kernel @k(%x: !tile.buffer<f32, shared>)
      blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

gpu.module @m {
  // expected-error@+1 {{has results: a kernel writes to buffers}}
  tile.kernel @k() -> i32 blocks(1) threads(32) shared_bytes(0) {
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(1024) {
    // expected-error@+1 {{'tile.ring.create' op ends at byte 2048 of shared memory, the kernel has 1024}}
    %r = tile.ring.create at(0) consumers(2) : !tile.ring<2 x 1024>
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(1024) {
    // expected-error@+1 {{'tile.ring.create' op ends at byte 9223372036854776832 of shared memory, the kernel has 1024}}
    %r = tile.ring.create at(9223372036854774784) consumers(2) : !tile.ring<2 x 1024>
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(4096) {
    // expected-error@+1 {{lies at byte 100: expected a multiple of 1024}}
    %r = tile.ring.create at(100) consumers(2) : !tile.ring<2 x 1024>
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(4096) {
    // expected-error@+1 {{has 0 consumers: expected 1 to 1024}}
    %r = tile.ring.create at(0) consumers(0) : !tile.ring<2 x 1024>
    tile.return
  }
}

// -----

// expected-error@+1 {{a ring of 0 stages: expected 1 to 64}}
func.func private @f(!tile.ring<0 x 1024>)

// -----

// expected-error@+1 {{a stage of 1000 bytes: expected a multiple of 1024 up to 232448}}
func.func private @f(!tile.ring<2 x 1000>)

// -----

// expected-error@+1 {{element type 'f32': expected f8E4M3FN or bf16}}
func.func private @f(!tile.shared<64x32xf32, swizzle 128>)

// -----

// expected-error@+1 {{swizzle 64: expected 128}}
func.func private @f(!tile.shared<64x64xbf16, swizzle 64>)

// -----

// expected-error@+1 {{rows of 32 x 'bf16': expected 128 bytes}}
func.func private @f(!tile.shared<64x32xbf16, swizzle 128>)

// -----

// Times 16 bits, this many columns are 128 bytes modulo 2^64.
// expected-error@+1 {{rows of 1152921504606847040 x 'bf16': expected 128 bytes}}
func.func private @f(!tile.shared<64x1152921504606847040xbf16, swizzle 128>)

// -----

// expected-error@+1 {{12 rows: expected a multiple of 8 from 8 to 256}}
func.func private @f(!tile.shared<12x64xbf16, swizzle 128>)

// -----

// expected-error@+1 {{expected two dimensions, got 3}}
func.func private @f(!tile.acc<64x8x8xf32>)

// -----

// expected-error@+1 {{32 rows: expected 64}}
func.func private @f(!tile.acc<32x8xf32>)

// -----

// expected-error@+1 {{12 columns: expected a multiple of 8 from 8 to 256}}
func.func private @f(!tile.acc<64x12xf32>)

// -----

// expected-error@+1 {{element type 'bf16': expected f32}}
func.func private @f(!tile.acc<64x8xbf16>)

// -----

func.func @f() {
  // expected-error@+1 {{has no role}}
  tile.specialize {
  }
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{role "a" has 33 warps: expected 1 to 32}}
  tile.specialize {
    role "a" warps(33) {
    }
  }
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{role "b" with registers has warps 1 to 5: expected whole warpgroups of 4}}
  tile.specialize {
    role "a" warps(1) {
    }
    role "b" warps(4) registers(40) {
    }
  }
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{role "a" has 20 registers: expected a multiple of 8 from 24 to 256}}
  tile.specialize {
    role "a" warps(4) registers(20) {
    }
  }
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{needs 98304 registers: a block has 65536}}
  tile.specialize {
    role "a" warps(12) registers(256) {
    }
  }
  return
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(256) shared_bytes(0) {
    // expected-error@+1 {{has roles for 128 threads, the kernel has 256}}
    tile.specialize {
      role "a" warps(4) {
      }
    }
    tile.return
  }
}

// -----

func.func @f() {
  // expected-error@+1 {{has id 16: expected 0 to 15}}
  tile.barrier 16
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{is for 100 threads: expected a multiple of 32 up to 1024}}
  tile.barrier 1 threads(100)
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{has id 16: expected 0 to 15}}
  tile.barrier.arrive 16 threads(64)
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{is for 100 threads: expected a multiple of 32 up to 1024}}
  tile.barrier.arrive 2 threads(100)
  return
}

// -----

func.func @f(%w: !tile.buffer<i32>) {
  // expected-error@+1 {{has 0 blocks: expected 1 to 65535}}
  %e = tile.epoch %w blocks(0) : !tile.buffer<i32>
  return
}

// -----

func.func @f(%w: !tile.buffer<f32>, %i: i32) {
  // expected-error@+1 {{has semaphores in '!tile.buffer<f32>': expected !tile.buffer<i32>}}
  %e = tile.semaphore %w[%i] : !tile.buffer<f32>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8, shared>, %o: i64, %s: !tile.stage<1024>) {
  // expected-error@+1 {{copies from '!tile.buffer<i8, shared>': expected a global buffer}}
  tile.copy %w[%o] to %s normal : !tile.buffer<i8, shared>, !tile.stage<1024>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8>, %o: i64, %s: !tile.stage<1024>) {
  // expected-error@+1 {{copies 512 bytes to byte 528 of a stage of 1024: expected multiples of 16 inside of it}}
  tile.copy %w[%o] to %s at(528) bytes(512) normal : !tile.buffer<i8>, !tile.stage<1024>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8>, %o: i64, %n: i32, %s: !tile.stage<1024>) {
  // expected-error@+1 {{copies a piece of 1 values: expected its first byte and its length, and neither as an attribute}}
  tile.copy %w[%o] to %s piece(%n) normal : !tile.buffer<i8>, !tile.stage<1024>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8>, %o: i64, %n: i32, %s: !tile.stage<1024>) {
  // expected-error@+1 {{copies a piece of 2 values: expected its first byte and its length, and neither as an attribute}}
  tile.copy %w[%o] to %s at(0) bytes(512) piece(%n, %n) normal : !tile.buffer<i8>, !tile.stage<1024>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8>, %o: i64) {
  // expected-error@+1 {{fetches a number of bytes: expected it as an attribute or as a value}}
  tile.prefetch %w[%o] : !tile.buffer<i8>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8>, %o: i64) {
  // expected-error@+1 {{fetches 24 bytes: expected a multiple of 16}}
  tile.prefetch %w[%o] bytes(24) : !tile.buffer<i8>
  return
}

// -----

func.func @f(%w: !tile.buffer<i8, shared>, %o: i64) {
  // expected-error@+1 {{fetches from '!tile.buffer<i8, shared>': expected a global buffer}}
  tile.prefetch %w[%o] bytes(16) : !tile.buffer<i8, shared>
  return
}

// -----

func.func @f(%s: !tile.stage<1024>) {
  // expected-error@+1 {{makes a '!tile.buffer<i8>': expected a shared buffer}}
  %b = tile.stage_buffer %s : !tile.stage<1024> -> !tile.buffer<i8>
  return
}

// -----

func.func @f(%o: i32, %s: !tile.stage<1024>) {
  // expected-error@+1 {{sees 8192 bytes of a stage of 1024}}
  %v = tile.view %s[%o] : !tile.stage<1024>
    -> !tile.shared<64x64xbf16, swizzle 128>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{makes a '!tile.buffer<f32>': expected a shared buffer}}
  %s = tile.scratch 8 : !tile.buffer<f32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{has elements of type 'i1': expected whole bytes}}
  %s = tile.scratch 8 : !tile.buffer<i1, shared>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{has 16384 elements: expected 1 to 8192}}
  %s = tile.scratch 16384 : !tile.buffer<f32, shared>
  return
}

// -----

func.func @f(%x: !tile.buffer<bf16>, %i: i32) {
  // expected-error@+1 {{moves 'vector<2xf16>' for a '!tile.buffer<bf16>': expected its element type or a vector of it}}
  %v = tile.load %x[%i] : !tile.buffer<bf16> -> vector<2xf16>
  return
}

// -----

func.func @f(%x: !tile.buffer<bf16>, %i: i32, %v: vector<16xbf16>) {
  // expected-error@+1 {{moves 256 bits: expected 8, 16, 32, 64 or 128}}
  tile.store %v, %x[%i] : vector<16xbf16>, !tile.buffer<bf16>
  return
}

// -----

func.func @f(%a: !tile.shared<64x64xbf16, swizzle 128>,
             %b: !tile.shared<8x128xf8E4M3FN, swizzle 128>,
             %c: !tile.acc<64x8xf32>) {
  // expected-error@+1 {{multiplies 'bf16' by 'f8E4M3FN'}}
  %d = tile.mma %a, %b into %c : !tile.shared<64x64xbf16, swizzle 128>,
    !tile.shared<8x128xf8E4M3FN, swizzle 128>, !tile.acc<64x8xf32>
  return
}

// -----

func.func @f(%a: !tile.shared<64x64xbf16, swizzle 128>,
             %b: !tile.shared<16x64xbf16, swizzle 128>,
             %c: !tile.acc<64x8xf32>) {
  // expected-error@+1 {{multiplies 64 rows by 16 rows into '!tile.acc<64x8xf32>'}}
  %d = tile.mma %a, %b into %c : !tile.shared<64x64xbf16, swizzle 128>,
    !tile.shared<16x64xbf16, swizzle 128>, !tile.acc<64x8xf32>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{leaves 9 groups pending: expected 0 to 7}}
  tile.mma.wait 9
  return
}

// -----

func.func @f(%v: f32, %s: !tile.buffer<f32, shared>) {
  // expected-error@+1 {{is over warps 4 to 4: expected a range inside 0 to 32}}
  %r = tile.reduce %v scratch(%s) warps(4 to 4) barrier(1)
    : f32, !tile.buffer<f32, shared>
  return
}

// -----

func.func @f(%v: f32, %s: !tile.buffer<f32>) {
  // expected-error@+1 {{has scratch of type '!tile.buffer<f32>': expected !tile.buffer<f32, shared>}}
  %r = tile.reduce %v scratch(%s) warps(0 to 4) barrier(1)
    : f32, !tile.buffer<f32>
  return
}

// -----

func.func @f(%v: f32) {
  %s = tile.scratch 2 : !tile.buffer<f32, shared>
  // expected-error@+1 {{has scratch of 2 elements for 4 warps}}
  %r = tile.reduce %v scratch(%s) warps(0 to 4) barrier(1)
    : f32, !tile.buffer<f32, shared>
  return
}

// -----

func.func @f(%v: f32) {
  // expected-error@+1 {{has lanes 32: expected 1 to 31}}
  %m = tile.lane_max %v lanes(32)
  return
}

// -----

func.func @f(%v: f32, %s: !tile.buffer<f32, shared>) {
  // expected-error@+1 {{has barrier 17: expected 0 to 15}}
  %r = tile.reduce %v scratch(%s) warps(0 to 4) barrier(17)
    : f32, !tile.buffer<f32, shared>
  return
}

// -----

func.func @f(%v: f32) {
  // expected-error@+1 {{makes a 'vector<2xi8>': expected elements of f32, bf16, f16, f8E4M3FN or f8E5M2}}
  %r = tile.pack %v, %v : vector<2xi8>
  return
}

// -----

func.func @f(%v: f32) {
  // expected-error@+1 {{makes a 'vector<4xbf16>' of 2 values}}
  %r = tile.pack %v, %v : vector<4xbf16>
  return
}

// -----

func.func @f(%v: f32) {
  // expected-error@+1 {{has 3 values: expected one or an even number}}
  %r = tile.pack %v, %v, %v : vector<3xbf16>
  return
}

// -----

func.func @f(%v: vector<2xf64>) {
  // expected-error@+1 {{has a 'vector<2xf64>': expected one or an even number of bf16, f16 or f32}}
  %r:2 = tile.unpack %v : vector<2xf64>
  return
}

// -----

func.func @f(%v: vector<281474976710656xbf16>) {
  // expected-error@+1 {{has a 'vector<281474976710656xbf16>': expected at most 256 elements, which are registers of one thread}}
  %r:2 = tile.unpack %v : vector<281474976710656xbf16>
  return
}

// -----

func.func @f() {
  // expected-error@+1 {{unknown keyword 'cluster'}}
  %i = tile.id cluster
  return
}

// -----

gpu.module @m {
  // expected-error@+1 {{has clusters of 3 for 4 blocks: expected 1 to 8 that divide them}}
  tile.kernel @k() blocks(4) threads(32) shared_bytes(0) cluster(3) {
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k(%w: !tile.buffer<i8>, %i: i32)
      blocks(4) threads(128) shared_bytes(4096) {
    %o = arith.extui %i : i32 to i64
    %r = tile.ring.create at(0) consumers(2) : !tile.ring<2 x 2048>
    %s = tile.ring.acquire %r[%i] : !tile.ring<2 x 2048>
    // expected-error@+1 {{goes to the blocks of mask 256: expected 1 to 255}}
    tile.copy %w[%o] to %s multicast(256) normal
      : !tile.buffer<i8>, !tile.stage<2048>
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k(%w: !tile.buffer<i32>, %i: i32)
      blocks(4) threads(128) shared_bytes(0) {
    %m = tile.semaphore %w[%i] : !tile.buffer<i32>
    // expected-error@+1 {{has 0 arrivals: expected 1 or more}}
    tile.semaphore.meet %m arrivals(0)
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(4) threads(128) shared_bytes(0) {
    %a = tile.acc.zero : !tile.acc<64x8xf32>
    // expected-error@+1 {{has 2 results for 4 registers}}
    %v:2 = "tile.acc.values"(%a) : (!tile.acc<64x8xf32>) -> (f32, f32)
    tile.return
  }
}

// -----

func.func @f(%v: vector<4xbf16>, %e: i32) {
  // expected-error@+1 {{has a 'vector<4xbf16>': expected one static dimension of f32}}
  %r = tile.mark %v epoch(%e) : vector<4xbf16>
  return
}

// -----

func.func @f(%p: !tile.buffer<f32, shared>, %j: i32, %c: i1, %e: i32) {
  // expected-error@+1 {{waits for vectors of a '!tile.buffer<f32, shared>': expected a global buffer}}
  %v = tile.collect %p[%j] if(%c) epoch(%e)
    : !tile.buffer<f32, shared> -> vector<2xf32>
  return
}

// -----

func.func @f(%p: !tile.buffer<f32>, %j: i32, %c: i1, %e: i32) {
  // expected-error@+1 {{has 1 indices for 2 vectors}}
  %v:2 = tile.collect %p[%j] if(%c) epoch(%e)
    : !tile.buffer<f32> -> vector<2xf32>, vector<2xf32>
  return
}

// -----

func.func @f(%p: !tile.buffer<bf16>, %j: i32, %c: i1, %e: i32) {
  // expected-error@+1 {{waits for a 'vector<2xbf16>': expected a vector of f32}}
  %v = tile.collect %p[%j] if(%c) epoch(%e)
    : !tile.buffer<bf16> -> vector<2xbf16>
  return
}

// -----

// The kernel does not look into ops that may lack anything.

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(1024) {
    // expected-error@+1 {{'tile.ring.create' op requires attribute 'offset'}}
    %r = "tile.ring.create"() <{consumers = 2 : i64}>
      : () -> !tile.ring<1 x 1024>
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(1024) {
    // expected-error@+1 {{'tile.ring.create' op result #0 must be}}
    %r = "tile.ring.create"() <{consumers = 2 : i64, offset = 0 : i64}>
      : () -> i32
    tile.return
  }
}

// -----

// Nor does an op look at what stands behind it.

gpu.module @m {
  tile.kernel @k(%x: f32) blocks(1) threads(128) shared_bytes(0) {
    // expected-error@+1 {{operand #1 does not dominate this use}}
    %0 = "tile.reduce"(%x, %scratch)
      <{barrier = 1 : i64, first = 0 : i64, last = 4 : i64}>
      : (f32, !tile.buffer<f32, shared>) -> f32
    // expected-note@+1 {{operand defined here}}
    %scratch = tile.scratch 1 : !tile.buffer<f32, shared>
    tile.return
  }
}

// -----

gpu.module @m {
  tile.kernel @k(%x: f32) blocks(1) threads(128) shared_bytes(0) {
    %0 = "tile.reduce"(%x, %scratch)
      <{barrier = 1 : i64, first = 0 : i64, last = 4 : i64}>
      : (f32, !tile.buffer<f32, shared>) -> f32
    // expected-error@+1 {{'tile.scratch' op requires attribute 'count'}}
    %scratch = "tile.scratch"() : () -> !tile.buffer<f32, shared>
    tile.return
  }
}

// -----

func.func @f(%w: !tile.buffer<i8>, %o: i64, %s: !tile.stage<1024>) {
  // expected-error@+1 {{has only one of 'at' and 'bytes': expected both or neither}}
  "tile.copy"(%w, %o, %s) <{at = 0 : i64, policy = #tile<cache_policy normal>}>
    : (!tile.buffer<i8>, i64, !tile.stage<1024>) -> ()
  return
}

// -----

gpu.module @m {
  // expected-error@+1 {{'tile.kernel' op name must not be empty}}
  "tile.kernel"() <{blocks = 1 : i64, cluster = 1 : i64,
                    function_type = () -> (), shared_bytes = 0 : i64,
                    sym_name = "", threads = 32 : i64}> ({
    "tile.return"() : () -> ()
  }) : () -> ()
}

// -----

func.func @f(%o: i64) {
  // expected-error@+1 {{makes a '!tile.buffer<bf16>': expected a shared buffer}}
  %b = tile.shared_buffer at(0) : !tile.buffer<bf16>
  return
}

// -----

func.func @f(%o: i64) {
  // expected-error@+1 {{begins at byte 8: expected a multiple of 16}}
  %b = tile.shared_buffer at(8) : !tile.buffer<bf16, shared>
  return
}

// -----

gpu.module @m {
  tile.kernel @k() blocks(1) threads(32) shared_bytes(1024) {
    // expected-error@+1 {{begins at byte 2048, after the shared_bytes of the kernel, 1024}}
    %b = tile.shared_buffer at(2048) : !tile.buffer<bf16, shared>
    tile.return
  }
}

// -----

func.func @f(%s: !tile.buffer<bf16, shared>, %o: i64, %i: i32) {
  // expected-error@+1 {{copies from a '!tile.buffer<bf16, shared>' to a '!tile.buffer<bf16, shared>': expected a global and a shared buffer}}
  tile.async_copy %s[%o] to %s[%i] : !tile.buffer<bf16, shared>, !tile.buffer<bf16, shared>
  return
}

// -----

func.func @f(%h: !tile.buffer<f16>, %s: !tile.buffer<bf16, shared>, %o: i64, %i: i32) {
  // expected-error@+1 {{copies from a '!tile.buffer<f16>' to a '!tile.buffer<bf16, shared>': expected equal element types}}
  tile.async_copy %h[%o] to %s[%i] : !tile.buffer<f16>, !tile.buffer<bf16, shared>
  return
}

// -----

func.func @f(%o: i64) {
  // expected-error@+1 {{leaves 64 groups pending: expected 0 to 63}}
  tile.async_copy.wait 64
  return
}

// -----

func.func @f(%g: !tile.buffer<bf16>, %i: i32) {
  // expected-error@+1 {{loads from a '!tile.buffer<bf16>': expected a shared buffer}}
  %0 = tile.load_matrix %g[%i] : !tile.buffer<bf16> -> vector<8xbf16>
  return
}

// -----

func.func @f(%s: !tile.buffer<bf16, shared>, %i: i32) {
  // expected-error@+1 {{loads a 'vector<6xbf16>' from a '!tile.buffer<bf16, shared>': expected 4, 8 or 16 bytes of its elements, of type bf16, f16 or f8E4M3FN}}
  %0 = tile.load_matrix %s[%i] : !tile.buffer<bf16, shared> -> vector<6xbf16>
  return
}

// -----

func.func @f(%u: vector<4xbf16>, %v: vector<8xbf16>, %a: !tile.acc<64x16xf32>) {
  // expected-error@+1 {{has a left operand 'vector<4xbf16>': expected 16 bytes of bf16, f16 or f8E4M3FN}}
  %0 = tile.mma_sync %u, (%v) into %a : vector<4xbf16>, (vector<8xbf16>), !tile.acc<64x16xf32>
  return
}

// -----

func.func @f(%n: vector<4xf16>, %v: vector<8xbf16>, %a: !tile.acc<64x16xf32>) {
  // expected-error@+1 {{has a right operand 'vector<4xf16>': expected 8 or 16 bytes of the type of the left one}}
  %0 = tile.mma_sync %v, (%n) into %a : vector<8xbf16>, (vector<4xf16>), !tile.acc<64x16xf32>
  return
}

// -----

func.func @f(%u: vector<4xbf16>, %v: vector<8xbf16>, %a: !tile.acc<64x16xf32>) {
  // expected-error@+1 {{multiplies by 8 rows into '!tile.acc<64x16xf32>'}}
  %0 = tile.mma_sync %v, (%u) into %a : vector<8xbf16>, (vector<4xbf16>), !tile.acc<64x16xf32>
  return
}
