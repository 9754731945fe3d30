// The engine: one trace, one lock, cuts, launches, failures, statistics.
#include "eager/engine.h"

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <Python.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "cache/segment_cache.h"
#include "eager/devices.h"
#include "eager/gil.h"
#include "eager/heavy.h"
#include "eager/launch_cost.h"
#include "eager/policy.h"
#include "eager/recorder.h"
#include "kernels/node_executor.h"
#include "kernels/parallel.h"

namespace openneuron::eager {
namespace {

using trace::BufferId;
using trace::Role;

using Storages = std::vector<c10::intrusive_ptr<c10::StorageImpl>>;

// What PyTorch's dispatcher must not see while library kernels run inside a cut: a cut can happen anywhere.
const c10::DispatchKeySet& KernelExcludedKeys() {
  static const c10::DispatchKeySet keys = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                          c10::autocast_dispatch_keyset | c10::functorch_transforms_ks |
                                          c10::functorch_batched_ks | c10::python_ks |
                                          c10::DispatchKeySet(c10::DispatchKey::FuncTorchDynamicLayerFrontMode) |
                                          c10::DispatchKeySet(c10::DispatchKey::FuncTorchDynamicLayerBackMode) |
                                          c10::DispatchKeySet(c10::DispatchKey::Functionalize);
  return keys;
}

class Engine {
 public:
  void Lock() {
    if (mutex_.try_lock()) return;
    if (Py_IsInitialized() && PyGILState_Check()) {
      PyThreadState* state = PyEval_SaveThread();
      mutex_.lock();
      TakeGil(state, &mutex_);
    } else {
      mutex_.lock();
    }
  }
  void Unlock() { mutex_.unlock(); }

  trace::Trace& trace() { return trace_; }
  uint64_t epoch() const { return epoch_; }

  void Enter(c10::Device device, Storages* released) {
    UseDevice(device.index());
    const int64_t stream = CurrentStream(device.index()).id();
    if (device.index() != device_ || stream != stream_) {
      RunTrace(CutReason::kStream, released, nullptr);
      device_ = device.index();
      stream_ = stream;
    }
    if (trace_.nodes() == 0) {
      memory_budget_.store(DeviceAt(device_).memory.Headroom() / 2, std::memory_order_relaxed);
    }
  }

  BufferId Register(NeuronStorage* storage) {
    if (storage->epoch == epoch_) return storage->buffer;
    if (storage->failure) std::rethrow_exception(storage->failure);
    storage->epoch = epoch_;
    storage->last_view = -1;
    storage->buffer = trace_.AddBuffer(storage->data() != nullptr || storage->nbytes() == 0);
    if (storage->data() == nullptr) {
      pending_bytes_.store(pending_bytes() + static_cast<int64_t>(storage->nbytes()), std::memory_order_relaxed);
    }
    storages_.push_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage));
    ArmMaterializer(storage);
    return storage->buffer;
  }

  void Finish(trace::Op op, trace::DType type, double heavy_flops, Storages* released) {
    ++stats_.ops_recorded;
    heavy_flops_ += heavy_flops;
    if (single_) {
      std::exception_ptr failure;
      RunTrace(CutReason::kSingle, released, &failure);
      if (failure) std::rethrow_exception(failure);
      return;
    }
    const bool content = rule_.Next(op, type);
    if (content) {
      RunTrace(CutReason::kContent, released, nullptr);
    } else if (trace_.nodes() >= kParams.op_cap) {
      RunTrace(CutReason::kOpCap, released, nullptr);
    } else if (pending_bytes() > memory_budget_.load(std::memory_order_relaxed)) {
      RunTrace(CutReason::kMemory, released, nullptr);
    } else if (pending_bytes() > kParams.byte_cap) {
      RunTrace(CutReason::kByteCap, released, nullptr);
    } else if (heavy_flops_ > static_cast<double>(kParams.heavy_flops_cap)) {
      RunTrace(CutReason::kHeavy, released, nullptr);
    }
  }

