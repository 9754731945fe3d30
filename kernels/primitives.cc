// The contiguous loops of one ISA and one group of types; compiled once for each of them, with
// OPENNEURON_FILL naming the function that enters them into a table.
#include "kernels/primitives.h"
#include "kernels/formulas.h"

namespace openneuron::kernels {
namespace {

using formulas::kIsBool;
using formulas::kIsReal;
using formulas::kSame;

// The words of the op table as constants.
enum Types { Float, Number, All, Integral };
enum Result { Same, Bool };

template <class T>
constexpr bool HasType(Types types) {
  return types == All || (types == Float && kIsReal<T>) || (types == Number && !kIsBool<T>) ||
         (types == Integral && !kIsReal<T>);
}

// The formulas as types; only elementwise lines of the table have one.
#define OP(id, text, cls, inputs, params, types, result, form) OP_##cls(id, inputs, params, types, result)
#define OP_Reduce(...)
#define OP_Index(...)
#define OP_Random(...)
#define OP_Heavy(...)

#define OP_Elementwise(id, inputs, params, types, result) \
  struct id##Formula {                                    \
    static constexpr int kInputs = inputs;                \
    static constexpr int kParams = params;                \
    static constexpr bool kBoolResult = result == Bool;   \
    template <class... T>                                 \
    static auto Of(T... x) {                              \
      return formulas::id(x...);                          \
    }                                                     \
  };
#include "trace/ops.def"
#undef OP_Elementwise

// Note [Guarded formulas]: a few float formulas have rare arguments that need a slow path. The loop looks
// at a block first; when nothing in it is hard it runs the fast form only, which vectorises. For
// arguments that are not hard both forms give the same bits, so a result never depends on its neighbours.
template <class Formula>
struct Guard {
  static constexpr bool kExists = false;
};
#define GUARDED_TRIG(id)                                       \
  template <>                                                  \
  struct Guard<id##Formula> {                                  \
    static constexpr bool kExists = true;                      \
    static bool Hard(float x) { return maths::TrigIsHard(x); } \
    static float Fast(float x) { return maths::id##Fast(x); }  \
  };
GUARDED_TRIG(Sin)
GUARDED_TRIG(Cos)
GUARDED_TRIG(Tan)
#undef GUARDED_TRIG
#define GUARDED_DIVISION(id, expression)                                   \
  template <>                                                              \
  struct Guard<id##Formula> {                                              \
    static constexpr bool kExists = true;                                  \
    static bool Hard(float a, float b) { return maths::FmodIsHard(a, b); } \
    static float Fast(float a, float b) { return expression; }             \
  };
GUARDED_DIVISION(Fmod, maths::FmodFast(a, b))
GUARDED_DIVISION(Remainder, formulas::RemainderOf(maths::FmodFast(a, b), b))
GUARDED_DIVISION(DivFloor, formulas::DivFloorOf(a, b, maths::FmodFast(a, b)))
#undef GUARDED_DIVISION
constexpr int64_t kGuardBlock = 256;

// Bools are bytes in memory.
template <class T>
struct MemoryOf {
  using Type = T;
};
template <>
struct MemoryOf<bool> {
  using Type = uint8_t;
};
template <class T>
using Memory = typename MemoryOf<T>::Type;

template <class T>
inline T FromMemory(Memory<T> element) {
  if constexpr (kIsBool<T>) {
    return element != 0;
  } else {
    return element;
  }
}

// An operand of a loop: a run of elements, or one value.
template <class T, bool kSplat>
struct Operand {
  explicit Operand(const void* address) : data(static_cast<const Memory<T>*>(address)) {}
  T operator[](int64_t i) const { return FromMemory<T>(data[i]); }
  const Memory<T>* data;
};
template <class T>
struct Operand<T, true> {
  explicit Operand(const void* address) : value(FromMemory<T>(*static_cast<const Memory<T>*>(address))) {}
  T operator[](int64_t) const { return value; }
  T value;
};

template <class T, int kCount>
struct Parameters {
  explicit Parameters(const void* address) {
    for (int i = 0; i < kCount; ++i) value[i] = FromMemory<T>(static_cast<const Memory<T>*>(address)[i]);
  }
  T value[kCount + (kCount == 0)];
};

// The formula with its parameters appended to the operands.
template <class Formula, class P, class... X>
inline auto Call(const P& p, X... x) {
  if constexpr (Formula::kParams == 0) {
    return Formula::Of(x...);
  } else if constexpr (Formula::kParams == 1) {
    return Formula::Of(x..., p.value[0]);
  } else if constexpr (Formula::kParams == 2) {
    return Formula::Of(x..., p.value[0], p.value[1]);
  } else {
    return Formula::Of(x..., p.value[0], p.value[1], p.value[2]);
  }
}

template <class Out, class Element>
inline void ForEach(Out* out, int64_t begin, int64_t end, Element element) {
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) out[i] = static_cast<Out>(element(i));
}

template <bool kBoolResult, class T>
struct OutputOf {
  using Type = Memory<T>;
};
template <class T>
struct OutputOf<true, T> {
  using Type = uint8_t;
};

