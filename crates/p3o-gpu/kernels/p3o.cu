// The device's part of an update. Matrices are row-major without padding. Every sum over rows is formed from parts of a fixed
// number of rows, which are added in their order: the same bits from run to run, whatever the device's size. `src/host.rs`
// mirrors every kernel.

enum { TANH = 0, RELU = 1, IDENTITY = 2 };
enum { TILE = 64, DEPTH = 16 };       // of a product: rows and columns of a block, inputs of a step
enum { ROWS = 128 };                  // rows of a block that looks at rows one by one
enum { MOST_COSTS = 16, EXTRA = 2 };  // constraints, and terms beside the reward's and theirs

__device__ inline float activate(float x, int activation) {
    if (activation == TANH) return tanhf(x);
    if (activation == RELU) return fmaxf(x, 0.f);
    return x;
}

// The derivative of an activation from its value.
__device__ inline float slope(float y, int activation) {
    if (activation == TANH) return 1.f - y * y;
    if (activation == RELU) return y > 0.f ? 1.f : 0.f;
    return 1.f;
}

// One block's tile of a product: a thread has 4 x 4 sums. `a(r, k)` and `b(k, c)` are zero outside of their matrices.
template <class A, class B> __device__ inline void product(float (&sum)[4][4], int depth, A a, B b) {
    __shared__ float left[DEPTH][TILE + 4], right[DEPTH][TILE + 4];
    const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
    for (int k = 0; k < depth; k += DEPTH) {
        for (int i = thread; i < DEPTH * TILE; i += 256) {
            left[i % DEPTH][i / DEPTH] = a(i / DEPTH, k + i % DEPTH);
            right[i / TILE][i % TILE] = b(k + i / TILE, i % TILE);
        }
        __syncthreads();
        for (int j = 0; j < DEPTH; j++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++) sum[r][c] = fmaf(left[j][row + r], right[j][column + c], sum[r][c]);
        __syncthreads();
    }
}

// y = activation(x w + b)
extern "C" __global__ void __launch_bounds__(256) forward(const float* x, const float* w, const float* b, float* y, int rows, int inputs, int outputs, int activation) {
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    float sum[4][4] = {};
    product(sum, inputs,
        [&](int r, int k) { return row + r < rows && k < inputs ? x[(long)(row + r) * inputs + k] : 0.f; },
        [&](int k, int c) { return k < inputs && column + c < outputs ? w[(long)k * outputs + column + c] : 0.f; });
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int r = row + threadIdx.x / 16 * 4 + i, c = column + threadIdx.x % 16 * 4 + j;
            if (r < rows && c < outputs) y[(long)r * outputs + c] = activate(sum[i][j] + b[c], activation);
        }
}

// The tangent of `forward` at its result y: ty = activation'(y) (tx w + x v + c), where v and c are the directions of w and b; the
// first layer's inputs have no tangent (tx is null).
extern "C" __global__ void __launch_bounds__(256) forward_tangent(const float* x, const float* tx, const float* w, const float* v, const float* c0, const float* y, float* ty, int rows, int inputs, int outputs, int activation) {
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    float sum[4][4] = {};
    product(sum, inputs,
        [&](int r, int k) { return row + r < rows && k < inputs ? x[(long)(row + r) * inputs + k] : 0.f; },
        [&](int k, int c) { return k < inputs && column + c < outputs ? v[(long)k * outputs + column + c] : 0.f; });
    if (tx)
        product(sum, inputs,
            [&](int r, int k) { return row + r < rows && k < inputs ? tx[(long)(row + r) * inputs + k] : 0.f; },
            [&](int k, int c) { return k < inputs && column + c < outputs ? w[(long)k * outputs + column + c] : 0.f; });
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int r = row + threadIdx.x / 16 * 4 + i, c = column + threadIdx.x % 16 * 4 + j;
            if (r < rows && c < outputs) ty[(long)r * outputs + c] = slope(y[(long)r * outputs + c], activation) * (sum[i][j] + c0[c]);
        }
}

// The gradient with respect to a layer's inputs x, which are the layer before's values: dx = activation'(x) (d w^T)
extern "C" __global__ void __launch_bounds__(256) backward(const float* d, const float* w, const float* x, float* dx, int rows, int inputs, int outputs, int activation) {
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    float sum[4][4] = {};
    product(sum, outputs,
        [&](int r, int k) { return row + r < rows && k < outputs ? d[(long)(row + r) * outputs + k] : 0.f; },
        [&](int k, int c) { return k < outputs && column + c < inputs ? w[(long)(column + c) * outputs + k] : 0.f; });
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int r = row + threadIdx.x / 16 * 4 + i, c = column + threadIdx.x % 16 * 4 + j;
            if (r < rows && c < inputs) dx[(long)r * inputs + c] = slope(x[(long)r * inputs + c], activation) * sum[i][j];
        }
}

