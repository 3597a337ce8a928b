// The parts of an encoder layer that are bound by memory, each in one pass over its rows.
// kernels.py builds this file on demand, and says what each function computes.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

using at::BFloat16;
using at::Tensor;

namespace {

// Elements whose draw (uniform in -2^15 .. 2^15 - 1) is below `limit` are dropped.
struct Dropout {
  const int16_t* draws;  // null: nothing is dropped
  int limit;
  float scale;

  Dropout(const std::optional<Tensor>& given, int64_t dropped)
      : draws(given ? given->const_data_ptr<int16_t>() : nullptr),
        limit(static_cast<int>(dropped) - 32768),
        scale(65536.0f / (65536 - dropped)) {}

  // to = from times 0 or `scale`; `place` is that of the first of the n draws.
  template <typename From, typename To>
  void apply(const From* __restrict from, int64_t place, int64_t n, To* __restrict to) const {
    if (draws == nullptr) {
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
      return;
    }
    const int16_t* __restrict own = draws + place;
    const int bound = limit;
    const float kept = scale;
    for (int64_t i = 0; i < n; ++i) {
      to[i] = static_cast<To>(static_cast<float>(from[i]) * (own[i] >= bound ? kept : 0.0f));
    }
  }
};

template <typename F>
void by_type(const Tensor& tensor, F&& call) {
  if (tensor.scalar_type() == at::kFloat) {
    call(float());
  } else {
    TORCH_CHECK(tensor.scalar_type() == at::kBFloat16, "float32 or bfloat16, please");
    call(BFloat16());
  }
}

// sums = residual + sums; out = LayerNorm(sums). Returns the mean and 1 / sd.
std::pair<float, float> norm_row(
    const float* __restrict residual, const float* __restrict weight, const float* __restrict bias,
    float eps, int64_t dim, float* __restrict sums, float* __restrict out) {
  float total = 0, squares = 0;
  for (int64_t i = 0; i < dim; ++i) {
    sums[i] += residual[i];
    total += sums[i];
  }
  const float mean = total / dim;
  for (int64_t i = 0; i < dim; ++i) squares += (sums[i] - mean) * (sums[i] - mean);
  const float scale = 1.0f / std::sqrt(squares / dim + eps);
  for (int64_t i = 0; i < dim; ++i) out[i] = (sums[i] - mean) * scale * weight[i] + bias[i];
  return {mean, scale};
}

// The gradient of `sums`; those of weight and bias are added up.
void norm_row_backward(
    const float* __restrict gradient, const float* __restrict sums, float mean, float scale,
    const float* __restrict weight, int64_t dim, float* __restrict d_weight,
    float* __restrict d_bias, float* __restrict d_sums) {
  float one = 0, two = 0;  // means of g w and of g w (s - mean) / sd
  for (int64_t i = 0; i < dim; ++i) {
    const float normal = (sums[i] - mean) * scale;
    d_weight[i] += gradient[i] * normal;
    d_bias[i] += gradient[i];
    one += gradient[i] * weight[i];
    two += gradient[i] * weight[i] * normal;
  }
  one /= dim;
  two /= dim;
  for (int64_t i = 0; i < dim; ++i) {
    const float normal = (sums[i] - mean) * scale;
    d_sums[i] = (gradient[i] * weight[i] - one - normal * two) * scale;
  }
}

// out = LayerNorm(residual + dropout(added)); the sums, means and 1 / sd are for the way back.
std::tuple<Tensor, Tensor, Tensor, Tensor> add_norm(
    const Tensor& added, const Tensor& residual, const Tensor& weight, const Tensor& bias,
    double eps, const std::optional<Tensor>& draws, int64_t dropped) {
  const int64_t rows = added.size(0), dim = added.size(1);
  Tensor out = at::empty_like(residual), sums = at::empty_like(residual);
  Tensor means = at::empty({rows}, residual.options()), scales = at::empty_like(means);
  const Dropout drop(draws, dropped);
  const float *r = residual.const_data_ptr<float>(), *w = weight.const_data_ptr<float>();
  const float* b = bias.const_data_ptr<float>();
  float *y = out.data_ptr<float>(), *s = sums.data_ptr<float>();
  float *m = means.data_ptr<float>(), *v = scales.data_ptr<float>();
  by_type(added, [&](auto type) {
    const auto* x = added.const_data_ptr<decltype(type)>();
    at::parallel_for(0, rows, 16, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * dim;
        drop.apply(x + at, at, dim, s + at);
        std::tie(m[row], v[row]) = norm_row(r + at, w, b, eps, dim, s + at, y + at);
      }
    });
  });
  return {out, sums, means, scales};
}

