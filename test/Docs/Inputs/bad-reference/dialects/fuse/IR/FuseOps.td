include "mlir/IR/OpBase.td"

def Fuse_Dialect : Dialect {
  let name = "fuse";
  let cppNamespace = "::fuse";
}

def Fuse_LinearOp : Op<Fuse_Dialect, "linear"> {
  let summary = "Has no description";
}

def Fuse_AddOp : Op<Fuse_Dialect, "add"> {
  let summary = "Has a wrong example";
  let description = [{
    Example:

    ```mlir
    %y = fuse.residual_add %x, %y
        : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    fuse.linear %x,
    ```
  }];
}
