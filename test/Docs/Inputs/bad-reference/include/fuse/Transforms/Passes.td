include "mlir/Pass/PassBase.td"

def SomeThingPass : Pass<"fuse-some-thing"> {
  let description = [{
    Does something.
  }];
}

def OtherThingPass : Pass<"fuse-other-thing"> {
  let summary = "Does something else";
  let description = [{
    Example:

    ```mlir
    fuse.quadratic %x
    ```
  }];
}
