// What the engine costs around the kernels, one phase a benchmark: record, seal and look up, find the plan, run.
// The counter `per_op` is time per node; the time of an iteration is that of a whole segment.
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "cache/segment_cache.h"
#include "kernels/node_executor.h"
#include "kernels/parallel.h"
#include "trace/trace.h"

namespace openneuron {
namespace {

using trace::BufferId;
using trace::DType;
using trace::Op;
using trace::Trace;
using trace::ViewId;

// Programs as the recorder writes them: operands, a fresh output, the node. All on f32 [n].

// y = y * 1.5, y = y + b in turn; only the last y is alive.
void RecordChain(Trace& t, int nodes, int64_t n) {
  const std::array<int64_t, 1> sizes = {n}, strides = {1};
  ViewId y = t.AddView(t.AddBuffer(true), DType::kFloat32, 0, sizes, strides, -1);
  ViewId b = -1;
  const BufferId b_buffer = t.AddBuffer(true);
  for (int i = 0; i < nodes; ++i) {
    const bool mul = i % 2 == 0;
    if (!mul) b = t.AddView(b_buffer, DType::kFloat32, 0, sizes, strides, b);
    const ViewId out = t.AddViewLike(t.AddBuffer(false), DType::kFloat32, y);
    t.BeginNode(mul ? Op::kMul : Op::kAdd, DType::kFloat32, 2, 1, 0, 0);
    t.Input(y);
    if (mul) {
      t.ScalarInput(0x3ff8'0000'0000'0000);  // 1.5
    } else {
      t.Input(b);
    }
    t.Output(out);
    y = out;
  }
}

// x.add_(1.0) on one view after another of a buffer, as an optimizer does on its parameters.
void RecordInPlace(Trace& t, int nodes, int64_t n) {
  const std::array<int64_t, 1> sizes = {n}, strides = {1};
  for (int i = 0; i < nodes; ++i) {
    const ViewId x = t.AddView(t.AddBuffer(true), DType::kFloat32, 0, sizes, strides, -1);
    t.BeginNode(Op::kAdd, DType::kFloat32, 2, 1, 0, 0);
    t.Input(x);
    t.ScalarInput(0x3ff0'0000'0000'0000);  // 1.0
    t.Output(x);
  }
}

using Recording = void (*)(Trace&, int, int64_t);

std::vector<uint8_t> Alive(const Trace& t) {
  std::vector<uint8_t> alive(t.buffers(), 0);
  alive.back() = 1;
  return alive;
}

void PerOp(benchmark::State& state) {
  state.counters["per_op"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_Record(benchmark::State& state, Recording record) {
  Trace t;
  for (auto _ : state) {
    record(t, static_cast<int>(state.range(0)), 4);
    benchmark::DoNotOptimize(t.code().data());
    t.Reset();
  }
  PerOp(state);
}

// Everything between the last op and a proved hit. Recording is not timed.
void BM_SealFindCompare(benchmark::State& state, Recording record) {
  Trace t;
  cache::SegmentCache cache(2048, 64 << 20, 8);
  const int nodes = static_cast<int>(state.range(0));
  record(t, nodes, 4);
  const std::vector<uint8_t> alive = Alive(t);
  t.Seal(alive);
  cache.Find(t.code());
  for (auto _ : state) {
    t.Reset();
    record(t, nodes, 4);
    const auto begin = std::chrono::steady_clock::now();
    t.Seal(alive);
    benchmark::DoNotOptimize(cache.Find(t.code()));
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (cache.stats().misses != 1) state.SkipWithError("a look-up missed");
  PerOp(state);
}

// A recorded segment with everything that one launch binds.
struct Launch {
  explicit Launch(Recording record, int nodes, int64_t n) {
    record(t, nodes, n);
    const std::vector<uint8_t> alive = Alive(t);
    t.Seal(alive);
    entry = cache.Find(t.code());
    for (int b = 0; b < t.buffers(); ++b) {
      const bool temporary = entry->segment->roles[b] == trace::Role::kTemporary;
      temporary_bytes.push_back(temporary ? n * static_cast<int64_t>(sizeof(float)) : 0);
    }
    plan = FindPlan();
    // A cache line for each buffer and one at the end, so that no two buffers share one.
    const int64_t stride = (n + 31) / 16 * 16;
    memory.resize(t.buffers() * stride + 16);
    scratch.resize(plan->scratch_bytes() / 64 + 2);
    float* base = memory.data();
    while (reinterpret_cast<uintptr_t>(base) % 64 != 0) ++base;
    for (int b = 0; b < t.buffers(); ++b) addresses.push_back(base + b * stride);
  }

  std::shared_ptr<const kernels::Plan> FindPlan() {
    return cache
        .FindPlan(*entry, t.size_values(), t.stride_values(), temporary_bytes, heavy,
                  [](const kernels::Plan&) { return 0.0; })
        .plan;
  }

  struct alignas(64) Line {
    char bytes[64];
  };
  Trace t;
  cache::SegmentCache cache{2048, 64 << 20, 8};
  kernels::HeavyTable heavy{};
  std::shared_ptr<cache::Entry> entry;
  std::vector<int64_t> temporary_bytes;
  std::shared_ptr<const kernels::Plan> plan;
  std::vector<float> memory;
  std::vector<Line> scratch;
  std::vector<void*> addresses;
};

void BM_FindPlan(benchmark::State& state, Recording record) {
  Launch launch(record, static_cast<int>(state.range(0)), 4);
  for (auto _ : state) benchmark::DoNotOptimize(launch.FindPlan());
  if (launch.cache.stats().plan_misses != 1) state.SkipWithError("a plan was made twice");
  PerOp(state);
}

// First sight of a segment: decode, plan, remember.
void BM_Miss(benchmark::State& state, Recording record) {
  Launch launch(record, static_cast<int>(state.range(0)), 4);
  for (auto _ : state) {
    launch.cache.Clear();
    launch.entry = launch.cache.Find(launch.t.code());
    benchmark::DoNotOptimize(launch.FindPlan());
  }
  PerOp(state);
}

void BM_Run(benchmark::State& state, Recording record) {
  kernels::SetThreadCount(1);
  Launch launch(record, static_cast<int>(state.range(0)), state.range(1));
  const kernels::Bindings bindings{launch.addresses, launch.t.offsets().data(),
                                   reinterpret_cast<const kernels::Scalar*>(launch.t.scalars().data()),
                                   launch.scratch.data()};
  std::vector<bool> spoiled;
  for (auto _ : state) {
    if (!launch.plan->Run(bindings, &spoiled).empty()) state.SkipWithError("a node failed");
    benchmark::ClobberMemory();
  }
  PerOp(state);
}

void Lengths(benchmark::internal::Benchmark* b) {
  for (int nodes : {1, 8, 64, 256}) b->Args({nodes});
}
void LengthsAndSizes(benchmark::internal::Benchmark* b) {
  for (int nodes : {1, 64}) {
    for (int size : {4, 64, 1024}) b->Args({nodes, size});
  }
}

#define PROGRAMS(phase, arguments)                                \
  BENCHMARK_CAPTURE(phase, chain, RecordChain)->Apply(arguments); \
  BENCHMARK_CAPTURE(phase, in_place, RecordInPlace)->Apply(arguments)

PROGRAMS(BM_Record, Lengths);
BENCHMARK_CAPTURE(BM_SealFindCompare, chain, RecordChain)->Apply(Lengths)->UseManualTime();
BENCHMARK_CAPTURE(BM_SealFindCompare, in_place, RecordInPlace)->Apply(Lengths)->UseManualTime();
PROGRAMS(BM_FindPlan, Lengths);
PROGRAMS(BM_Miss, Lengths);
PROGRAMS(BM_Run, LengthsAndSizes);

}  // namespace
}  // namespace openneuron

BENCHMARK_MAIN();
