// Two steps, as with compiler and GPU on different machines. Without
// candidates of its own the tool takes those of the cost model; here four grids
// more, for which the stand-in of the driver has a script.

// RUN: fuse-tune candidates %s --pipeline= -o %t.fusetune --tokens=5 \
// RUN:   --candidates=1 --no-assemble \
// RUN:   --schedule="#tile.schedule<tokens = 8, blocks = 2, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = false>" \
// RUN:   --schedule="#tile.schedule<tokens = 8, blocks = 3, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = false>" \
// RUN:   --schedule="#tile.schedule<tokens = 8, blocks = 4, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = false>" \
// RUN:   --schedule="#tile.schedule<tokens = 8, blocks = 5, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = false>" \
// RUN:   --schedule="#tile.schedule<tokens = 16, blocks = 6, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = false>" \
// RUN:   2>&1 | FileCheck %s --check-prefix=CANDIDATES

// A schedule for other tokens does not fit and is no candidate.
// CANDIDATES: loc({{.*}}tune.mlir{{.*}}): not tuned: the input is f32, not bf16
// CANDIDATES: [5/5] compiled
// CANDIDATES: 1 ops, 5 candidates, 0 do not compile

// Many tokens have candidates too.
// RUN: fuse-tune candidates %s -o %t.many --tokens=512 --candidates=4 \
// RUN:   --no-assemble 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: 1 ops, 4 candidates, 0 do not compile

// Single changes of each field come early, of one that the model decides last
// too.
// RUN: fuse-tune candidates %s -o %t.few --tokens=50 --candidates=8 \
// RUN:   --no-assemble && FileCheck %s --check-prefix=FIELDS < %t.few
// FIELDS: max_in_flight = 2, l2_prefetch_stages = 8, publish_throttle_stages = 3, partials = f32, tagged_partials = true,
// FIELDS: max_in_flight = 2, l2_prefetch_stages = 8, publish_throttle_stages = 3, partials = f32, hint =
// FIELDS: max_in_flight = 2, l2_prefetch_stages = 8, partials = f32, tagged_partials = true,

// The fastest wins.
// RUN: echo "grid 1 us 30 grid 2 us 20 grid 3 us 12 grid 4 us 25 grid 5 us 13" > %t.fast
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.fast \
// RUN:   fuse-device-run tune %t.fusetune -o %t.json --rounds=3 --final-rounds=3 \
// RUN:   --flush-mb=1 | FileCheck %s --check-prefix=FAST
// FAST: mlp 64x256x64 bf16 tokens 5: best 12.00 us, the model's choice 30.00 us, 0 of 5 dropped
// RUN: fuse-tune table %t.json -o %t.table
// RUN: FileCheck %s --check-prefix=TABLE < %t.table
// TABLE: {"format": "fuse-schedules",
// TABLE-NEXT: "version": 1,
// TABLE-NEXT: "compiler": "fuse {{.*}}",
// TABLE-NEXT: "chip": "sm_90a",
// TABLE-NEXT: "multiprocessors": 132,
// TABLE-NEXT: "rows": [
// TABLE-NEXT: {"device":"Fake GPU","element":"bf16","family":"mlp","median_us":12.0,"model_choice_us":30.0,"protocol":"single","relaxed":false,"schedule":"#tile.schedule<tokens = 8, blocks = 3,{{.*}}>","tokens":8,"widths":[64,256,64]}

// Later compilations take it.
// RUN: fuse-opt %s --fuse-select-schedules="tokens=8 table=%t.table" \
// RUN:   | FileCheck %s --check-prefix=USED
// USED: tile.schedule = #tile.schedule<tokens = 8, blocks = 3,

