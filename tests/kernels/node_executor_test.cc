// The executor against nodes run alone: random programs in one segment, cut anywhere, on one and two threads give the
// same bits; failures spoil exactly what depends on them.
#include "kernels/node_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/index.h"
#include "kernels/parallel.h"
#include "kernels/random.h"
#include "trace/trace.h"

namespace openneuron::kernels {
namespace {

using trace::IsFloating;
using trace::ItemSize;
using trace::Op;
using trace::OpClass;
using trace::Role;
using Dims = std::vector<int64_t>;

int64_t Count(const Dims& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<int64_t>());
}

// --- A program: buffers, and nodes on views of them.

struct TensorView {
  int buffer = -1;
  DType type = DType::kFloat32;
  int64_t offset = 0;
  Dims sizes, strides;

  Layout layout() const { return {type, static_cast<int>(sizes.size()), sizes.data(), strides.data()}; }
  trace::Extent extent() const { return {type, offset, sizes, strides}; }
};

struct Operand {
  bool is_scalar = false;
  Scalar scalar{};
  TensorView view;
};

struct ProgramNode {
  Op op;
  DType type;
  std::vector<Operand> inputs;
  std::vector<TensorView> outputs;
  Dims attrs;
  std::vector<Scalar> params;

  OpClass cls() const { return trace::Info(op).cls; }
};

struct ProgramBuffer {
  bool has_memory;
  bool alive;     // somebody reads it when the program has ended
  bool readable;  // every byte has a value
  DType type;
  int64_t bytes;
  std::vector<char> initial;
};

struct Program {
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramNode> nodes;
};

// --- Memory.

constexpr int64_t kGuard = 64;

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using Block = std::unique_ptr<char, Free>;

// Bytes behind the end tell who wrote there.
Block Allocate(int64_t bytes, char pattern) {
  const int64_t whole = (bytes + kGuard + 63) / 64 * 64;
  Block block(static_cast<char*>(std::aligned_alloc(64, whole)));
  std::memset(block.get(), pattern, whole);
  return block;
}

// One block for every buffer, temporaries too.
std::vector<Block> InitialMemory(const Program& program) {
  std::vector<Block> memory;
  for (const ProgramBuffer& b : program.buffers) {
    memory.push_back(Allocate(b.bytes, 0x5a));
    if (b.has_memory) std::memcpy(memory.back().get(), b.initial.data(), b.bytes);
  }
  return memory;
}

// --- Nodes alone: the specification.

// out = maximum(in0, in1), unless the first attribute says that it fails.
void MaximumOrFail(const HeavyCall& call) {
  if (call.attrs[0] != 0) throw std::runtime_error(absl::StrCat("failure ", call.attrs[0]));
  const Layout in[] = {call.inputs[0].layout, call.inputs[1].layout};
  const void* addresses[] = {call.inputs[0].data, call.inputs[1].data};
  RunElementwise(BindElementwise(Op::kMaximum, call.type, call.outputs[0].layout, in), call.outputs[0].data, addresses,
                 nullptr);
}
constexpr Op kHeavyOp = Op::kIndexSelect;  // two inputs, all dtypes

HeavyTable Heavy() {
  HeavyTable table{};
  table[static_cast<size_t>(kHeavyOp)] = &MaximumOrFail;
  return table;
}

char* AddressOf(const TensorView& v, const std::vector<Block>& memory) {
  return memory[v.buffer].get() + v.offset * ItemSize(v.type);
}

void RunAlone(const ProgramNode& node, const std::vector<Block>& memory) {
  std::vector<Layout> in;
  std::vector<const void*> in_data;
  for (const Operand& operand : node.inputs) {
    if (operand.is_scalar) {
      in.push_back({IsFloating(node.type) ? DType::kFloat64 : DType::kInt64, 0, nullptr, nullptr});
      in_data.push_back(&operand.scalar);
    } else {
      in.push_back(operand.view.layout());
      in_data.push_back(AddressOf(operand.view, memory));
    }
  }
  std::vector<Layout> out;
  std::vector<void*> out_data;
  for (const TensorView& view : node.outputs) {
    out.push_back(view.layout());
    out_data.push_back(AddressOf(view, memory));
  }
  const Scalar* params = node.params.data();
  switch (node.cls()) {
    case OpClass::kElementwise:
      return RunElementwise(BindElementwise(node.op, node.type, out[0], in), out_data[0], in_data.data(), params);
    case OpClass::kReduce:
      return RunReduce(BindReduce(node.op, node.type, in[0], static_cast<int>(node.attrs[0]), out), in_data[0],
                       out_data.data(), params);
    case OpClass::kIndex:
      return RunIndex(node.op, node.type, out[0], out_data[0], in.empty() ? nullptr : in.data(),
                      in.empty() ? nullptr : in_data[0], params);
    case OpClass::kRandom:
      return RunRandom(node.op, node.type, out[0], out_data[0], params);
    case OpClass::kHeavy: {
      std::vector<HeavyOperand> inputs, outputs;
      for (size_t i = 0; i < in.size(); ++i) inputs.push_back({const_cast<void*>(in_data[i]), in[i]});
      for (size_t i = 0; i < out.size(); ++i) outputs.push_back({out_data[i], out[i]});
      return MaximumOrFail({node.op, node.type, inputs, outputs, node.attrs, params});
    }
  }
}

struct Outcome {
  std::vector<Block> memory;
  std::vector<int> failed;    // nodes that threw
  std::vector<bool> spoiled;  // per buffer
};

Outcome RunReference(const Program& program) {
  Outcome outcome{InitialMemory(program), {}, std::vector<bool>(program.buffers.size())};
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const ProgramNode& node = program.nodes[i];
    bool runs = true;
    for (const Operand& in : node.inputs) runs = runs && (in.is_scalar || !outcome.spoiled[in.view.buffer]);
    if (runs) {
      try {
        RunAlone(node, outcome.memory);
      } catch (const std::runtime_error&) {
        outcome.failed.push_back(static_cast<int>(i));
        runs = false;
      }
    }
    for (const TensorView& out : node.outputs) {
      if (!runs) outcome.spoiled[out.buffer] = true;
    }
  }
  return outcome;
}

