// The inner loops of random fills for one ISA; compiled once for each.
// Words are made in runs of 256 counters, word k of all of them together, so that all loops vectorise.
#include "kernels/random_kernels.h"

#include "kernels/maths.h"
#include "kernels/philox.h"

namespace openneuron::kernels {
namespace {

constexpr int64_t kRun = 256;

struct Words {
  alignas(64) uint32_t word[4][kRun];
};

// The blocks of counters first .. first + n.
void MakeWords(Words& words, const RandomTile& tile, uint64_t first, int64_t n) {
  const uint32_t key0 = static_cast<uint32_t>(tile.seed), key1 = static_cast<uint32_t>(tile.seed >> 32);
  const uint32_t c2 = static_cast<uint32_t>(tile.offset), c3 = static_cast<uint32_t>(tile.offset >> 32);
  // A run starts at a multiple of 256, so only the lowest word differs within it.
  const uint32_t c0 = static_cast<uint32_t>(first), c1 = static_cast<uint32_t>(first >> 32);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const PhiloxBlock block = Philox({{c0 + static_cast<uint32_t>(i), c1, c2, c3}}, key0, key1);
    words.word[0][i] = block.words[0];
    words.word[1][i] = block.words[1];
    words.word[2][i] = block.words[2];
    words.word[3][i] = block.words[3];
  }
}

// Elements of 32 bits: body(out position, words, n) for each of the four runs.
template <class Body>
void ForWords(const RandomTile& tile, const Body& body) {
  Words words;
  const int64_t n = tile.n < kRun ? tile.n : kRun;
  MakeWords(words, tile, static_cast<uint64_t>(tile.tile) * kRun, n);
  for (int64_t k = 0; k * kRun < tile.n; ++k) body(k * kRun, words.word[k], n);
}

// Elements of 64 bits: body(out position, words, n) for two runs of counters. The body makes the elements
// at the position and 512 behind it.
template <class Body>
void ForWideWords(const RandomTile& tile, const Body& body) {
  Words words;
  for (int64_t run = 0; run < 2 && run * kRun < tile.n; ++run) {
    const int64_t left = tile.n - run * kRun;
    const int64_t n = left < kRun ? left : kRun;
    MakeWords(words, tile, (static_cast<uint64_t>(tile.tile) * 2 + static_cast<uint64_t>(run)) * kRun, n);
    body(run * kRun, words, n);
  }
}

inline uint64_t Wide(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

// In (0, 1), both ends excluded; small values have full precision, which the tails need.
inline float OpenFraction(uint32_t word) {
  const float fraction = (static_cast<float>(static_cast<int32_t>(word >> 1)) + 0.5f) * 0x1p-31f;
  return fraction < 0x1.fffffep-1f ? fraction : 0x1.fffffep-1f;
}
inline double OpenFraction(uint64_t word) {
  const double fraction = (static_cast<double>(static_cast<int64_t>(word >> 1)) + 0.5) * 0x1p-63;
  return fraction < 0x1.fffffffffffffp-1 ? fraction : 0x1.fffffffffffffp-1;
}
// An angle in [0, 2 pi).
inline float Angle(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f * 0x1.921fb6p+2f;
}
inline double Angle(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53 * 0x1.921fb54442d18p+2;
}

void Uniform32(float* out, RandomTile tile, int digits, float from, float to) {
  const int shift = 32 - digits;
  const float unit = 1.0f / static_cast<float>(uint32_t{1} << digits);
  const float range = to - from;
  ForWords(tile, [=](int64_t at, const uint32_t* words, int64_t n) {
    float* target = out + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float fraction = static_cast<float>(static_cast<int32_t>(words[i] >> shift)) * unit;
      const float value = fraction * range + from;
      target[i] = value < to ? value : from;  // rounding may reach `to`
    }
  });
}

void Uniform64(double* out, RandomTile tile, double from, double to) {
  const double range = to - from;
  ForWideWords(tile, [=](int64_t at, const Words& words, int64_t n) {
    for (int64_t half = 0; half < 2; ++half) {
      double* target = out + at + half * 2 * kRun;
      const uint32_t* high = words.word[2 * half];
      const uint32_t* low = words.word[2 * half + 1];
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        const double fraction = static_cast<double>(static_cast<int64_t>(Wide(high[i], low[i]) >> 11)) * 0x1p-53;
        const double value = fraction * range + from;
        target[i] = value < to ? value : from;
      }
    }
  });
}

