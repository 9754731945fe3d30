// See Note [Zero-copy fallback].
#include "eager/fallback.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/SparseTensorUtils.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "eager/devices.h"
#include "eager/engine.h"
#include "eager/generator.h"
#include "eager/storage.h"

namespace openneuron::eager {
namespace {

// How many storages or tensors are searched one by one.
constexpr size_t kLinearSearch = 16;

// Arguments that PyTorch's own accelerator kernels take from the CPU beside tensors of the device.
struct CpuArgument {
  std::string_view op;
  std::string_view argument;
};
constexpr CpuArgument kCpuArguments[] = {
    {"aten::index", "indices"},
    {"aten::index_put", "indices"},
    {"aten::index_put_", "indices"},
    {"aten::_index_put_impl_", "indices"},
    {"aten::_unsafe_index", "indices"},
    {"aten::_unsafe_index_put", "indices"},
    {"aten::_unsafe_masked_index", "indices"},
    {"aten::_unsafe_masked_index_put_accumulate", "indices"},
    {"aten::_pack_padded_sequence", "lengths"},
    {"aten::_pack_padded_sequence_backward", "batch_sizes"},
    {"aten::_ctc_loss", "input_lengths"},
    {"aten::_ctc_loss", "target_lengths"},
    {"aten::_ctc_loss", "targets"},
    {"aten::_ctc_loss_backward", "input_lengths"},
    {"aten::_ctc_loss_backward", "target_lengths"},
    {"aten::_ctc_loss_backward", "targets"},
    {"aten::_nested_view_from_buffer", "nested_size"},
    {"aten::_nested_view_from_buffer", "nested_strides"},
    {"aten::_nested_view_from_buffer", "offsets"},
};

// Results that are CPU tensors on every device.
struct CpuResult {
  std::string_view op;
  int result;
};
constexpr CpuResult kCpuResults[] = {
    {"aten::_pack_padded_sequence", 1},
    {"aten::_nested_tensor_size", 0},
};

// What the fallback has to know of an op, from its schema.
struct OpFacts {
  std::string name;
  size_t arguments = 0;
  size_t results = 0;
  uint64_t written = 0;      // bit i: argument i may be changed
  uint64_t from_cpu = 0;     // bit i: argument i may be on the CPU
  uint64_t cpu_results = 0;  // bit i: result i is a CPU tensor
  bool random = false;
  int generator = -1;  // the argument of type Generator
  bool has_cpu_kernel = false;
};

OpFacts Describe(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpFacts facts;
  facts.name = schema.name();
  facts.arguments = schema.arguments().size();
  facts.results = schema.returns().size();
  TORCH_CHECK_NOT_IMPLEMENTED(facts.arguments <= 64 && facts.results <= 64, facts.name,
                              ": more arguments than the fallback of neuron takes");
  for (size_t i = 0; i < facts.arguments; ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const uint64_t bit = uint64_t{1} << i;
    if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) facts.written |= bit;
    const c10::TypePtr& type = argument.type();
    const bool optional = type->kind() == c10::TypeKind::OptionalType;
    const c10::TypePtr element = optional ? type->castRaw<c10::OptionalType>()->getElementType() : type;
    if (element->kind() == c10::TypeKind::GeneratorType) facts.generator = static_cast<int>(i);
    for (const CpuArgument& allowed : kCpuArguments) {
      if (allowed.op == facts.name && allowed.argument == argument.name()) facts.from_cpu |= bit;
    }
  }
  for (const CpuResult& result : kCpuResults) {
    if (result.op == facts.name) facts.cpu_results |= uint64_t{1} << result.result;
  }
  facts.random = facts.generator >= 0 || op.hasTag(at::Tag::nondeterministic_seeded);
  facts.has_cpu_kernel = op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  return facts;
}

const OpFacts& FactsOf(const c10::OperatorHandle& op) {
  struct Table {
    std::mutex mutex;
    absl::flat_hash_map<const void*, std::unique_ptr<const OpFacts>> facts;
  };
  static Table& table = *new Table;  // Ops may still run while the process ends.
  const void* key = &op.schema();
  const std::lock_guard<std::mutex> lock(table.mutex);
  std::unique_ptr<const OpFacts>& facts = table.facts[key];
  // An extension that is unloaded may leave its schema's address to another op.
  if (facts == nullptr || facts->name != op.schema().name()) facts = std::make_unique<const OpFacts>(Describe(op));
  return *facts;
}

// Which device the call is for, by PyTorch's rule: all tensors on one, except for 0-dim CPU tensors that are only read.
class DeviceRule {
 public:
  void See(const at::Tensor& tensor, bool written, bool from_cpu) {
    const c10::Device device = tensor.device();
    if (device.is_cpu()) {
      if (from_cpu || (!written && tensor.dim() == 0)) return;
    }
    if (!common_.has_value()) {
      common_ = device;
    } else if (*common_ != device && !other_.has_value()) {
      other_ = device;
    }
  }
  void Check() const {
    TORCH_CHECK(!other_.has_value(), "Expected all tensors to be on the same device, but found at least two devices, ",
                *common_, " and ", *other_, "!");
  }
  const std::optional<c10::Device>& common() const { return common_; }