// --- Nodes as segments.

template <class Visit>
void ForEachView(const ProgramNode& node, Visit visit) {
  for (const Operand& in : node.inputs) {
    if (!in.is_scalar) visit(in.view);
  }
  for (const TensorView& out : node.outputs) visit(out);
}

// Records nodes [first, last) as one trace, checks the text form of its segment, and runs it on outcome.memory.
void RunSegment(const Program& program, size_t first, size_t last, Outcome* outcome, std::string* text) {
  const int buffers = static_cast<int>(program.buffers.size());
  std::vector<bool> known(buffers), wanted(buffers);
  for (int b = 0; b < buffers; ++b) {
    known[b] = program.buffers[b].has_memory;
    wanted[b] = program.buffers[b].alive;
  }
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (i < first) ForEachView(program.nodes[i], [&](const TensorView& v) { known[v.buffer] = true; });
    if (i >= last) ForEachView(program.nodes[i], [&](const TensorView& v) { wanted[v.buffer] = true; });
  }

  trace::Trace trace;
  std::map<int, trace::BufferId> ids;
  std::vector<int> origin;  // per trace buffer
  const auto view_id = [&](const TensorView& v) {
    const auto [at, is_new] = ids.emplace(v.buffer, -1);
    if (is_new) {
      at->second = trace.AddBuffer(known[v.buffer]);
      origin.push_back(v.buffer);
    }
    return trace.AddView(at->second, v.type, v.offset, v.sizes, v.strides, -1);
  };
  for (size_t i = first; i < last; ++i) {
    const ProgramNode& node = program.nodes[i];
    ForEachView(node, view_id);
    trace.BeginNode(node.op, node.type, static_cast<int>(node.inputs.size()), static_cast<int>(node.outputs.size()),
                    static_cast<int>(node.attrs.size()), static_cast<int>(node.params.size()));
    for (const Operand& in : node.inputs) {
      in.is_scalar ? trace.ScalarInput(static_cast<trace::ScalarBits>(in.scalar.i)) : trace.Input(view_id(in.view));
    }
    for (const TensorView& out : node.outputs) trace.Output(view_id(out));
    for (int64_t attr : node.attrs) trace.Attr(attr);
    for (const Scalar& param : node.params) trace.Param(static_cast<trace::ScalarBits>(param.i));
  }
  std::vector<uint8_t> alive;
  for (int b : origin) alive.push_back(wanted[b]);
  trace.Seal(alive);

  const std::unique_ptr<trace::Segment> segment = trace::Decode(trace.code());
  *text += trace::ToText(*segment) + "\n";
  const absl::StatusOr<std::unique_ptr<trace::Segment>> read = trace::Parse(trace::ToText(*segment));
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ((*read)->code, segment->code) << "the text form loses something";

  std::vector<void*> addresses;
  Dims temporary_bytes;
  for (size_t b = 0; b < origin.size(); ++b) {
    const bool temporary = segment->roles[b] == Role::kTemporary;
    ASSERT_EQ(temporary, !known[origin[b]] && !wanted[origin[b]]);
    addresses.push_back(temporary ? nullptr : outcome->memory[origin[b]].get());
    temporary_bytes.push_back(temporary ? program.buffers[origin[b]].bytes : 0);
  }
  const HeavyTable heavy = Heavy();
  const Plan plan(*segment, trace.size_values(), trace.stride_values(), temporary_bytes, heavy);
  const Block scratch = Allocate(plan.scratch_bytes(), 0x33);
  std::vector<bool> spoiled;
  const std::vector<Failure> failures = plan.Run(
      {addresses, trace.offsets().data(), reinterpret_cast<const Scalar*>(trace.scalars().data()), scratch.get()},
      &spoiled);
  for (int64_t i = 0; i < kGuard; ++i)
    ASSERT_EQ(scratch.get()[plan.scratch_bytes() + i], 0x33) << "wrote behind scratch";
  for (const Failure& failure : failures) {
    outcome->failed.push_back(static_cast<int>(first) + failure.node);
    EXPECT_THROW(std::rethrow_exception(failure.error), std::runtime_error);
  }
  for (size_t b = 0; b < spoiled.size(); ++b) {
    if (spoiled[b]) outcome->spoiled[origin[b]] = true;
  }
}