  // Without the lock: a hint. The budget is as old as the trace; a large tensor is worth asking for the headroom of
  // now.
  bool NearMemoryLimit(int64_t nbytes, c10::DeviceIndex index) const {
    constexpr int64_t kLarge = int64_t{1} << 20;
    return nbytes > memory_budget_.load(std::memory_order_relaxed) - pending_bytes() ||
           (nbytes >= kLarge && nbytes > DeviceAt(index).memory.Headroom() / 2 - pending_bytes());
  }

  // Ends the trace and launches it. A launch's first failure goes to `failure` when asked for; in any case it is kept
  // with the storages that it spoils.
  void RunTrace(CutReason reason, Storages* released, std::exception_ptr* failure);

  void Materialize(NeuronStorage* storage, CutReason reason, Storages* released) {
    if (storage->epoch == epoch_) RunTrace(reason, released, nullptr);
    if (storage->failure) std::rethrow_exception(storage->failure);
    if (storage->data() == nullptr && storage->nbytes() > 0) {
      storage->set_data_ptr_noswap(
          AllocateDeviceMemory(static_cast<int64_t>(storage->nbytes()), storage->device().index()));
    }
  }

  void SetMode(Mode mode, Storages* released) {
    RunTrace(CutReason::kMode, released, nullptr);
    mode_.store(mode, std::memory_order_relaxed);
    single_ = blocking_ || mode != Mode::kAdaptive;
  }
  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  void SetBlocking(bool blocking) {
    blocking_ = blocking;
    single_ = blocking || mode() != Mode::kAdaptive;
  }

  EngineStats stats() const {
    EngineStats out = stats_;
    const cache::CacheStats& c = cache_.stats();
    out.cache_hits = c.hits;
    out.cache_misses = c.misses;
    out.segments_compiled = c.misses;
    out.cache_evictions = c.evictions;
    out.cache_entries = c.entries;
    out.cache_bytes = c.bytes;
    out.plan_hits = c.plan_hits;
    out.plan_misses = c.plan_misses;
    return out;
  }
  void ResetStats() {
    stats_ = {};
    cache_.ResetCounters();
  }
  void CountFallback(const std::string& op) { ++stats_.fallback_ops[op]; }
  cache::SegmentCache& cache() { return cache_; }
  kernels::HeavyTable& heavy() { return heavy_; }

 private:
  std::shared_ptr<cache::Entry> FindEntry();
  // An empty trace; the storages of the old one go to `released`.
  void Restart(Storages* released);
  std::exception_ptr Bind(const trace::Segment& segment, int64_t scratch_bytes, std::vector<bool>* spoiled,
                          c10::DataPtr* scratch);
  void Spoil(const trace::Segment& segment, const std::vector<bool>& spoiled, const std::exception_ptr& error);

  std::mutex mutex_;  // taken once per op; Debian's absl::Mutex looks for deadlocks each time
  trace::Trace trace_;
  uint64_t epoch_ = 1;
  Storages storages_;  // per buffer of the trace
  c10::DeviceIndex device_ = 0;
  int64_t stream_ = 0;
  int64_t pending_bytes() const { return pending_bytes_.load(std::memory_order_relaxed); }
  std::atomic<int64_t> pending_bytes_{0};
  // Half of what the device could still give when the trace began: sizes are rounded up, and scratch may not reuse all.
  std::atomic<int64_t> memory_budget_{INT64_MAX};
  double heavy_flops_ = 0;
  ContentRule rule_;
  std::atomic<Mode> mode_{Mode::kAdaptive};
  bool blocking_ = false;
  bool single_ = false;
  cache::SegmentCache cache_{kParams.cache_entries, kParams.cache_bytes, static_cast<int>(kParams.plans_per_segment)};
  kernels::HeavyTable heavy_{};
  EngineStats stats_;
  // Scratch of RunTrace, kept for their capacity.
  std::vector<uint8_t> alive_;
  std::vector<int64_t> temporary_bytes_;
  std::vector<void*> addresses_;
};

// Leaked: tensors may outlive every static object.
Engine& TheEngine() {
  static Engine* engine = new Engine;
  return *engine;
}

