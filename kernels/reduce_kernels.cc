// The inner loops of reductions for one ISA; compiled once for each.
// A reducer is three small expressions that mean the same for a scalar and for a vector of lanes.
#include "kernels/reduce_kernels.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace openneuron::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

template <class T, int n>
struct VectorOf {
  typedef T type __attribute__((vector_size(n * sizeof(T))));
};
template <class T, int n>
using Vector = typename VectorOf<T, n>::type;

template <class T>
constexpr bool kIsReal = false;
template <>
constexpr bool kIsReal<float> = true;
template <>
constexpr bool kIsReal<double> = true;

template <class A, class B>
constexpr bool kSame = false;
template <class A>
constexpr bool kSame<A, A> = true;

// Arithmetic in two's complement that wraps: signed overflow must not be undefined here.
template <class T>
struct Wrapping {
  using Type = T;
};
template <>
struct Wrapping<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using Type = uint64_t;
};

// x is a scalar or a vector; -0 becomes +0.
template <class V>
inline V Abs(V x) {
  return x < V{} ? -x : x + V{};
}
template <class V>
inline V Larger(V a, V b) {
  return ((a > b) | (a != a)) ? a : b;
}
template <class V>
inline V Smaller(V a, V b) {
  return ((a < b) | (a != a)) ? a : b;
}

// A reducer has: In, Acc; kIdentity; Map(x, param) from an element (already converted to Acc) to what
// is combined; Combine(left, right).
template <class T, class A>
struct SumOf {
  using In = T;
  using Acc = typename Wrapping<A>::Type;
  static constexpr Acc kIdentity = kIsReal<A> ? static_cast<Acc>(-0.0) : Acc{0};
  template <class V>
  static V Map(V x, V) {
    return x;
  }
  template <class V>
  static V Combine(V a, V b) {
    return a + b;
  }
};
template <class T>
struct ProdOf {
  using In = T;
  using Acc = typename Wrapping<T>::Type;
  static constexpr Acc kIdentity = Acc{1};
  template <class V>
  static V Map(V x, V) {
    return x;
  }
  template <class V>
  static V Combine(V a, V b) {
    return a * b;
  }
};
template <class T>
struct AbsSumOf : SumOf<T, T> {
  template <class V>
  static V Map(V x, V) {
    return Abs(x);
  }
};
template <class T>
struct SquareSumOf : SumOf<T, T> {
  template <class V>
  static V Map(V x, V) {
    return x * x;
  }
};
template <class T>
struct DeviationsOf : SumOf<T, double> {
  template <class V>
  static V Map(V x, V mean) {
    return (x - mean) * (x - mean);
  }
};
template <class T>
struct MaxOf {
  using In = T;
  using Acc = T;
  static constexpr Acc kIdentity = kIsReal<T>                 ? static_cast<T>(-__builtin_inf())
                                   : static_cast<T>(-1) > T{} ? T{}
                                                              : static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1));
  template <class V>
  static V Map(V x, V) {
    return x;
  }
  template <class V>
  static V Combine(V a, V b) {
    return Larger(a, b);
  }
};
template <class T>
struct MinOf {
  using In = T;
  using Acc = T;
  static constexpr Acc kIdentity = kIsReal<T> ? static_cast<T>(__builtin_inf())
                                   : static_cast<T>(-1) > T{}
                                       ? static_cast<T>(-1)
                                       : static_cast<T>((uint64_t{1} << (8 * sizeof(T) - 1)) - 1);
  template <class V>
  static V Map(V x, V) {
    return x;
  }
  template <class V>
  static V Combine(V a, V b) {
    return Smaller(a, b);
  }
};
template <class T>
struct AbsMaxOf : MaxOf<T> {
  template <class V>
  static V Map(V x, V) {
    return Abs(x);
  }
};
// R where no element is NaN: combining is one instruction.
template <class R>
struct Ordered;
template <class T>
struct Ordered<MaxOf<T>> : MaxOf<T> {
  template <class V>
  static V Combine(V a, V b) {
    return a > b ? a : b;
  }
};
template <class T>
struct Ordered<MinOf<T>> : MinOf<T> {
  template <class V>
  static V Combine(V a, V b) {
    return a < b ? a : b;
  }
};
template <class T>
struct Ordered<AbsMaxOf<T>> : Ordered<MaxOf<T>> {
  template <class V>
  static V Map(V x, V) {
    return Abs(x);
  }
};
struct CountOf : SumOf<uint8_t, int64_t> {
  template <class V>
  static V Map(V x, V) {
    return x != V{} ? V{} + 1 : V{};
  }
};