// The program cut before the nodes in `cuts`.
void CheckCut(const Program& program, const Outcome& expected, const std::set<size_t>& cuts, const std::string& what) {
  Outcome outcome{InitialMemory(program), {}, std::vector<bool>(program.buffers.size())};
  std::string text;
  size_t first = 0;
  for (size_t i = 1; i <= program.nodes.size(); ++i) {
    if (i < program.nodes.size() && cuts.count(i) == 0) continue;
    ASSERT_NO_FATAL_FAILURE(RunSegment(program, first, i, &outcome, &text)) << what << "\n" << text;
    first = i;
  }
  ASSERT_EQ(outcome.failed, expected.failed) << what << "\n" << text;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const ProgramBuffer& buffer = program.buffers[b];
    if (!buffer.has_memory && !buffer.alive) continue;
    ASSERT_EQ(outcome.spoiled[b], expected.spoiled[b]) << what << ", buffer " << b << "\n" << text;
    if (outcome.spoiled[b]) continue;
    const char *got = outcome.memory[b].get(), *want = expected.memory[b].get();
    const int64_t at = std::mismatch(got, got + buffer.bytes + kGuard, want).first - got;
    ASSERT_EQ(at, buffer.bytes + kGuard) << what << ": buffer " << b << " differs at byte " << at << " of "
                                         << buffer.bytes << "\n"
                                         << text;
  }
}

