// The extension module openneuron._C: what the Python package calls. Its contract is python/openneuron/_C.pyi.
#include <ATen/ATen.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>

#include "eager/allocator.h"
#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/engine_bindings.h"
#include "eager/fallback.h"
#include "eager/generator.h"
#include "eager/gil.h"
#include "eager/hooks.h"
#include "eager/pinned.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

namespace py = pybind11;
using ReleaseGil = py::call_guard<ScopedGilRelease>;
using StreamTuple = std::tuple<int64_t, int64_t, int64_t>;

void Init() {
  static bool done = false;
  if (done) return;
  InitDevices();
  InstallStorages();
  InstallAllocators();
  InstallPinnedAllocator();
  InstallHooks();
  InstallFallback();
  InitEngine();
  done = true;
}

// An index from Python, checked before it is narrowed.
c10::DeviceIndex Index(int64_t index) {
  TORCH_CHECK(index >= 0 && index < DeviceCount(), "Invalid device index ", index,
              ": the neuron devices are numbered from 0 to ", DeviceCount() - 1);
  return static_cast<c10::DeviceIndex>(index);
}

StreamTuple AsTuple(const c10::Stream& stream) {
  return {stream.id(), stream.device_index(), static_cast<int64_t>(stream.device_type())};
}

void Add(py::dict& out, const std::string& name, const device::MemoryStat& stat) {
  out[py::str(name + ".all.current")] = stat.current;
  out[py::str(name + ".all.peak")] = stat.peak;
  out[py::str(name + ".all.allocated")] = stat.allocated;
  out[py::str(name + ".all.freed")] = stat.freed;
}

py::dict MemoryStatsDict(int64_t index) {
  const device::MemoryStats stats = DeviceAt(Index(index)).memory.Stats();
  py::dict out;
  Add(out, "allocated_bytes", stats.allocated_bytes);
  Add(out, "active_bytes", stats.allocated_bytes);
  Add(out, "reserved_bytes", stats.reserved_bytes);
  Add(out, "requested_bytes", stats.requested_bytes);
  Add(out, "allocation", stats.blocks);
  Add(out, "active", stats.blocks);
  Add(out, "segment", stats.regions);
  out["num_alloc_retries"] = stats.retries;
  out["num_ooms"] = stats.ooms;
  out["num_device_alloc"] = stats.regions.allocated;
  out["num_device_free"] = stats.regions.freed;
  return out;
}

void BindDevices(py::module_& m) {
  m.def("device_count", [] { return static_cast<int64_t>(DeviceCount()); });
  m.def("current_device", [] { return static_cast<int64_t>(CurrentDevice()); });
  m.def("set_device", [](int64_t index) { SetCurrentDevice(Index(index)); });
  m.def("exchange_device", [](int64_t index) {
    const int64_t before = CurrentDevice();
    SetCurrentDevice(Index(index));
    return before;
  });
  m.def("is_bad_fork", &InBadFork);
  m.def("is_used", [](int64_t index) { return DeviceUsed(Index(index)); });
  m.def(
      "synchronize",
      [](int64_t index) {
        Device& device = DeviceAt(Index(index));
        Cut(CutReason::kSynchronize);
        device.streams.Synchronize();
      },
      ReleaseGil());
}

void BindStreams(py::module_& m) {
  m.def("current_stream", [](int64_t index) { return AsTuple(CurrentStream(Index(index))); });
  m.def("default_stream", [](int64_t index) { return AsTuple(MakeStream(Index(index), device::kDefaultStreamId)); });
  m.def(
      "set_stream",
      [](int64_t id, int64_t index, int64_t type) {
        TORCH_CHECK(type == static_cast<int64_t>(kNeuron), "Expected a neuron stream, but got one of device type ",
                    type);
        ExchangeStream(MakeStream(Index(index), id));
        SetCurrentDevice(Index(index));
      },
      ReleaseGil());
  m.def("new_stream", [](int64_t index, int64_t priority) {
    const auto wanted = priority < 0 ? device::StreamPriority::kHigh : device::StreamPriority::kNormal;
    return AsTuple(MakeStream(Index(index), DeviceAt(Index(index)).streams.Next(wanted).id()));
  });
  m.def(
      "stream_query",
      [](int64_t id, int64_t index) {
        device::Stream& stream = StreamOf(MakeStream(Index(index), id));
        Cut(CutReason::kSynchronize);
        return stream.Query();
      },
      ReleaseGil());
  m.def(
      "stream_synchronize",
      [](int64_t id, int64_t index) {
        device::Stream& stream = StreamOf(MakeStream(Index(index), id));
        Cut(CutReason::kSynchronize);
        stream.Synchronize();
      },
      ReleaseGil());
  m.def("stream_priority_range", [] {
    return std::make_tuple(static_cast<int>(device::StreamPriority::kNormal),
                           static_cast<int>(device::StreamPriority::kHigh));
  });
}