template <class R>
constexpr bool kIsExtremum = false;
template <class T>
constexpr bool kIsExtremum<MaxOf<T>> = true;
template <class T>
constexpr bool kIsExtremum<MinOf<T>> = true;
template <class T>
constexpr bool kIsExtremum<AbsMaxOf<T>> = true;

template <class R>
constexpr bool kHasParam = false;
template <class T>
constexpr bool kHasParam<DeviationsOf<T>> = true;

// Lanes per vector and vectors per leaf state.
template <class R>
constexpr int kWidth = kVectorBytes / sizeof(typename R::Acc) < kLanes ? kVectorBytes / sizeof(typename R::Acc)
                                                                       : kLanes;
template <class R>
constexpr int kVectors = kLanes / kWidth<R>;

template <class R>
inline typename R::Acc LoadOne(const typename R::In* in) {
  return static_cast<typename R::Acc>(*in);
}

template <class R>
inline Vector<typename R::Acc, kWidth<R>> LoadLanes(const typename R::In* in) {
  Vector<typename R::In, kWidth<R>> raw;
  __builtin_memcpy(&raw, in, sizeof(raw));
  if constexpr (kSame<typename R::In, typename R::Acc>) {
    return raw;
  } else {
    return __builtin_convertvector(raw, Vector<typename R::Acc, kWidth<R>>);
  }
}

// The first `count` elements and zeros, without touching memory behind them; 0 < count < n.
template <class T, int n>
inline Vector<T, n> LoadSome(const T* in, int64_t count) {
  [[maybe_unused]] constexpr int kBytes = sizeof(T) * n;
#ifdef __AVX512F__
  if constexpr (sizeof(T) >= 4 && kBytes >= 16) {
    const uint32_t words = (uint32_t{1} << (count * sizeof(T) / 4)) - 1;
    if constexpr (kBytes == 64)
      return reinterpret_cast<Vector<T, n>>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>(words), in));
    if constexpr (kBytes == 32)
      return reinterpret_cast<Vector<T, n>>(_mm256_maskz_loadu_epi32(static_cast<__mmask8>(words), in));
    if constexpr (kBytes == 16)
      return reinterpret_cast<Vector<T, n>>(_mm_maskz_loadu_epi32(static_cast<__mmask8>(words), in));
  } else if constexpr (kBytes == 32) {
    return reinterpret_cast<Vector<T, n>>(_mm256_maskz_loadu_epi8((uint32_t{1} << count) - 1, in));
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) >= 4 && kBytes >= 16) {
    const __m256i words = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count * sizeof(T) / 4)),
                                             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const int* raw = reinterpret_cast<const int*>(in);
    if constexpr (kBytes == 32) return reinterpret_cast<Vector<T, n>>(_mm256_maskload_epi32(raw, words));
    if constexpr (kBytes == 16)
      return reinterpret_cast<Vector<T, n>>(_mm_maskload_epi32(raw, _mm256_castsi256_si128(words)));
  }
#endif
  T some[n] = {};
  for (int64_t j = 0; j < count; ++j) some[j] = in[j];
  Vector<T, n> result;
  __builtin_memcpy(&result, some, sizeof(result));
  return result;
}

template <int... i>
struct Numbers {};
// Numbers<0, ..., n - 1>
template <int n, int... i>
struct CountTo : CountTo<n - 1, n - 1, i...> {};
template <int... i>
struct CountTo<0, i...> {
  using Type = Numbers<i...>;
};
template <int n>
using NumbersTo = typename CountTo<n>::Type;

