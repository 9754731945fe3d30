// The devices of this process, from the environment; current device and streams of a thread.
#include "eager/devices.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "eager/engine.h"

namespace openneuron::eager {
namespace {

// Everything below is written by InitDevices only and never destroyed: tensors may outlive static destruction.
struct Process {
  device::Chip chip;
  int64_t memory_limit = 0;
  std::vector<std::unique_ptr<Device>> devices;
  device::PinnedMemory pinned;
};
Process* process = nullptr;
c10::DeviceIndex device_count = 0;
std::atomic<bool> in_bad_fork{false};

thread_local c10::DeviceIndex current_device = 0;
thread_local int64_t current_streams[kMaxDevices] = {};

int CountFromEnvironment() {
  const char* text = std::getenv("NEURON_DEVICE_COUNT");
  if (text == nullptr) return 1;
  int count = 0;
  TORCH_CHECK_VALUE(absl::SimpleAtoi(text, &count) && count >= 1 && count <= kMaxDevices, "NEURON_DEVICE_COUNT='", text,
                    "': valid values are 1, 2, ... ", kMaxDevices);
  return count;
}

device::Chip ChipFromEnvironment() {
  const char* name = std::getenv("NEURON_CHIP");
  auto chip = device::LoadChip(name == nullptr ? "trn2" : name);
  TORCH_CHECK_VALUE(chip.ok(), "NEURON_CHIP: ", std::string(chip.status().message()));
  return *std::move(chip);
}

// 90 % of the memory that the host can give without swapping.
int64_t AvailableHostMemory() {
  std::ifstream meminfo("/proc/meminfo");
  std::string name, unit;
  int64_t kib = 0;
  while (meminfo >> name >> kib) {
    if (name == "MemAvailable:") return kib * 1024 / 10 * 9;
    std::getline(meminfo, unit);
  }
  return INT64_MAX;
}

void MarkChild() {
  for (const auto& device : process->devices) {
    if (device->used.load(std::memory_order_relaxed)) in_bad_fork.store(true, std::memory_order_relaxed);
  }
}

}  // namespace

Device::Device(int index, const device::Chip& chip, int64_t memory_limit)
    : memory(index, chip.hbm_bytes), timeline(chip), streams(index, &timeline) {
  memory.SetLimit(memory_limit);
}

void InitDevices() {
  if (process != nullptr) return;
  const int count = CountFromEnvironment();
  auto made = std::make_unique<Process>();
  made->chip = ChipFromEnvironment();
  made->memory_limit = std::min(made->chip.hbm_bytes, AvailableHostMemory());
  for (int i = 0; i < count; ++i) made->devices.push_back(std::make_unique<Device>(i, made->chip, made->memory_limit));
  process = made.release();
  device_count = static_cast<c10::DeviceIndex>(count);
  pthread_atfork(nullptr, nullptr, &MarkChild);
}

c10::DeviceIndex DeviceCount() noexcept { return device_count; }
const device::Chip& ModelledChip() { return process->chip; }
device::PinnedMemory& Pinned() { return process->pinned; }
int64_t HostMemoryLimit() { return process->memory_limit; }

Device& DeviceAt(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < device_count, "Invalid device index ", static_cast<int>(index),
              ": the neuron devices are numbered from 0 to ", device_count - 1);
  return *process->devices[index];
}

void UseDevice(c10::DeviceIndex index) {
  TORCH_CHECK(!in_bad_fork.load(std::memory_order_relaxed),
              "Cannot re-initialize neuron in forked subprocess. To use neuron with multiprocessing, you must use the "
              "'spawn' start method");
  std::atomic<bool>& used = DeviceAt(index).used;
  if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_relaxed);
}

bool DeviceUsed(c10::DeviceIndex index) {
  return index >= 0 && index < device_count && process->devices[index]->used.load(std::memory_order_relaxed);
}

bool InBadFork() noexcept { return in_bad_fork.load(std::memory_order_relaxed); }

c10::DeviceIndex CurrentDevice() noexcept { return current_device; }

void SetCurrentDevice(c10::DeviceIndex index) {
  if (index == current_device && index < device_count) return;
  DeviceAt(index);
  current_device = index;
}

void SetCurrentDeviceUnchecked(c10::DeviceIndex index) noexcept {
  if (index >= 0 && index < device_count) current_device = index;
}

c10::DeviceIndex ResolveDevice(c10::DeviceIndex index) {
  if (index < 0) return current_device;
  DeviceAt(index);
  return index;
}

c10::Stream MakeStream(c10::DeviceIndex index, int64_t id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(kNeuron, index), id);
}

c10::Stream CurrentStream(c10::DeviceIndex index) {
  index = ResolveDevice(index);
  return MakeStream(index, current_streams[index]);
}

c10::Stream ExchangeStream(c10::Stream stream) {
  StreamOf(stream);
  int64_t& current = current_streams[stream.device_index()];
  const int64_t before = current;
  if (before != stream.id()) {
    Cut(CutReason::kStream);
    current = stream.id();
  }
  return MakeStream(stream.device_index(), before);
}

device::Stream& StreamOf(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == kNeuron, "Expected a neuron stream, but got one of ", stream.device());
  device::Stream* found = DeviceAt(stream.device_index()).streams.Find(stream.id());
  TORCH_CHECK(found != nullptr, "Invalid stream id ", stream.id(), " on ", stream.device());
  return *found;
}

}  // namespace openneuron::eager
