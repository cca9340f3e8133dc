// The device's part of an update. Matrices are row-major without padding. Every sum over rows is formed from parts of a fixed
// number of rows, which are added in their order: the same bits from run to run, whatever the device's size. `src/host.rs`
// mirrors every kernel.

#include "device.h"
#include "rows.h"

enum { TANH = 0, RELU = 1, IDENTITY = 2 };
enum { TILE = 128, DEPTH = 16 };      // of a product: rows of a block, inputs of a step
enum { ROWS = 128 };                  // rows of a block that looks at rows one by one

__device__ inline float activate(float x, int activation) {
    if (activation == TANH) return tanhf(x);
    if (activation == RELU) return x < 0.f ? 0.f : x;  // unlike fmaxf it keeps NaN
    return x;
}

// The derivative of an activation from its value.
__device__ inline float slope(float y, int activation) {
    if (activation == TANH) return 1.f - y * y;
    if (activation == RELU) return y > 0.f ? 1.f : 0.f;
    return 1.f;
}

// One block's tile of a product, TILE rows by 16 N columns: a thread has 8 x N sums. `a(r, k)` and `b(k, c)` are zero outside of
// their matrices; whether neighbouring threads read along k or across it follows the layout of each. `see` is shown every step's
// part of b.
template <int N, bool ALONG_A, bool ALONG_B, class A, class B, class See> __device__ inline void product(float (&sum)[8][N], int depth, A a, B b, See see) {
    constexpr int COLUMNS = 16 * N;
    __shared__ __align__(16) float left[DEPTH][TILE + 4], right[DEPTH][COLUMNS + 4];
    const int thread = threadIdx.x, row = thread / 16 * 8, column = thread % 16 * N;
    for (int k = 0; k < depth; k += DEPTH) {
#pragma unroll
        for (int i = thread; i < DEPTH * TILE; i += 256) {
            const int j = ALONG_A ? i % DEPTH : i / TILE, r = ALONG_A ? i / DEPTH : i % TILE;
            left[j][r] = a(r, k + j);
        }
#pragma unroll
        for (int i = thread; i < DEPTH * COLUMNS; i += 256) {
            const int j = ALONG_B ? i % DEPTH : i / COLUMNS, c = ALONG_B ? i / DEPTH : i % COLUMNS;
            right[j][c] = b(k + j, c);
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < DEPTH; j++) {
            float x[8], y[N];
            *(float4*)x = *(const float4*)&left[j][row];
            *(float4*)(x + 4) = *(const float4*)&left[j][row + 4];
            if constexpr (N == 8) {
                *(float4*)y = *(const float4*)&right[j][column];
                *(float4*)(y + 4) = *(const float4*)&right[j][column + 4];
            } else y[0] = right[j][column];
#pragma unroll
            for (int r = 0; r < 8; r++)
#pragma unroll
                for (int c = 0; c < N; c++) sum[r][c] = fmaf(x[r], y[c], sum[r][c]);
        }
        see(&right[0][0], COLUMNS + 4);
        __syncthreads();
    }
}

struct Nothing { __device__ void operator()(const float*, int) const {} };

// Calls `f(row, column, sum)` for every sum of a thread.
template <int N, class F> __device__ inline void each(const float (&sum)[8][N], F f) {
    const int row = blockIdx.y * TILE + threadIdx.x / 16 * 8, column = blockIdx.x * 16 * N + threadIdx.x % 16 * N;
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int c = 0; c < N; c++) f(row + r, column + c, sum[r][c]);
}

