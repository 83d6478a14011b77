//===- TileKernelPatterns.cpp - Lower kernels, roles, semaphores ----------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TileLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace fuse;
using namespace tile;

namespace {

struct KernelLowering : OpConversionPattern<KernelOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(KernelOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    MLIRContext *context = getContext();
    TypeConverter::SignatureConversion signature(op.getNumArguments());
    if (failed(getTypeConverter()->convertSignatureArgs(op.getArgumentTypes(),
                                                        signature)))
      return failure();
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context),
                                            signature.getConvertedTypes());
    auto func =
        LLVM::LLVMFuncOp::create(rewriter, op.getLoc(), op.getSymName(), type);
    func->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                  rewriter.getUnitAttr());
    int32_t threads = op.getThreads();
    func->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                  rewriter.getDenseI32ArrayAttr({threads, 1, 1}));
    func->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                  rewriter.getI32IntegerAttr(1));
    if (int32_t cluster = op.getCluster(); cluster > 1)
      func->setAttr(NVVM::NVVMDialect::getClusterDimAttrName(),
                    rewriter.getDenseI32ArrayAttr({cluster, 1, 1}));
    // A tensor map is passed by value and used in place.
    Type map = LLVM::LLVMArrayType::get(rewriter.getI8Type(), 128);
    for (auto [index, argument] : llvm::enumerate(op.getArgumentTypes())) {
      if (!isa<TensorMapType>(argument))
        continue;
      func.setArgAttr(index, LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(map));
      func.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(),
                      rewriter.getI64IntegerAttr(64));
      func.setArgAttr(index, NVVM::NVVMDialect::getGridConstantAttrName(),
                      rewriter.getUnitAttr());
      func.setArgAttr(index, LLVM::LLVMDialect::getNoAliasAttrName(),
                      rewriter.getUnitAttr());
    }
    rewriter.inlineRegionBefore(op.getBody(), func.getBody(), func.end());
    if (failed(rewriter.convertRegionTypes(&func.getBody(), *getTypeConverter(),
                                           &signature)))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct ReturnLowering : OpConversionPattern<tile::ReturnOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::ReturnOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::ReturnOp>(op, ValueRange{});
    return success();
  }
};

struct IdLowering : OpConversionPattern<IdOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(IdOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value id;
    switch (op.getKind()) {
    case IdKind::Thread:
      id = emit.threadId();
      break;
    case IdKind::Warp:
      id = emit.warpId();
      break;
    case IdKind::Lane:
      id = emit.laneId();
      break;
    case IdKind::Block:
      id = NVVM::BlockIdXOp::create(rewriter, op.getLoc(),
                                    rewriter.getI32Type());
      break;
    case IdKind::ClusterRank:
      id =
          NVVM::ClusterId::create(rewriter, op.getLoc(), rewriter.getI32Type());
      break;
    }
    rewriter.replaceOp(op, id);
    return success();
  }
};

/// Emits one chain of branches. ptxas honors setmaxnreg only if the role of
/// each warpgroup is a branch of a single if.
struct SpecializeLowering : OpConversionPattern<SpecializeOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(SpecializeOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    int64_t threads = 0;
    for (int64_t warps : op.getWarps())
      threads += warps * 32;
    int64_t initial = 65536 / threads / 8 * 8;
    Value warp = emit.warpId();
    int64_t end = 0;
    size_t last = op.getRoles().size() - 1;
    for (size_t role = 0; role <= last; ++role) {
      end += op.getWarps()[role];
      Block *target = rewriter.getInsertionBlock();
      Block::iterator point = rewriter.getInsertionPoint();
      Block *elseBlock = nullptr;
      if (role != last) {
        Value mine = arith::CmpIOp::create(
            rewriter, loc, arith::CmpIPredicate::ult, warp, emit.i32(end));
        auto branch =
            scf::IfOp::create(rewriter, loc, mine, /*withElseRegion=*/true);
        target = branch.thenBlock();
        point = std::prev(target->end());
        elseBlock = branch.elseBlock();
      }
      rewriter.setInsertionPoint(target, point);
      if (int64_t registers = op.getRegisters()[role])
        NVVM::SetMaxRegisterOp::create(
            rewriter, loc, registers,
            registers > initial ? NVVM::SetMaxRegisterAction::increase
                                : NVVM::SetMaxRegisterAction::decrease);
      rewriter.inlineBlockBefore(&op.getRoles()[role].front(), target, point);
      if (elseBlock)
        rewriter.setInsertionPoint(elseBlock, std::prev(elseBlock->end()));
    }
    rewriter.eraseOp(op);
    return success();
  }
};

