// Element conversions between all dtypes, branch-free; included by primitives.cc only.
// The halves' bit patterns equal those of the F16C instructions, NaN payloads included.
#pragma once

#include <cstdint>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace openneuron::kernels {
namespace {

struct Bool {
  uint8_t byte;
};
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

inline float FloatOf(Float16 half) {
  const uint32_t magnitude = half.bits & 0x7fffu;
  const uint32_t sign = (half.bits & 0x8000u) << 16;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t nan_quiet = magnitude > 0x7c00u ? 0x00400000u : 0u;
  const uint32_t infinite = (magnitude << 13) | 0x7f800000u | nan_quiet;
  const uint32_t subnormal =
      __builtin_bit_cast(uint32_t, static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f);
  uint32_t bits = magnitude < 0x0400u ? subnormal : normal;
  bits = magnitude >= 0x7c00u ? infinite : bits;
  return __builtin_bit_cast(float, bits | sign);
}

inline Float16 Float16Of(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  // Adding 0.5, whose last bit weighs 2^-24, rounds to the grid of the subnormals.
  const uint32_t subnormal = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000u;
  const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? nan : half;
  return {static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u))};
}

inline float FloatOf(BFloat16 half) { return __builtin_bit_cast(float, static_cast<uint32_t>(half.bits) << 16); }

inline BFloat16 BFloat16Of(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  // A NaN keeps its upper bits, so that what was a bfloat16 before comes back unchanged.
  const uint32_t cut = bits >> 16;
  const uint32_t nan = (cut & 0x7fu) == 0 ? cut | 0x40u : cut;
  return {static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

template <class A, class B>
inline constexpr bool kSame = false;
template <class A>
inline constexpr bool kSame<A, A> = true;

template <class T>
inline constexpr bool kIsReal = kSame<T, float> || kSame<T, double>;

// One element from `From` to `To`.
template <class To, class From>
inline To Convert(From value) {
  if constexpr (kSame<To, From>) {
    return value;
  } else if constexpr (kSame<From, Float16> || kSame<From, BFloat16>) {
    return Convert<To>(FloatOf(value));
  } else if constexpr (kSame<From, Bool>) {
    return value.byte != 0 ? Convert<To>(uint8_t{1}) : Convert<To>(uint8_t{0});
  } else if constexpr (kSame<To, Float16>) {
    return Float16Of(static_cast<float>(value));
  } else if constexpr (kSame<To, BFloat16>) {
    return BFloat16Of(static_cast<float>(value));
  } else if constexpr (kSame<To, Bool>) {
    return {static_cast<uint8_t>(value != 0)};
  } else if constexpr (kSame<To, uint8_t> && kIsReal<From>) {
    return static_cast<uint8_t>(static_cast<int64_t>(value));  // as PyTorch: negative values wrap
  } else if constexpr (sizeof(To) < 4 && kIsReal<From>) {
    return static_cast<To>(static_cast<int32_t>(value));  // the hardware's conversion, then its low bits
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void ConvertRun(void* out, const void* in, int64_t n) {
  To* to = static_cast<To*>(out);
  const From* from = static_cast<const From*>(in);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = Convert<To>(from[i]);
}

#ifdef __F16C__
template <>
void ConvertRun<float, Float16>(void* out, const void* in, int64_t n) {
  float* to = static_cast<float*>(out);
  const Float16* from = static_cast<const Float16*>(in);
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    _mm512_storeu_ps(to + i, _mm512_maskz_cvtph_ps(0xffff, halves));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
  for (; i < n; ++i) to[i] = FloatOf(from[i]);
}

template <>
void ConvertRun<Float16, float>(void* out, const void* in, int64_t n) {
  Float16* to = static_cast<Float16*>(out);
  const float* from = static_cast<const float*>(in);
  int64_t i = 0;
#ifdef __AVX512F__
  for (; i + 16 <= n; i += 16) {
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to + i),
        _mm512_maskz_cvtps_ph(0xffff, _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  for (; i < n; ++i) to[i] = Float16Of(from[i]);
}
#endif

// The dtypes in the order of trace::DType.
#define OPENNEURON_DTYPES(X) \
  X(0, Bool)                 \
  X(1, uint8_t)              \
  X(2, int8_t) X(3, int16_t) X(4, int32_t) X(5, int64_t) X(6, Float16) X(7, BFloat16) X(8, float) X(9, double)

}  // namespace
}  // namespace openneuron::kernels