 private:
  std::optional<c10::Device> common_, other_;
};

uint64_t Mix(uint64_t x) {  // SplitMix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A seed for a CPU generator: a function of our generator's place, which moves on.
uint64_t NextCpuSeed(const std::optional<at::Generator>& generator, c10::DeviceIndex index) {
  const PhiloxState state = GeneratorOrDefault(generator, index).ReserveOffset(4);
  return Mix(Mix(state.seed) + state.offset + 0x9e3779b97f4a7c15u);
}

const at::Generator& SeededCpuGenerator(uint64_t seed) {
  thread_local at::Generator generator = at::detail::createCPUGenerator();
  generator.set_current_seed(seed);
  return generator;
}

// Lends PyTorch's default CPU generator a state of ours, for kernels that take no generator.
class BorrowedDefaultGenerator {
 public:
  explicit BorrowedDefaultGenerator(uint64_t seed) : one_at_a_time_(mutex_) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    saved_ = generator.get_state();
    generator.set_current_seed(seed);
  }
  ~BorrowedDefaultGenerator() {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(saved_);
  }

 private:
  static inline std::mutex mutex_;
  const std::lock_guard<std::mutex> one_at_a_time_;
  at::Tensor saved_;
};

constexpr c10::DispatchKeySet kFeatures =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                         c10::DispatchKey::PythonDispatcher, c10::DispatchKey::FuncTorchDynamicLayerBackMode,
                         c10::DispatchKey::FuncTorchDynamicLayerFrontMode, c10::DispatchKey::FuncTorchBatched,
                         c10::DispatchKey::FuncTorchVmapMode, c10::DispatchKey::Functionalize,
                         c10::DispatchKey::PreDispatch});

c10::intrusive_ptr<c10::StorageImpl> ShareImpl(const c10::Storage& storage) {
  return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage.unsafeGetStorageImpl());
}

void SetGeometry(c10::TensorImpl* to, const c10::TensorImpl* from) {
  if (from->sizes() != to->sizes() || from->strides() != to->strides() ||
      from->storage_offset() != to->storage_offset()) {
    to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  }
}

void CopyBits(const at::Tensor& to, const at::Tensor& from) {
  if (from.is_conj()) to._set_conj(true);
  if (from.is_neg()) to._set_neg(true);
  if (from.unsafeGetTensorImpl()->is_wrapped_number()) to.unsafeGetTensorImpl()->set_wrapped_number(true);
}

at::Tensor MakeTensor(c10::intrusive_ptr<c10::StorageImpl> storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  auto made = at::detail::make_tensor_base<c10::TensorImpl>(c10::Storage(std::move(storage)), keys, like.dtype());
  SetGeometry(made.unsafeGetTensorImpl(), like.unsafeGetTensorImpl());
  at::Tensor tensor(std::move(made));
  CopyBits(tensor, like);
  return tensor;
}

bool IsSparseLayout(const at::Tensor& tensor) { return tensor.layout() != c10::kStrided; }

}  // namespace

CpuKernelScope::CpuKernelScope(c10::DeviceIndex index) : below_features_(kFeatures), allocations_(index) {}

AliasScope::AliasScope() = default;
AliasScope::~AliasScope() = default;

