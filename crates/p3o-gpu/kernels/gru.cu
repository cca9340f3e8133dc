// What recurrent networks need beside the products of `p3o.cu`: layer normalisation, and a GRU's way through sequences. Matrices
// are row-major without padding; the rows of a sequence follow one another. Every sum has a fixed order. `src/host.rs` mirrors
// every kernel.

enum { TANH = 0, RELU = 1 };

// The derivative of an activation from its value.
__device__ inline float slope(float y, int activation) {
    if (activation == TANH) return 1.f - y * y;
    if (activation == RELU) return y > 0.f ? 1.f : 0.f;
    return 1.f;
}

// The sum of a warp's x, for all its threads, which must call it together.
__device__ inline float warp_sum(float x) {
#pragma unroll
    for (int half = 16; half; half /= 2) x += __shfl_xor_sync(~0u, x, half);
    return x;
}

// y = gain (x - mean) / sqrt(variance + 1e-5) + bias in every row, a warp for each; `moments` keeps its mean and 1 / sqrt.
extern "C" __global__ void __launch_bounds__(256) norm_forward(const float* x, const float* gain, const float* bias, float* y, float* moments, int rows, int columns) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * columns;
    y += (long)row * columns;
    float sum = 0.f, squares = 0.f;
    for (int c = lane; c < columns; c += 32) sum += x[c];
    const float mean = warp_sum(sum) / columns;
    for (int c = lane; c < columns; c += 32) squares = fmaf(x[c] - mean, x[c] - mean, squares);
    const float scale = 1.f / sqrtf(warp_sum(squares) / columns + 1e-5f);
    for (int c = lane; c < columns; c += 32) y[c] = fmaf((x[c] - mean) * scale, gain[c], bias[c]);
    if (lane == 0) {
        moments[2 * (long)row] = mean;
        moments[2 * (long)row + 1] = scale;
    }
}

// With u the normalised row and g = gain d, d = d loss / dy: dx = scale (g - mean(g) - u mean(g u)) times the derivative of the
// activation that x came from. It replaces d; a warp for each row.
extern "C" __global__ void __launch_bounds__(256) norm_backward(const float* x, const float* moments, const float* gain, float* d, int rows, int columns, int activation) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    x += (long)row * columns;
    d += (long)row * columns;
    const float mean = moments[2 * (long)row], scale = moments[2 * (long)row + 1];
    float sum = 0.f, along = 0.f;
    for (int c = lane; c < columns; c += 32) {
        const float g = d[c] * gain[c];
        sum += g;
        along = fmaf(g, (x[c] - mean) * scale, along);
    }
    sum = warp_sum(sum) / columns;
    along = warp_sum(along) / columns;
    for (int c = lane; c < columns; c += 32) {
        const float unit = (x[c] - mean) * scale;
        d[c] = slope(x[c], activation) * (scale * (d[c] * gain[c] - sum - unit * along));
    }
}