// Every product has a wide form and a narrow one, for matrices of up to 16 columns.
#define BOTH(name, parameters, arguments)                                                                     \
    extern "C" __global__ void __launch_bounds__(256) name parameters { name##_of<8> arguments; }             \
    extern "C" __global__ void __launch_bounds__(256) name##_narrow parameters { name##_of<1> arguments; }

// y = activation(x w + b)
template <int N> __device__ inline void forward_of(const float* x, const float* w, const float* b, float* y, int rows, int inputs, int outputs, int activation) {
    const int row = blockIdx.y * TILE, column = blockIdx.x * 16 * N;
    float sum[8][N] = {};
    product<N, true, false>(sum, inputs,
        [&](int r, int k) { return row + r < rows && k < inputs ? x[(long)(row + r) * inputs + k] : 0.f; },
        [&](int k, int c) { return k < inputs && column + c < outputs ? w[(long)k * outputs + column + c] : 0.f; }, Nothing());
    each<N>(sum, [&](int r, int c, float s) { if (r < rows && c < outputs) y[(long)r * outputs + c] = activate(s + b[c], activation); });
}
BOTH(forward, (const float* x, const float* w, const float* b, float* y, int rows, int inputs, int outputs, int activation), (x, w, b, y, rows, inputs, outputs, activation))

// The tangent of `forward` at its result y: ty = activation'(y) (tx w + x v + c), where v and c are the directions of w and b; the
// first layer's inputs have no tangent (tx is null).
template <int N> __device__ inline void tangent_of(const float* x, const float* tx, const float* w, const float* v, const float* c0, const float* y, float* ty, int rows, int inputs, int outputs, int activation) {
    const int row = blockIdx.y * TILE, column = blockIdx.x * 16 * N;
    float sum[8][N] = {};
    const auto of = [&](const float* left, const float* right) {
        product<N, true, false>(sum, inputs,
            [&](int r, int k) { return row + r < rows && k < inputs ? left[(long)(row + r) * inputs + k] : 0.f; },
            [&](int k, int c) { return k < inputs && column + c < outputs ? right[(long)k * outputs + column + c] : 0.f; }, Nothing());
    };
    of(x, v);
    if (tx) of(tx, w);
    each<N>(sum, [&](int r, int c, float s) {
        if (r < rows && c < outputs) ty[(long)r * outputs + c] = slope(y[(long)r * outputs + c], activation) * (s + c0[c]);
    });
}
BOTH(tangent, (const float* x, const float* tx, const float* w, const float* v, const float* c0, const float* y, float* ty, int rows, int inputs, int outputs, int activation), (x, tx, w, v, c0, y, ty, rows, inputs, outputs, activation))

// The gradient with respect to a layer's inputs x, which are the layer before's values: dx = activation'(x) (d w^T)
template <int N> __device__ inline void backward_of(const float* d, const float* w, const float* x, float* dx, int rows, int inputs, int outputs, int activation) {
    const int row = blockIdx.y * TILE, column = blockIdx.x * 16 * N;
    float sum[8][N] = {};
    product<N, true, true>(sum, outputs,
        [&](int r, int k) { return row + r < rows && k < outputs ? d[(long)(row + r) * outputs + k] : 0.f; },
        [&](int k, int c) { return k < outputs && column + c < inputs ? w[(long)(column + c) * outputs + k] : 0.f; }, Nothing());
    each<N>(sum, [&](int r, int c, float s) { if (r < rows && c < inputs) dx[(long)r * inputs + c] = slope(x[(long)r * inputs + c], activation) * s; });
}
BOTH(backward, (const float* d, const float* w, const float* x, float* dx, int rows, int inputs, int outputs, int activation), (d, w, x, dx, rows, inputs, outputs, activation))

// One part's x^T d, and below it the sums of d, which the first row of blocks adds up: a part is `chunk` rows, and blockIdx.z its
// number.
template <int N> __device__ inline void weights_of(const float* x, const float* d, float* parts, int rows, int inputs, int outputs, int chunk) {
    const int first = blockIdx.z * chunk, here = min(chunk, rows - first), row = blockIdx.y * TILE, column = blockIdx.x * 16 * N;
    float sum[8][N] = {}, bias = 0.f;
    product<N, false, false>(sum, here,
        [&](int i, int k) { return k < here && row + i < inputs ? x[(long)(first + k) * inputs + row + i] : 0.f; },
        [&](int k, int c) { return k < here && column + c < outputs ? d[(long)(first + k) * outputs + column + c] : 0.f; },
        [&](const float* right, int stride) {
            if (blockIdx.y == 0 && threadIdx.x < 16 * N)
                for (int j = 0; j < DEPTH; j++) bias += right[j * stride + threadIdx.x];
        });
    float* part = parts + (long)blockIdx.z * (inputs + 1) * outputs;
    each<N>(sum, [&](int r, int c, float s) { if (r < inputs && c < outputs) part[(long)r * outputs + c] = s; });
    const int c = column + threadIdx.x;
    if (blockIdx.y == 0 && threadIdx.x < 16 * N && c < outputs) part[(long)inputs * outputs + c] = bias;
}
BOTH(weights, (const float* x, const float* d, float* parts, int rows, int inputs, int outputs, int chunk), (x, d, parts, rows, inputs, outputs, chunk))

// Parts of `length` numbers, added in their order.
extern "C" __global__ void add_parts(const float* parts, float* total, int count, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length) return;
    float sum = 0.f;
    for (int part = 0; part < count; part++) sum += parts[(long)part * length + i];
    total[i] = sum;
}

extern "C" __global__ void add_double_parts(const double* parts, double* total, int count, int length) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length) return;
    double sum = 0.;
    for (int part = 0; part < count; part++) sum += parts[(long)part * length + i];
    total[i] = sum;
}

// Rows by their numbers.
extern "C" __global__ void gather(const float* from, const unsigned* index, float* to, int rows, int width) {
    const long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (long)rows * width) to[i] = from[(long)index[i / width] * width + i % width];
}