const c10::intrusive_ptr<c10::StorageImpl>& AliasScope::ShareStorage(const at::Tensor& tensor, c10::DeviceType type) {
  const c10::Storage& storage = tensor.storage();
  c10::StorageImpl* original = storage.unsafeGetStorageImpl();
  if (storages_.size() <= kLinearSearch) {
    for (const SharedStorage& shared : storages_) {
      if (shared.original.get() == original) return shared.alias;
    }
    if (storages_.size() == kLinearSearch) {
      for (size_t i = 0; i < storages_.size(); ++i) storage_index_[storages_[i].original.get()] = i;
    }
  } else if (auto found = storage_index_.find(original); found != storage_index_.end()) {
    return storages_[found->second].alias;
  }
  const bool cpu = type == c10::kCPU;
  void* data = cpu ? const_cast<void*>(original->data()) : nullptr;
  const size_t nbytes = original->nbytes();
  auto alias = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), c10::SymInt(static_cast<int64_t>(nbytes)),
      c10::DataPtr(data, c10::Device(type)), c10::GetAllocator(type), original->resizable());
  if (storages_.size() >= kLinearSearch) storage_index_[original] = storages_.size();
  storages_.push_back({ShareImpl(storage), std::move(alias), data, nbytes});
  return storages_.back().alias;
}

at::Tensor AliasScope::MakeAlias(const at::Tensor& tensor, c10::DispatchKey key, c10::DeviceType type) {
  return MakeTensor(ShareStorage(tensor, type), c10::DispatchKeySet(key), tensor);
}

at::Tensor AliasScope::Cpu(const at::Tensor& tensor, bool written) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  if (aliases_.size() <= kLinearSearch) {
    for (Alias& known : aliases_) {
      if (known.original.is_same(tensor)) {
        known.written |= written;
        return known.alias;
      }
    }
  }
  at::Tensor alias = IsSparseLayout(tensor) ? SparseAlias(tensor) : MakeAlias(tensor, c10::DispatchKey::CPU, c10::kCPU);
  // Some kernels compute what only a backward pass will read when they see this.
  if (tensor.requires_grad() && at::GradMode::is_enabled()) alias.set_requires_grad(true);
  aliases_.push_back({tensor, alias, written});
  return alias;
}

at::Tensor AliasScope::Meta(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  return MakeAlias(tensor, c10::DispatchKey::Meta, c10::kMeta);
}

at::Tensor AliasScope::SparseAlias(const at::Tensor& tensor) {
  if (tensor.layout() == c10::kSparse) {
    auto* sparse = at::sparse::get_sparse_impl(tensor);
    auto alias =
        at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(c10::DispatchKey::SparseCPU), tensor.dtype());
    auto* alias_sparse = at::sparse::get_sparse_impl(alias);
    alias_sparse->resize_(sparse->sparse_dim(), sparse->dense_dim(), sparse->sizes());
    alias_sparse->set_indices_and_values_unsafe(Cpu(sparse->indices()), Cpu(sparse->values()));
    alias_sparse->set_coalesced(sparse->coalesced());
    return alias;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(at::sparse_csr::is_sparse_compressed(tensor), "Layout ", tensor.layout(),
                              " is not implemented for neuron");
  const auto* compressed = at::sparse_csr::get_sparse_csr_impl(tensor);
  auto alias = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseCsrCPU), c10::Device(c10::kCPU), tensor.layout(), tensor.dtype());
  at::sparse_csr::get_sparse_csr_impl(alias)->set_member_tensors(Cpu(compressed->compressed_indices()),
                                                                 Cpu(compressed->plain_indices()),
                                                                 Cpu(compressed->values()), tensor.sizes());
  return alias;
}

void AliasScope::WriteBack() {
  for (const Alias& alias : aliases_) {
    if (alias.written) WriteBackTensor(alias);
  }
  for (SharedStorage& shared : storages_) {
    if (shared.alias->data() == shared.data && shared.alias->nbytes() == shared.nbytes) continue;
    c10::StorageImpl& original = *shared.original;
    if (shared.alias->data() != shared.data) {
      c10::DataPtr& data = shared.alias->_mutable_data_ptr_no_checks();
      original.set_data_ptr_noswap(MoveToDevice(std::move(data), original.device()));
      shared.data = original.data();
      // Views that are still to be returned find the original by the alias; the alias itself is not read again.
    }
    original.set_nbytes(shared.alias->nbytes());
    shared.nbytes = shared.alias->nbytes();
  }
}