// One part's gradient of the gain, the sums of d u over rows, and behind it that of the bias, the sums of d: a part is `chunk` rows
// and blockIdx.y its number. A block has 32 columns; warp w adds every 16th row from row w on, and the 16 sums are added in order.
extern "C" __global__ void __launch_bounds__(512) norm_weights(const float* x, const float* moments, const float* d, float* parts, int rows, int columns, int chunk) {
    __shared__ float gains[16][32], biases[16][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
    const int first = blockIdx.y * chunk, end = min(rows, first + chunk);
    float gain = 0.f, bias = 0.f;
    if (c < columns)
        for (long row = first + warp; row < end; row += 16) {
            const float mean = moments[2 * row], scale = moments[2 * row + 1], each = d[row * columns + c];
            gain = fmaf((x[row * columns + c] - mean) * scale, each, gain);
            bias += each;
        }
    gains[warp][lane] = gain;
    biases[warp][lane] = bias;
    __syncthreads();
    if (warp > 0 || c >= columns) return;
    for (int w = 1; w < 16; w++) {
        gain += gains[w][lane];
        bias += biases[w][lane];
    }
    float* part = parts + (long)blockIdx.y * 2 * columns;
    part[c] = gain;
    part[columns + c] = bias;
}

// Sequences on their way through a GRU; see `Gru` in src/device.rs. Where there are three numbers for a unit they are those of the
// gates r, z and n, each gate's units side by side.
struct Gru {
    const float *w, *b;            // of the state: [units][3 units], and the bias
    const float *states, *starts;  // before each sequence; not zero where a row starts from a state of zero (null: none does)
    float* of_input;               // [rows][3 units]: the input's part of the gates' sums; backward: the gradient of these
    float *entering, *after;       // [rows][units]: the state before and after each row
    float* gates;                  // [rows][4 units]: r, z, n, and the state's part of the sum of n
    float* d;                      // [rows][units]: the gradient of `after` by the same row's outputs; backward uses it up
    float* d_of_state;             // [rows][3 units]: the gradient of the state's part of the gates' sums
    int sequences, steps, units;
};

enum { GROUP = 4 };  // sequences of a block

__device__ inline float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

__device__ inline bool restarts(const Gru& p, long row) { return p.starts && p.starts[row] != 0.f; }

// One unit's step: `of_state` is the state's part of its gates' sums without the bias. Keeps the gates, returns the state after.
__device__ inline float cell(const Gru& p, long row, int unit, float state, const float (&of_input)[3], const float (&of_state)[3], const float (&b)[3]) {
    const float r = sigmoid(of_input[0] + (of_state[0] + b[0])), z = sigmoid(of_input[1] + (of_state[1] + b[1]));
    const float hn = of_state[2] + b[2], n = tanhf(fmaf(r, hn, of_input[2]));
    const float after = fmaf(z, state - n, n);  // (1 - z) n + z state
    const int units = p.units;
    float* gates = p.gates + row * 4 * units + unit;
    gates[0] = r;
    gates[units] = z;
    gates[2 * units] = n;
    gates[3 * units] = hn;
    p.after[row * units + unit] = after;
    return after;
}

// What a step back needs of a unit's way forward.
struct Kept {
    float r, z, n, hn, entering;
};

__device__ inline Kept kept(const Gru& p, long row, int unit) {
    const int units = p.units;
    const float* gates = p.gates + row * 4 * units + unit;
    return {gates[0], gates[units], gates[2 * units], gates[3 * units], p.entering[row * units + unit]};
}

// One unit's step back from the whole gradient d of the state after it: writes the gradients of its gates' sums; `of_state` are those
// of the state's part.
__device__ inline void cell_back(const Gru& p, long row, int unit, const Kept& k, float d, float (&of_state)[3]) {
    const float dn = d * (1.f - k.z) * (1.f - k.n * k.n), dz = d * (k.entering - k.n) * (k.z * (1.f - k.z));
    const float dr = dn * k.hn * (k.r * (1.f - k.r));
    of_state[0] = dr;
    of_state[1] = dz;
    of_state[2] = dn * k.r;
    const int units = p.units;
    float *to_input = p.of_input + row * 3 * units + unit, *to_state = p.d_of_state + row * 3 * units + unit;
    to_input[0] = dr;
    to_input[units] = dz;
    to_input[2 * units] = dn;
#pragma unroll
    for (int g = 0; g < 3; g++) to_state[g * units] = of_state[g];
}

// Up to UNITS units: the state's weights stay in registers. Threads 4 u to 4 u + 3 have unit u, and each a slice of what is summed for
// it: numbers 16 j + 4 slice + i, where i and j are 0 to 3. When these sums have been added, each of the four threads goes on with one of
// the block's four sequences, the one of its slice's number. Steps take turns with two buffers, so that one barrier a step will do.
enum { UNITS = 64, STRIDE = UNITS + 8 };  // the stride spreads four sequences over all banks

// The sum over a unit's four threads, for the thread's own sequence.
__device__ inline float own(const float (&sum)[GROUP]) {
    float mine = 0.f;
#pragma unroll
    for (int s = 0; s < GROUP; s++) {
        float all = sum[s];
        all += __shfl_xor_sync(~0u, all, 1);
        all += __shfl_xor_sync(~0u, all, 2);
        if (threadIdx.x % GROUP == s) mine = all;
    }
    return mine;
}

extern "C" __global__ void __launch_bounds__(256) gru_forward(Gru p) {
    __shared__ __align__(16) float turns[2][GROUP][STRIDE];
    const int units = p.units, unit = threadIdx.x / 4, slice = threadIdx.x % 4, sequence = blockIdx.x * GROUP + slice;
    const bool here = unit < units && sequence < p.sequences;
    float w[3][16], b[3];  // from the slice's numbers to the unit's gates
#pragma unroll
    for (int g = 0; g < 3; g++) {
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int from = i / 4 * 16 + 4 * slice + i % 4;
            w[g][i] = unit < units && from < units ? p.w[from * 3 * units + g * units + unit] : 0.f;
        }
        b[g] = unit < units ? p.b[g * units + unit] : 0.f;
    }
    long row = here ? (long)sequence * p.steps : 0;
    float state = here && !restarts(p, row) ? p.states[(long)sequence * units + unit] : 0.f;
    for (int t = 0; t < p.steps; t++, row++) {
        float(&states)[GROUP][STRIDE] = turns[t % 2];
        float of_input[3] = {}, sum[3][GROUP] = {};
        bool again = false;
        if (here) {
            p.entering[row * units + unit] = state;
#pragma unroll
            for (int g = 0; g < 3; g++) of_input[g] = p.of_input[row * 3 * units + g * units + unit];
            again = t + 1 < p.steps && restarts(p, row + 1);
        }
        states[slice][unit] = state;
        __syncthreads();
#pragma unroll
        for (int s = 0; s < GROUP; s++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float4 x = *(const float4*)&states[s][16 * j + 4 * slice];
#pragma unroll
                for (int g = 0; g < 3; g++) {
                    sum[g][s] = fmaf(w[g][4 * j], x.x, sum[g][s]);
                    sum[g][s] = fmaf(w[g][4 * j + 1], x.y, sum[g][s]);
                    sum[g][s] = fmaf(w[g][4 * j + 2], x.z, sum[g][s]);
                    sum[g][s] = fmaf(w[g][4 * j + 3], x.w, sum[g][s]);
                }
            }
        const float of_state[3] = {own(sum[0]), own(sum[1]), own(sum[2])};
        if (here) state = cell(p, row, unit, state, of_input, of_state, b);
        if (again) state = 0.f;
    }
}