template <int size>
struct SignedOfSize;
template <>
struct SignedOfSize<1> {
  using Type = int8_t;
};
template <>
struct SignedOfSize<4> {
  using Type = int32_t;
};
template <>
struct SignedOfSize<8> {
  using Type = int64_t;
};

template <class R>
inline Vector<typename R::Acc, kWidth<R>> LoadSomeLanes(const typename R::In* in, int64_t count) {
  if constexpr (kSame<typename R::In, typename R::Acc>) {
    return LoadSome<typename R::In, kWidth<R>>(in, count);
  } else {
    return __builtin_convertvector((LoadSome<typename R::In, kWidth<R>>(in, count)),
                                   Vector<typename R::Acc, kWidth<R>>);
  }
}

// Combines the first `count` elements of `in` with the lanes of `state`.
template <class R, int... i>
inline Vector<typename R::Acc, kWidth<R>> CombineSome(Vector<typename R::Acc, kWidth<R>> state,
                                                      const typename R::In* in, int64_t count,
                                                      Vector<typename R::Acc, kWidth<R>> params, Numbers<i...>) {
  using Mask = typename SignedOfSize<sizeof(typename R::Acc)>::Type;
  const Vector<typename R::Acc, kWidth<R>> lanes = LoadSomeLanes<R>(in, count);
  const Vector<Mask, kWidth<R>> numbers = {i...};
  return numbers < static_cast<Mask>(count) ? R::Combine(state, R::Map(lanes, params)) : state;
}

// Folds by halves until lane 0 holds the result; what the upper lanes hold then is of no meaning.
template <class R, int half, int... i>
inline typename R::Acc FoldVector(Vector<typename R::Acc, kWidth<R>> state, Numbers<i...> numbers) {
  state = R::Combine(state, __builtin_shufflevector(state, state, (i + half) % kWidth<R>...));
  if constexpr (half > 1) {
    return FoldVector<R, half / 2>(state, numbers);
  } else {
    return state[0];
  }
}

// Lanes that can hold anything but the identity, rounded up to a power of two. Combining with the
// identity on the right changes nothing, so the fold may start there.
inline int64_t LiveLanes(int64_t n) {
  int64_t lanes = kLanes;
  while (lanes / 2 >= n) lanes /= 2;
  return lanes;
}

template <class R>
inline typename R::Acc LeafOf(const typename R::In* in, int64_t n, typename R::Acc param) {
  constexpr int64_t kStep = kWidth<R>;
  using V = Vector<typename R::Acc, kStep>;
  const V params = param - V{};
  V state[kVectors<R>];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors<R>; ++v) state[v] = R::kIdentity - V{};  // not V{} + -0.0
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors<R>; ++v) {
      state[v] = R::Combine(state[v], R::Map(LoadLanes<R>(in + i + v * kStep), params));
    }
  }
  const int64_t left = n - i;
#pragma GCC unroll 16
  for (int v = 0; v < kVectors<R>; ++v) {
    const typename R::In* at = in + i + v * kStep;
    if (left >= (v + 1) * kStep) {
      state[v] = R::Combine(state[v], R::Map(LoadLanes<R>(at), params));
    } else if (left > v * kStep) {
      state[v] = CombineSome<R>(state[v], at, left - v * kStep, params, NumbersTo<kStep>());
    }
  }
#pragma GCC unroll 16
  for (int half = kVectors<R> / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (int v = 0; v < half; ++v) state[v] = R::Combine(state[v], state[v + half]);
  }
  return FoldVector<R, kStep / 2>(state[0], NumbersTo<kStep>());
}

template <class T>
struct OrOf {
  using Acc = T;
  template <class V>
  static V Combine(V a, V b) {
    return a | b;
  }
};

template <class R>
inline bool HasNan(const typename R::In* in, int64_t n) {
  using Mask = typename SignedOfSize<sizeof(typename R::Acc)>::Type;
  constexpr int64_t kStep = kWidth<R>;
  Vector<Mask, kStep> found = {};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    const auto x = LoadLanes<R>(in + i);
    found |= x != x;
  }
  if (i < n) {
    const auto x = LoadSomeLanes<R>(in + i, n - i);
    found |= x != x;
  }
  return FoldVector<OrOf<Mask>, kStep / 2>(found, NumbersTo<kStep>()) != 0;
}