template <class Formula, class T, class... X>
inline void RunOperands(void* out_address, const void* params, int64_t n, X... x) {
  using Out = typename OutputOf<Formula::kBoolResult, T>::Type;
  Out* out = static_cast<Out*>(out_address);
  if constexpr (Guard<Formula>::kExists && kSame<T, float>) {
    for (int64_t begin = 0; begin < n; begin += kGuardBlock) {
      const int64_t end = n - begin < kGuardBlock ? n : begin + kGuardBlock;
      uint32_t hard = 0;
      for (int64_t i = begin; i < end; ++i) hard |= Guard<Formula>::Hard(x[i]...) ? 1u : 0u;
      if (hard != 0) {
        ForEach(out, begin, end, [=](int64_t i) { return Formula::Of(x[i]...); });
      } else {
        ForEach(out, begin, end, [=](int64_t i) { return Guard<Formula>::Fast(x[i]...); });
      }
    }
  } else {
    const Parameters<T, Formula::kParams> p(params);
    ForEach(out, 0, n, [=]([[maybe_unused]] int64_t i) { return Call<Formula>(p, x[i]...); });
  }
}

// One exponent for all: the selects of PowInt are made outside the loop.
template <class T>
inline bool RunSmallPower(void* out_address, const void* const* in, int64_t n) {
  Memory<T>* out = static_cast<Memory<T>*>(out_address);
  const Operand<T, false> base(in[0]);
  const T exponent = *static_cast<const T*>(in[1]);
  if (exponent == T{2}) {
    ForEach(out, 0, n, [=](int64_t i) { return formulas::Mul(base[i], base[i]); });
    return true;
  }
  if (exponent == T{3}) {
    ForEach(out, 0, n, [=](int64_t i) { return formulas::Mul(formulas::Mul(base[i], base[i]), base[i]); });
    return true;
  }
  if constexpr (kIsReal<T>) {
    if (exponent == T{-2}) {
      ForEach(out, 0, n, [=](int64_t i) { return T{1} / (base[i] * base[i]); });
      return true;
    }
  }
  return false;
}

template <class Formula, class T, unsigned kSplat>
void Run(void* out, const void* const* in, const void* params, int64_t n) {
  constexpr bool kSplat0 = (kSplat & 1) != 0, kSplat1 = (kSplat & 2) != 0, kSplat2 = (kSplat & 4) != 0;
  if constexpr (Formula::kInputs == 0) {
    RunOperands<Formula, T>(out, params, n);
  } else if constexpr (Formula::kInputs == 1) {
    RunOperands<Formula, T>(out, params, n, Operand<T, kSplat0>(in[0]));
  } else if constexpr (Formula::kInputs == 2) {
    if constexpr (kSame<Formula, PowIntFormula> && kSplat == 2) {
      if (RunSmallPower<T>(out, in, n)) return;
    }
    RunOperands<Formula, T>(out, params, n, Operand<T, kSplat0>(in[0]), Operand<T, kSplat1>(in[1]));
  } else if constexpr (kSame<Formula, WhereFormula>) {
    RunOperands<Formula, T>(out, params, n, Operand<bool, kSplat0>(in[0]), Operand<T, kSplat1>(in[1]),
                            Operand<T, kSplat2>(in[2]));
  } else {
    RunOperands<Formula, T>(out, params, n, Operand<T, kSplat0>(in[0]), Operand<T, kSplat1>(in[1]),
                            Operand<T, kSplat2>(in[2]));
  }
}

// The variants that occur: scalars in binary ops, in masked fills, and a mean's gradient.
template <class Formula, class T>
void FillVariants(Primitive (&variants)[8]) {
  variants[0] = Run<Formula, T, 0>;
  if constexpr (Formula::kInputs == 2) {
    variants[1] = Run<Formula, T, 1>;
    variants[2] = Run<Formula, T, 2>;
  } else if constexpr (kSame<Formula, WhereFormula>) {
    variants[2] = Run<Formula, T, 2>;
    variants[4] = Run<Formula, T, 4>;
    variants[6] = Run<Formula, T, 6>;
  } else if constexpr (kSame<Formula, MseLossBackwardFormula>) {
    variants[1] = Run<Formula, T, 1>;
  }
}

#undef OP
enum OpIndex {
#define OP(id, ...) k##id,
#include "trace/ops.def"
#undef OP
};

template <class T>
void FillType(PrimitiveTable& table, int type) {
#define OP(id, text, cls, inputs, params, types, result, form) OP_##cls(id, inputs, params, types, result)
#define OP_Elementwise(id, inputs, params, types, result) \
  if constexpr (HasType<T>(types)) FillVariants<id##Formula, T>(table.ops[k##id][type]);
#include "trace/ops.def"
#undef OP
}

}  // namespace

// The numbers are those of trace::DType.
void OPENNEURON_FILL(PrimitiveTable& table) {
#if defined(OPENNEURON_GROUP_i8)
  FillType<bool>(table, 0);
  FillType<uint8_t>(table, 1);
  FillType<int8_t>(table, 2);
  FillType<int16_t>(table, 3);
#elif defined(OPENNEURON_GROUP_i32)
  FillType<int32_t>(table, 4);
  FillType<int64_t>(table, 5);
#elif defined(OPENNEURON_GROUP_f32)
  FillType<float>(table, 8);
#elif defined(OPENNEURON_GROUP_f64)
  FillType<double>(table, 9);
#endif
}

}  // namespace openneuron::kernels