// One part's x^T d, and below it the sums of d: a part is `chunk` rows, and blockIdx.z its number. The row of ones below x makes
// the bias one more input.
extern "C" __global__ void __launch_bounds__(256) weight_parts(const float* x, const float* d, float* parts, int rows, int inputs, int outputs, int chunk) {
    const int first = blockIdx.z * chunk, here = min(chunk, rows - first), row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    float sum[4][4] = {};
    product(sum, here,
        [&](int i, int k) { return k >= here || row + i > inputs ? 0.f : row + i == inputs ? 1.f : x[(long)(first + k) * inputs + row + i]; },
        [&](int k, int c) { return k < here && column + c < outputs ? d[(long)(first + k) * outputs + column + c] : 0.f; });
    float* part = parts + (long)blockIdx.z * (inputs + 1) * outputs;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const int r = row + threadIdx.x / 16 * 4 + i, c = column + threadIdx.x % 16 * 4 + j;
            if (r <= inputs && c < outputs) part[(long)r * outputs + c] = sum[i][j];
        }
}

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

// What a loss is made of; see `Loss` in src/device.rs.
struct Loss {
    int kind;  // 0 clipped, 1 proximal, 2 surrogate
    int clip_costs, costs;
    float epsilon, reward, scale, lambda, delta;
    float factors[MOST_COSTS];
};

__device__ inline float clip(float r, float e) { return fminf(fmaxf(r, 1.f - e), 1.f + e); }

// A row's terms, and the weights of its grad log pi and of its grad KL.
__device__ inline void weigh(const Loss& loss, const float* advantages, long rows, long row, float ratio, float kl, double* terms, float& w, float& u) {
    const float reward = advantages[row];
    w = u = 0.f;
    if (loss.kind == 0) {
        const float plain = ratio * reward, clipped = clip(ratio, loss.epsilon) * reward;
        const bool active = reward > 0.f ? ratio < 1.f + loss.epsilon : ratio > 1.f - loss.epsilon;
        terms[0] = -(plain < clipped ? plain : clipped);
        w = loss.reward * (active ? -plain : 0.f);
        for (int i = 0; i < loss.costs; i++) {
            const float cost = advantages[(1 + i) * rows + row], plain_c = ratio * cost, clipped_c = clip(ratio, loss.epsilon) * cost;
            const bool active_c = cost > 0.f ? ratio > 1.f - loss.epsilon : ratio < 1.f + loss.epsilon;
            terms[1 + i] = !loss.clip_costs ? plain_c : plain_c > clipped_c ? plain_c : clipped_c;
            if (loss.factors[i] != 0.f) w += loss.factors[i] * (!loss.clip_costs || active_c ? plain_c : 0.f);
        }
        w *= loss.scale;
    } else if (loss.kind == 1) {
        float advantage = reward;
        terms[0] = -(ratio * reward);
        for (int i = 0; i < loss.costs; i++) {
            const float cost = advantages[(1 + i) * rows + row];
            terms[1 + i] = ratio * cost;
            advantage -= loss.factors[i] * cost;
        }
        const bool inside = kl <= loss.delta;
        const float gain = ratio * advantage / loss.lambda;
        terms[1 + loss.costs] = inside ? kl - gain : 0.f;
        terms[2 + loss.costs] = u = inside ? 1.f : 0.f;
        w = inside ? -gain : 0.f;
    } else {
        float costs = 0.f;
        terms[0] = -(ratio * reward);
        for (int i = 0; i < loss.costs; i++) {
            const float cost = advantages[(1 + i) * rows + row];
            terms[1 + i] = ratio * cost;
            costs += loss.factors[i] * cost;
        }
        w = -ratio * (loss.reward * reward - costs);
    }
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
    const float *outputs, *old_outputs, *actions, *log_probs, *advantages, *log_std, *old_log_std;
    const int* heads;       // logits of each discrete action
    const unsigned* index;  // rows of a mini-batch in the batch; null: all
    float* d;               // null: only measure
    double* parts;          // of each block: KL, terms, slopes of log_std
    int rows, all, outputs_per_row, width, discrete;
    float entropy, share;
    Loss loss;
};