template <class R>
inline typename R::Acc Leaf(const typename R::In* in, int64_t n, typename R::Acc param) {
  if constexpr (kIsExtremum<R> && kIsReal<typename R::Acc>) {
    // Any NaN will do, see kernels/reduce.h.
    if (HasNan<R>(in, n)) return static_cast<typename R::Acc>(__builtin_nan(""));
    return LeafOf<Ordered<R>>(in, n, param);
  } else {
    return LeafOf<R>(in, n, param);
  }
}

// Order does not matter to a count, and widening bytes to 64 bits one by one is slow.
template <>
inline CountOf::Acc Leaf<CountOf>(const uint8_t* in, int64_t n, CountOf::Acc) {
  uint32_t count = 0;
  for (int64_t i = 0; i < n; ++i) count += in[i] != 0;
  return count;
}

template <class R>
void Rows(void* out, const void* in, int64_t row_stride, int64_t n, int64_t rows, const void* params) {
  using Acc = typename R::Acc;
  const typename R::In* row = static_cast<const typename R::In*>(in);
  for (int64_t r = 0; r < rows; ++r) {
    const Acc param = kHasParam<R> ? static_cast<const Acc*>(params)[r] : Acc{};
    static_cast<Acc*>(out)[r] = Leaf<R>(row, n, param);
    row += row_stride;
  }
}

template <class R>
void Begin(void* lanes, int64_t pitch, int64_t n) {
  typename R::Acc* state = static_cast<typename R::Acc*>(lanes);
  const int64_t live = LiveLanes(n);
  for (int64_t i = n * pitch; i < live * pitch; ++i) state[i] = R::kIdentity;
}

// state[c] = state[c] combined with row[c]. The first element of a lane is stored as it is: combining it with the
// identity would change nothing. With `padded` whole vectors of the state may be written.
template <class R, bool kFirst>
inline void Accumulate(typename R::Acc* state, const typename R::In* row, int64_t n, bool padded,
                       const typename R::Acc* params) {
  using Acc = typename R::Acc;
  using V = Vector<Acc, kWidth<R>>;
  const auto accumulate = [=](int64_t c, V x) {
    V param = {};
    if constexpr (kHasParam<R>) __builtin_memcpy(&param, params + c, sizeof(V));
    x = R::Map(x, param);
    if constexpr (!kFirst) {
      V old;
      __builtin_memcpy(&old, state + c, sizeof(V));
      x = R::Combine(old, x);
    }
    __builtin_memcpy(state + c, &x, sizeof(V));
  };
  int64_t c = 0;
  for (; c + kWidth<R> <= n; c += kWidth<R>) accumulate(c, LoadLanes<R>(row + c));
  if (padded) {
    if (c < n) accumulate(c, LoadSomeLanes<R>(row + c, n - c));
    return;
  }
  for (; c < n; ++c) {
    const Acc x = R::Map(LoadOne<R>(row + c), Acc{});
    state[c] = kFirst ? x : R::Combine(state[c], x);
  }
}

template <class R>
void Columns(void* lanes, int64_t pitch, const void* in, int64_t stride, int64_t first, int64_t n, int64_t width,
             const void* params) {
  using Acc = typename R::Acc;
  const typename R::In* row = static_cast<const typename R::In*>(in);
  const Acc* param = static_cast<const Acc*>(params);
  const bool packed = !kHasParam<R> && pitch == width && stride == width;
  for (int64_t r = first, rows = 1; r < first + n; r += rows, row += rows * stride) {
    const int64_t lane = r % kLanes;
    if (packed) rows = kLanes - lane < first + n - r ? kLanes - lane : first + n - r;
    Acc* state = static_cast<Acc*>(lanes) + lane * pitch;
    if (r < kLanes) {
      Accumulate<R, true>(state, row, rows * width, !packed, param);
    } else {
      Accumulate<R, false>(state, row, rows * width, !packed, param);
    }
  }
}