// Gradients of added, residual, weight and bias.
std::tuple<Tensor, Tensor, Tensor, Tensor> add_norm_backward(
    const Tensor& gradient, const Tensor& sums, const Tensor& means, const Tensor& scales,
    const Tensor& weight, const std::optional<Tensor>& draws, int64_t dropped,
    at::ScalarType type) {
  const int64_t rows = sums.size(0), dim = sums.size(1);
  Tensor d_added = at::empty({rows, dim}, sums.options().dtype(type));
  Tensor d_residual = at::empty_like(sums);
  const int64_t parts = at::get_num_threads(), share = (rows + parts - 1) / parts;
  Tensor d_weight = at::zeros({parts, dim}, sums.options()), d_bias = at::zeros_like(d_weight);
  const Dropout drop(draws, dropped);
  const float *g = gradient.const_data_ptr<float>(), *s = sums.const_data_ptr<float>();
  const float *m = means.const_data_ptr<float>(), *v = scales.const_data_ptr<float>();
  const float* w = weight.const_data_ptr<float>();
  float *d = d_residual.data_ptr<float>(), *dw = d_weight.data_ptr<float>();
  float* db = d_bias.data_ptr<float>();
  by_type(d_added, [&](auto zero) {
    auto* x = d_added.data_ptr<decltype(zero)>();
    at::parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t part = first; part < last; ++part) {
        const int64_t own = part * dim;
        for (int64_t row = part * share; row < std::min(rows, (part + 1) * share); ++row) {
          const int64_t at = row * dim;
          norm_row_backward(g + at, s + at, m[row], v[row], w, dim, dw + own, db + own, d + at);
          drop.apply(d + at, at, dim, x + at);
        }
      }
    });
  });
  return {d_added, d_residual, d_weight.sum(0), d_bias.sum(0)};
}

// Matrices of one sequence and head are small: rows of whole vectors of WIDE floats, zero behind.
constexpr int64_t WIDE = 16, TALL = 4;

struct Matrix {
  int64_t rows = 0, columns = 0, stride = 0;
  std::vector<float> data;

  void shape(int64_t new_rows, int64_t new_columns) {
    rows = new_rows;
    columns = new_columns;
    stride = (columns + WIDE - 1) / WIDE * WIDE;
    data.resize(std::max<size_t>(data.size(), rows * stride));
  }
  float* row(int64_t i) { return data.data() + i * stride; }
  const float* row(int64_t i) const { return data.data() + i * stride; }
};

// The place of one sequence and head: `length` rows from `row`, `size` columns from `column`.
struct Part {
  int64_t row, length, column, size, weights;  // weights: where its [length, length] begin
};

Part part_of(const int64_t* starts, const int64_t* squares, int64_t heads, int64_t size,
             int64_t number) {
  const int64_t sequence = number / heads, head = number % heads;
  const int64_t length = starts[sequence + 1] - starts[sequence];
  const int64_t weights = squares[sequence] * heads + head * length * length;
  return {starts[sequence], length, head * size, size, weights};
}

template <typename T>
void read(const T* from, int64_t stride, const Part& part, float factor, Matrix& to) {
  to.shape(part.length, part.size);
  for (int64_t i = 0; i < part.length; ++i) {
    const T* __restrict source = from + (part.row + i) * stride + part.column;
    float* __restrict row = to.row(i);
    for (int64_t c = 0; c < part.size; ++c) row[c] = static_cast<float>(source[c]) * factor;
    for (int64_t c = part.size; c < to.stride; ++c) row[c] = 0;
  }
}

template <typename T>
void write(const Matrix& from, int64_t stride, const Part& part, float factor, T* to) {
  for (int64_t i = 0; i < part.length; ++i) {
    T* __restrict target = to + (part.row + i) * stride + part.column;
    const float* __restrict row = from.row(i);
    for (int64_t c = 0; c < part.size; ++c) target[c] = static_cast<T>(row[c] * factor);
  }
}