void AliasScope::WriteBackTensor(const Alias& alias) {
  c10::TensorImpl* original = alias.original.unsafeGetTensorImpl();
  if (IsSparseLayout(alias.original)) {
    const c10::Device device = alias.original.device();
    if (alias.original.layout() == c10::kSparse) {
      auto* from = at::sparse::get_sparse_impl(alias.alias);
      auto* to = at::sparse::get_sparse_impl(alias.original);
      to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
      to->set_indices_and_values_unsafe(Return(from->indices(), device), Return(from->values(), device));
      to->set_coalesced(from->coalesced());
    } else {
      const auto* from = at::sparse_csr::get_sparse_csr_impl(alias.alias);
      at::sparse_csr::get_sparse_csr_impl(alias.original)
          ->set_member_tensors(Return(from->compressed_indices(), device), Return(from->plain_indices(), device),
                               Return(from->values(), device), alias.alias.sizes());
    }
    return;
  }
  c10::StorageImpl* alias_storage = alias.alias.storage().unsafeGetStorageImpl();
  const bool same = std::any_of(storages_.begin(), storages_.end(), [&](const SharedStorage& shared) {
    return shared.alias.get() == alias_storage &&
           shared.original.get() == alias.original.storage().unsafeGetStorageImpl();
  });
  if (!same) original->set_storage_keep_dtype(OriginalStorage(alias.alias, alias.original.device()));
  SetGeometry(original, alias.alias.unsafeGetTensorImpl());
}

c10::intrusive_ptr<c10::StorageImpl> AliasScope::OriginalStorage(const at::Tensor& cpu, c10::Device device) {
  const c10::Storage& storage = cpu.storage();
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  for (const SharedStorage& shared : storages_) {
    if (shared.alias.get() == impl) return shared.original;
  }
  const auto nbytes = static_cast<int64_t>(impl->nbytes());
  c10::intrusive_ptr<c10::StorageImpl> made = MakePendingStorage(nbytes, device.index());
  if (nbytes > 0 && impl->data() != nullptr) {
    c10::DataPtr data;
    if (!OwnsBlock(impl->data_ptr())) {
      // Memory from elsewhere: not of the device's alignment, and not ours to keep.
      data = AllocateDeviceMemory(nbytes, device.index());
      std::memcpy(data.get(), impl->data(), nbytes);
    } else if (storage.use_count() == 1 && cpu.use_count() == 1) {
      data = MoveToDevice(std::move(impl->_mutable_data_ptr_no_checks()), device);
    } else {
      auto* holder = new c10::Storage(storage);
      data = c10::DataPtr(
          const_cast<void*>(impl->data()), holder, [](void* context) { delete static_cast<c10::Storage*>(context); },
          device);
    }
    made->set_data_ptr_noswap(std::move(data));
  }
  // Another result of the same call may lie in the same memory.
  if (storage.use_count() > 1) {
    storages_.push_back({made, ShareImpl(storage), impl->data(), impl->nbytes()});
  }
  return made;
}

at::Tensor AliasScope::Return(at::Tensor cpu, c10::Device device) {
  if (!cpu.defined() || !cpu.device().is_cpu()) return cpu;
  for (const Alias& alias : aliases_) {
    if (alias.alias.is_same(cpu)) return alias.original;
  }
  if (IsSparseLayout(cpu)) return ReturnSparse(cpu, device);
  c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  TORCH_CHECK_NOT_IMPLEMENTED(!cpu.is_quantized() && !cpu.is_nested(),
                              "Quantized and nested results are not implemented for neuron");
  if (cpu._is_zerotensor()) keys = keys.add(c10::DispatchKey::ZeroTensor);
  return MakeTensor(OriginalStorage(cpu, device), keys, cpu);
}

at::Tensor AliasScope::ReturnSparse(const at::Tensor& cpu, c10::Device device) {
  if (cpu.layout() == c10::kSparse) {
    auto* from = at::sparse::get_sparse_impl(cpu);
    auto made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(c10::DispatchKey::SparsePrivateUse1),
                                                              cpu.dtype());
    auto* to = at::sparse::get_sparse_impl(made);
    to->resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    to->set_indices_and_values_unsafe(Return(from->indices(), device), Return(from->values(), device));
    to->set_coalesced(from->coalesced());
    return made;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(at::sparse_csr::is_sparse_compressed(cpu), "Layout ", cpu.layout(),
                              " is not implemented for neuron");
  const auto* from = at::sparse_csr::get_sparse_csr_impl(cpu);
  auto made = at::detail::make_tensor<at::SparseCsrTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseCsrPrivateUse1), device, cpu.layout(), cpu.dtype());
  at::sparse_csr::get_sparse_csr_impl(made)->set_member_tensors(Return(from->compressed_indices(), device),
                                                                Return(from->plain_indices(), device),
                                                                Return(from->values(), device), cpu.sizes());
  return made;
}