struct BarrierLowering : OpConversionPattern<tile::BarrierOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(tile::BarrierOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value id, threads;
    if (std::optional<uint64_t> count = op.getThreads()) {
      id = emit.i32(op.getId());
      threads = emit.i32(*count);
    } else if (op.getId() != 0) {
      id = emit.i32(op.getId());
    }
    NVVM::BarrierOp::create(rewriter, op.getLoc(), TypeRange{}, id, threads,
                            NVVM::BarrierReductionAttr(), Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct BarrierArriveLowering : OpConversionPattern<BarrierArriveOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(BarrierArriveOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    NVVM::BarrierArriveOp::create(rewriter, op.getLoc(), emit.i32(op.getId()),
                                  emit.i32(op.getThreads()));
    rewriter.eraseOp(op);
    return success();
  }
};

struct ClusterBarrierLowering : OpConversionPattern<ClusterBarrierOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(ClusterBarrierOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    UnitAttr aligned = rewriter.getUnitAttr();
    NVVM::ClusterArriveOp::create(rewriter, op.getLoc(), aligned);
    rewriter.replaceOpWithNewOp<NVVM::ClusterWaitOp>(op, aligned);
    return success();
  }
};

struct WarpSyncLowering : OpConversionPattern<WarpSyncOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(WarpSyncOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    rewriter.replaceOpWithNewOp<NVVM::SyncWarpOp>(op, emit.i32(-1));
    return success();
  }
};

struct GridDependencyLowering : OpConversionPattern<GridDependencyOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(GridDependencyOp op, OpAdaptor,
                  ConversionPatternRewriter &rewriter) const override {
    auto kind = op.getSide() == Dependency::Wait
                    ? NVVM::GridDepActionKind::wait
                    : NVVM::GridDepActionKind::launch_dependents;
    rewriter.replaceOpWithNewOp<NVVM::GriddepcontrolOp>(op, kind);
    return success();
  }
};

struct EpochLowering : OpConversionPattern<EpochOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(EpochOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    // The ticket orders no other access, so the atomic is relaxed.
    Value ticket = LLVM::AtomicRMWOp::create(
        rewriter, loc, LLVM::AtomicBinOp::add, adaptor.getSemaphores(),
        emit.i64(1), LLVM::AtomicOrdering::monotonic, "device",
        /*alignment=*/8);
    Value epoch =
        arith::DivUIOp::create(rewriter, loc, ticket, emit.i64(op.getBlocks()));
    rewriter.replaceOpWithNewOp<arith::TruncIOp>(op, rewriter.getI32Type(),
                                                 epoch);
    return success();
  }
};

struct SemaphoreLowering : OpConversionPattern<SemaphoreOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(SemaphoreOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    Value offset = emit.mul(emit.add(adaptor.getIndex(), emit.i32(1)),
                            emit.i32(kSemaphoreBytes));
    rewriter.replaceOp(
        op, emit.step(adaptor.getSemaphores(), rewriter.getI8Type(), offset));
    return success();
  }
};

struct SemaphoreArriveLowering : OpConversionPattern<SemaphoreArriveOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(SemaphoreArriveOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    NVVM::InlinePtxOp::create(
        rewriter, op.getLoc(), TypeRange{},
        ValueRange{adaptor.getSemaphore(), emit.i32(1)}, ValueRange{},
        op.getRelaxed() ? "red.relaxed.gpu.global.add.u32 [$0], $1;"
                        : "red.release.gpu.global.add.u32 [$0], $1;",
        Value());
    rewriter.eraseOp(op);
    return success();
  }
};