// Box-Muller: two words make two independent values.
void Normal32(float* out, RandomTile tile, float mean, float deviation) {
  Words words;
  const int64_t n = tile.n < kRun ? tile.n : kRun;
  MakeWords(words, tile, static_cast<uint64_t>(tile.tile) * kRun, n);
  for (int64_t pair = 0; pair < 2; ++pair) {
    if (pair * 2 * kRun >= tile.n) break;
    float* cosines = out + pair * 2 * kRun;
    float* sines = cosines + kRun;
    const uint32_t* lengths = words.word[2 * pair];
    const uint32_t* angles = words.word[2 * pair + 1];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float length = maths::Sqrt(-2.0f * maths::Log(OpenFraction(lengths[i])));
      const float angle = Angle(angles[i]);
      cosines[i] = length * maths::CosFast(angle) * deviation + mean;
      sines[i] = length * maths::SinFast(angle) * deviation + mean;
    }
  }
}

void Normal64(double* out, RandomTile tile, double mean, double deviation) {
  ForWideWords(tile, [=](int64_t at, const Words& words, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double length = maths::Sqrt(-2.0 * __builtin_log(OpenFraction(Wide(words.word[0][i], words.word[1][i]))));
      const double angle = Angle(Wide(words.word[2][i], words.word[3][i]));
      out[at + i] = length * __builtin_cos(angle) * deviation + mean;
      out[at + 2 * kRun + i] = length * __builtin_sin(angle) * deviation + mean;
    }
  });
}

void Exponential32(float* out, RandomTile tile, float lambda, float least) {
  ForWords(tile, [=](int64_t at, const uint32_t* words, int64_t n) {
    float* target = out + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const float value = -maths::Log(OpenFraction(words[i])) / lambda;
      target[i] = value > least ? value : least;
    }
  });
}

void Exponential64(double* out, RandomTile tile, double lambda, double least) {
  ForWideWords(tile, [=](int64_t at, const Words& words, int64_t n) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t word = Wide(words.word[2 * half][i], words.word[2 * half + 1][i]);
        const double value = -__builtin_log(OpenFraction(word)) / lambda;
        out[at + half * 2 * kRun + i] = value > least ? value : least;
      }
    }
  });
}

void Below(uint8_t* out, RandomTile tile, uint64_t threshold) {
  const uint8_t all = threshold > 0xffffffffu;
  const uint32_t bound = static_cast<uint32_t>(threshold);
  ForWords(tile, [=](int64_t at, const uint32_t* words, int64_t n) {
    uint8_t* target = out + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) target[i] = static_cast<uint8_t>(words[i] < bound) | all;
  });
}

void Integers(int64_t* out, RandomTile tile, int64_t from, uint64_t range) {
  ForWideWords(tile, [=](int64_t at, const Words& words, int64_t n) {
    for (int64_t half = 0; half < 2; ++half) {
      uint64_t* target = reinterpret_cast<uint64_t*>(out) + at + half * 2 * kRun;
      const uint32_t* high = words.word[2 * half];
      const uint32_t* low = words.word[2 * half + 1];
      const uint64_t start = static_cast<uint64_t>(from);
      if ((range & (range - 1)) == 0) {  // a power of two, or the full range
        for (int64_t i = 0; i < n; ++i) target[i] = start + (Wide(high[i], low[i]) & (range - 1));
      } else {
        for (int64_t i = 0; i < n; ++i) target[i] = start + Wide(high[i], low[i]) % range;
      }
    }
  });
}

}  // namespace

void OPENNEURON_FILL_RANDOM(RandomKernels& table) {
  table = {Uniform32, Uniform64, Normal32, Normal64, Exponential32, Exponential64, Below, Integers};
}

}  // namespace openneuron::kernels
