include "mlir/Pass/PassBase.td"

def SomeThingPass : Pass<"fuse-some-thing"> {
  let description = [{
    Does something.
  }];
}
