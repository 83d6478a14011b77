// RUN: %check_errors %s fuse-opt %s --fuse-match-modules='patterns=((*,a))->mlp' \
// RUN:   --fuse-pack-weights='layouts={}'
// RUN: fuse-opt %s --fuse-match-modules='patterns=((*,a))->mlp' \
// RUN:   --fuse-pack-weights='layouts=w=concat(0:p,0:t,keep)' -o /dev/null

// Layouts that are not recipes, or that do not fit the parameters of a site.

// $ w=concat
// error: layout 'w=concat': expected name=concat(1:a,1:b), name=interleave(1:a,1:b,block=8) or name=transpose(1:a)

// $ w=fold(0:p,0:v)
// error: layout 'w=fold(0:p,0:v)': unknown permutation 'fold'; expected name=concat(1:a,1:b), name=interleave(1:a,1:b,block=8) or name=transpose(1:a)

// $ w=interleave(0:p,0:q,block=x)
// error: layout 'w=interleave(0:p,0:q,block=x)': block of 'x' rows

// $ w=concat(0:p)
// error: layout 'w=concat(0:p)': recipe 'w' needs at least two parameters, got 1

// $ w=concat(0:p,0:z)
// error: layout 'w=concat(0:p,0:z)' fits no site of a generated kernel; recipe 'w' reads 'z', which 'a' does not have

// $ w=concat(0:p,3:q)
// error: layout 'w=concat(0:p,3:q)' fits no site of a generated kernel; recipe 'w' reads a parameter of member 3, there are 1

// $ w=concat(0:p,0:v)
// error: layout 'w=concat(0:p,0:v)' fits no site of a generated kernel; recipe 'a.w' combines 'a.p' of type 'tensor<4x8xf32>' with 'a.v' of type 'tensor<8xf32>'

// $ w=transpose(0:v)
// error: layout 'w=transpose(0:v)' fits no site of a generated kernel; recipe 'a.w' transposes 'tensor<8xf32>'; expected a matrix

// $ w=interleave(0:p,0:q,block=3)
// error: layout 'w=interleave(0:p,0:q,block=3)' fits no site of a generated kernel; recipe 'a.w' reads blocks of 3 rows, 'tensor<4x8xf32>' has 4

// $ w=concat(0:p,0:q),u=concat(0:q,0:p)
// error: parameter 'a.q' is needed in two layouts: as #nn.recipe<"a.u" = concat(@a::@q, @a::@p)> and as #nn.recipe<"a.w" = concat(@a::@p, @a::@q)> by site 'a#0'

// Another module reads the parameter by another name. `keep` stores the
// original too.

// $ w=concat(0:p,0:t)
// error: site 'a#0' stores 'e.t' as 'a.w', and 'e' reads the original; write 'keep' to store it as well

nn.model @m class "M" {
  nn.module @a class "A" {
    nn.parameter @p : tensor<4x8xf32>
    nn.parameter @q : tensor<4x8xf32>
    nn.parameter @v : tensor<8xf32>
    nn.parameter @t tied_to(@e::@t) : tensor<4x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      return %x : tensor<8x8xf32>
    }
  }
  nn.module @e class "E" {
    nn.parameter @t : tensor<4x8xf32>
    func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
      %w = nn.get_parameter @t : tensor<4x8xf32>
      %y = fuse.linear %x, %w
        : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<8x4xf32>
      return %y : tensor<8x4xf32>
    }
  }
  func.func @forward(%x: tensor<8x8xf32>) -> tensor<8x4xf32> {
    %a = nn.call_module @a(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %e = nn.call_module @e(%a) : (tensor<8x8xf32>) -> tensor<8x4xf32>
    return %e : tensor<8x4xf32>
  }
}