class EngineLock {
 public:
  EngineLock() { TheEngine().Lock(); }
  ~EngineLock() { TheEngine().Unlock(); }
};

// The first node that writes a marked buffer.
int FirstWriter(const trace::Segment& segment, const std::vector<bool>& marked) {
  for (size_t i = 0; i < segment.nodes.size(); ++i) {
    for (uint32_t word : segment.Outputs(segment.nodes[i])) {
      if (marked[segment.views[word].buffer]) return static_cast<int>(i);
    }
  }
  return 0;
}

std::string DescribeNode(const trace::Segment& segment, int index, const trace::Trace& trace) {
  const trace::Node& node = segment.nodes[index];
  std::string out = absl::StrCat("aten::", trace::Info(node.op).text, "(");
  bool first = true;
  for (uint32_t word : segment.Inputs(node)) {
    if (!first) out += ", ";
    first = false;
    if (word & trace::kScalarBit) {
      out += "scalar";
      continue;
    }
    const trace::View& view = segment.views[word];
    int64_t sizes[trace::kMaxTraceRank], strides[trace::kMaxTraceRank];
    trace::BindView(segment, view, trace.size_values().data(), trace.stride_values().data(), sizes, strides);
    absl::StrAppend(&out, trace::DTypeName(view.type), "[", absl::StrJoin(sizes, sizes + view.rank, ", "), "]");
  }
  return out + ")";
}

// Keeps the exception's type and adds what was running.
std::exception_ptr WithContext(const std::exception_ptr& error, const std::string& where) {
  try {
    std::rethrow_exception(error);
  } catch (c10::Error& e) {
    e.add_context(absl::StrCat("raised by ", where, " on device neuron"));
    return std::current_exception();
  } catch (...) {
    return std::current_exception();
  }
}

void Engine::Spoil(const trace::Segment& segment, const std::vector<bool>& spoiled, const std::exception_ptr& error) {
  for (size_t b = 0; b < segment.roles.size(); ++b) {
    if (spoiled[b]) static_cast<NeuronStorage*>(storages_[b].get())->failure = error;
  }
}

std::shared_ptr<cache::Entry> Engine::FindEntry() {
  if (mode() != Mode::kDebug) return cache_.Find(trace_.code());
  auto entry = std::make_shared<cache::Entry>();
  entry->segment = trace::Decode(trace_.code());
  const absl::Status legal = trace::Verify(*entry->segment);
  TORCH_INTERNAL_ASSERT(legal.ok(), legal.ToString());
  return entry;
}

// Gives outputs their memory and collects all addresses. An output that gets none is spoiled, and no other.
std::exception_ptr Engine::Bind(const trace::Segment& segment, int64_t scratch_bytes, std::vector<bool>* spoiled,
                                c10::DataPtr* scratch) {
  std::exception_ptr refused;
  const auto allocate = [&](int64_t bytes, auto&& lost) {
    try {
      return AllocateDeviceMemory(bytes, device_);
    } catch (const c10::OutOfMemoryError&) {
      if (!refused) refused = std::current_exception();
      spoiled->resize(segment.roles.size(), false);
      lost();
      return c10::DataPtr(nullptr, c10::Device(kNeuron, device_));
    }
  };
  addresses_.assign(segment.roles.size(), nullptr);
  for (size_t b = 0; b < segment.roles.size(); ++b) {
    c10::StorageImpl* storage = storages_[b].get();
    if (segment.roles[b] == Role::kOutput) {
      storage->set_data_ptr_noswap(
          allocate(static_cast<int64_t>(storage->nbytes()), [&] { (*spoiled)[b] = storage->nbytes() > 0; }));
    }
    if (segment.roles[b] != Role::kTemporary) addresses_[b] = const_cast<void*>(storage->data());
  }
  if (scratch_bytes > 0) {
    *scratch = allocate(scratch_bytes, [&] {
      for (size_t b = 0; b < segment.roles.size(); ++b) {
        if (segment.roles[b] == Role::kTemporary) (*spoiled)[b] = true;
      }
    });
  }
  return refused;
}