void MaterializeForCpu(const at::Tensor& tensor, CutReason reason) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return;
  if (!IsSparseLayout(tensor)) {
    Materialize(tensor, reason);
  } else if (tensor.layout() == c10::kSparse) {
    auto* sparse = at::sparse::get_sparse_impl(tensor);
    MaterializeForCpu(sparse->indices(), reason);
    MaterializeForCpu(sparse->values(), reason);
  } else if (at::sparse_csr::is_sparse_compressed(tensor)) {
    const auto* compressed = at::sparse_csr::get_sparse_csr_impl(tensor);
    MaterializeForCpu(compressed->compressed_indices(), reason);
    MaterializeForCpu(compressed->plain_indices(), reason);
    MaterializeForCpu(compressed->values(), reason);
  }
}

namespace {

c10::IValue AliasList(const c10::IValue& list, bool written, AliasScope& scope) {
  const auto elements = list.toListRef();
  if (list.isTensorList()) {
    c10::List<at::Tensor> aliases;
    aliases.reserve(elements.size());
    for (const c10::IValue& element : elements) aliases.push_back(scope.Cpu(element.toTensor(), written));
    return aliases;
  }
  c10::List<std::optional<at::Tensor>> aliases;
  aliases.reserve(elements.size());
  for (const c10::IValue& element : elements) {
    aliases.push_back(element.isNone() ? std::nullopt : std::make_optional(scope.Cpu(element.toTensor(), written)));
  }
  return aliases;
}

bool IsListOfTensors(const c10::IValue& value) { return value.isTensorList() || value.isOptionalTensorList(); }

}  // namespace

namespace {

// `cpu_key`: the CPU's key that stands for the key that the op was called with.
void RunOnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DispatchKey cpu_key) {
  const OpFacts& facts = FactsOf(op);
  TORCH_CHECK_NOT_IMPLEMENTED(
      cpu_key == c10::DispatchKey::CPU ? facts.has_cpu_kernel : op.hasComputedKernelForDispatchKey(cpu_key),
      "The operator '", facts.name,
      "' is not currently implemented for the neuron device: it has no CPU kernel to fall back to.");
  const size_t first = stack->size() - facts.arguments;

  DeviceRule rule;
  std::optional<c10::Device> wanted;
  for (size_t i = 0; i < facts.arguments; ++i) {
    const c10::IValue& value = (*stack)[first + i];
    const bool written = facts.written >> i & 1, from_cpu = facts.from_cpu >> i & 1;
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined()) rule.See(tensor, written, from_cpu);
    } else if (IsListOfTensors(value)) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor() && element.toTensor().defined()) rule.See(element.toTensor(), written, from_cpu);
      }
    } else if (value.isDevice()) {
      wanted = value.toDevice();
    }
  }
  rule.Check();

  std::optional<at::Generator> generator;
  if (facts.generator >= 0) generator = (*stack)[first + facts.generator].toOptional<at::Generator>();
  c10::Device device(kNeuron, -1);
  if (wanted.has_value()) {
    device = *wanted;
  } else if (rule.common().has_value()) {
    device = *rule.common();
  } else if (generator.has_value() && generator->defined()) {
    device = generator->device();
  }
  TORCH_CHECK(device.type() == kNeuron || !generator.has_value(), "Expected a '", device.type(),
              "' device type for generator but found '", generator.has_value() ? generator->device().type() : kNeuron,
              "'");
  // Called for the device without a tensor of it, e.g. a copy from it to the CPU: results stay where the kernel made
  // them.
  const bool results_on_device = device.type() == kNeuron;
  device = c10::Device(kNeuron, results_on_device ? ResolveDevice(device.index()) : CurrentDevice());
  UseDevice(device.index());

  Cut(CutReason::kFallback);
  CountFallback(facts.name);

  AliasScope scope;
  const CpuKernelScope kernel_scope(device.index());
  for (size_t i = 0; i < facts.arguments; ++i) {
    c10::IValue& value = (*stack)[first + i];
    const bool written = facts.written >> i & 1;
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (!tensor.defined() || !tensor.is_privateuseone()) continue;
      MaterializeForCpu(tensor, CutReason::kFallback);
      value = c10::IValue(scope.Cpu(tensor, written));
    } else if (IsListOfTensors(value)) {
      for (const c10::IValue& element : value.toListRef()) {
        if (element.isTensor()) MaterializeForCpu(element.toTensor(), CutReason::kFallback);
      }
      value = AliasList(value, written, scope);
    } else if (value.isDevice() && results_on_device) {
      value = c10::IValue(c10::Device(c10::kCPU));
    }
  }

  std::optional<BorrowedDefaultGenerator> borrowed;
  if (facts.random) {
    const uint64_t seed = NextCpuSeed(generator, device.index());
    if (facts.generator >= 0) {
      (*stack)[first + facts.generator] = c10::IValue(SeededCpuGenerator(seed));
    } else {
      borrowed.emplace(seed);
    }
  }

  op.redispatchBoxed(c10::DispatchKeySet(cpu_key), stack);

  if (facts.written != 0) scope.WriteBack();
  const size_t first_result = stack->size() - facts.results;
  for (size_t i = 0; i < facts.results; ++i) {
    if (!results_on_device || facts.cpu_results >> i & 1) continue;
    c10::IValue& value = (*stack)[first_result + i];
    if (value.isTensor()) {
      at::Tensor cpu = std::move(value).toTensor();
      value = c10::IValue(scope.Return(std::move(cpu), device));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> tensors = std::move(value).toTensorList();
      for (size_t j = 0; j < tensors.size(); ++j) tensors.set(j, scope.Return(tensors.extract(j), device));
      value = std::move(tensors);
    }
  }
}