extern "C" __global__ void __launch_bounds__(256) gru_backward(Gru p) {
    __shared__ __align__(16) float turns[2][GROUP][3][STRIDE];
    const int units = p.units, unit = threadIdx.x / 4, slice = threadIdx.x % 4, sequence = blockIdx.x * GROUP + slice;
    const bool here = unit < units && sequence < p.sequences;
    float w[3][16];  // from the unit to the gates of the slice's numbers
#pragma unroll
    for (int g = 0; g < 3; g++)
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const int to = i / 4 * 16 + 4 * slice + i % 4;
            w[g][i] = unit < units && to < units ? p.w[unit * 3 * units + g * units + to] : 0.f;
        }
    long row = here ? (long)sequence * p.steps + p.steps - 1 : 0;
    float carry = 0.f, d = 0.f;  // the gradient of the state after a row by the rows behind it; by the row's own outputs
    Kept k = {};
    if (here) {
        k = kept(p, row, unit);
        d = p.d[row * units + unit];
    }
    for (int t = p.steps - 1; t >= 0; t--, row--) {
        float(&sums)[GROUP][3][STRIDE] = turns[t % 2];
        float of_state[3] = {}, sum[GROUP] = {};
        const float whole = d + carry, z = k.z;
        if (here) {
            cell_back(p, row, unit, k, whole, of_state);
            carry = 0.f;
        }
#pragma unroll
        for (int g = 0; g < 3; g++) sums[slice][g][unit] = of_state[g];
        const bool goes_on = here && t > 0 && !restarts(p, row);
        if (here && t > 0) {
            k = kept(p, row - 1, unit);
            d = p.d[(row - 1) * units + unit];
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < GROUP; s++)
#pragma unroll
            for (int g = 0; g < 3; g++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float4 x = *(const float4*)&sums[s][g][16 * j + 4 * slice];
                    sum[s] = fmaf(w[g][4 * j], x.x, sum[s]);
                    sum[s] = fmaf(w[g][4 * j + 1], x.y, sum[s]);
                    sum[s] = fmaf(w[g][4 * j + 2], x.z, sum[s]);
                    sum[s] = fmaf(w[g][4 * j + 3], x.w, sum[s]);
                }
        const float by_sums = own(sum);
        if (goes_on) carry = fmaf(whole, z, by_sums);
    }
}

