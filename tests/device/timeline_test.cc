// The modelled clock: the roofline, the charging rule at exact instants, and published chains of launches.
#include "device/timeline.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace openneuron::device {
namespace {

using trace::DType;

constexpr int64_t kUs = 1000;
constexpr int64_t kMiB = int64_t{1} << 20;

TEST(KernelTimeTest, BusiestEngineOfEachNodeAndTheSumOverNodes) {
  const Chip chip = *LoadChip("trn2");
  Work memory{.type = DType::kBFloat16, .hbm_bytes = 6 * kMiB, .elements_vector = 1 << 20};
  EXPECT_DOUBLE_EQ(KernelTimeNs(chip, {memory}), (6 << 20) / 600.0);
  Work matmul{.flops = 2.0 * 4096 * 4096 * 4096, .type = DType::kBFloat16, .hbm_bytes = int64_t{3} * 4096 * 4096 * 2};
  EXPECT_DOUBLE_EQ(KernelTimeNs(chip, {matmul}), 2.0 * 4096 * 4096 * 4096 / 158e3);
  EXPECT_DOUBLE_EQ(KernelTimeNs(chip, {memory, matmul, memory}),
                   2 * KernelTimeNs(chip, {memory}) + KernelTimeNs(chip, {matmul}));
  EXPECT_EQ(KernelTimeNs(chip, {}), 0);
  EXPECT_EQ(KernelTimeNs(chip, {Work{}}), 0);
}

TEST(KernelTimeTest, TypesMatter) {
  const Chip chip = *LoadChip("trn2");
  const auto vector = [&](DType type) { return KernelTimeNs(chip, {Work{.type = type, .elements_vector = 1 << 20}}); };
  const auto scalar = [&](DType type) { return KernelTimeNs(chip, {Work{.type = type, .elements_scalar = 1 << 20}}); };
  const auto tensor = [&](DType type) { return KernelTimeNs(chip, {Work{.flops = 1e9, .type = type}}); };
  EXPECT_DOUBLE_EQ(vector(DType::kBFloat16), (1 << 20) / (2 * 0.96 * 512));
  EXPECT_DOUBLE_EQ(vector(DType::kFloat32), 2 * vector(DType::kBFloat16));
  EXPECT_DOUBLE_EQ(vector(DType::kInt64), 2 * vector(DType::kFloat32));
  EXPECT_DOUBLE_EQ(scalar(DType::kFloat32), (1 << 20) / (2 * 1.2 * 128));
  EXPECT_DOUBLE_EQ(tensor(DType::kFloat32) / tensor(DType::kFloat16), 79.0 / 20);
  EXPECT_DOUBLE_EQ(KernelTimeNs(chip, {Work{.elements_gpsimd = 1 << 20}}), (1 << 20) / (2 * 1.2 * 128));
}

TEST(TimelineTest, OneLaunch) {
  Timeline timeline(40e3, 8);
  EXPECT_EQ(timeline.HostTimeNs(), 0);
  EXPECT_EQ(timeline.DeviceTimeNs(), 0);
  const LaunchTimes times = timeline.Launch(60e3, 10e3);
  EXPECT_EQ(times.submit_ns, 60 * kUs);
  EXPECT_EQ(times.start_ns, 60 * kUs);
  EXPECT_EQ(times.end_ns, 110 * kUs);
  EXPECT_EQ(timeline.HostTimeNs(), 60 * kUs) << "the host does not wait";
  EXPECT_EQ(timeline.DeviceTimeNs(), 110 * kUs);
  EXPECT_EQ(timeline.DeviceBusyNs(), 50 * kUs);
  EXPECT_EQ(timeline.launches(), 1);
  timeline.Synchronize();
  EXPECT_EQ(timeline.HostTimeNs(), 110 * kUs);
}

TEST(TimelineTest, ProgramsRunInOrderOneAtATime) {
  Timeline timeline(40e3, 8);
  timeline.Launch(10e3, 100e3);                           // runs 10..150
  const LaunchTimes second = timeline.Launch(10e3, 5e3);  // submitted at 20
  EXPECT_EQ(second.submit_ns, 20 * kUs);
  EXPECT_EQ(second.start_ns, 150 * kUs);
  EXPECT_EQ(second.end_ns, 195 * kUs);
}

TEST(TimelineTest, FullQueueRefusesUntilTheTickAtWhichTheOldestEnds) {
  Timeline timeline(40e3, 8);
  std::vector<LaunchTimes> launches;
  for (int i = 0; i < 8; ++i) {
    EXPECT_LE(timeline.QueueFreeNs(), timeline.HostTimeNs()) << "a place is free for launch " << i;
    launches.push_back(timeline.Launch(1e3, 960e3));  // 1 ms each on the device
  }
  EXPECT_EQ(launches[7].submit_ns, 8 * kUs) << "eight fit without waiting";
  const int64_t free_at = timeline.QueueFreeNs();
  EXPECT_EQ(free_at, launches[0].end_ns);
  EXPECT_EQ(timeline.InFlight(free_at - 1), 8) << "one tick early: full";
  EXPECT_EQ(timeline.InFlight(free_at), 7) << "on time: a place is free";
  const LaunchTimes ninth = timeline.Launch(1e3, 960e3);
  EXPECT_EQ(ninth.submit_ns, free_at);
  EXPECT_EQ(timeline.HostTimeNs(), free_at) << "the host was blocked";
  EXPECT_EQ(timeline.InFlight(free_at), 8);
}

TEST(TimelineTest, HostThatComesOneTickLaterThanTheFreePlaceDoesNotWait) {
  Timeline timeline(0, 1);
  const int64_t end = timeline.Launch(0, 500).end_ns;
  ASSERT_EQ(end, 500);
  Timeline early(0, 1), late(0, 1);
  early.Launch(0, 500);
  late.Launch(0, 500);
  EXPECT_EQ(early.Launch(499, 1).submit_ns, 500);
  EXPECT_EQ(late.Launch(501, 1).submit_ns, 501);
}

TEST(TimelineTest, NotBefore) {
  Timeline timeline(0, 8);
  EXPECT_EQ(timeline.Launch(10, 5, 100).start_ns, 100);
  EXPECT_EQ(timeline.Launch(10, 5, 50).start_ns, 105);
}

TEST(TimelineTest, DurationsAreRoundedUpAndNeverNegative) {
  Timeline timeline(0, 8);
  const LaunchTimes times = timeline.Launch(0.25, 1.5);
  EXPECT_EQ(times.submit_ns, 1);
  EXPECT_EQ(times.end_ns, 3);
  timeline.Launch(-5, -5);
  timeline.ChargeHost(-100);
  timeline.WaitUntil(-100);
  EXPECT_EQ(timeline.HostTimeNs(), 1);
  EXPECT_EQ(timeline.DeviceTimeNs(), 3);
}

TEST(TimelineTest, TimeNeverRunsBackwards) {
  Timeline timeline(40e3, 8);
  std::mt19937 random(3);
  int64_t host = 0, device = 0;
  for (int i = 0; i < 5000; ++i) {
    switch (random() % 8) {
      case 0:
        timeline.Synchronize();
        break;
      case 1:
        timeline.ChargeHost(random() % 5000);
        break;
      case 2:
        timeline.WaitUntil(random() % 1000000);
        break;
      default: {
        const LaunchTimes times = timeline.Launch(random() % 90000, random() % 200000, random() % 1000000);
        EXPECT_LE(times.submit_ns, times.start_ns);
        EXPECT_LT(times.start_ns, times.end_ns);
        EXPECT_GE(times.start_ns, device) << "in order";
      }
    }
    EXPECT_GE(timeline.HostTimeNs(), host);
    EXPECT_GE(timeline.DeviceTimeNs(), device);
    EXPECT_LE(timeline.InFlight(timeline.HostTimeNs()), 8);
    host = timeline.HostTimeNs();
    device = timeline.DeviceTimeNs();
  }
  EXPECT_LE(timeline.DeviceBusyNs(), device);
}

// silu(x + b), 1024 x 1024 bf16: a pair moves 6.3 MB when compiled; an op on its own 3 or 2 tensors of 2 MiB.
// Published for trn2 (xpu-perf fork, Neuron implementation notes): 64 pairs take 8,236 us eager, 706.5 us compiled.
TEST(PublishedChainTest, Eager) {
  const Chip chip = *LoadChip("trn2");
  const Work add{.type = DType::kBFloat16, .hbm_bytes = 6 * kMiB, .elements_vector = 1 << 20};
  const Work silu{.type = DType::kBFloat16, .hbm_bytes = 4 * kMiB, .elements_scalar = 1 << 20};
  const auto chain = [&](double host_ns) {
    Timeline timeline(chip);
    for (int i = 0; i < 64; ++i) {
      timeline.Launch(host_ns, KernelTimeNs(chip, {add}));
      timeline.Launch(host_ns, KernelTimeNs(chip, {silu}));
    }
    timeline.Synchronize();
    EXPECT_EQ(timeline.launches(), 128);
    return timeline.HostTimeNs() / 1e3;
  };
  // The published slope is 64 us per op.
  EXPECT_NEAR(chain(64e3), 8192, 0.02 * 8192);
  // The table's default of 60 us, the middle of what single ops take: host bound all the same.
  EXPECT_NEAR(chain(chip.eager_host_dispatch_ns), 128 * 60, 0.02 * 128 * 60);
}

TEST(PublishedChainTest, Compiled) {
  const Chip chip = *LoadChip("trn2");
  const Work pair{
      .type = DType::kBFloat16, .hbm_bytes = 6 * kMiB, .elements_vector = 1 << 20, .elements_scalar = 1 << 20};
  const std::vector<Work> nodes(64, pair);
  Timeline timeline(chip);
  const LaunchTimes times = timeline.Launch(chip.fused_launch_ns, KernelTimeNs(chip, nodes));
  // A launch in a steady stream: the larger of the host's and the device's share.
  EXPECT_NEAR((times.end_ns - times.start_ns) / 1e3, 712, 0.01 * 712);
  for (int i = 0; i < 99; ++i) timeline.Launch(chip.fused_launch_ns, KernelTimeNs(chip, nodes));
  timeline.Synchronize();
  EXPECT_NEAR(timeline.HostTimeNs() / 100e3, 712, 0.01 * 712);
}

TEST(TimelineTest, TwoThreads) {
  Timeline timeline(40e3, 8);
  auto launch = [&] {
    for (int i = 0; i < 10000; ++i) timeline.Launch(1, 10);
  };
  std::thread first(launch), second(launch);
  first.join();
  second.join();
  EXPECT_EQ(timeline.launches(), 20000);
  EXPECT_EQ(timeline.DeviceBusyNs(), 20000 * (40 * kUs + 10));
}

}  // namespace
}  // namespace openneuron::device