void transpose(const Matrix& from, Matrix& to) {
  to.shape(from.columns, from.rows);
  for (int64_t i = 0; i < to.rows; ++i) {
    float* row = to.row(i);
    for (int64_t j = 0; j < to.columns; ++j) row[j] = from.row(j)[i];
    for (int64_t j = to.columns; j < to.stride; ++j) row[j] = 0;
  }
}

// `TILE` rows and one vector of c = a b, or of a^T b.
template <int64_t TILE, bool TURNED>
void tile(const Matrix& a, const Matrix& b, Matrix& c, int64_t row, int64_t column) {
  float sums[TILE][WIDE] = {};
  for (int64_t j = 0; j < b.rows; ++j) {
    const float* other = b.row(j) + column;
    for (int64_t r = 0; r < TILE; ++r) {
      const float factor = TURNED ? a.row(j)[row + r] : a.row(row + r)[j];
#pragma omp simd
      for (int64_t k = 0; k < WIDE; ++k) sums[r][k] += factor * other[k];
    }
  }
  for (int64_t r = 0; r < TILE; ++r) {
    float* target = c.row(row + r) + column;
#pragma omp simd
    for (int64_t k = 0; k < WIDE; ++k) target[k] = sums[r][k];
  }
}

template <bool TURNED>
void multiply(const Matrix& a, const Matrix& b, Matrix& c) {
  const int64_t rows = TURNED ? a.columns : a.rows;
  c.shape(rows, b.columns);
  for (int64_t column = 0; column < c.stride; column += WIDE) {
    int64_t row = 0;
    for (; row + TALL <= rows; row += TALL) tile<TALL, TURNED>(a, b, c, row, column);
    for (; row < rows; ++row) tile<1, TURNED>(a, b, c, row, column);
  }
}

void softmax_row(const float* __restrict scores, int64_t n, float* __restrict weights) {
  float highest = scores[0], total = 0;
  for (int64_t j = 1; j < n; ++j) highest = std::max(highest, scores[j]);
  for (int64_t j = 0; j < n; ++j) {
    weights[j] = std::exp(scores[j] - highest);
    total += weights[j];
  }
  const float factor = 1.0f / total;
  for (int64_t j = 0; j < n; ++j) weights[j] *= factor;
}

// gradient: that of the weights after dropout, made that of the scores.
void softmax_row_backward(
    const float* __restrict weights, const float* __restrict dropped, int64_t n,
    float* __restrict gradient) {
  float total = 0;
  for (int64_t j = 0; j < n; ++j) total += gradient[j] * dropped[j];
  for (int64_t j = 0; j < n; ++j) gradient[j] = gradient[j] * dropped[j] - weights[j] * total;
}

std::vector<int64_t> squares_before(const int64_t* starts, int64_t sequences) {
  std::vector<int64_t> found(sequences + 1, 0);
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t length = starts[b + 1] - starts[b];
    found[b + 1] = found[b] + length * length;
  }
  return found;
}