// Ratio, KL, weight and gradient of the outputs, a thread for each row.
extern "C" __global__ void __launch_bounds__(ROWS) policy_rows(PolicyRows p) {
    const int i = blockIdx.x * ROWS + threadIdx.x, n = p.outputs_per_row;
    const bool here = i < p.rows;
    const long row = here ? (p.index ? p.index[i] : i) : 0;
    const float *out = p.outputs + (long)(here ? i : 0) * n, *was = p.old_outputs + row * n, *action = p.actions + row * p.width;
    float* d = p.d ? p.d + (long)(here ? i : 0) * n : nullptr;
    float log_prob = 0.f, kl = 0.f;
    if (!p.discrete) {
        float squares = 0.f, norm = 0.f, shifts = 0.f, base = 0.f;
        for (int a = 0; a < n; a++) {
            const float s = p.log_std[a], o = p.old_log_std[a], z = (action[a] - out[a]) * expf(-s), shift = (out[a] - was[a]) * expf(-o);
            squares += z * z;
            norm += s + 0.918938533204672741f;
            shifts += shift * shift;
            base += 0.5f * (expf(2.f * (s - o)) - 1.f) - (s - o);
        }
        log_prob = -(0.5f * squares + norm);
        kl = 0.5f * shifts + base;
    } else {
        for (int h = 0, at = 0; h < p.width; at += p.heads[h++]) {
            float top = out[at], sum = 0.f;
            for (int a = 1; a < p.heads[h]; a++) top = fmaxf(top, out[at + a]);
            for (int a = 0; a < p.heads[h]; a++) sum += expf(out[at + a] - top);
            const float log_sum = logf(sum);
            log_prob += out[at + (int)action[h]] - top - log_sum;
            for (int a = 0; a < p.heads[h]; a++) {
                const float x = out[at + a] - top - log_sum;
                kl += expf(x) * (x - was[at + a]);
            }
        }
    }
    double terms[1 + MOST_COSTS + EXTRA] = {};
    float w, u;
    weigh(p.loss, p.advantages, p.all, row, expf(log_prob - p.log_probs[row]), kl, terms, w, u);
    w *= p.share;
    u *= p.share;
    if (here && d && !p.discrete)
        for (int a = 0; a < n; a++) {
            const float inverse = expf(-p.log_std[a]), old = expf(-p.old_log_std[a]);
            d[a] = w * (action[a] - out[a]) * inverse * inverse + u * (out[a] - was[a]) * old * old;
        }
    if (here && d && p.discrete)
        for (int h = 0, at = 0; h < p.width; at += p.heads[h++]) {
            float top = out[at], sum = 0.f, entropy = 0.f, head_kl = 0.f;
            for (int a = 1; a < p.heads[h]; a++) top = fmaxf(top, out[at + a]);
            for (int a = 0; a < p.heads[h]; a++) sum += expf(out[at + a] - top);
            const float log_sum = logf(sum);
            for (int a = 0; a < p.heads[h]; a++) {
                const float x = out[at + a] - top - log_sum, q = expf(x);
                entropy -= q * x;
                head_kl += q * (x - was[at + a]);
            }
            for (int a = 0; a < p.heads[h]; a++) {
                const float x = out[at + a] - top - log_sum, q = expf(x);
                d[at + a] = w * ((a == (int)action[h] ? 1.f : 0.f) - q) + p.entropy * p.share * q * (x + entropy) + u * q * (x - was[at + a] - head_kl);
            }
        }
    const int count = 1 + p.loss.costs + EXTRA, slopes = p.discrete || !p.d ? 0 : n;
    double* part = p.parts + (long)blockIdx.x * (1 + count + slopes);
    const double sum = block_sum(here ? kl : 0.);
    if (threadIdx.x == 0) part[0] = sum;
    for (int t = 0; t < count; t++) {
        const double sum = block_sum(here ? terms[t] : 0.);
        if (threadIdx.x == 0) part[1 + t] = sum;
    }
    for (int a = 0; a < slopes; a++) {
        const float z = (action[a] - out[a]) * expf(-p.log_std[a]);
        const float slope = w * (z * z - 1.f) - p.entropy * p.share + u * (expf(2.f * (p.log_std[a] - p.old_log_std[a])) - 1.f);
        const double sum = block_sum(here ? slope : 0.);
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