struct SemaphoreCountLowering : OpConversionPattern<SemaphoreCountOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(SemaphoreCountOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Emitter emit(rewriter, op.getLoc());
    auto count = NVVM::InlinePtxOp::create(
        rewriter, op.getLoc(), TypeRange{rewriter.getI64Type()},
        ValueRange{adaptor.getSemaphore(), emit.i64(1)}, ValueRange{},
        "atom.relaxed.gpu.global.add.u64 $0, [$1], $2;", Value());
    rewriter.replaceOp(op, count);
    return success();
  }
};

struct SemaphoreWaitLowering : OpConversionPattern<SemaphoreWaitOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(SemaphoreWaitOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Value goal = emit.mul(emit.add(adaptor.getEpoch(), emit.i32(1)),
                          adaptor.getArrivals());
    auto loop = scf::WhileOp::create(rewriter, loc, TypeRange{}, ValueRange{});
    rewriter.createBlock(&loop.getBefore());
    Value count = LLVM::LoadOp::create(
        rewriter, loc, rewriter.getI32Type(), adaptor.getSemaphore(),
        /*alignment=*/4, /*isVolatile=*/false, /*isNonTemporal=*/false,
        /*isInvariant=*/false, /*isInvariantGroup=*/false,
        op.getRelaxed() ? LLVM::AtomicOrdering::monotonic
                        : LLVM::AtomicOrdering::acquire,
        "device");
    Value missing = arith::SubIOp::create(rewriter, loc, count, goal);
    Value again = arith::CmpIOp::create(
        rewriter, loc, arith::CmpIPredicate::slt, missing, emit.i32(0));
    scf::ConditionOp::create(rewriter, loc, again, ValueRange{});
    rewriter.createBlock(&loop.getAfter());
    scf::YieldOp::create(rewriter, loc);
    rewriter.eraseOp(op);
    return success();
  }
};

struct SemaphoreMeetLowering : OpConversionPattern<SemaphoreMeetOp> {
  using OpConversionPattern::OpConversionPattern;

  LogicalResult
  matchAndRewrite(SemaphoreMeetOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    Emitter emit(rewriter, loc);
    Type i64 = rewriter.getI64Type();
    Value ticket =
        NVVM::InlinePtxOp::create(
            rewriter, loc, TypeRange{i64},
            ValueRange{adaptor.getSemaphore(), emit.i64(1)}, ValueRange{},
            "atom.acq_rel.gpu.global.add.u64 $0, [$1], $2;", Value())
            .getResult(0);
    // The grid barrier of this arrival is complete when the counter reaches the
    // next multiple of the number of arrivals.
    Value size = emit.i64(op.getArrivals());
    Value goal = arith::MulIOp::create(
        rewriter, loc,
        arith::AddIOp::create(
            rewriter, loc, arith::DivUIOp::create(rewriter, loc, ticket, size),
            emit.i64(1)),
        size);
    auto loop = scf::WhileOp::create(rewriter, loc, TypeRange{}, ValueRange{});
    rewriter.createBlock(&loop.getBefore());
    Value count = LLVM::LoadOp::create(
        rewriter, loc, i64, adaptor.getSemaphore(), /*alignment=*/8,
        /*isVolatile=*/false, /*isNonTemporal=*/false, /*isInvariant=*/false,
        /*isInvariantGroup=*/false, LLVM::AtomicOrdering::acquire, "device");
    Value again = arith::CmpIOp::create(rewriter, loc,
                                        arith::CmpIPredicate::ult, count, goal);
    scf::ConditionOp::create(rewriter, loc, again, ValueRange{});
    rewriter.createBlock(&loop.getAfter());
    scf::YieldOp::create(rewriter, loc);
    rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void fuse::populateTileKernelPatterns(const TileTypeConverter &converter,
                                      TileLoweringState &,
                                      RewritePatternSet &patterns) {
  patterns.add<KernelLowering, ReturnLowering, IdLowering, SpecializeLowering,
               BarrierLowering, BarrierArriveLowering, WarpSyncLowering,
               GridDependencyLowering, EpochLowering, SemaphoreLowering,
               SemaphoreArriveLowering, SemaphoreCountLowering,
               SemaphoreWaitLowering, SemaphoreMeetLowering,
               ClusterBarrierLowering>(converter, patterns.getContext());
}