// What is fastest alone need not be in a chain, of which the first launch
// overlaps nothing. These schedules have dependent = true; so has the model's.
// RUN: fuse-tune candidates %s --pipeline= -o %t.chained --tokens=5 \
// RUN:   --candidates=1 --no-assemble \
// RUN:   --schedule="#tile.schedule<tokens = 8, blocks = 2, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = true>" \
// RUN:   --schedule="#tile.schedule<tokens = 8, blocks = 3, split_k = 1, weight_stages = 2, token_stages = 3, max_in_flight = 1, partials = f32, hint = normal, dependent = true>"
// RUN: echo "grid 1 us 30 grid 2 us 20 grid 2 overlaps 12 grid 3 us 15 grid 3 joins 7" > %t.chains
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.chains \
// RUN:   fuse-device-run tune %t.chained -o %t.single.json --flush-mb=1 | FileCheck %s --check-prefix=SINGLE
// SINGLE: best 15.00 us, the model's choice 30.00 us
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.chains \
// RUN:   fuse-device-run tune %t.chained -o %t.chain.json --flush-mb=1 --protocol=chain | FileCheck %s --check-prefix=CHAIN
// CHAIN: best 13.00 us, the model's choice 30.00 us
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.chains \
// RUN:   fuse-device-run tune %t.chained -o %t.joined.json --flush-mb=1 --protocol=exclusive-chain --launches=4 | FileCheck %s --check-prefix=JOINED
// JOINED: best 9.00 us, the model's choice 30.00 us

// The table says what was measured, of all or of each file.
// RUN: fuse-tune table %t.chain.json -o %t.chain.table
// RUN: FileCheck %s --check-prefix=CHAINED < %t.chain.table
// CHAINED: "protocol":"chain",{{.*}}"schedule":"#tile.schedule<tokens = 8, blocks = 2,
// RUN: fuse-opt %s --fuse-select-schedules="tokens=8 table=%t.chain.table" \
// RUN:   | FileCheck %s --check-prefix=CHAIN-USED
// CHAIN-USED: tile.schedule = #tile.schedule<tokens = 8, blocks = 2,
// RUN: fuse-tune table %t.chain.json %t.joined.json -o %t.joined.table
// RUN: FileCheck %s --check-prefix=EXCLUSIVE < %t.joined.table
// EXCLUSIVE: "protocol":"exclusive-chain",{{.*}}"schedule":"#tile.schedule<tokens = 8, blocks = 3,

// A candidate that computes something else is excluded however fast it is, and
// so is one that the device refuses. One that never ends, or that takes the
// process with it, does not stop the others.
// RUN: echo "grid 1 us 30 grid 2 us 20 grid 3 us 1 grid 3 writes 7 grid 4 fails 1 grid 5 us 22" > %t.bad
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.bad \
// RUN:   fuse-device-run tune %t.fusetune -o %t.bad.json --rounds=3 --final-rounds=3 \
// RUN:   --flush-mb=1 | FileCheck %s --check-prefix=BAD
// BAD-DAG: wrong: #tile.schedule<tokens = 8, blocks = 3,{{.*}}>: result 0 differs in {{[0-9]+}} of 320 values from what most candidates compute
// BAD-DAG: failed: #tile.schedule<tokens = 8, blocks = 4,{{.*}}>: cuLaunchKernelEx
// BAD: best 20.00 us, the model's choice 30.00 us, 2 of 5 dropped

// RUN: echo "grid 1 us 30 grid 2 hangs grid 3 dies grid 4 fails 700 grid 5 us 22" > %t.worse
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.worse \
// RUN:   fuse-device-run tune %t.fusetune -o %t.worse.json --rounds=3 --final-rounds=3 \
// RUN:   --flush-mb=1 --timeout-ms=50 | FileCheck %s --check-prefix=WORSE
// WORSE: timeout: #tile.schedule<tokens = 8, blocks = 2,{{.*}}>: the stream did not finish in 50 ms
// WORSE: failed: #tile.schedule<tokens = 8, blocks = 3,{{.*}}>: the process ended with status 7
// WORSE: failed: #tile.schedule<tokens = 8, blocks = 4,{{.*}}>: cuLaunchKernelEx
// WORSE: best 22.00 us, the model's choice 30.00 us, 3 of 5 dropped

// When the model's own choice computes something else, it is the one that goes.
// RUN: echo "grid 1 us 1 grid 1 writes 7" > %t.first
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.first \
// RUN:   fuse-device-run tune %t.fusetune -o %t.first.json --rounds=3 --final-rounds=3 \
// RUN:   --flush-mb=1 | FileCheck %s --check-prefix=FIRST
// FIRST: best 10.00 us, the model's choice not measured, 1 of 5 dropped

