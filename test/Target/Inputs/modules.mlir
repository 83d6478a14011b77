//--- chip.mlir
gpu.module @kernels [#nvvm.target<chip = "sm_99">] {
  llvm.func @k() attributes {nvvm.kernel} {
    llvm.return
  }
}

//--- rocdl.mlir
gpu.module @kernels [#rocdl.target<chip = "gfx90a">] {
  llvm.func @k() {
    llvm.return
  }
}

//--- plan.mlir
func.func private @f(tensor<?xf32>)
    attributes {fuse.launch_plan = {launches = [1], symbols = [],
                                    workspace = []}}
gpu.module @kernels [#nvvm.target<chip = "sm_90">] {
  llvm.func @k() attributes {nvvm.kernel} {
    llvm.return
  }
}
