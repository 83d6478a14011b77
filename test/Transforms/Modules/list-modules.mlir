// RUN: fuse-opt %s --fuse-list-modules -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=ALL
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.3 -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=LITERAL
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.*.mlp -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=STAR
// RUN: fuse-opt %s --fuse-list-modules=paths=**.mlp -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=DEEP
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.** -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=BELOW
// RUN: fuse-opt %s --fuse-list-modules=paths=**.mlp.** -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=AROUND
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.[3-12] -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=RANGE
// RUN: fuse-opt %s --fuse-list-modules='paths=layers.{3,11}.mlp' -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=BRACES
// RUN: fuse-opt %s --fuse-list-modules='paths=layers.{[3-5],[11-11]}.mlp' \
// RUN:     -o /dev/null | FileCheck %s --check-prefix=BRACES
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.[3-3] -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=LITERAL
// RUN: fuse-opt %s --fuse-list-modules='paths=layers.{3}' -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=LITERAL
// RUN: fuse-opt %s --fuse-list-modules=paths=conv1 -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=DIGITS
// RUN: fuse-opt %s --fuse-list-modules=paths=conv? -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=ONE
// RUN: fuse-opt %s --fuse-list-modules=paths=conv[!1] -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=CLASS
// RUN: fuse-opt %s --fuse-list-modules=paths=layers.1*,conv1 -o /dev/null \
// RUN:   | FileCheck %s --check-prefix=PART

// Every rule of docs/reference/path-globs.md, on this tree.

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

// A literal number picks that layer: not 13, and not its children. So does a
// range of one number, and a single alternative.

// LITERAL:     layers.3 : Layer
// LITERAL-NOT: layers

// One segment each; `inner.mlp` is deeper.

// STAR:      layers.3.mlp : MLP
// STAR-NEXT: layers.11.mlp : MLP
// STAR-NEXT: layers.13.mlp : MLP
// STAR-NOT:  mlp

// DEEP:      layers.3.mlp : MLP
// DEEP-NEXT: layers.3.mlp.inner.mlp : MLP
// DEEP-NEXT: layers.11.mlp : MLP
// DEEP-NEXT: layers.13.mlp : MLP

// `**` is also no segment at all.

// BELOW:      layers : ModuleList
// BELOW-NEXT: layers.3 : Layer
// BELOW:      layers.13.mlp : MLP
// BELOW-NOT:  conv

// AROUND-NOT:  layers.3 :
// AROUND:      layers.3.mlp : MLP
// AROUND-NEXT: layers.3.mlp.inner : Container
// AROUND-NEXT: layers.3.mlp.inner.mlp : MLP
// AROUND-NEXT: layers.11.mlp : MLP

// Ranges are of numbers, not of characters.

// RANGE:      layers.3 : Layer
// RANGE-NEXT: layers.11 : Layer
// RANGE-NOT:  layers.13

// BRACES:      layers.3.mlp : MLP
// BRACES-NEXT: layers.11.mlp : MLP
// BRACES-NOT:  layers.13

// Digits in a name mean nothing.

// DIGITS:     conv1 : Conv
// DIGITS-NOT: conv2

// ONE:      conv1 : Conv
// ONE-NEXT: conv2 : Conv

// CLASS-NOT: conv1
// CLASS:     conv2 : Conv

// PART:      layers.11 : Layer
// PART-NEXT: layers.13 : Layer
// PART-NEXT: conv1 : Conv

fuse.model @tree class "Tree" {
  fuse.module @layers class "ModuleList" {
    fuse.module @"3" class "Layer" {
      fuse.module @mlp class "MLP" {
        fuse.module @inner class "Container" {
          fuse.module @mlp class "MLP" {
          }
        }
      }
    }
    fuse.module @"11" class "Layer" {
      fuse.module @mlp class "MLP" {
      }
    }
    fuse.module @"13" class "Layer" {
      fuse.module @mlp class "MLP" {
      }
    }
  }
  fuse.module @conv1 class "Conv" {
  }
  fuse.module @conv2 class "Conv" {
  }
}
