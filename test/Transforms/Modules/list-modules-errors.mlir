// RUN: %check_errors %s fuse-opt %s --fuse-list-modules='paths={}'

// Path globs that match nothing, or that are not globs.

// $ layers.7
// error: no module matches path glob 'layers.7'

// $ layers.**x
// error: path glob 'layers.**x': '**' must be a whole segment, got '**x'

// $ layers..mlp
// error: path glob 'layers..mlp': has an empty segment

// $ "layers.[0"
// error: path glob 'layers.[0': invalid glob pattern, unmatched '['

// $ layers.{0.mlp,1}
// error: path glob 'layers.{0.mlp,1}': '.' between '{' and '}'; alternatives are parts of one segment

// $ layers.{}
// error: path glob 'layers.{}': empty or singleton brace expansions are not supported

// $ layers.{a[0-3],5}
// error: path glob 'layers.{a[0-3],5}': nested brace expansions are not supported

// Ranges of numbers. One may end at the largest number of 64 bits, so that its
// end is not reached by counting up.

// $ layers.[3-0]
// error: path glob 'layers.[3-0]': range [3-0] ends before it begins

// $ layers.[0-5000]
// error: path glob 'layers.[0-5000]': range [0-5000] has more than 1024 numbers

// $ layers.[18446744073709551614-18446744073709551615]
// error: no module matches path glob 'layers.[18446744073709551614-18446744073709551615]'

// As classes of characters, these would select single digits.

// $ "layers.[10,12]"
// error: path glob 'layers.[10,12]': '[10,12]' is not a range of numbers; expected [first-last], or {a,b} for single ones

// $ layers.[0-]
// error: path glob 'layers.[0-]': '[0-]' is not a range of numbers; expected [first-last], or {a,b} for single ones

// $ layers.[0-18446744073709551616]
// error: path glob 'layers.[0-18446744073709551616]': '[0-18446744073709551616]' is not a range of numbers; expected [first-last], or {a,b} for single ones

nn.model @tree class "Tree" {
  nn.module @layers class "ModuleList" {
    nn.module @"0" class "Layer" {
    }
  }
}