// A step of Adam; `step` and `root` hold the corrections of the moments' start.
extern "C" __global__ void adam(float* p, float* m, float* v, const float* g, int length, float step, float root, float epsilon) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= length) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= step * m[i] / (sqrtf(v[i]) * root + epsilon);
}

// The sum of every thread's x, in a fixed order; all threads of the block must call it.
__device__ inline double block_sum(double x) {
    __shared__ double all[ROWS];
    all[threadIdx.x] = x;
    __syncthreads();
    for (int half = ROWS / 2; half; half /= 2) {
        if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
        __syncthreads();
    }
    const double sum = all[0];
    __syncthreads();
    return sum;
}

// The sum of squares of `chunk` numbers; a block for each chunk.
extern "C" __global__ void __launch_bounds__(ROWS) squares(const float* of, double* parts, int length, int chunk) {
    double sum = 0.;
    for (int i = blockIdx.x * chunk + threadIdx.x; i < min(length, ((int)blockIdx.x + 1) * chunk); i += ROWS) sum += (double)of[i] * of[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

struct PolicyRows {
    Behaviour behaviour;
    const float* outputs;
    const unsigned* index;  // rows of a mini-batch in the batch; null: all
    float* d;               // null: only measure
    double* parts;          // of each block: KL, terms, slopes of log_std
    int rows;
    float share;
    Loss loss;
};

// Ratio, KL, weight and gradient of the outputs, a thread for each row.
extern "C" __global__ void __launch_bounds__(ROWS) policy_rows(PolicyRows p) {
    const Behaviour& b = p.behaviour;
    const int i = blockIdx.x * ROWS + threadIdx.x, n = b.n;
    const bool here = i < p.rows;
    const long row = here ? (p.index ? p.index[i] : i) : 0;
    const float* out = p.outputs + (long)(here ? i : 0) * n;
    float log_prob, kl, w, u;
    compare(b, row, out, log_prob, kl);
    double terms[MOST_TERMS] = {};
    weigh(p.loss, b.advantages, b.all, row, expf(log_prob - b.log_probs[row]), kl, terms, w, u);
    w *= p.share;
    u *= p.share;
    if (here && p.d) slopes(b, row, out, w, u, p.share, p.d + (long)i * n);
    const int count = 1 + p.loss.costs + EXTRA, of_log_std = b.discrete || !p.d ? 0 : n;
    double* part = p.parts + (long)blockIdx.x * (1 + count + of_log_std);
    const double sum = block_sum(here ? kl : 0.);
    if (threadIdx.x == 0) part[0] = sum;
    for (int t = 0; t < count; t++) {
        const double sum = block_sum(here ? terms[t] : 0.);
        if (threadIdx.x == 0) part[1 + t] = sum;
    }
    for (int a = 0; a < of_log_std; a++) {
        const double sum = block_sum(here ? slope_of_log_std(b, row, out, w, u, p.share, a) : 0.);
        if (threadIdx.x == 0) part[1 + count + a] = sum;
    }
}

// M t of every row, where M is the Fisher matrix of the outputs.
extern "C" __global__ void __launch_bounds__(ROWS) fisher_rows(const float* outputs, const float* tangents, const float* log_std, const int* heads, float* d, int rows, int n, int width, int discrete, float share) {
    const int i = blockIdx.x * ROWS + threadIdx.x;
    if (i >= rows) return;
    const float *out = outputs + (long)i * n, *t = tangents + (long)i * n;
    float* to = d + (long)i * n;
    if (!discrete) {
        for (int a = 0; a < n; a++) to[a] = share * t[a] * expf(-2.f * log_std[a]);
        return;
    }
    for (int h = 0, at = 0; h < width; at += heads[h++]) {
        float top = out[at], sum = 0.f, mean = 0.f;
        for (int a = 1; a < heads[h]; a++) top = fmaxf(top, out[at + a]);
        for (int a = 0; a < heads[h]; a++) sum += expf(out[at + a] - top);
        for (int a = 0; a < heads[h]; a++) mean += expf(out[at + a] - top) / sum * t[at + a];
        for (int a = 0; a < heads[h]; a++) to[at + a] = share * (expf(out[at + a] - top) / sum) * (t[at + a] - mean);
    }
}

// A critic's errors and their squares, a thread for each row.
extern "C" __global__ void __launch_bounds__(ROWS) value_rows(const float* values, const float* targets, const unsigned* index, float* d, double* parts, int rows, float mean, float unit, float share) {
    const int i = blockIdx.x * ROWS + threadIdx.x;
    float error = 0.f;
    if (i < rows) {
        error = values[i] - (targets[index ? index[i] : i] - mean) * unit;
        d[i] = share * error;
    }
    const double sum = block_sum((double)(error * error));
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}