template <class R>
void Fold(void* out, void* lanes, int64_t pitch, int64_t n, int64_t width) {
  using Acc = typename R::Acc;
  Acc* state = static_cast<Acc*>(lanes);
  const bool packed = pitch == width;
  const int64_t padded = (width + kWidth<R> - 1) / kWidth<R> * kWidth<R>;
  for (int64_t half = LiveLanes(n) / 2; half > 0; half /= 2) {
    const int64_t runs = packed ? 1 : half, count = packed ? half * pitch : padded;
    for (int64_t j = 0; j < runs; ++j) {
      Acc* left = state + j * pitch;
      const Acc* right = left + half * pitch;
#pragma GCC ivdep
      for (int64_t c = 0; c < count; ++c) left[c] = R::Combine(left[c], right[c]);
    }
  }
  __builtin_memcpy(out, state, width * sizeof(Acc));
}

template <class R>
void Combine(void* out, const void* left, const void* right, int64_t n) {
  using Acc = typename R::Acc;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    static_cast<Acc*>(out)[i] = R::Combine(static_cast<const Acc*>(left)[i], static_cast<const Acc*>(right)[i]);
  }
}

template <class R>
constexpr ReducerKernels KernelsOf() {
  return {Rows<R>, Begin<R>, Columns<R>, Fold<R>, Combine<R>};
}

// Extrema with positions. R is MaxOf or MinOf; an element replaces the best when it is strictly better
// or the first NaN.
template <class T>
struct Above {
  using R = MaxOf<T>;
  static bool Better(T x, T best) { return (x > best) | ((x != x) & (best == best)); }
};
template <class T>
struct Below {
  using R = MinOf<T>;
  static bool Better(T x, T best) { return (x < best) | ((x != x) & (best == best)); }
};

// The first of `n` <= 64 elements that is NaN or equal to `wanted`; there is one.
template <class R, int... lane>
inline int64_t FirstIn(const typename R::In* in, int64_t n, typename R::In wanted, Numbers<lane...> numbers) {
  using Index = typename SignedOfSize<sizeof(typename R::Acc)>::Type;
  constexpr int64_t kStep = kWidth<R>;
  Vector<Index, kStep> first = Index{64} - Vector<Index, kStep>{};
  for (int64_t i = 0; i < n; i += kStep) {
    const auto x = n - i < kStep ? LoadSomeLanes<R>(in + i, n - i) : LoadLanes<R>(in + i);
    const Vector<Index, kStep> at = Vector<Index, kStep>{lane...} + static_cast<Index>(i);
    first = ((x == wanted) | (x != x)) & (at < static_cast<Index>(n)) & (at < first) ? at : first;
  }
  return FoldVector<MinOf<Index>, kStep / 2>(first, numbers);
}

template <class Order, class T>
void ExtremumRows(void* best, int64_t* position, const void* in, int64_t row_stride, int64_t n, int64_t rows,
                  int64_t first) {
  const T* row = static_cast<const T*>(in);
  T* value = static_cast<T*>(best);
  for (int64_t r = 0; r < rows; ++r, row += row_stride) {
    const T extremum = Leaf<typename Order::R>(row, n, T{});
    if (position[r] >= 0 && !Order::Better(extremum, value[r])) continue;
    // If there is any NaN, the extremum is one, so the first NaN is what is looked for.
    constexpr int64_t kBlock = 64;
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
      uint8_t found = 0;
      for (int64_t j = 0; j < kBlock; ++j) {
        found |= static_cast<uint8_t>((row[i + j] == extremum) | (row[i + j] != row[i + j]));
      }
      if (found) break;
    }
    using R = typename Order::R;
    i += FirstIn<R>(row + i, n - i < kBlock ? n - i : kBlock, extremum, NumbersTo<kWidth<R>>());
    value[r] = row[i];
    position[r] = first + i;
  }
}