// --- Random programs.

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  Program Make(const Dims& base, int nodes, bool failures) {
    base_ = base;
    failures_ = failures;
    for (int i = 0; i < 3; ++i) NewInput(AnyType(Op::kCopy), base_, Below(2) == 0);
    while (static_cast<int>(program_.nodes.size()) < nodes) {
      const int64_t dice = Below(20);
      if (dice < 12) {
        AddElementwise();
      } else if (dice < 15) {
        AddReduction();
      } else if (dice < 17) {
        AddHeavy();
      } else if (dice < 19) {
        AddByPosition();
      } else {
        AddRandom();
      }
    }
    for (ProgramBuffer& buffer : program_.buffers) buffer.alive = buffer.has_memory || Below(5) < 2;
    return std::move(program_);
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  template <class T>
  const T& Any(const std::vector<T>& from) {
    return from[Below(static_cast<int64_t>(from.size()))];
  }

  Op AnyOp(OpClass cls) {
    for (;;) {
      const Op op = static_cast<Op>(Below(trace::kOpCount));
      if (trace::Info(op).cls == cls) return op;
    }
  }
  DType AnyType(Op op) {
    for (;;) {
      const DType type = Below(3) == 0 ? DType::kFloat32 : static_cast<DType>(Below(trace::kDTypeCount));
      if (trace::HasType(op, type)) return type;
    }
  }
  Scalar AnyScalar(DType type) {
    Scalar scalar;
    if (IsFloating(type)) {
      scalar.d = static_cast<double>(Below(33) - 16) / 4;
    } else {
      scalar.i = Below(type == DType::kBool ? 2 : 9);
    }
    return scalar;
  }

  // Sizes that broadcast to `sizes`.
  Dims Narrowed(Dims sizes) {
    if (Below(3) != 0) return sizes;
    for (int64_t& size : sizes) {
      if (Below(3) == 0) size = 1;
    }
    if (Below(3) == 0) sizes.erase(sizes.begin(), sizes.begin() + Below(static_cast<int64_t>(sizes.size()) + 1));
    return sizes;
  }

  enum class Form { kContiguous, kPermuted, kGapped, kExpanded };
  Dims Strides(const Dims& sizes, Form form) {
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    if (form == Form::kPermuted) std::shuffle(order.begin(), order.end(), random_);
    Dims strides(sizes.size());
    int64_t next = form == Form::kGapped ? 1 + Below(2) : 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[order[i]] = next;
      next *= sizes[order[i]];
      if (form == Form::kGapped) next += Below(3);
      if (form == Form::kExpanded && Below(2) == 0) strides[order[i]] = 0;
    }
    return strides;
  }
  static int64_t Reach(const TensorView& v) {
    int64_t reach = 1;
    for (size_t d = 0; d < v.sizes.size(); ++d) reach += (v.sizes[d] - 1) * v.strides[d];
    return reach;
  }

  TensorView NewBuffer(DType type, const Dims& sizes, bool has_memory, bool readable, Form form) {
    TensorView view{static_cast<int>(program_.buffers.size()), type, 0, sizes, Strides(sizes, form)};
    const int64_t elements = std::max<int64_t>(Reach(view), 1);
    readable = readable && Count(sizes) == elements;
    program_.buffers.push_back({has_memory, false, readable, type, elements * ItemSize(type), {}});
    return view;
  }
  // Memory with values; `spare`: more of it than the view needs.
  TensorView NewInput(DType type, const Dims& sizes, bool spare) {
    TensorView view = NewBuffer(type, sizes, true, true, Form::kContiguous);
    ProgramBuffer& buffer = program_.buffers.back();
    if (spare) buffer.bytes *= 3;
    buffer.initial.resize(buffer.bytes);
    // Written as float64 and converted, so that there are values of every size.
    const int64_t n = buffer.bytes / ItemSize(type), one = 1;
    std::vector<double> values(n);
    for (double& v : values)
      v = type == DType::kBool ? static_cast<double>(Below(2)) : static_cast<double>(Below(800)) / 100 - 3;
    if (type == DType::kUInt8) {
      for (double& v : values) v = std::abs(v);
    }
    const Layout from{DType::kFloat64, 1, &n, &one}, to{type, 1, &n, &one};
    const void* source[] = {values.data()};
    RunElementwise(BindElementwise(Op::kCopy, type, to, {from}), buffer.initial.data(), source, nullptr);
    return view;
  }

  // A view of an existing buffer with these sizes, anywhere in it and in any form; buffer -1 when none was found.
  TensorView AnyView(const Dims& sizes, bool to_read) {
    for (int attempt = 0; attempt < 8; ++attempt) {
      const int b = static_cast<int>(Below(static_cast<int64_t>(program_.buffers.size())));
      const ProgramBuffer& buffer = program_.buffers[b];
      if (to_read && !buffer.readable) continue;
      TensorView view{b, buffer.type, 0, sizes, {}};
      // Sometimes the same bytes as another dtype. What is not 0 or 1 is no bool.
      const DType other = static_cast<DType>(Below(trace::kDTypeCount));
      if (Below(10) == 0 && buffer.type != DType::kBool && other != DType::kBool) view.type = other;
      view.strides = Strides(sizes, static_cast<Form>(Below(to_read ? 4 : 3)));
      const int64_t room = buffer.bytes / ItemSize(view.type) - Reach(view);
      if (room < 0) continue;
      view.offset = Below(3) == 0 ? Below(room + 1) : 0;
      return view;
    }
    return {};
  }
  TensorView ViewToRead(const Dims& sizes, DType type) {
    TensorView view = AnyView(sizes, true);
    return view.buffer >= 0 ? view : NewInput(Below(4) == 0 ? AnyType(Op::kCopy) : type, sizes, Below(2) == 0);
  }

  // Whether one node may read `inputs` and write `out`: the same elements, or different ones.
  static bool MayWrite(const std::vector<Operand>& inputs, const TensorView& out, bool in_place) {
    for (size_t d = 0; d < out.sizes.size(); ++d) {
      if (out.sizes[d] > 1 && out.strides[d] == 0) return false;
    }
    for (const Operand& in : inputs) {
      if (in.is_scalar || in.view.buffer != out.buffer) continue;
      const trace::Relation relation = trace::Relate(in.view.extent(), out.extent());
      if (relation == trace::Relation::kMayOverlap || (relation == trace::Relation::kSame && !in_place)) return false;
    }
    return true;
  }
  TensorView ViewToWrite(const Dims& sizes, DType type, const std::vector<Operand>& inputs, bool in_place = true) {
    const int64_t dice = Below(10);
    if (dice < 2 && !inputs.empty() && !inputs[0].is_scalar && inputs[0].view.sizes == sizes &&
        MayWrite(inputs, inputs[0].view, in_place)) {
      return inputs[0].view;
    }
    if (dice < 5) {
      const TensorView view = AnyView(sizes, false);
      if (view.buffer >= 0 && MayWrite(inputs, view, in_place)) return view;
    }
    if (dice == 5) return NewBuffer(type, sizes, false, false, Form::kGapped);
    return NewBuffer(type, sizes, false, true, dice == 6 ? Form::kPermuted : Form::kContiguous);
  }

  void AddElementwise() {
    const Op op = AnyOp(OpClass::kElementwise);
    const trace::OpInfo& info = trace::Info(op);
    ProgramNode node{op, AnyType(op), {}, {}, {}, {}};
    const Dims sizes = Narrowed(base_);
    for (int i = 0; i < info.inputs; ++i) {
      Operand operand;
      operand.is_scalar = Below(6) == 0 || (op == Op::kPowInt && i == 1);
      if (operand.is_scalar) {
        operand.scalar = AnyScalar(node.type);
        if (op == Op::kPowInt && i == 1) {
          const int64_t exponent = Below(5);
          IsFloating(node.type) ? operand.scalar.d = exponent == 1 ? -2 : static_cast<double>(exponent)
                                : operand.scalar.i = exponent;
        }
      } else {
        operand.view = ViewToRead(Narrowed(sizes), node.type);
      }
      node.inputs.push_back(operand);
    }
    for (int i = 0; i < info.params; ++i) node.params.push_back(AnyScalar(node.type));
    const DType result = info.result == trace::OpResult::kBool ? DType::kBool : node.type;
    node.outputs = {ViewToWrite(sizes, result, node.inputs)};
    program_.nodes.push_back(std::move(node));
  }

  void AddReduction() {
    const Op op = AnyOp(OpClass::kReduce);
    ProgramNode node{op, AnyType(op), {}, {}, {}, {}};
    const Dims sizes = Narrowed(base_);
    if (Count(sizes) == 0) return;
    const int64_t reduced = Below(static_cast<int64_t>(sizes.size()) + 1);
    Operand in;
    in.view = ViewToRead(sizes, node.type);
    node.inputs = {in};
    node.attrs = {reduced};
    if (trace::Info(op).params == 1) node.params.push_back({.d = 0.0});
    const Dims kept(sizes.begin(), sizes.end() - reduced);
    const bool indexed = op == Op::kMaxIndexed || op == Op::kMinIndexed;
    const bool position = op == Op::kArgmax || op == Op::kArgmin || op == Op::kCountNonzero;
    const DType result = position                                           ? DType::kInt64
                         : trace::Info(op).result == trace::OpResult::kBool ? DType::kBool
                                                                            : node.type;
    if (indexed || position) {
      node.outputs.push_back(NewBuffer(result, kept, false, true, Form::kContiguous));
    } else {
      node.outputs.push_back(ViewToWrite(kept, result, node.inputs, false));
    }
    if (indexed) node.outputs.push_back(NewBuffer(DType::kInt64, kept, false, true, Form::kContiguous));
    program_.nodes.push_back(std::move(node));
  }

  void AddHeavy() {
    ProgramNode node{kHeavyOp, AnyType(kHeavyOp), {}, {}, {failures_ && Below(2) == 0 ? 1 + Below(100) : 0}, {}};
    node.inputs.resize(2);
    for (Operand& in : node.inputs) in.view = ViewToRead(base_, node.type);
    node.outputs = {ViewToWrite(base_, node.type, node.inputs)};
    program_.nodes.push_back(std::move(node));
  }

  void AddByPosition() {
    const Op op = base_.size() < 2 ? Op::kIota : AnyOp(OpClass::kIndex);
    ProgramNode node{op, AnyType(op), {}, {}, {}, {}};
    if (op == Op::kIota) {
      node.params = {AnyScalar(node.type), AnyScalar(node.type)};
      node.outputs = {ViewToWrite({base_.back()}, node.type, {})};
    } else {
      Operand in;
      in.view = ViewToRead(base_, node.type);
      node.inputs = {in};
      node.params = {{.i = Below(7) - 3}};
      node.outputs = {ViewToWrite(base_, node.type, node.inputs)};
    }
    program_.nodes.push_back(std::move(node));
  }

  void AddRandom() {
    const Op op = AnyOp(OpClass::kRandom);
    ProgramNode node{op, AnyType(op), {}, {}, {}, {{.i = Below(100)}, {.i = 4 * Below(100)}}};
    if (op == Op::kRandomInt) {
      node.params.insert(node.params.end(), {{.i = 0}, {.i = 2 + Below(60)}});
    } else if (op == Op::kBernoulli || op == Op::kExponential) {
      node.params.push_back({.d = 0.75});
    } else {
      node.params.insert(node.params.end(), {{.d = -1.0}, {.d = 2.0}});
    }
    const TensorView out = ViewToWrite(Narrowed(base_), node.type, {});
    node.type = out.type;
    if (!trace::HasType(op, node.type)) return;
    node.outputs = {out};
    program_.nodes.push_back(std::move(node));
  }

  std::mt19937 random_;
  Dims base_;
  bool failures_ = false;
  Program program_;
};

