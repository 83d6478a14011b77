// RUN: fuse-opt %s --inline --fuse-unique-sites | FileCheck %s
// RUN: fuse-opt %s --inline --fuse-unfuse=sites=main#1 \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: fuse-opt %s --inline --mlir-print-debuginfo --fuse-unfuse \
// RUN:   | FileCheck %s --check-prefix=LOCATION

// A kernel is inlined twice. The first keeps its id; the second gets the next
// free id of the function that contains it, in which main#0 exists.

// CHECK-LABEL: func.func @main
// CHECK:         fuse.act_quantize {{.*}} site("block#0")
// CHECK:         fuse.act_quantize {{.*}} site("main#1")
// CHECK:         fuse.act_quantize {{.*}} site("main#0")

// An id names one op.

// ONE-LABEL: func.func @main
// ONE:         fuse.act_quantize {{.*}} site("block#0")
// ONE-NEXT:    fuse.activation relu
// ONE-NEXT:    fuse.quantize
// ONE:         fuse.act_quantize {{.*}} site("main#0")

// Members of an inlined kernel keep their locations.

// LOCATION-LABEL: func.func @main
// LOCATION:         fuse.activation {{.*}} loc(#[[ACT:.*]])
// LOCATION:         fuse.quantize {{.*}} loc(#[[QUANTIZE:.*]])
// LOCATION-DAG:     #[[A:.*]] = loc("act")
// LOCATION-DAG:     #[[Q:.*]] = loc("quantize")
// LOCATION-DAG:     #[[CALL:.*]] = loc("call")
// LOCATION-DAG:     #[[ACT]] = loc(callsite(#[[A]] at #[[CALL]]))
// LOCATION-DAG:     #[[QUANTIZE]] = loc(callsite(#[[Q]] at #[[CALL]]))
func.func private @block(%x: tensor<?x8xf32>) -> tensor<?x8xi8> {
  %0 = fuse.act_quantize %x act(relu) scales(i8, hidden = 0.5) rounding(exact)
         site("block#0")
     : (tensor<?x8xf32>) -> tensor<?x8xi8>
     loc(fused<[loc("act"), loc("quantize")]>["act", "quantize"])
  return %0 : tensor<?x8xi8>
}

func.func @main(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>)
    -> (tensor<?x8xi8>, tensor<?x8xi8>, tensor<?x8xi8>) {
  %0 = call @block(%x) : (tensor<?x8xf32>) -> tensor<?x8xi8> loc("call")
  %1 = call @block(%y) : (tensor<?x8xf32>) -> tensor<?x8xi8>
  %2 = fuse.act_quantize %x act(silu) scales(i8, hidden = 0.5) rounding(exact)
         site("main#0")
     : (tensor<?x8xf32>) -> tensor<?x8xi8>
  return %0, %1, %2 : tensor<?x8xi8>, tensor<?x8xi8>, tensor<?x8xi8>
}

// The function that an id names still exists, so its op keeps the id, even
// after the copy.

// CHECK-LABEL: func.func @caller
// CHECK:         fuse.act_quantize {{.*}} site("caller#0")
// CHECK-LABEL: func.func @public
// CHECK:         fuse.act_quantize {{.*}} site("public#0")
func.func @caller(%x: tensor<?x8xf32>) -> tensor<?x8xi8> {
  %0 = call @public(%x) : (tensor<?x8xf32>) -> tensor<?x8xi8>
  return %0 : tensor<?x8xi8>
}

func.func @public(%x: tensor<?x8xf32>) -> tensor<?x8xi8> {
  %0 = fuse.act_quantize %x act(relu) scales(i8, hidden = 0.5) rounding(exact)
         site("public#0")
     : (tensor<?x8xf32>) -> tensor<?x8xi8>
  return %0 : tensor<?x8xi8>
}