template <class Order, class T>
void ExtremumColumns(void* best, int64_t* position, const void* in, int64_t stride, int64_t n, int64_t width,
                     int64_t first) {
  using Index = typename SignedOfSize<sizeof(T)>::Type;
  const T* row = static_cast<const T*>(in);
  T* value = static_cast<T*>(best);
  Index found[kColumnBytes / sizeof(T)];
  for (int64_t c = 0; c < width; ++c) {
    const bool empty = position[c] < 0;
    value[c] = empty ? row[c] : value[c];
    found[c] = empty ? 0 : -1;
  }
  for (int64_t r = 0; r < n; ++r, row += stride) {
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) {
      const T x = row[c];
      const bool better = Order::Better(x, value[c]);
      value[c] = better ? x : value[c];
      found[c] = better ? static_cast<Index>(r) : found[c];
    }
  }
  for (int64_t c = 0; c < width; ++c) {
    position[c] = found[c] >= 0 ? first + static_cast<int64_t>(found[c]) : position[c];
  }
}

template <class Order, class T>
void ExtremumMerge(void* best, int64_t* position, const void* later, const int64_t* later_position, int64_t n) {
  T* value = static_cast<T*>(best);
  const T* other = static_cast<const T*>(later);
  for (int64_t i = 0; i < n; ++i) {
    if (later_position[i] < 0 || (position[i] >= 0 && !Order::Better(other[i], value[i]))) continue;
    value[i] = other[i];
    position[i] = later_position[i];
  }
}

template <class Order, class T>
constexpr ExtremumKernels ExtremumOf() {
  return {ExtremumRows<Order, T>, ExtremumColumns<Order, T>, ExtremumMerge<Order, T>};
}

// In the order of trace::DType.
enum { kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64 };

template <class T>
void FillExtrema(ReduceKernels& table, int type) {
  table.reducers[static_cast<int>(Reducer::kMax)][type] = KernelsOf<MaxOf<T>>();
  table.reducers[static_cast<int>(Reducer::kMin)][type] = KernelsOf<MinOf<T>>();
  if constexpr (sizeof(T) >= 4) {
    table.max[type] = ExtremumOf<Above<T>, T>();
    table.min[type] = ExtremumOf<Below<T>, T>();
  }
}

template <class T>
void FillReal(ReduceKernels& table, int type) {
  table.reducers[static_cast<int>(Reducer::kAbsSum)][type] = KernelsOf<AbsSumOf<T>>();
  table.reducers[static_cast<int>(Reducer::kSquareSum)][type] = KernelsOf<SquareSumOf<T>>();
  table.reducers[static_cast<int>(Reducer::kWideSum)][type] = KernelsOf<SumOf<T, double>>();
  table.reducers[static_cast<int>(Reducer::kWideDeviations)][type] = KernelsOf<DeviationsOf<T>>();
  table.reducers[static_cast<int>(Reducer::kAbsMax)][type] = KernelsOf<AbsMaxOf<T>>();
}

template <class T>
void FillSums(ReduceKernels& table, int type) {
  table.reducers[static_cast<int>(Reducer::kSum)][type] = KernelsOf<SumOf<T, T>>();
  table.reducers[static_cast<int>(Reducer::kProd)][type] = KernelsOf<ProdOf<T>>();
}

}  // namespace

void OPENNEURON_FILL_REDUCE(ReduceKernels& table) {
  FillSums<float>(table, kFloat32);
  FillSums<double>(table, kFloat64);
  FillSums<int64_t>(table, kInt64);
  FillReal<float>(table, kFloat32);
  FillReal<double>(table, kFloat64);
  FillExtrema<float>(table, kFloat32);
  FillExtrema<double>(table, kFloat64);
  FillExtrema<int64_t>(table, kInt64);
  FillExtrema<int32_t>(table, kInt32);
  FillExtrema<uint8_t>(table, kUInt8);
  FillExtrema<uint8_t>(table, kBool);
  table.reducers[static_cast<int>(Reducer::kCount)][kBool] = KernelsOf<CountOf>();
}

}  // namespace openneuron::kernels