// Another schedule has to be faster by more than noise.
// RUN: echo "grid 1 us 10.05 grid 2 us 11 grid 4 us 11 grid 5 us 11" > %t.close
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.close \
// RUN:   fuse-device-run tune %t.fusetune -o %t.close.json --rounds=3 --final-rounds=3 \
// RUN:   --flush-mb=1
// RUN: fuse-tune table %t.close.json -o %t.close.table
// RUN: FileCheck %s --check-prefix=CLOSE < %t.close.table
// CLOSE: "schedule":"#tile.schedule<tokens = 8, blocks = 1,
// RUN: fuse-tune table %t.close.json --margin=0 -o %t.any.table
// RUN: FileCheck %s --check-prefix=ANY < %t.any.table
// ANY: "schedule":"#tile.schedule<tokens = 8, blocks = 3,

// A GPU gets slower while it is busy. The fastest and the model's choice have
// later turns than the others, whose earlier times do not count.
// RUN: echo "grid 1 us 30 grid 2 us 20 grid 3 us 12 grid 3 warms 1 grid 4 us 13 grid 5 us 25" > %t.warm
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.warm \
// RUN:   fuse-device-run tune %t.fusetune -o %t.warm.json --rounds=3 --final-rounds=9 \
// RUN:   --finalists=1 --flush-mb=1 | FileCheck %s --check-prefix=WARM
// WARM: best 24.00 us, the model's choice {{4[0-9]}}.00 us, 0 of 5 dropped
// RUN: FileCheck %s --check-prefix=WARM-TIMES < %t.warm.json
// WARM-TIMES: "median_us": 24.0,
// WARM-TIMES: "over_choice": 0.5
// WARM-TIMES: blocks = 3,
// WARM-TIMES: "median_us": {{1[0-9]}}.0,
// WARM-TIMES-NOT: "over_choice"
// WARM-TIMES: blocks = 4,
// RUN: fuse-tune table %t.warm.json -o %t.warm.table
// RUN: FileCheck %s --check-prefix=WARM-TABLE < %t.warm.table
// WARM-TABLE: "schedule":"#tile.schedule<tokens = 8, blocks = 3,

// Measurements of version 1 tell those turns by their number.
// RUN: sed -e 's/"version": 2/"version": 1/' -e '/"over_choice"/d' %t.warm.json > %t.first.json
// RUN: fuse-tune table %t.first.json -o %t.first.table
// RUN: FileCheck %s --check-prefix=WARM-TABLE < %t.first.table

// All on one machine.
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.fast \
// RUN:   fuse-tune %s --pipeline= -o %t.one --tokens=8 --candidates=2 --no-assemble
// RUN: FileCheck %s --check-prefix=ONE < %t.one
// ONE: "protocol":"single",{{.*}}"schedule":"#tile.schedule<tokens = 8, blocks = 1,
// RUN: env LD_LIBRARY_PATH=%fuse_obj_root/test/FakeCuda FAKE_CUDA_SCRIPT=%t.fast \
// RUN:   fuse-tune %s --pipeline= -o %t.both --tokens=8 --candidates=2 \
// RUN:   --no-assemble --protocol=chain
// RUN: FileCheck %s --check-prefix=BOTH < %t.both
// BOTH: "protocol":"chain",

func.func @tuned(%x: tensor<?x64xbf16>, %u: tensor<256x64xbf16>,
                 %d: tensor<64x256xbf16>) -> tensor<?x64xbf16> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xbf16>, tensor<256x64xbf16>, tensor<64x256xbf16>)
      -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// The portable path has nothing to tune.
func.func @portable(%x: tensor<?x64xf32>, %u: tensor<256x64xf32>,
                    %d: tensor<64x256xf32>) -> tensor<?x64xf32> {
  %y = fuse.mlp %x up(%u) down(%d) act(relu) rounding(exact)
    : (tensor<?x64xf32>, tensor<256x64xf32>, tensor<64x256xf32>)
      -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}