void Engine::RunTrace(CutReason reason, Storages* released, std::exception_ptr* failure) {
  if (reason == CutReason::kContent) {
    rule_.BeginChunk();
  } else {
    rule_.Restart();
  }
  if (trace_.nodes() == 0) {
    // An op that raised half-way may have left operands behind.
    if (trace_.buffers() > 0) Restart(released);
    return;
  }
  ++stats_.flushes[static_cast<size_t>(reason)];
  const int buffers = trace_.buffers();
  alive_.resize(buffers);
  temporary_bytes_.resize(buffers);
  for (int b = 0; b < buffers; ++b) {
    auto* storage = static_cast<NeuronStorage*>(storages_[b].get());
    alive_[b] = storages_[b].use_count() > 1 || storage->exposed;
    temporary_bytes_[b] = trace_.has_memory(b) || alive_[b] ? 0 : static_cast<int64_t>(storage->nbytes());
  }
  trace_.Seal(alive_);
  const int64_t misses = cache_.stats().misses;
  const std::shared_ptr<cache::Entry> entry = FindEntry();
  if (cache_.stats().misses != misses) stats_.ops_in_new_segments += trace_.nodes();
  const trace::Segment& segment = *entry->segment;
  std::vector<bool> spoiled;
  std::vector<kernels::Failure> failures;
  c10::DataPtr scratch;
  try {
    const auto [plan, kernel_ns] =
        cache_.FindPlan(*entry, trace_.size_values(), trace_.stride_values(), temporary_bytes_, heavy_,
                        [&](const kernels::Plan& made) { return KernelTimeNs(segment, made, ModelledChip()); });
    const std::exception_ptr refused = Bind(segment, plan->scratch_bytes(), &spoiled, &scratch);
    const kernels::Bindings bindings{addresses_, trace_.offsets().data(),
                                     reinterpret_cast<const kernels::Scalar*>(trace_.scalars().data()), scratch.get()};
    kernels::SetThreadCount(at::get_num_threads());
    {
      c10::impl::ForceDispatchKeyGuard keys(c10::DispatchKeySet(), KernelExcludedKeys());
      failures = plan->Run(bindings, &spoiled);
    }
    if (refused) failures.insert(failures.begin(), {FirstWriter(segment, spoiled), refused});
    const device::Chip& chip = ModelledChip();
    DeviceAt(device_).streams.Find(stream_)->Launch(single_ ? chip.eager_host_dispatch_ns : chip.fused_launch_ns,
                                                    kernel_ns);
    stats_.modelled_device_time_us += (kernel_ns + chip.device_program_start_ns) / 1e3;
  } catch (...) {
    // Nothing ran. All that the segment would have written is lost.
    failures.push_back({0, std::current_exception()});
    spoiled.assign(segment.roles.size(), false);
    for (int b = 0; b < buffers; ++b) spoiled[b] = trace_.written(b);
  }
  if (!failures.empty()) {
    ++stats_.segments_failed;
    const std::exception_ptr error = WithContext(failures[0].error, DescribeNode(segment, failures[0].node, trace_));
    if (failure != nullptr) {
      // The caller raises it at the op itself; results do not exist, and inputs are as the kernel left them.
      *failure = error;
    }
    if (failure == nullptr || trace_.nodes() > 1) Spoil(segment, spoiled, error);
  }
  ++stats_.segments_run;
  ++stats_.launches;
  if (trace_.nodes() == 1) ++stats_.ops_run_singly;
  Restart(released);
}

void Engine::Restart(Storages* released) {
  trace_.Reset();
  ++epoch_;
  pending_bytes_.store(0, std::memory_order_relaxed);
  heavy_flops_ = 0;
  if (released->empty()) {
    released->swap(storages_);
  } else {
    for (auto& storage : storages_) released->push_back(std::move(storage));
    storages_.clear();
  }
}

// What a failed launch left in a tensor that is about to be overwritten does not matter if the tensor is all of its
// memory. Under the engine's lock.
void ForgetFailure(const at::Tensor& tensor) {
  NeuronStorage* storage = StorageOf(tensor.unsafeGetTensorImpl());  // null for a foreign pointer
  if (storage != nullptr && storage->failure && tensor.is_non_overlapping_and_dense() &&
      tensor.nbytes() == storage->nbytes()) {
    storage->failure = nullptr;
  }
}

