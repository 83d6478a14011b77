//===- NNCalls.td - Calls of modules and slots -------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef NN_IR_NNCALLS_TD
#define NN_IR_NNCALLS_TD

include "nn/IR/NNDialect.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"

/// A call of the symbol `callee` with the operands `args`. The callable is a
/// function inside the symbol: the forward of a module, or the implementation
/// of a slot.
class NN_CallOp<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, !listconcat([
        CallOpInterface, DeclareOpInterfaceMethods<SymbolUserOpInterface>
      ], traits)> {
  let extraClassDeclaration = [{
    ::mlir::CallInterfaceCallable getCallableForCallee() {
      return getCalleeAttr();
    }
    void setCalleeFromCallable(::mlir::CallInterfaceCallable callee) {
      setCalleeAttr(::llvm::cast<::mlir::SymbolRefAttr>(callee));
    }
    ::mlir::Operation::operand_range getArgOperands() { return getArgs(); }
    ::mlir::MutableOperandRange getArgOperandsMutable() {
      return getArgsMutable();
    }

    /// The function that the call runs, or null if it is unknown.
    ::mlir::Operation *
    resolveCallableInTable(::mlir::SymbolTableCollection *tables);
    ::mlir::Operation *resolveCallable() {
      ::mlir::SymbolTableCollection tables;
      return resolveCallableInTable(&tables);
    }

    // The arguments and results of calls have no attributes.
    ::mlir::ArrayAttr getArgAttrsAttr() { return nullptr; }
    ::mlir::ArrayAttr getResAttrsAttr() { return nullptr; }
    void setArgAttrsAttr(::mlir::ArrayAttr) {}
    void setResAttrsAttr(::mlir::ArrayAttr) {}
    ::mlir::Attribute removeArgAttrsAttr() { return nullptr; }
    ::mlir::Attribute removeResAttrsAttr() { return nullptr; }
  }];
}

#endif // NN_IR_NNCALLS_TD
