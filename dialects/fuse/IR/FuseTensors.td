//===- FuseTensors.td - Tensors of the fuse dialect --------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_IR_FUSETENSORS_TD
#define FUSE_IR_FUSETENSORS_TD

include "mlir/IR/OpBase.td"

def Fuse_Float : AnyTypeOf<[F16, BF16, F32], "f16, bf16 or f32">;
def Fuse_Quantized : AnyTypeOf<[F8E4M3FN, F8E5M2, I8],
                               "f8E4M3FN, f8E5M2 or i8">;
// Encodings are excluded: they could contradict the meaning of the values.
def Fuse_PlainTensor : CPred<
    "!::llvm::cast<::mlir::RankedTensorType>($_self).getEncoding()">;
class Fuse_TensorOf<list<Type> elements, list<Pred> preds = []>
    : RankedTensorOf<elements, !listconcat([Fuse_PlainTensor], preds),
                     "tensor without encoding">;
def Fuse_FloatTensor : Fuse_TensorOf<[Fuse_Float]>;
def Fuse_QuantizedTensor : Fuse_TensorOf<[Fuse_Quantized]>;
def Fuse_AnyTensor : Fuse_TensorOf<[Fuse_Float, Fuse_Quantized]>;
def Fuse_ScaleVector : Fuse_TensorOf<[F32]>;
// Scales of groups have the type of the format, which `quant` states.
def Fuse_WeightScale
    : Fuse_TensorOf<[AnyTypeOf<[F32, BF16, F16, F8E4M3FN, I8],
                               "f32, bf16, f16, f8E4M3FN or i8">]>;

#endif // FUSE_IR_FUSETENSORS_TD