template <size_t n>
int ReadChoice(const char* variable, const char* const (&names)[n], int fallback) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return fallback;
  for (size_t i = 0; i < n; ++i) {
    if (std::string_view(value) == names[i]) return static_cast<int>(i);
  }
  TORCH_CHECK_VALUE(false, variable, "='", value, "' is not valid: expected one of ", absl::StrJoin(names, ", "));
}

at::Tensor MakeTensor(c10::intrusive_ptr<c10::StorageImpl> storage, at::ScalarType dtype) {
  return at::detail::make_tensor_base<c10::TensorImpl>(c10::Storage(std::move(storage)),
                                                       c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                       c10::scalarTypeToTypeMeta(dtype));
}

// The lock is held while the process forks, so that no thread which the child lacks can own it there.
void BeforeFork() {
  Storages released;
  TheEngine().Lock();
  TheEngine().RunTrace(CutReason::kFork, &released, nullptr);
}
void AfterFork() { TheEngine().Unlock(); }

}  // namespace

Recorder::Recorder(c10::Device device) : trace_(TheEngine().trace()) {
  TheEngine().Lock();
  try {
    TheEngine().Enter(device, &released_);
  } catch (...) {
    TheEngine().Unlock();
    throw;
  }
}

Recorder::~Recorder() { TheEngine().Unlock(); }

trace::ViewId Recorder::View(const c10::TensorImpl* tensor, at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* storage = static_cast<NeuronStorage*>(tensor->unsafe_storage().unsafeGetStorageImpl());
  const BufferId buffer = TheEngine().Register(storage);
  trace::DType type;
  ToDType(c10::typeMetaToScalarType(tensor->dtype()), &type);
  const trace::ViewId view = trace_.AddView(buffer, type, tensor->storage_offset(), {sizes.data(), sizes.size()},
                                            {strides.data(), strides.size()}, storage->last_view);
  storage->last_view = view;
  return view;
}

trace::ViewId Recorder::Fresh(const at::Tensor& tensor, trace::ViewId like) {
  if (like < 0) return View(tensor);
  auto* storage = static_cast<NeuronStorage*>(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  const BufferId buffer = TheEngine().Register(storage);
  trace::DType type;
  ToDType(tensor.scalar_type(), &type);
  storage->last_view = trace_.AddViewLike(buffer, type, like);
  return storage->last_view;
}

void Recorder::Overwrite(const at::Tensor& tensor) { ForgetFailure(tensor); }

void Recorder::Finish(trace::Op op, trace::DType type, double heavy_flops) {
  TheEngine().Finish(op, type, heavy_flops, &released_);
}

bool SafeToWrite(const at::Tensor& out, const at::Tensor& in) {
  const c10::TensorImpl *a = out.unsafeGetTensorImpl(), *b = in.unsafeGetTensorImpl();
  if (a == b || a->unsafe_storage().unsafeGetStorageImpl() != b->unsafe_storage().unsafeGetStorageImpl()) return true;
  trace::DType type_a, type_b;
  ToDType(out.scalar_type(), &type_a);
  ToDType(in.scalar_type(), &type_b);
  auto span = [](at::IntArrayRef r) { return absl::Span<const int64_t>(r.data(), r.size()); };
  return trace::Relate({type_a, a->storage_offset(), span(a->sizes()), span(a->strides())},
                       {type_b, b->storage_offset(), span(b->sizes()), span(b->strides())}) !=
         trace::Relation::kMayOverlap;
}

bool NoInternalOverlap(const at::Tensor& out) {
  if (out.is_non_overlapping_and_dense()) return true;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (out.stride(d) == 0 && out.size(d) > 1) return false;
  }
  return true;
}

