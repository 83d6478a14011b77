//===- StageAttrs.td - Attributes of the stage dialect -----*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef STAGE_IR_STAGEATTRS_TD
#define STAGE_IR_STAGEATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "stage/IR/StageDialect.td"

class Stage_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::stage";
  let genSpecializedAttr = 0;
}

def Stage_PlaceEnum : Stage_Enum<"Place", "where a result of a stage is", [
  I32EnumAttrCase<"Registers", 0, "registers">,
  I32EnumAttrCase<"Shared", 1, "shared">,
  I32EnumAttrCase<"Workspace", 2, "workspace">,
  I32EnumAttrCase<"Launch", 3, "launch">,
  I32EnumAttrCase<"Output", 4, "output">
]>;

def Stage_SumOrderEnum : Stage_Enum<"SumOrder",
    "order in which partial sums are added", [
  I32EnumAttrCase<"Ascending", 0, "ascending">,
  I32EnumAttrCase<"Pairwise", 1, "pairwise">
]>;

def Stage_TargetEnum : Stage_Enum<"Target", "kernels that a graph is for", [
  I32EnumAttrCase<"Mma", 0, "mma">
]>;

def Stage_SumOrderAttr
    : EnumAttr<Stage_Dialect, Stage_SumOrderEnum, "sum_order">;

def Stage_GraphMappingAttr : AttrDef<Stage_Dialect, "GraphMapping"> {
  let mnemonic = "graph_mapping";
  let summary = "choices that all stages of a graph share";
  let description = [{
    - `target`: the kernels. `mma` are those for every GPU since sm_80.
    - `tokens`: upper bound of the number of tokens.
    - `blocks`: grid size of the launches with products.
    - `group`: token tiles that share a weight tile before the next weight tile
      follows (16 by default).

    Example: `#stage.graph_mapping<mma, tokens = 16, blocks = 108>`
  }];
  let parameters = (ins
    EnumParameter<Stage_TargetEnum>:$target,
    "int64_t":$tokens,
    "int64_t":$blocks,
    DefaultValuedParameter<"int64_t", "16">:$group
  );
  let assemblyFormat = [{
    `<` $target `,` `tokens` `=` $tokens `,` `blocks` `=` $blocks
    (`,` `group` `=` $group^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Stage_RowsMappingAttr : AttrDef<Stage_Dialect, "RowsMapping"> {
  let mnemonic = "rows_mapping";
  let summary = "mapping of a stage.rows";
  let description = [{
    - `launch`: the number of the launch, from 0. Stages of one launch are in
      one kernel.
    - `results`: the place of each result. `registers`, `shared` and `workspace`
      are read in the same launch, `launch` is memory that a later launch reads,
      and `output` is only a result of the graph.

    Example: `#stage.rows_mapping<launch = 0, results = [workspace, output]>`
  }];
  let parameters = (ins
    "int64_t":$launch,
    ArrayRefParameter<"::stage::Place">:$results
  );
  let assemblyFormat = [{
    `<` `launch` `=` $launch `,` `results` `=` `[` $results `]` `>`
  }];
}

def Stage_ProductMappingAttr : AttrDef<Stage_Dialect, "ProductMapping"> {
  let mnemonic = "product_mapping";
  let summary = "mapping of a stage.product";
  let description = [{
    - `launch`, `results`: as in `#stage.rows_mapping`.
    - `weight_tile`: weight rows of a tile. With several weights it counts the
      rows of all of them.
    - `token_tile`: tokens of a tile.
    - `pipeline`: number of k-steps in shared memory.

    Example: `#stage.product_mapping<launch = 0, results = [workspace],
    weight_tile = 128, token_tile = 16, pipeline = 4>`
  }];
  let parameters = (ins
    "int64_t":$launch,
    ArrayRefParameter<"::stage::Place">:$results,
    "int64_t":$weight_tile,
    "int64_t":$token_tile,
    "int64_t":$pipeline
  );
  let assemblyFormat = [{
    `<` `launch` `=` $launch `,` `results` `=` `[` $results `]` `,`
    `weight_tile` `=` $weight_tile `,` `token_tile` `=` $token_tile `,`
    `pipeline` `=` $pipeline `>`
  }];
  let genVerifyDecl = 1;
}

def Stage_ReduceMappingAttr : AttrDef<Stage_Dialect, "ReduceMapping"> {
  let mnemonic = "reduce_mapping";
  let summary = "mapping of a stage.reduce";
  let description = [{
    `launch` and `results` as in `#stage.rows_mapping`.

    Example: `#stage.reduce_mapping<launch = 0, results = [output]>`
  }];
  let parameters = (ins
    "int64_t":$launch,
    ArrayRefParameter<"::stage::Place">:$results
  );
  let assemblyFormat = [{
    `<` `launch` `=` $launch `,` `results` `=` `[` $results `]` `>`
  }];
}

#endif // STAGE_IR_STAGEATTRS_TD
