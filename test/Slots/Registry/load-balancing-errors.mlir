// RUN: fuse-opt %s --split-input-file --verify-diagnostics \
// RUN:   --fuse-bind-slots=default=eager

// expected-error @below {{slot 's' (op=moe_load_balancing_loss, variant=standard) takes floating-point logits of one type, [token, expert] with a static number of experts, got 'tensor<?x?xf32>'}}
nn.slot @s op "moe_load_balancing_loss" variant "standard"
    params {top_k = 2 : i64} : (tensor<?x?xf32>) -> tensor<f32> {}
func.func @f(%x: tensor<?x?xf32>) -> tensor<f32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x?xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// expected-error @below {{takes floating-point logits of one type, [token, expert] with a static number of experts, got 'tensor<?x8xbf16>'}}
nn.slot @s op "moe_load_balancing_loss" variant "standard"
    params {top_k = 2 : i64}
    : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<f32> {}
func.func @f(%x: tensor<?x8xf32>, %z: tensor<?x8xbf16>) -> tensor<f32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x, %z)
    : (tensor<?x8xf32>, tensor<?x8xbf16>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// expected-error @below {{returns 'tensor<f32>', got 'tensor<1xf32>'}}
nn.slot @s op "moe_load_balancing_loss" variant "standard"
    params {top_k = 2 : i64} : (tensor<?x8xf32>) -> tensor<1xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<1xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}

// -----

// expected-error @below {{has param 'top_k' = 9, expected 1 to 8, the number of experts}}
nn.slot @s op "moe_load_balancing_loss" variant "standard"
    params {top_k = 9 : i64} : (tensor<?x8xf32>) -> tensor<f32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<f32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// expected-error @below {{needs an integer as param 'top_k'}}
nn.slot @s op "moe_load_balancing_loss" variant "standard"
    : (tensor<?x8xf32>) -> tensor<f32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<f32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// expected-error @below {{returns 'tensor<f32>', got 'tensor<1xf32>'}}
nn.slot @s op "moe_load_balancing_loss" variant "standard"
    params {top_k = 1 : i64} : (tensor<?x8xf32>) -> tensor<1xf32> {}
func.func @f(%x: tensor<?x8xf32>) -> tensor<1xf32> {
  // expected-error @below {{cannot be built: it does not serve this slot}}
  %y = nn.call_slot @s(%x) : (tensor<?x8xf32>) -> tensor<1xf32>
  return %y : tensor<1xf32>
}
