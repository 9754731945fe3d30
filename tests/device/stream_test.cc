// Streams and events: ids, order, modelled waits, elapsed time.
#include "device/stream.h"

#include <gtest/gtest.h>

#include <set>

namespace openneuron::device {
namespace {

class StreamTest : public ::testing::Test {
 protected:
  Timeline timeline_{1000, 8};  // 1 us of program start
  StreamPool pool_{2, &timeline_};
};

TEST_F(StreamTest, IdsAndRoundRobin) {
  EXPECT_EQ(pool_.Default().id(), 0);
  EXPECT_EQ(pool_.Default().device_index(), 2);
  std::set<StreamId> ids;
  for (StreamPriority priority : {StreamPriority::kNormal, StreamPriority::kHigh}) {
    Stream& first = pool_.Next(priority);
    ids.insert(first.id());
    for (size_t i = 1; i < StreamPool::kPerPriority; ++i) {
      Stream& stream = pool_.Next(priority);
      EXPECT_EQ(stream.priority(), priority);
      ids.insert(stream.id());
    }
    EXPECT_EQ(&pool_.Next(priority), &first) << "in turn";
  }
  EXPECT_EQ(ids.size(), 64u);
  EXPECT_EQ(ids.count(0), 0u);
  for (StreamId id : ids) {
    ASSERT_NE(pool_.Find(id), nullptr);
    EXPECT_EQ(pool_.Find(id)->id(), id);
  }
  EXPECT_EQ(pool_.Find(0), &pool_.Default());
  EXPECT_EQ(pool_.Find(-1), nullptr);
  EXPECT_EQ(pool_.Find(65), nullptr);
}

TEST_F(StreamTest, LaunchesAdvanceTheStreamAndShareTheCoresQueue) {
  Stream& a = pool_.Default();
  Stream& b = pool_.Next(StreamPriority::kNormal);
  const LaunchTimes first = a.Launch(100, 5000);   // host to 100, device 100..6100
  const LaunchTimes second = b.Launch(100, 2000);  // one compute queue: after the first
  EXPECT_EQ(first.end_ns, 6100);
  EXPECT_EQ(second.start_ns, 6100);
  EXPECT_EQ(a.ModelledTimeNs(), 6100);
  EXPECT_EQ(b.ModelledTimeNs(), 9100);
  EXPECT_EQ(a.sequence(), 1u);
  EXPECT_EQ(b.sequence(), 1u);
}

TEST_F(StreamTest, SynchronizeWaitsForThisStreamOnly) {
  Stream& a = pool_.Default();
  Stream& b = pool_.Next(StreamPriority::kNormal);
  a.Launch(100, 5000);
  b.Launch(100, 2000);
  a.Synchronize();
  EXPECT_EQ(timeline_.HostTimeNs(), 6100);
  pool_.Synchronize();
  EXPECT_EQ(timeline_.HostTimeNs(), 9100);
}

TEST_F(StreamTest, EventMarksItsPlaceAndIsNotMovedByLaterWork) {
  Stream& stream = pool_.Default();
  stream.Launch(100, 5000);
  Event event;
  EXPECT_FALSE(event.recorded());
  EXPECT_TRUE(event.Query()) << "nothing to wait for";
  event.Record(stream, 77);
  EXPECT_TRUE(event.recorded());
  EXPECT_TRUE(event.Query());
  EXPECT_EQ(event.device_index(), 2);
  EXPECT_EQ(event.stream_id(), 0);
  EXPECT_EQ(event.sequence(), 2u);
  EXPECT_EQ(event.wall_ns(), 77);
  EXPECT_EQ(event.modelled_ns(), 6100);
  stream.Launch(100, 5000);
  EXPECT_EQ(event.modelled_ns(), 6100);
  event.Synchronize();
  EXPECT_EQ(timeline_.HostTimeNs(), 6100) << "up to the mark, not to the end";
  event.Record(stream, 99);
  EXPECT_EQ(event.wall_ns(), 99);
  EXPECT_EQ(event.modelled_ns(), 12100);
}

TEST_F(StreamTest, WaitOrdersTheOtherStream) {
  // Another core: its queue would be free at once.
  Timeline other_timeline(1000, 8);
  StreamPool other_pool(3, &other_timeline);
  Stream& producer = pool_.Default();
  Stream& consumer = other_pool.Default();
  producer.Launch(100, 50000);
  Event event;
  event.Wait(consumer);
  EXPECT_EQ(consumer.ModelledTimeNs(), 0) << "an event that was not recorded orders nothing";
  event.Record(producer, 1);
  event.Wait(consumer);
  EXPECT_EQ(consumer.ModelledTimeNs(), 51100);
  EXPECT_EQ(consumer.Launch(100, 10).start_ns, 51100);
  event.Wait(consumer);
  EXPECT_EQ(consumer.ModelledTimeNs(), 52110) << "never backwards";
}

TEST_F(StreamTest, ElapsedIsWallTimeAndAtLeastOneNanosecond) {
  Stream& stream = pool_.Default();
  Event a, b, c;
  a.Record(stream, 1'000'000);
  stream.Launch(100, 5000);
  b.Record(stream, 3'500'000);
  c.Record(stream, 3'500'000);
  EXPECT_DOUBLE_EQ(*Event::ElapsedMs(a, b), 2.5);
  EXPECT_DOUBLE_EQ(*Event::ElapsedMs(b, c), 1e-6) << "the clock did not tick";
  EXPECT_GE(*Event::ElapsedMs(a, c), *Event::ElapsedMs(a, b));
  EXPECT_DOUBLE_EQ(*Event::ElapsedMs(b, a), -2.5);
  EXPECT_DOUBLE_EQ(*Event::ElapsedModelledMs(a, b), 6100e-6);
  EXPECT_DOUBLE_EQ(*Event::ElapsedModelledMs(b, c), 1e-6);
}

TEST_F(StreamTest, ElapsedRefusals) {
  Event recorded, blank, elsewhere;
  recorded.Record(pool_.Default(), 1);
  Timeline timeline(0, 1);
  StreamPool pool(0, &timeline);
  elsewhere.Record(pool.Default(), 2);
  EXPECT_EQ(Event::ElapsedMs(recorded, blank).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Event::ElapsedMs(recorded, blank).status().message(), "elapsed_time: the end event was not recorded");
  EXPECT_EQ(Event::ElapsedMs(blank, recorded).status().message(), "elapsed_time: the start event was not recorded");
  EXPECT_EQ(Event::ElapsedMs(recorded, elsewhere).status().message(),
            "elapsed_time: the events are on neuron:2 and neuron:0");
  EXPECT_EQ(Event::ElapsedModelledMs(recorded, elsewhere).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(StreamTest, MarkOnAnIdleDeviceIsPassedWhenTheHostSubmitsIt) {
  timeline_.ChargeHost(5000);
  Event event;
  event.Record(pool_.Default(), 1);
  EXPECT_EQ(event.modelled_ns(), 5000);
}

}  // namespace
}  // namespace openneuron::device