// Any number of units: the weights come from the second-level cache, and what one step leaves for the next goes through memory.
// Forward a thread has a unit, or several.
extern "C" __global__ void __launch_bounds__(256) gru_forward_wide(Gru p) {
    const int units = p.units, first = blockIdx.x * GROUP, count = min((int)GROUP, p.sequences - first);
    for (int s = 0; s < count; s++)
        for (int unit = threadIdx.x; unit < units; unit += 256) {
            const long row = (long)(first + s) * p.steps;
            p.entering[row * units + unit] = restarts(p, row) ? 0.f : p.states[(long)(first + s) * units + unit];
        }
    for (int t = 0; t < p.steps; t++) {
        __syncthreads();
        long rows[GROUP];  // a sequence that is not there repeats the last one's sums
#pragma unroll
        for (int s = 0; s < GROUP; s++) rows[s] = (long)(first + min(s, count - 1)) * p.steps + t;
        for (int unit = threadIdx.x; unit < units; unit += 256) {
            const float b[3] = {p.b[unit], p.b[units + unit], p.b[2 * units + unit]};
            float sum[3][GROUP] = {};
#pragma unroll 4
            for (int from = 0; from < units; from++) {
                float w[3], x[GROUP];
#pragma unroll
                for (int g = 0; g < 3; g++) w[g] = p.w[(long)from * 3 * units + g * units + unit];
#pragma unroll
                for (int s = 0; s < GROUP; s++) x[s] = p.entering[rows[s] * units + from];
#pragma unroll
                for (int g = 0; g < 3; g++)
#pragma unroll
                    for (int s = 0; s < GROUP; s++) sum[g][s] = fmaf(w[g], x[s], sum[g][s]);
            }
#pragma unroll
            for (int s = 0; s < GROUP; s++) {
                if (s >= count) continue;
                const long row = rows[s];
                float of_input[3];
#pragma unroll
                for (int g = 0; g < 3; g++) of_input[g] = p.of_input[row * 3 * units + g * units + unit];
                const float of_state[3] = {sum[0][s], sum[1][s], sum[2][s]};
                const float after = cell(p, row, unit, p.entering[row * units + unit], of_input, of_state, b);
                if (t + 1 < p.steps) p.entering[(row + 1) * units + unit] = restarts(p, row + 1) ? 0.f : after;
            }
        }
    }
}

// Backward a warp has a unit, or several: its lanes share out the sum over the gates of the row behind, then lane s goes on with the
// block's sequence s. The whole gradient of the state after a row replaces d.
extern "C" __global__ void __launch_bounds__(1024) gru_backward_wide(Gru p) {
    const int units = p.units, first = blockIdx.x * GROUP, count = min((int)GROUP, p.sequences - first);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int t = p.steps - 1; t >= 0; t--) {
        const bool last = t == p.steps - 1;
        for (int unit = warp; unit < units; unit += 32) {
            float sum[GROUP] = {};
            const int end = last ? 0 : 3 * units;
#pragma unroll 2
            for (int to = lane; to < end; to += 32) {
                const float w = p.w[(long)unit * 3 * units + to];
#pragma unroll
                for (int s = 0; s < GROUP; s++) {
                    const long next = (long)(first + min(s, count - 1)) * p.steps + t + 1;
                    sum[s] = fmaf(w, p.d_of_state[next * 3 * units + to], sum[s]);
                }
            }
            float by_sums = 0.f;
#pragma unroll
            for (int s = 0; s < GROUP; s++) {
                const float all = warp_sum(sum[s]);
                if (lane == s) by_sums = all;
            }
            if (lane < count) {
                const long row = (long)(first + lane) * p.steps + t;
                float whole = p.d[row * units + unit], of_state[3];
                if (!last && !restarts(p, row + 1)) whole += fmaf(p.d[(row + 1) * units + unit], p.gates[(row + 1) * 4 * units + units + unit], by_sums);
                p.d[row * units + unit] = whole;
                cell_back(p, row, unit, kept(p, row, unit), whole, of_state);
            }
        }
        __syncthreads();
    }
}
