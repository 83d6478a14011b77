//===- CudaHandlesTest.cpp - Tests of what handles of devices share -------===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"

using namespace fuse;
using namespace fuse::test;

// Weights of the host that two devices pack lie at the same place, and what
// was packed on one is not there on the other.
TEST(CudaHandlesTest, SharesWeightsOfEachDeviceAlone) {
  const FakeCuda &fake = getFake();
  fake.set("devices", 2);
  {
    CudaSession session;
    cxx::Device devices[] = {cxx::Device::cuda(0), cxx::Device::cuda(1)};
    cxx::SharedWeights shared;
    std::vector<cxx::Instance> instances;
    auto countAllocations = [&](int device) {
      cxx::Program program(session.artifact, devices[device]);
      cxx::Instance instance(program, nullptr);
      for (int i : {1, 2})
        instance.bind(i, session.getView(i, kDLCPU));
      fake.reset();
      instance.prepare(shared);
      instances.push_back(std::move(instance));
      return fake.countCalls("cuMemAlloc");
    };
    // The packed weight and the copy of the norm's, or the copy alone.
    EXPECT_EQ(countAllocations(0), 2);
    EXPECT_EQ(countAllocations(1), 2);
    EXPECT_EQ(countAllocations(0), 1);
    EXPECT_EQ(countAllocations(1), 1);
  }
  fake.set("devices", 1);
}