template <c10::DispatchKey cpu_key>
void Fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  RunOnCpu(op, stack, cpu_key);
}

template <c10::DispatchKey cpu_key>
void InstallFallbackFor(c10::DispatchKey key) {
  // Kernels live as long as their Library: forever.
  auto* library = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  library->fallback(torch::CppFunction::makeFromBoxedFunction<&Fallback<cpu_key>>());
}

// PyTorch would compose some ops that the CPU has whole of other ops: the functional and in-place forms of structured
// ops of a shape function, an allocation and the out= form, others (native_layer_norm) of arithmetic. One call of the
// CPU's own kernel is cheaper and gives its numbers and strides. Composite ops with a derived autograd formula must
// stay composite.
template <c10::DispatchKey cpu_key>
void InstallByName(c10::DispatchKey key) {
  auto* library = new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.getNamespace() != "aten") continue;
    const auto op = dispatcher.findSchema(name);
    if (!op.has_value() || op->hasKernelForDispatchKey(key) || !op->hasKernelForDispatchKey(cpu_key) ||
        !(op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) ||
          op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))) {
      continue;
    }
    const std::string short_name = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
    library->impl(short_name.c_str(), torch::CppFunction::makeFromBoxedFunction<&Fallback<cpu_key>>());
  }
}

// One kernel for all devices that asks for the CPU (a name check, a table of kernels by device), or whose meaning
// depends on an out= argument being the very object that is the input.
constexpr const char* kCpuInDisguise[] = {"addr_", "conj_physical_", "mode.values"};

}  // namespace

void BoxedFallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  RunOnCpu(op, stack, c10::DispatchKey::CPU);
}

void InstallFallback() {
  InstallFallbackFor<c10::DispatchKey::CPU>(c10::DispatchKey::PrivateUse1);
  InstallFallbackFor<c10::DispatchKey::SparseCPU>(c10::DispatchKey::SparsePrivateUse1);
  InstallFallbackFor<c10::DispatchKey::SparseCsrCPU>(c10::DispatchKey::SparseCsrPrivateUse1);
  auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const char* name : kCpuInDisguise) {
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&Fallback<c10::DispatchKey::CPU>>());
  }
  InstallByName<c10::DispatchKey::CPU>(c10::DispatchKey::PrivateUse1);
  InstallByName<c10::DispatchKey::SparseCPU>(c10::DispatchKey::SparsePrivateUse1);
  InstallByName<c10::DispatchKey::SparseCsrCPU>(c10::DispatchKey::SparseCsrPrivateUse1);
}

}  // namespace openneuron::eager