void BindMemory(py::module_& m) {
  m.def("memory_stats", &MemoryStatsDict);
  m.def("reset_peak_memory_stats", [](int64_t index) { DeviceAt(Index(index)).memory.ResetPeak(); });
  m.def("reset_accumulated_memory_stats", [](int64_t index) { DeviceAt(Index(index)).memory.ResetAccumulated(); });
  m.def(
      "empty_cache",
      [] {
        for (c10::DeviceIndex i = 0; i < DeviceCount(); ++i) DeviceAt(i).memory.EmptyCache();
        Pinned().EmptyCache();
      },
      ReleaseGil());
  m.def("mem_get_info", [](int64_t index) {
    device::DeviceMemory& memory = DeviceAt(Index(index)).memory;
    return std::make_tuple(std::max<int64_t>(memory.Limit() - memory.Stats().reserved_bytes.current, 0),
                           memory.Capacity());
  });
  m.def("set_memory_fraction", [](double fraction, int64_t index) {
    Cut(CutReason::kMemory);  // what is recorded was within the old limit
    device::DeviceMemory& memory = DeviceAt(Index(index)).memory;
    const auto share = static_cast<int64_t>(fraction * static_cast<double>(memory.Capacity()));
    memory.SetLimit(std::min(share, HostMemoryLimit()));
  });
  m.def(
      "expose",
      [](const at::Tensor& tensor) {
        TORCH_CHECK(tensor.is_privateuseone(), "Expected a neuron tensor, but got one on ", tensor.device());
        Expose(tensor);
      },
      ReleaseGil());
}

py::dict ChipInfo() {
  const device::Chip& chip = ModelledChip();
  py::dict out;
  out["name"] = chip.name;
  out["cores"] = chip.cores;
  out["cores_per_logical_core"] = chip.cores_per_logical_core;
  out["logical_cores"] = chip.logical_cores;
  out["hbm_bytes"] = chip.hbm_bytes;
  out["sbuf_bytes"] = chip.sbuf_bytes;
  return out;
}

// True while the autograd engine has threads for devices.
bool BackwardThreadsLive() {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name.starts_with("pt_autograd_")) return true;
  }
  return false;
}

// Called when the interpreter is about to end. The thread that ran a backward pass may still hold its graph, and the
// engine, which can be told to stop, does not wait until its threads have given their Python state back.
void StopBackwardThreads() {
  using std::chrono::steady_clock;
  torch::autograd::Engine::get_default_engine().stop();
  const auto deadline = steady_clock::now() + std::chrono::seconds(1);
  while (BackwardThreadsLive() && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace
}  // namespace openneuron::eager

PYBIND11_MODULE(_C, m) {
  using namespace openneuron::eager;
  m.doc() = "The native part of openneuron.";
  m.attr("torch_version") = TORCH_VERSION;
  m.def("init", &Init);
  m.def("chip_info", &ChipInfo);
  m.def("stop_backward_threads", &StopBackwardThreads, ReleaseGil());
  m.def("default_generator", [](int64_t index) {
    return py::reinterpret_steal<py::object>(THPGenerator_initDefaultGenerator(DefaultGenerator(Index(index))));
  });
  BindDevices(m);
  BindStreams(m);
  BindMemory(m);
  BindEngine(m);
}