void InitEngine() {
  const int mode = ReadChoice("NEURON_EAGER_MODE", kModeNames, 0);
  const char* const switches[] = {"0", "1"};
  const int blocking = ReadChoice("NEURON_LAUNCH_BLOCKING", switches, 0);
  const char* const pools[] = {"openmp", "tbb"};
  kernels::UseTbb(ReadChoice("NEURON_THREAD_POOL", pools, 0) == 1);
  // Debian builds Abseil with its deadlock detector on, which makes every lock several times dearer.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  RegisterHeavyKernels();
  SetMode(static_cast<Mode>(mode));
  {
    EngineLock lock;
    TheEngine().SetBlocking(blocking == 1);
  }
  pthread_atfork(&BeforeFork, &AfterFork, &AfterFork);
}

at::Tensor EmptyStrided(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::Device device) {
  const int64_t bytes = static_cast<int64_t>(at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype)));
  at::Tensor tensor = MakeTensor(MakePendingStorage(bytes, device.index()), dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor EmptyContiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device) {
  const int64_t bytes =
      static_cast<int64_t>(at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype)));
  at::Tensor tensor = MakeTensor(MakePendingStorage(bytes, device.index()), dtype);
  if (sizes.size() != 1 || sizes[0] != 0) tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

void Cut(CutReason reason) {
  Storages released;
  EngineLock lock;
  TheEngine().RunTrace(reason, &released, nullptr);
}

void MaterializeStorage(c10::StorageImpl* storage, CutReason reason) {
  NeuronStorage* ours = AsNeuronStorage(storage);
  if (ours == nullptr) {
    // A foreign pointer always has its memory, which may be that of a storage that recorded work writes to (DLPack).
    if (storage->device_type() == kNeuron) Cut(reason);
    return;
  }
  Storages released;
  EngineLock lock;
  TheEngine().Materialize(ours, reason, &released);
}

void Materialize(const at::Tensor& tensor, CutReason reason) {
  if (tensor.defined() && tensor.has_storage()) {
    MaterializeStorage(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl(), reason);
  }
}

void MaterializeTarget(const at::Tensor& tensor, CutReason reason) {
  NeuronStorage* storage = StorageOf(tensor.unsafeGetTensorImpl());
  if (storage == nullptr) return Materialize(tensor, reason);
  Storages released;
  const EngineLock lock;
  if (storage->epoch == TheEngine().epoch()) TheEngine().RunTrace(reason, &released, nullptr);
  ForgetFailure(tensor);
  TheEngine().Materialize(storage, reason, &released);
}

bool NearMemoryLimit(int64_t nbytes, c10::DeviceIndex index) { return TheEngine().NearMemoryLimit(nbytes, index); }

void Expose(const at::Tensor& tensor) {
  Materialize(tensor, CutReason::kPointer);
  if (NeuronStorage* storage = StorageOf(tensor.unsafeGetTensorImpl())) storage->exposed = true;
}

void CountFallback(const std::string& op) {
  EngineLock lock;
  TheEngine().CountFallback(op);
}

kernels::HeavyTable& HeavyKernels() { return TheEngine().heavy(); }

Mode CurrentMode() { return TheEngine().mode(); }

void SetMode(Mode mode) {
  Storages released;
  EngineLock lock;
  TheEngine().SetMode(mode, &released);
}

EngineStats Stats() {
  EngineLock lock;
  return TheEngine().stats();
}

void ResetStats() {
  EngineLock lock;
  TheEngine().ResetStats();
}

void ClearCache() {
  EngineLock lock;
  TheEngine().cache().Clear();
}

void SetCacheLimits(int64_t max_entries, int64_t max_bytes) {
  TORCH_CHECK_VALUE(max_entries >= 0 && max_bytes >= 0, "cache limits must not be negative, got ", max_entries,
                    " entries and ", max_bytes, " bytes");
  EngineLock lock;
  TheEngine().cache().SetLimits(max_entries, max_bytes);
}

std::vector<std::string> RecentSegments(int n) {
  std::vector<std::shared_ptr<const cache::Entry>> entries;
  {
    EngineLock lock;
    entries = TheEngine().cache().Recent(n);
  }
  std::vector<std::string> out;
  for (const auto& entry : entries) out.push_back(trace::ToText(*entry->segment));
  return out;
}

}  // namespace openneuron::eager