class Threads {
 public:
  explicit Threads(int count) { SetThreadCount(count); }
  ~Threads() { SetThreadCount(1); }
};

void CheckProgram(const Program& program, uint32_t seed) {
  const Outcome expected = RunReference(program);
  std::mt19937 random(seed);
  std::set<size_t> everywhere, somewhere;
  for (size_t i = 1; i < program.nodes.size(); ++i) {
    everywhere.insert(i);
    if (random() % 4 == 0) somewhere.insert(i);
  }
  for (int threads : {1, 2}) {
    const Threads setting(threads);
    const std::string what = absl::StrCat("seed ", seed, ", ", threads, " threads");
    ASSERT_NO_FATAL_FAILURE(CheckCut(program, expected, {}, what + ", one segment"));
    if (!expected.failed.empty()) continue;  // the owner of later segments raises before they run
    ASSERT_NO_FATAL_FAILURE(CheckCut(program, expected, somewhere, what + ", several segments"));
    ASSERT_NO_FATAL_FAILURE(CheckCut(program, expected, everywhere, what + ", op by op"));
  }
}

Dims AnySizes(std::mt19937& random, std::initializer_list<int64_t> choices) {
  Dims sizes(1 + random() % 3);
  for (int64_t& size : sizes) size = choices.begin()[random() % choices.size()];
  return sizes;
}

