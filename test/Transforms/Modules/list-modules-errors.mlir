// RUN: not fuse-opt %s --fuse-list-modules=paths=layers.7 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING
// RUN: not fuse-opt %s --fuse-list-modules=paths=layers.**x 2>&1 \
// RUN:   | FileCheck %s --check-prefix=STARS
// RUN: not fuse-opt %s --fuse-list-modules=paths=layers..mlp 2>&1 \
// RUN:   | FileCheck %s --check-prefix=SEGMENT
// RUN: not fuse-opt %s --fuse-list-modules=paths=layers.[3-0] 2>&1 \
// RUN:   | FileCheck %s --check-prefix=ORDER
// RUN: not fuse-opt %s --fuse-list-modules=paths=layers.[0-5000] 2>&1 \
// RUN:   | FileCheck %s --check-prefix=LONG
// RUN: not fuse-opt %s \
// RUN:   --fuse-list-modules=paths=layers.[18446744073709551614-18446744073709551615] \
// RUN:   2>&1 | FileCheck %s --check-prefix=LARGEST
// RUN: not fuse-opt %s --fuse-list-modules='paths="layers.[0"' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BRACKET
// RUN: not fuse-opt %s --fuse-list-modules='paths=layers.{0.mlp,1}' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DOT
// RUN: not fuse-opt %s --fuse-list-modules='paths=layers.{}' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=BRACES
// RUN: not fuse-opt %s --fuse-list-modules='paths=layers.{a[0-3],5}' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NESTED

// RUN: not fuse-opt %s --fuse-list-modules='paths="layers.[10,12]"' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=COMMA
// RUN: not fuse-opt %s --fuse-list-modules=paths=layers.[0-] 2>&1 \
// RUN:   | FileCheck %s --check-prefix=END
// RUN: not fuse-opt %s \
// RUN:   --fuse-list-modules=paths=layers.[0-18446744073709551616] 2>&1 \
// RUN:   | FileCheck %s --check-prefix=HUGE

// NOTHING: error: no module matches path glob 'layers.7'
// STARS:   error: path glob 'layers.**x': '**' must be a whole segment, got '**x'
// SEGMENT: error: path glob 'layers..mlp': has an empty segment
// ORDER:   error: path glob 'layers.[3-0]': range [3-0] ends before it begins
// LONG:    error: path glob 'layers.[0-5000]': range [0-5000] has more than 1024 numbers
// LARGEST: error: no module matches path glob 'layers.[18446744073709551614-18446744073709551615]'
// BRACKET: error: path glob 'layers.[0': invalid glob pattern, unmatched '['
// DOT:     error: path glob 'layers.{0.mlp,1}': '.' between '{' and '}'; alternatives are parts of one segment
// BRACES:  error: path glob 'layers.{}': empty or singleton brace expansions are not supported
// NESTED:  error: path glob 'layers.{a[0-3],5}': nested brace expansions are not supported

// As classes of characters these would select single digits.

// COMMA:   error: path glob 'layers.[10,12]': '[10,12]' is not a range of numbers; expected [first-last], or {a,b} for single ones
// END:     error: path glob 'layers.[0-]': '[0-]' is not a range of numbers
// HUGE:    error: path glob 'layers.[0-18446744073709551616]': '[0-18446744073709551616]' is not a range of numbers

fuse.model @tree class "Tree" {
  fuse.module @layers class "ModuleList" {
    fuse.module @"0" class "Layer" {
    }
  }
}