// dropout(softmax(Q K^T / sqrt(size) + bias)) V by sequence and head, and the weights before
// dropout. The bias [heads, places] of key j for query i is at j - i + the middle.
std::tuple<Tensor, Tensor> attention(
    const Tensor& qkv, const std::optional<Tensor>& bias, const Tensor& starts, int64_t heads,
    const std::optional<Tensor>& draws, int64_t dropped) {
  const int64_t dim = qkv.size(1) / 3, size = dim / heads, sequences = starts.numel() - 1;
  const int64_t* from = starts.const_data_ptr<int64_t>();
  const auto squares = squares_before(from, sequences);
  Tensor out = at::empty({qkv.size(0), dim}, qkv.options());
  Tensor weights = at::empty({squares.back() * heads}, qkv.options().dtype(at::kFloat));
  const Dropout drop(draws, dropped);
  const float* added = bias ? bias->const_data_ptr<float>() : nullptr;
  const int64_t places = bias ? bias->size(1) : 0;
  float* all = weights.data_ptr<float>();
  by_type(qkv, [&](auto type) {
    using T = decltype(type);
    const T* input = qkv.const_data_ptr<T>();
    T* output = out.data_ptr<T>();
    at::parallel_for(0, sequences * heads, 8, [&](int64_t begin, int64_t end) {
      Matrix q, k, turned, v, p, o;
      for (int64_t number = begin; number < end; ++number) {
        const Part part = part_of(from, squares.data(), heads, size, number);
        const int64_t n = part.length;
        read(input, 3 * dim, part, 1.0f / std::sqrt(static_cast<float>(size)), q);
        read(input + dim, 3 * dim, part, 1.0f, k);
        read(input + 2 * dim, 3 * dim, part, 1.0f, v);
        transpose(k, turned);
        multiply<false>(q, turned, p);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t place = part.weights + i * n;
          if (added != nullptr) {
            const float* __restrict own = added + (number % heads) * places + places / 2 - i;
            float* __restrict row = p.row(i);
            for (int64_t j = 0; j < n; ++j) row[j] += own[j];
          }
          softmax_row(p.row(i), n, all + place);
          drop.apply(all + place, place, n, p.row(i));
        }
        multiply<false>(p, v, o);
        write(o, dim, part, 1.0f, output);
      }
    });
  });
  return {out, weights};
}

// The gradients of qkv, and of the bias [heads, places].
std::tuple<Tensor, Tensor> attention_backward(
    const Tensor& gradient, const Tensor& qkv, const Tensor& weights, const Tensor& starts,
    int64_t heads, const std::optional<Tensor>& draws, int64_t dropped, int64_t places) {
  const int64_t dim = qkv.size(1) / 3, size = dim / heads, sequences = starts.numel() - 1;
  const int64_t* from = starts.const_data_ptr<int64_t>();
  const auto squares = squares_before(from, sequences);
  Tensor out = at::empty_like(qkv);
  const int64_t parts = at::get_num_threads();
  Tensor d_bias = at::zeros({parts, heads, places}, weights.options());
  float* every = d_bias.data_ptr<float>();
  const Dropout drop(draws, dropped);
  const float* all = weights.const_data_ptr<float>();
  by_type(qkv, [&](auto type) {
    using T = decltype(type);
    const T *input = qkv.const_data_ptr<T>(), *incoming = gradient.const_data_ptr<T>();
    T* output = out.data_ptr<T>();
    at::parallel_for(0, sequences * heads, 8, [&](int64_t begin, int64_t end) {
      const float scale = 1.0f / std::sqrt(static_cast<float>(size));
      Matrix q, k, v, turned, g, p, dp, found;
      float* added = every + at::get_thread_num() * heads * places;
      for (int64_t number = begin; number < end; ++number) {
        const Part part = part_of(from, squares.data(), heads, size, number);
        const int64_t n = part.length;
        read(input, 3 * dim, part, 1.0f, q);
        read(input + dim, 3 * dim, part, 1.0f, k);
        read(input + 2 * dim, 3 * dim, part, 1.0f, v);
        read(incoming, dim, part, 1.0f, g);
        transpose(v, turned);
        multiply<false>(g, turned, dp);
        p.shape(n, n);
        for (int64_t i = 0; i < n; ++i) {
          const int64_t place = part.weights + i * n;
          drop.apply(all + place, place, n, p.row(i));
          softmax_row_backward(all + place, p.row(i), n, dp.row(i));
          if (places > 0) {
            float* __restrict own = added + (number % heads) * places + places / 2 - i;
            const float* __restrict row = dp.row(i);
            for (int64_t j = 0; j < n; ++j) own[j] += row[j];
          }
        }
        multiply<false>(dp, k, found);
        write(found, 3 * dim, part, scale, output);
        multiply<true>(dp, q, found);
        write(found, 3 * dim, part, scale, output + dim);
        multiply<true>(p, g, found);
        write(found, 3 * dim, part, 1.0f, output + 2 * dim);
      }
    });
  });
  return {out, d_bias.sum(0)};
}

}  // namespace

TORCH_LIBRARY(multitask, library) {
  library.def("add_norm", &add_norm);
  library.def("add_norm_backward", &add_norm_backward);
  library.def("attention", &attention);
  library.def("attention_backward", &attention_backward);
}