TEST(RandomPrograms, AgreeWithNodesRunAlone) {
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    std::mt19937 random(seed);
    const Dims base = AnySizes(random, {1, 2, 3, 5, 8, 17, 33, 70});
    const Program program = Generator(seed).Make(base, 3 + static_cast<int>(random() % 40), false);
    ASSERT_NO_FATAL_FAILURE(CheckProgram(program, seed));
  }
}

// Large enough that loops are shared out among threads.
TEST(RandomPrograms, AgreeWhenTheyAreLarge) {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    std::mt19937 random(seed);
    const Dims bases[] = {{150'001}, {301, 500}, {60, 50, 50}};
    const Program program = Generator(seed + 10'000).Make(bases[seed % 3], 12, false);
    ASSERT_NO_FATAL_FAILURE(CheckProgram(program, seed));
  }
}

TEST(RandomPrograms, AgreeOnEmptyTensors) {
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    std::mt19937 random(seed);
    const Program program = Generator(seed + 20'000).Make(AnySizes(random, {0, 1, 4}), 15, false);
    ASSERT_NO_FATAL_FAILURE(CheckProgram(program, seed));
  }
}

TEST(RandomPrograms, FailuresSpoilWhatDependsOnThem) {
  int failed = 0, spoiled = 0, good = 0;
  for (uint32_t seed = 1; seed <= 1000; ++seed) {
    std::mt19937 random(seed);
    const Dims base = AnySizes(random, {1, 2, 5, 17});
    const Program program = Generator(seed + 30'000).Make(base, 3 + static_cast<int>(random() % 40), true);
    const Outcome expected = RunReference(program);
    failed += !expected.failed.empty();
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      if (program.buffers[b].alive) ++(expected.spoiled[b] ? spoiled : good);
    }
    ASSERT_NO_FATAL_FAILURE(CheckProgram(program, seed));
  }
  EXPECT_GT(failed, 300);
  EXPECT_GT(spoiled, 1000);
  EXPECT_GT(good, 1000);
}

// The generator makes what it is for.
TEST(RandomPrograms, ReachEveryOpAndEveryRole) {
  std::set<Op> ops;
  int roles[4] = {}, in_place = 0, overwritten = 0;
  for (uint32_t seed = 1; seed <= 1500; ++seed) {
    std::mt19937 random(seed);
    const Dims base = AnySizes(random, {1, 2, 3, 5, 8, 17, 33, 70});
    const Program program = Generator(seed).Make(base, 3 + static_cast<int>(random() % 40), false);
    std::set<int> written;
    for (const ProgramNode& node : program.nodes) {
      ops.insert(node.op);
      for (const TensorView& out : node.outputs) {
        overwritten += !written.insert(out.buffer).second;
        for (const Operand& in : node.inputs) in_place += !in.is_scalar && in.view.buffer == out.buffer;
      }
    }
    for (size_t b = 0; b < program.buffers.size(); ++b) {
      const ProgramBuffer& buffer = program.buffers[b];
      ++roles[!buffer.has_memory ? (buffer.alive ? 2 : 3) : (written.count(static_cast<int>(b)) != 0 ? 1 : 0)];
    }
  }
  for (int op = 0; op < trace::kOpCount; ++op) {
    const trace::OpInfo& info = trace::Info(static_cast<Op>(op));
    EXPECT_TRUE(info.cls == OpClass::kHeavy || ops.count(static_cast<Op>(op)) == 1) << info.text;
  }
  for (int count : roles) EXPECT_GT(count, 1000);
  EXPECT_GT(in_place, 1000);
  EXPECT_GT(overwritten, 1000);
}

// --- Plans by hand.

std::unique_ptr<trace::Segment> Parsed(const std::string& text) {
  absl::StatusOr<std::unique_ptr<trace::Segment>> segment = trace::Parse(text);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return *std::move(segment);
}

TEST(Plan, DropsWhatNobodyReads) {
  const auto chain = Parsed(
      "buffers in, temp, temp, out\n"
      "v0 = b0 f32 [s0]\nv1 = b1 f32 [s0]\nneg.f32 v1 <- v0\n"
      "v2 = b2 f32 [s0]\nexp.f32 v2 <- v1\n"
      "v3 = b3 f32 [s0]\nabs.f32 v3 <- v0\n");
  const HeavyTable heavy = Heavy();
  EXPECT_EQ(Plan(*chain, {100}, {}, {0, 400, 400, 0}, heavy).scratch_bytes(), 0) << "dead temporaries take no scratch";
}

TEST(Plan, TemporariesShareScratchOnceTheyAreRead) {
  std::string text = "buffers in, out, temp, temp, temp, temp, temp, temp\nv0 = b0 f32 [s0]\nv1 = b1 f32 [s0]\n";
  for (int i = 2; i < 8; ++i)
    absl::StrAppend(&text, "v", i, " = b", i, " f32 [s0]\nneg.f32 v", i, " <- v", i == 2 ? 0 : i - 1, "\n");
  const auto chain = Parsed(text + "neg.f32 v1 <- v7\n");
  const HeavyTable heavy = Heavy();
  const Dims bytes = {0, 0, 400, 400, 400, 400, 400, 400};
  const Plan plan(*chain, {100}, {}, bytes, heavy);
  EXPECT_EQ(plan.scratch_bytes(), 2 * 512) << "two live at a time, each with 64 bytes of slack";
  std::vector<float> in(100), out(100);
  std::iota(in.begin(), in.end(), -50.0f);
  void* const addresses[8] = {in.data(), out.data()};
  const Dims offsets(8, 0);
  const Block scratch = Allocate(plan.scratch_bytes(), 0);
  std::vector<bool> spoiled;
  EXPECT_TRUE(plan.Run({addresses, offsets.data(), nullptr, scratch.get()}, &spoiled).empty());
  for (int i = 0; i < 100; ++i) EXPECT_EQ(out[i], -in[i]);
}

TEST(Plan, KnowsTheExactLayouts) {
  const auto segment = Parsed(
      "buffers in, out\nv0 = b0 f32 [s0, s1] dense(1, 0)\nv1 = b1 f32 [s0, s1] strided(s0, 1)\ncopy.f32 v1 <- v0\n");
  const HeavyTable heavy = Heavy();
  const Plan plan(*segment, {3, 5}, {9}, {0, 0}, heavy);
  const int64_t expected[2][4] = {{3, 5, 1, 3}, {3, 5, 9, 1}};
  for (int v = 0; v < 2; ++v) {
    const Layout layout = plan.LayoutOf(v);
    ASSERT_EQ(layout.rank, 2);
    const int64_t got[4] = {layout.sizes[0], layout.sizes[1], layout.strides[0], layout.strides[1]};
    EXPECT_TRUE(std::equal(got, got + 4, expected[v])) << v;
  }
  EXPECT_GT(plan.memory_bytes(), static_cast<int64_t>(sizeof(Plan)));
}

// One plan, several launches at once, each with its own memory, offsets and scalars.
TEST(Plan, IsSharedByConcurrentRuns) {
  const auto segment = Parsed(
      "buffers in, temp, out\nv0 = b0 f32 [s0]\nv1 = b1 f32 [s0]\nmul.f32 v1 <- v0, $\n"
      "v2 = b2 f32 [s0]\nadd_scaled.f32 v2 <- v1, v0 params 1\n");
  constexpr int64_t kCount = 1000;
  const HeavyTable heavy = Heavy();
  const Plan plan(*segment, {kCount}, {}, {0, kCount * 4, 0}, heavy);
  const auto run = [&](int which) {
    std::vector<float> in(kCount + which), out(kCount + which);
    std::iota(in.begin(), in.end(), 0.0f);
    const Block scratch = Allocate(plan.scratch_bytes(), 0);
    const Scalar scalars[2] = {{.d = static_cast<double>(which)}, {.d = 2.0}};
    const int64_t offsets[3] = {which, 0, which};
    void* const addresses[3] = {in.data(), nullptr, out.data()};
    int wrong = 0;
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::vector<bool> spoiled;
      wrong += static_cast<int>(plan.Run({addresses, offsets, scalars, scratch.get()}, &spoiled).size());
      for (int64_t i = which; i < kCount + which; ++i) {
        wrong += out[i] != in[i] * static_cast<float>(which) + 2 * in[i];
        out[i] = -1;
      }
    }
    return wrong;
  };
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&, t] { wrong[t] = run(t + 1); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

TEST(Plan, AFailureKeepsItsNodeAndItsException) {
  const auto segment = Parsed(
      "buffers in, out, out, out\nv0 = b0 f32 [s0]\nv1 = b1 f32 [s0]\nv2 = b2 f32 [s0]\nv3 = b3 f32 [s0]\n"
      "neg.f32 v1 <- v0\nindex_select.f32 v2 <- v0, v1 attrs 5\nabs.f32 v3 <- v2\nneg.f32 v1 <- v1\n");
  const HeavyTable heavy = Heavy();
  const Plan plan(*segment, {3}, {}, {0, 0, 0, 0}, heavy);
  float in[3] = {1, 2, 3}, good[3] = {}, bad[3] = {7, 7, 7}, dependent[3] = {8, 8, 8};
  void* const addresses[4] = {in, good, bad, dependent};
  const Dims offsets(4, 0);
  std::vector<bool> spoiled;
  const std::vector<Failure> failures = plan.Run({addresses, offsets.data(), nullptr, nullptr}, &spoiled);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].node, 1);
  try {
    std::rethrow_exception(failures[0].error);
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "failure 5");
  }
  EXPECT_EQ(spoiled, (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(good[1], 2) << "what came later and did not depend on it still ran";
  EXPECT_EQ(bad[1], 7);
  EXPECT_EQ(dependent[1], 8);
}

}  // namespace
}  // namespace openneuron::kernels
