// RUN: fuse-opt %s --fuse-list-modules -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=ALL
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.3 -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=LITERAL
// RUN: fuse-opt %s --fuse-list-modules=paths=conv1 -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=DIGITS
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.1*,conv1 -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=SEVERAL

// The tree of modules in the order of the model. The rules of
// docs/reference/path-globs.md are here, in list-modules-wildcards.mlir and in
// list-modules-numbers.mlir.

// ALL:      layers : ModuleList
// ALL-NEXT: layers.3 : Layer
// ALL-NEXT: layers.3.mlp : MLP
// ALL-NEXT: layers.3.mlp.inner : Container
// ALL-NEXT: layers.3.mlp.inner.mlp : MLP
// ALL-NEXT: layers.11 : Layer
// ALL-NEXT: layers.11.mlp : MLP
// ALL-NEXT: layers.13 : Layer
// ALL-NEXT: layers.13.mlp : MLP
// ALL-NEXT: conv1 : Conv
// ALL-NEXT: conv2 : Conv

// A literal number selects this layer: not layer 13, and not the children.

// LITERAL:     layers.3 : Layer
// LITERAL-NOT: layers

// Digits in a name have no meaning.

// DIGITS:     conv1 : Conv
// DIGITS-NOT: conv2

// Several globs select what any of them matches.

// SEVERAL:      layers.11 : Layer
// SEVERAL-NEXT: layers.13 : Layer
// SEVERAL-NEXT: conv1 : Conv

nn.model @tree class "Tree" {
  nn.module @layers class "ModuleList" {
    nn.module @"3" class "Layer" {
      nn.module @mlp class "MLP" {
        nn.module @inner class "Container" {
          nn.module @mlp class "MLP" {
          }
        }
      }
    }
    nn.module @"11" class "Layer" {
      nn.module @mlp class "MLP" {
      }
    }
    nn.module @"13" class "Layer" {
      nn.module @mlp class "MLP" {
      }
    }
  }
  nn.module @conv1 class "Conv" {
  }
  nn.module @conv2 class "Conv" {
  }
}
