// Whole passes of feed-forward networks on tensor cores: `net` takes a tile of rows forward, weighs it and takes it back on chip,
// `weights` multiplies what it left, `adam` adds the parts up and steps. Networks of one shape share launches.
//
// A number is kept as the sum of two halves (22 bits) and a product of two such numbers made from three products of halves, summed
// in single precision: fp32's accuracy on units that only take halves. With X = 1 the second halves are left out, as TF32 would.
// Powers of two keep the halves in their range: weights times WEIGHTS, hidden values times HIDDEN, every input times its column's
// factor (which its weights are divided by), and the gradients of a tile times a factor of its own, taken out again where tiles meet.
//
// Widths are padded with zeros: inputs to a multiple of 64, hidden layers to W = 64 MT, outputs to 16. Zeros stay zero.
// Every sum over rows is formed in parts of a fixed number of rows that are added in their order.

#include "device.h"
#include "rows.h"

enum { TANH = 0, RELU = 1, IDENTITY = 2 };
enum { THREADS = 128, OUTPUTS = 16, STEP_ROWS = 32 };
enum { BLOCK_ROWS = 64 };  // rows whose gradients have one factor
enum { EACH = 4 };  // weights of a thread of `adam`
enum { FORWARD = 1, BACKWARD = 2 };
enum { MOST_NETS = 1 + MOST_COSTS };
constexpr float WEIGHTS = 256.f, HIDDEN = 16.f;

// Networks of one shape. The images hold the weights as the products' right operands, in blocks of 16 inputs: all layers forward,
// the last layer forward and backward, then the layers backward from the last but one.
struct Networks {
    float *parameters, *m, *v, *gradient;  // [network][length]: each layer's weights [input][output] and biases, then log_std
    half_t* images;                        // [network][image]
    const float* columns;                  // factor of each input
    long image;
    int count, length, inputs, layers, outputs, activation;  // inputs padded; hidden layers
};

// What the networks see: rows as two planes of halves.
struct Inputs {
    const half_t* rows;     // [][inputs]
    long low;               // the second plane's distance
    const unsigned* index;  // of a mini-batch: [network][stride]; null: all rows in their order
    int stride;
};

// What a pass leaves, tile by tile; `room` is a multiple of every form's tile.
struct Work {
    half_t *h, *d;  // [network][layer][plane][room][W]
    half_t* e;      // [network][plane][room][OUTPUTS]: the gradient with respect to the outputs
    float* scales;  // [network][room / BLOCK_ROWS]: the factor of the gradients
    float* biases;  // [network][layer][room / TILE][groups][W]: sums of the gradients
    float* outputs; // [network][room / TILE][OUTPUTS]: the same of e
    int rows, room;
};

// How the factors of a loss follow from the batch's mean cost surrogates.
struct Rule {
    int kind;     // 0 they do not, 1 P3O's gates, 2 IPO's barriers
    int balance;  // see p3o.balance
    double barrier, most_kl;
    double offsets[MOST_COSTS];
};

// Where a descent stands.
struct Control {
    int until;   // the first launch that has nothing to do
    int looked;  // launches whose sums were logged
    double kl;   // of the mini-batches so far in this pass
};

// An actor's pass.
struct Actor {
    Behaviour behaviour;
    Loss loss;
    Rule rule;
    Control* control;
    volatile int* told;  // until and looked, where the host can see them
    float* outputs;      // [room][OUTPUTS]
    double* parts;       // [tile][1 + terms]: KL and terms
    double* slopes;      // [tile][OUTPUTS]: of log_std
    double* log;         // [launch][1 + terms]: means
    double* recent;      // [cost][part]: each mini-batch's share in the means of the last pass
    int number;          // of the launch
    int part, of;        // a mini-batch's number among those of a pass; whole batches: 0 of 0
    double weight;       // its share of the batch
};

// Critics' pass.
struct Critics {
    const float* targets;  // [network][stride]
    int stride;
    float mean[MOST_NETS], unit[MOST_NETS];
    float* values;   // [network][room]
    double* errors;  // [network][tile]: sums of squares
};

struct Pass {
    Networks nets;
    Inputs x;
    Work work;
    int phases, critic;
    union {
        Actor actor;
        Critics critics;
    };
};

// How a pass of networks of width W is shared out: a warp has 16 MT rows by 64 columns of a tile.
template <int WIDTH, int X> struct Form {
    static constexpr int W = WIDTH, PLANES = X == 3 ? 2 : 1;
    static constexpr int TILE = W == 64 ? 128 : 64;          // rows
    static constexpr int MT = W == 64 ? 2 : W == 128 ? 1 : 4;
    static constexpr int GROUPS = TILE / (16 * MT), WARPS = GROUPS * W / 64, THREADS = 32 * WARPS;
    static constexpr int BLOCK = W * 16 * PLANES;            // halves of a block of an image
    static constexpr int DEPTH = 256 / W;                    // blocks of a stage
    static constexpr int STAGE = DEPTH * BLOCK;
    static constexpr int STAGES = W == 64 ? 2 : 3;           // on chip at once
    static constexpr int HEADS = DEPTH > 2 ? DEPTH : 2;      // blocks of the last layer, forward and backward
};

// Blocks of an image before those of the last layer.
template <int W> INLINE int before_heads(const Networks& n) { return n.inputs / 16 + (n.layers - 1) * W / 16; }

// tanh(x) = 1 - 2 / (2^(x DOUBLED) + 1), with an absolute error of about 1e-7.
constexpr float DOUBLED = 2.8853900817779268f;

// The order of an image's columns within 32: a thread's sums are then eight neighbours.
INLINE int place(int n) { return (n & ~31) | (n >> 1 & 3) << 3 | (n >> 3 & 3) << 1 | (n & 1); }
// Pieces of 16 bytes change places within rows, so that neighbouring rows' pieces lie in different banks: the row's bits reversed.
INLINE int swizzle(int row) { return (row & 1) << 2 | (row & 2) | (row >> 2 & 1); }
// A half's place in a block of 16 columns.
INLINE int in_block(int row, int k) { return row * 16 + (((k >> 3 & 1) ^ (row >> 2 & 1)) << 3) + (k & 7); }

// Two numbers as halves, and what these miss.
INLINE unsigned low(unsigned high, float x, float y) {
    const float2 r = unpack(high);
    return pack(x - r.x, y - r.y);
}

INLINE float exponent_factor(float most, int target) {
    // 2^(target - e) for most in [2^e, 2^(e + 1)); one where that makes no sense.
    const int e = (int)(__float_as_uint(most) >> 23 & 255) - 127;
    if (!(most > 0.f) || e == 128) return 1.f;
    return __uint_as_float((unsigned)min(max(127 + target - e, 1), 254) << 23);
}

// The sums over tiles in a fixed order, in shared memory.
template <int THREADS> INLINE void total(const double* parts, int tiles, int count, double* totals) {
    const int lane = threadIdx.x & 31;
    for (int v = threadIdx.x >> 5; v < count; v += THREADS / 32) {
        double sum = 0.;
        for (int i = lane; i < tiles; i += 32) sum += parts[(long)i * count + v];
        for (int mask = 16; mask; mask >>= 1) sum += other_lane(sum, mask);
        if (lane == 0) totals[v] = sum;
    }
    __syncthreads();
}

// The loss for these means of the cost surrogates.
INLINE Loss decide(const Rule& rule, Loss loss, const double* means) {
    if (rule.kind == 1) {
        float on = 0.f, kappa = 0.f;
        for (int i = 0; i < loss.costs; i++) {
            kappa = loss.factors[i];
            if (means[i] + rule.offsets[i] > 0.) on += 1.f;
            else loss.factors[i] = 0.f;
        }
        if (rule.balance) loss.scale = 1.f / (1.f + kappa * on);
    } else if (rule.kind == 2) {
        int violated = 0;
        double whole = 1.;
        for (int i = 0; i < loss.costs; i++) {
            const double v = means[i] + rule.offsets[i];
            if (v >= 0.) violated++;
            else whole += 1. / (-rule.barrier * v);
        }
        loss.reward = violated ? 0.f : (float)(1. / whole);
        for (int i = 0; i < loss.costs; i++) {
            const double v = means[i] + rule.offsets[i];
            loss.factors[i] = (float)(violated ? (v >= 0. ? 1. / violated : 0.) : 1. / (-rule.barrier * v) / whole);
        }
    }
    return loss;
}

// A tile of rows, forward, backward or both; blockIdx.x is the tile, blockIdx.y the network.
template <int W, int X> INLINE void net(const Pass& p) {
    using F = Form<W, X>;
    constexpr int MT = F::MT, WARP_ROWS = 16 * MT, GROUPS = F::GROUPS, THREADS = F::THREADS, TILE = F::TILE, LOOKING = TILE / 32;  // LOOKING warps look at rows
    SHARED(shared);
    const Networks& nets = p.nets;
    const int tid = threadIdx.x, lane = tid & 31, warp = of_warp(tid >> 5), network = blockIdx.y, tile = blockIdx.x, room = p.work.room;
    const int row0 = warp % GROUPS * WARP_ROWS, column0 = warp / GROUPS * 64, g = lane >> 2, t = lane & 3;
    const int across = max(nets.inputs, W), layers = nets.layers, activation = nets.activation;
    double* misc = (double*)shared;                                        // 128 numbers
    half_t* a = (half_t*)(shared + 1024);                                  // the left operand: [plane][TILE][across]
    half_t* w = a + F::PLANES * TILE * across;                             // stages of the image
    float* out = across > 64 ? (float*)a + 32 : (float*)(w + F::STAGES * F::STAGE);  // [TILE][out_across], beside E in its rows
    const int out_across = across > 64 ? across / 2 : OUTPUTS;
    const long a_low = (long)TILE * across;
    const float* parameters = nets.parameters + (long)network * nets.length;
    const bool forward = p.phases & FORWARD, backward = p.phases & BACKWARD;
    const int heads = before_heads<W>(nets) / F::DEPTH;                    // the stage of the last layer
    const int first = forward ? 0 : F::DEPTH == 1 ? heads + 1 : heads;
    const int last = backward ? heads + F::HEADS / F::DEPTH + (layers - 1) * W / 16 / F::DEPTH : heads + 1;
    const half_t* image = nets.images + network * nets.image + (long)first * F::STAGE;
    Loss loss;
    if (!p.critic) {
        const Actor& actor = p.actor;
        if (actor.number >= actor.control->until) return;
        loss = actor.loss;
        if (backward && !forward) {
            // Every block decides alike, from the same sums in the same order.
            const int count = 2 + loss.costs + EXTRA;
            total<THREADS>(actor.parts, (p.work.rows + TILE - 1) / TILE, count, misc);
            bool finite = true;
            double means[MOST_COSTS];
            for (int i = 0; i < count; i++) finite &= isfinite(misc[i]);
            for (int i = 0; i < loss.costs; i++) {
                means[i] = misc[2 + i] / p.work.rows;
                if (actor.of) {
                    means[i] = 0.;
                    for (int k = 0; k < actor.of; k++) means[i] += actor.recent[i * actor.of + k];
                }
            }
            const double kl = misc[0] / p.work.rows;
            const bool stop = !finite || (!actor.of && kl > actor.rule.most_kl);
            if (tile == 0 && tid == 0) {
                for (int i = 0; i < count; i++) actor.log[(long)actor.number * count + i] = misc[i] / p.work.rows;
                Control& control = *actor.control;
                if (actor.of) {
                    control.kl = (actor.part ? control.kl : 0.) + actor.weight * kl;
                    if (actor.part + 1 == actor.of && control.kl > actor.rule.most_kl) control.until = actor.number + 1;
                }
                if (stop) control.until = actor.number;
                control.looked = actor.number + 1;
                actor.told[0] = control.until;
                __threadfence_system();
                actor.told[1] = control.looked;
            }
            if (stop) return;
            loss = decide(actor.rule, loss, means);
            __syncthreads();
        }
    }

    // The stages of the image arrive in the background, ahead of their use.
    int left_to_feed = last - first, slot = 0, used = 0;
    const half_t* from = image + tid * 8;
    const auto feed = [&]() {
        if (left_to_feed-- > 0) {
            half_t* to = w + slot * F::STAGE + tid * 8;
#pragma unroll
            for (int i = 0; i < F::STAGE / 8 / THREADS; i++) copy16(to + i * THREADS * 8, from + i * THREADS * 8);
            from += F::STAGE;
        }
        slot = slot + 1 == F::STAGES ? 0 : slot + 1;
        copies_end();
    };
    // The stage at hand, once it is there; `done` with it the next one is.
    const auto next = [&]() {
        copies_wait<F::STAGES - 2>();
        __syncthreads();
        feed();
        return w + used * F::STAGE;
    };
    const auto done = [&]() { used = used + 1 == F::STAGES ? 0 : used + 1; };
    float target = 0.f;
    if (p.critic && backward && tid < TILE && tile * TILE + tid < p.work.rows) {
        const int row = tile * TILE + tid;
        target = constant(p.critics.targets + (long)network * p.critics.stride + (p.x.index ? constant(p.x.index + network * p.x.stride + row) : row));
    }
    if (forward) {
        const int pieces = nets.inputs / 8;
        for (int i = tid; i < TILE * pieces; i += THREADS) {
            const int r = i / pieces, k = i % pieces, row = tile * TILE + r;
            const long from = (p.x.index ? (long)p.x.index[network * p.x.stride + min(row, p.work.rows - 1)] : row) * nets.inputs + k * 8;
            half_t* to = a + r * across + ((k ^ swizzle(r)) << 3);
            copy16(to, p.x.rows + from);
            if (X == 3) copy16(to + a_low, p.x.rows + p.x.low + from);
        }
    }
    for (int i = 0; i < F::STAGES - 1; i++) feed();

    float sum[MT][8][4];
    const auto clear = [&]() {
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int c = 0; c < 4; c++) sum[m][n][c] = 0.f;
    };
    // 16 inputs of a layer, whose weights are `block`. What is needed next is loaded while products are made.
    struct Left {
        unsigned high[MT][4], lower[X == 3 ? MT : 1][4];
    };
    const half_t* a_lane = a + (row0 + (lane & 15)) * across;
    const int a_key = swizzle(lane & 15), b_row = column0 + (lane & 7) + (lane >> 4 << 3);
    const int b_lane = b_row * 16 + (((lane >> 3 & 1) ^ (b_row >> 2 & 1)) << 3);
    const auto load_left = [&](Left& left, int k) {
#pragma unroll
        for (int m = 0; m < MT; m++) {
            const half_t* from = a_lane + m * 16 * across + (((2 * k + (lane >> 4)) ^ a_key) << 3);
            load_matrices(left.high[m], from);
            if (X == 3) load_matrices(left.lower[m], from + a_low);
        }
    };
    const auto step = [&](const Left& left, const half_t* block) {
        unsigned high[2][4], lower[2][4];
        const auto load_right = [&](int j) {
            load_matrices(high[j & 1], block + b_lane + j * 256);
            if (X == 3) load_matrices(lower[j & 1], block + b_lane + j * 256 + W * 16);
        };
        load_right(0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (j < 3) load_right(j + 1);
            const unsigned(&bh)[4] = high[j & 1], (&bl)[4] = lower[j & 1];
            if (X == 3) {
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int m = 0; m < MT; m++) multiply(sum[m][2 * j + i], left.lower[m], bh[2 * i], bh[2 * i + 1]);
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int m = 0; m < MT; m++) multiply(sum[m][2 * j + i], left.high[m], bl[2 * i], bl[2 * i + 1]);
            }
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int m = 0; m < MT; m++) multiply(sum[m][2 * j + i], left.high[m], bh[2 * i], bh[2 * i + 1]);
        }
    };
    const auto product = [&](int blocks) {
        clear();
        if constexpr (F::DEPTH == 1) {
            // A stage is one step: the next one's left operand is loaded before it is there.
            Left left[2];
            const half_t* stage = next();
            load_left(left[0], 0);
#pragma unroll 1
            for (int k = 0; k < blocks; k += 2) {
#pragma unroll
                for (int q = 0; q < 2; q++) {
                    load_left(left[1 - q], min(k + q + 1, blocks - 1));
                    step(left[q], stage);
                    done();
                    if (k + q + 1 < blocks) stage = next();
                }
            }
        } else {
#pragma unroll 1
            for (int k = 0; k < blocks; k += F::DEPTH) {
                const half_t* stage = next();
#pragma unroll
                for (int q = 0; q < F::DEPTH; q++) {
                    Left left;
                    load_left(left, k + q);
                    step(left, stage + q * F::BLOCK);
                }
                done();
            }
        }
    };
    // A thread's sums: of columns 32 j + 8 t + c of its columns, rows 8 i + g of its warp's.
    const auto sum_at = [&](int i, int j, int c) -> float& { return sum[i >> 1][4 * j + (c >> 1)][2 * (i & 1) + (c & 1)]; };
    // Eight of them into the left operand and into a plane of the work.
    const int pieces[2] = {(t ^ swizzle(g)) << 3, ((4 + t) ^ swizzle(g)) << 3};
    half_t* mine = a + (row0 + g) * across + column0;
    const long own = (long)(tile * TILE + row0 + g) * W + column0 + 8 * t, low_plane = (long)room * W;
    const auto put = [&](const float (&v)[8], int i, int j, half_t* plane, bool keep) {
        const uint4 high = make_uint4(pack(v[0], v[1]), pack(v[2], v[3]), pack(v[4], v[5]), pack(v[6], v[7]));
        half_t* to = plane + own + i * 8 * W + j * 32;
        half_t* kept = mine + i * 8 * across + pieces[j];
        *(uint4*)to = high;
        if (keep) store16(kept, high);
        if (X == 3) {
            const uint4 lower = make_uint4(low(high.x, v[0], v[1]), low(high.y, v[2], v[3]), low(high.z, v[4], v[5]), low(high.w, v[6], v[7]));
            *(uint4*)(to + low_plane) = lower;
            if (keep) store16(kept + a_low, lower);
        }
    };
    const auto plane_of = [&](half_t* work, int layer) { return work + (long)(network * layers + layer) * F::PLANES * room * W; };

    const float least = activation == RELU ? 0.f : -3e38f;  // what other activations than tanh let through
    const float* head = parameters + (nets.inputs + 1) * W + (layers - 1) * (W + 1) * W;
    if (forward) {
        const float* layer_at = parameters;
        for (int layer = 0; layer < layers; layer++) {
            const int inputs = layer ? W : nets.inputs;
            product(inputs / 16);
            const float* bias = layer_at + inputs * W;
            layer_at = bias + W;
            float biases[2][8];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float4 four = constant((const float4*)(bias + column0 + (j >> 1) * 32 + 8 * t + (j & 1) * 4));
                float* to = biases[j >> 1] + (j & 1) * 4;
                to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
            }
            const float factor = 1.f / (WEIGHTS * (layer ? HIDDEN : 1.f));
            half_t* plane = plane_of(p.work.h, layer);
            __syncthreads();  // all have read the left operand
            const auto end = [&](auto activate) {
#pragma unroll
                for (int i = 0; i < 2 * MT; i++)
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        float v[8];
#pragma unroll
                        for (int c = 0; c < 8; c++) v[c] = activate(sum_at(i, j, c), biases[j][c]);
                        put(v, i, j, plane, true);
                    }
            };
            if (activation == TANH) {
                const float doubled = factor * DOUBLED;
#pragma unroll
                for (int i = 0; i < 16; i++) biases[i >> 3][i & 7] *= DOUBLED;
                end([&](float x, float b) { return fmaf(-2.f * HIDDEN, reciprocal(power_of_two(fmaf(x, doubled, b)) + 1.f), HIDDEN); });
            } else {
                end([&](float x, float b) {
                    const float y = fmaf(x, factor, b);
                    return HIDDEN * (y < least ? least : y);
                });
            }
        }
        // The last layer, of which four warps have all rows.
        const half_t* block = next();
        if (warp < 4) {
            constexpr int HM = TILE / 64;
            float y[HM][2][3][4] = {};
            const half_t* left = a + (warp * HM * 16 + (lane & 15)) * across;
            const int n = (lane & 7) + (lane >> 4 << 3), right = n * 16 + (((lane >> 3 & 1) ^ (n >> 2 & 1)) << 3);
#pragma unroll 4
            for (int k = 0; k < W / 16; k++) {
                unsigned bh[4], bl[4];
                load_matrices(bh, block + k * 256 * F::PLANES + right);
                if (X == 3) load_matrices(bl, block + k * 256 * F::PLANES + 256 + right);
#pragma unroll
                for (int m = 0; m < HM; m++) {
                    unsigned ah[4], al[4];
                    const half_t* from = left + m * 16 * across + (((2 * k + (lane >> 4)) ^ a_key) << 3);
                    load_matrices(ah, from);
                    if (X == 3) load_matrices(al, from + a_low);
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        multiply(y[m][i][0], ah, bh[2 * i], bh[2 * i + 1]);
                        if (X == 3) {
                            multiply(y[m][i][1], ah, bl[2 * i], bl[2 * i + 1]);
                            multiply(y[m][i][2], al, bh[2 * i], bh[2 * i + 1]);
                        }
                    }
                }
            }
            __syncwarp();
#pragma unroll
            for (int m = 0; m < HM; m++)
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        const int column = i * 8 + 2 * t + (c & 1), r = (warp * HM + m) * 16 + g + (c >> 1) * 8;
                        out[r * out_across + column] = fmaf(y[m][i][0][c] + (y[m][i][1][c] + y[m][i][2][c]), 1.f / (WEIGHTS * HIDDEN), constant(head + W * OUTPUTS + column));
                    }
        }
        if (F::DEPTH == 1) done();
        __syncthreads();
    }

    // Row by row: what the outputs say, and the gradient with respect to them.
    const int r = tid, row = tile * TILE + r;
    const bool here = r < TILE && row < p.work.rows;
    float e[OUTPUTS], most = 0.f;
#pragma unroll
    for (int i = 0; i < OUTPUTS; i++) e[i] = 0.f;
    if (p.critic) {
        const Critics& critics = p.critics;
        const float value = r < TILE ? out[r * out_across] : 0.f;
        if (!backward) {
            if (here) critics.values[(long)network * room + row] = value;
            return;
        }
        float error = 0.f;
        if (here) {
            error = value - (target - critics.mean[network]) * critics.unit[network];
            e[0] = 2.f * error;
            most = fabsf(e[0]);
        }
        double squares = (double)error * error;
        for (int mask = 16; mask; mask >>= 1) squares += other_lane(squares, mask);
        if (r < TILE && lane == 0) misc[warp] = squares;
    } else {
        const Actor& actor = p.actor;
        const Behaviour& b = actor.behaviour;
        const long from = here ? (p.x.index ? p.x.index[row] : row) : 0;
        float mine[OUTPUTS];
        if (here && !forward)
#pragma unroll
            for (int i = 0; i < OUTPUTS; i += 4) *(float4*)(mine + i) = *(const float4*)(actor.outputs + (long)row * OUTPUTS + i);
        else if (r < TILE)
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) mine[i] = out[r * out_across + i];
        float log_prob = 0.f, kl = 0.f, weight = 0.f, u = 0.f;
        double terms[MOST_TERMS];
        if (here) {
            compare(b, from, mine, log_prob, kl);
            for (int i = 0; i < MOST_TERMS; i++) terms[i] = 0.;
            weigh(loss, b.advantages, b.all, from, expf(log_prob - b.log_probs[from]), kl, terms, weight, u);
        }
        if (!backward) {
            const int count = 1 + loss.costs + EXTRA;
            if (here)
#pragma unroll
                for (int i = 0; i < OUTPUTS; i += 4) *(float4*)(actor.outputs + (long)row * OUTPUTS + i) = *(const float4*)(mine + i);
            if (r < TILE)
                for (int i = 0; i <= count; i++) {
                    double x = !here ? 0. : i ? terms[i - 1] : kl;
                    for (int mask = 16; mask; mask >>= 1) x += other_lane(x, mask);
                    if (lane == 0) misc[warp * 32 + i] = x;
                }
            __syncthreads();
            if (tid <= count) {
                double sum = 0.;
                for (int k = 0; k < LOOKING; k++) sum += misc[k * 32 + tid];
                actor.parts[(long)tile * (count + 1) + tid] = sum;
            }
            return;
        }
        if (here) {
            slopes(b, from, mine, weight, u, 1.f, e);
            for (int i = 0; i < b.n; i++) most = fmaxf(most, fabsf(e[i]));
        }
        if (r < TILE && !b.discrete)
            for (int i = 0; i < b.n; i++) {
                double x = here ? slope_of_log_std(b, from, mine, weight, u, 1.f, i) : 0.;
                for (int mask = 16; mask; mask >>= 1) x += other_lane(x, mask);
                if (lane == 0) misc[8 + warp * 16 + i] = x;
            }
    }
    if (r < TILE) {
        const int outputs = p.critic ? 1 : p.actor.behaviour.n;
        float* sums_of_e = (float*)(misc + 72) + warp * OUTPUTS;
        for (int i = 0; i < outputs; i++) {
            float x = e[i];
            for (int mask = 16; mask; mask >>= 1) x += other_lane(x, mask);
            if (lane == 0) sums_of_e[i] = x;
        }
        if (lane >= outputs && lane < OUTPUTS) sums_of_e[lane] = 0.f;
    }
    // The tile's own factor brings the largest gradient to 16 to 32.
    for (int mask = 16; mask; mask >>= 1) most = fmaxf(most, other_lane(most, mask));
    if (r < TILE && lane == 0) ((float*)(misc + 4))[warp] = most;
    __syncthreads();
    most = 0.f;
    for (int k = 0; k < LOOKING; k++) most = fmaxf(most, ((float*)(misc + 4))[k]);
    const float scale = exponent_factor(most, 4), inverse = reciprocal(scale);
    if (tid < TILE / BLOCK_ROWS) p.work.scales[network * (room / BLOCK_ROWS) + tile * (TILE / BLOCK_ROWS) + tid] = scale;
    if (tid < OUTPUTS) {
        float of_e = 0.f;
        double square = 0., of_log_std = 0.;
        for (int k = 0; k < LOOKING; k++) {
            of_e += ((float*)(misc + 72))[k * OUTPUTS + tid];
            square += misc[k];
            of_log_std += misc[8 + k * 16 + tid];
        }
        p.work.outputs[(network * (room / TILE) + tile) * OUTPUTS + tid] = of_e;
        if (!p.critic) p.actor.slopes[tile * OUTPUTS + tid] = p.actor.behaviour.discrete || tid >= p.actor.behaviour.n ? 0. : of_log_std;
        else if (tid == 0) p.critics.errors[network * (room / TILE) + tile] = square;
    }
    if (r < TILE) {
        half_t* to = p.work.e + ((long)network * F::PLANES * room + row) * OUTPUTS;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            unsigned high[4], lower[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float x = e[k * 8 + 2 * i] * scale, y = e[k * 8 + 2 * i + 1] * scale;
                high[i] = pack(x, y);
                lower[i] = low(high[i], x, y);
            }
            half_t* mine = a + r * across + ((k ^ swizzle(r)) << 3);
            const uint4 h4 = make_uint4(high[0], high[1], high[2], high[3]), l4 = make_uint4(lower[0], lower[1], lower[2], lower[3]);
            store16(mine, h4);
            *(uint4*)(to + k * 8) = h4;
            if (X == 3) {
                store16(mine + a_low, l4);
                *(uint4*)(to + (long)room * OUTPUTS + k * 8) = l4;
            }
        }
    }

    // Back through the layers; `layer` is the one whose gradient is at hand.
    const half_t* stage;
    if (F::DEPTH == 1 || !forward) stage = next();
    else {
        __syncthreads();
        stage = w + used * F::STAGE;
    }
    clear();
    Left left;
    load_left(left, 0);
    step(left, stage + (F::DEPTH == 1 ? 0 : F::BLOCK));
    done();
    for (int layer = layers - 1;; layer--) {
        const half_t* h = plane_of(p.work.h, layer) + own;
        half_t* plane = plane_of(p.work.d, layer);
        float* sums = p.work.biases + ((long)(network * layers + layer) * (room / TILE) + tile) * GROUPS * W + warp % GROUPS * W + column0;
        uint4 high[2][2], lower[2][2];
        const auto fetch = [&](int i) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                high[i & 1][j] = *(const uint4*)(h + i * 8 * W + j * 32);
                if (X == 3) lower[i & 1][j] = *(const uint4*)(h + low_plane + i * 8 * W + j * 32);
            }
        };
        fetch(0);
        if (layer) __syncthreads();  // all have read the left operand
        float down[2][8] = {};
        const auto end = [&](auto through) {
#pragma unroll
            for (int i = 0; i < 2 * MT; i++) {
                if (i + 1 < 2 * MT) fetch(i + 1);
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const unsigned h4[4] = {high[i & 1][j].x, high[i & 1][j].y, high[i & 1][j].z, high[i & 1][j].w};
                    const unsigned l4[4] = {lower[i & 1][j].x, lower[i & 1][j].y, lower[i & 1][j].z, lower[i & 1][j].w};
                    float v[8];
#pragma unroll
                    for (int c = 0; c < 8; c += 2) {
                        float2 y = unpack(h4[c >> 1]);
                        if (X == 3) {
                            const float2 z = unpack(l4[c >> 1]);
                            y.x += z.x, y.y += z.y;
                        }
                        v[c] = through(sum_at(i, j, c), y.x);
                        v[c + 1] = through(sum_at(i, j, c + 1), y.y);
                        down[j][c] += v[c];
                        down[j][c + 1] += v[c + 1];
                    }
                    put(v, i, j, plane, layer > 0);
                }
            }
        };
        // y is HIDDEN times the activation's value, from which its derivative follows.
        if (activation == TANH) end([&](float x, float y) { return x * fmaf(y * (-1.f / (HIDDEN * HIDDEN * WEIGHTS)), y, 1.f / WEIGHTS); });
        else end([&](float x, float y) { return y > least ? x * (1.f / WEIGHTS) : 0.f; });
        // The sums over the warp's rows, of which the eight lanes of one t have parts: four of the eight columns each, two, one.
        const bool first_bit = g & 1, second_bit = g & 2, third_bit = g & 4;
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float four[4], two[2];
#pragma unroll
            for (int k = 0; k < 4; k++) four[k] = (first_bit ? down[j][4 + k] : down[j][k]) + other_lane(first_bit ? down[j][k] : down[j][4 + k], 4);
#pragma unroll
            for (int k = 0; k < 2; k++) two[k] = (second_bit ? four[2 + k] : four[k]) + other_lane(second_bit ? four[k] : four[2 + k], 8);
            const float one = (third_bit ? two[1] : two[0]) + other_lane(third_bit ? two[0] : two[1], 16);
            sums[j * 32 + 8 * t + 4 * (g & 1) + (g & 2) + (g >> 2)] = one * inverse;
        }
        if (!layer) break;
        product(W / 16);
    }
    copies_wait<0>();
}

// left^T right over some rows, 64 columns of the left by NT 8 WN of the right. A warp has 16 MT
// by 8 NT sums, which are added to single precision's totals after each tile: tensor cores round downwards while they add.
template <int MT, int NT, int WN, int X, int ACROSS, class Store>
INLINE void transposed_product(half_t* memory, const half_t* left, int left_across, long left_low, const unsigned* index, int rows, const half_t* right, long right_low, const float* scales, int first, int last, Store store) {
    constexpr int COLUMNS = NT * 8 * WN, PLANES = X == 3 ? 2 : 1, A = 64 + 8, B = COLUMNS + 8, A_PLANE = STEP_ROWS * A, B_PLANE = STEP_ROWS * B, STAGE = PLANES * (A_PLANE + B_PLANE);
    constexpr int STAGES = 4, PIECES = COLUMNS / 8, ROWS_AT_ONCE = THREADS / PIECES;
    const int tid = threadIdx.x, lane = tid & 31, warp = of_warp(tid >> 5), row0 = warp / WN * 16 * MT, column0 = warp % WN * NT * 8, g = lane >> 2, t = lane & 3;
    const int steps = (last - first) / STEP_ROWS;
    // What the gradients are divided by, at hand when they are needed; a part has at most THREADS of them.
    float* inverses = (float*)(memory + STAGES * STAGE);
    if (tid < (last - first) / BLOCK_ROWS) inverses[tid] = reciprocal(constant(scales + first / BLOCK_ROWS + tid));
    // A thread copies the same piece of every LEFT_AT_ONCE-th row of the left, and of every ROWS_AT_ONCE-th of the right.
    constexpr int LEFT_PIECES = 8, LEFT_AT_ONCE = THREADS / LEFT_PIECES;
    const int a_to = tid / LEFT_PIECES * A + tid % LEFT_PIECES * 8, b_to = PLANES * A_PLANE + tid / PIECES * B + tid % PIECES * 8;
    const half_t* a_from = left + (index ? 0 : (long)(first + tid / LEFT_PIECES) * left_across) + tid % LEFT_PIECES * 8;
    const half_t* b_from = right + (long)(first + tid / PIECES) * ACROSS + tid % PIECES * 8;
    int fed = 0, slot = 0;
    const auto feed = [&]() {
        if (fed < steps) {
            half_t *a = memory + slot * STAGE + a_to, *b = memory + slot * STAGE + b_to;
#pragma unroll
            for (int r = 0; r < STEP_ROWS; r += LEFT_AT_ONCE) {
                const long row = index ? (long)index[min(first + fed * STEP_ROWS + r + tid / LEFT_PIECES, rows - 1)] : r;
                const half_t* from = a_from + row * left_across;
                copy16(a + r * A, from);
                if (X == 3) copy16(a + A_PLANE + r * A, from + left_low);
            }
            if (ROWS_AT_ONCE <= STEP_ROWS || tid < STEP_ROWS * PIECES) {
#pragma unroll
                for (int r = 0; r < STEP_ROWS; r += ROWS_AT_ONCE) {
                    copy16(b + r * B, b_from + r * ACROSS);
                    if (X == 3) copy16(b + B_PLANE + r * B, b_from + r * ACROSS + right_low);
                }
            }
            if (!index) a_from += (long)STEP_ROWS * left_across;
            b_from += STEP_ROWS * ACROSS;
        }
        copies_end();
        fed++;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    };
    float sum[MT][NT][4], all[MT][NT][4];
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int m = 0; m < MT; m++) sum[m][n][c] = all[m][n][c] = 0.f;
    for (int i = 0; i < STAGES - 1; i++) feed();
    int used = 0;
    const int a_lane = ((lane & 7) + (lane >> 4 & 1) * 8) * A + row0 + (lane >> 3 & 1) * 8, b_lane = ((lane & 7) + (lane >> 3 & 1) * 8) * B + column0 + (lane >> 4 & 1) * 8;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
        copies_wait<STAGES - 2>();
        __syncthreads();
        feed();
        const half_t *a = memory + used * STAGE + a_lane, *b = memory + used * STAGE + PLANES * A_PLANE + b_lane;
        used = used + 1 == STAGES ? 0 : used + 1;
#pragma unroll
        for (int k = 0; k < STEP_ROWS; k += 16) {
            unsigned ah[MT][4], al[MT][4];
#pragma unroll
            for (int m = 0; m < MT; m++) {
                load_transposed(ah[m], a + k * A + m * 16);
                if (X == 3) load_transposed(al[m], a + k * A + m * 16 + A_PLANE);
            }
#pragma unroll
            for (int j = 0; j < NT / 2; j++) {
                unsigned bh[4], bl[4];
                load_transposed(bh, b + k * B + j * 16);
                if (X == 3) {
                    load_transposed(bl, b + k * B + j * 16 + B_PLANE);
#pragma unroll
                    for (int i = 0; i < 2; i++)
#pragma unroll
                        for (int m = 0; m < MT; m++) multiply(sum[m][2 * j + i], al[m], bh[2 * i], bh[2 * i + 1]);
#pragma unroll
                    for (int i = 0; i < 2; i++)
#pragma unroll
                        for (int m = 0; m < MT; m++) multiply(sum[m][2 * j + i], ah[m], bl[2 * i], bl[2 * i + 1]);
                }
#pragma unroll
                for (int i = 0; i < 2; i++)
#pragma unroll
                    for (int m = 0; m < MT; m++) multiply(sum[m][2 * j + i], ah[m], bh[2 * i], bh[2 * i + 1]);
            }
        }
        if (s % (BLOCK_ROWS / STEP_ROWS) == BLOCK_ROWS / STEP_ROWS - 1) {
            const float inverse = inverses[s * STEP_ROWS / BLOCK_ROWS];
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int m = 0; m < MT; m++)
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        all[m][n][c] = fmaf(sum[m][n][c], inverse, all[m][n][c]);
                        sum[m][n][c] = 0.f;
                    }
        }
    }
    copies_wait<0>();
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const int column = column0 + n * 8 + 2 * t;
#pragma unroll
        for (int m = 0; m < MT; m++) {
            store(row0 + m * 16 + g, column, all[m][n][0], all[m][n][1]);
            store(row0 + m * 16 + g + 8, column, all[m][n][2], all[m][n][3]);
        }
    }
}

struct Weights {
    Networks nets;
    Inputs x;
    Work work;
    float* parts;  // [part][network][length]
    const Control* control;
    int number, chunk;  // rows of a part
    float share;
};

// Parts of the gradients: blockIdx.x is a piece of a layer, blockIdx.y the part, blockIdx.z the network.
template <int W, int X> INLINE void weights(const Weights& p) {
    using F = Form<W, X>;
    constexpr int COLUMNS = W == 64 ? 64 : 128;
    if (p.control && p.number >= p.control->until) return;
    SHARED(shared);
    const Networks& nets = p.nets;
    const int network = blockIdx.z, room = p.work.room, first = blockIdx.y * p.chunk, last = min(first + p.chunk, (p.work.rows + BLOCK_ROWS - 1) / BLOCK_ROWS * BLOCK_ROWS);
    const float* scales = p.work.scales + network * (room / BLOCK_ROWS);
    float* part = p.parts + ((long)blockIdx.y * nets.count + network) * nets.length;
    const long plane = (long)room * W;
    int piece = blockIdx.x;
    for (int layer = 0;; layer++) {
        const bool head = layer == nets.layers;
        const int inputs = layer ? W : nets.inputs, outputs = head ? OUTPUTS : W, across = head ? 1 : W / COLUMNS, pieces = inputs / 64 * across;
        if (piece >= pieces) {
            piece -= pieces;
            part += (inputs + 1) * outputs;
            continue;
        }
        const int row0 = piece / across * 64, column0 = piece % across * COLUMNS;
        // The left are the layer's inputs.
        const half_t* left = layer ? p.work.h + (long)(network * nets.layers + layer - 1) * F::PLANES * plane + row0 : p.x.rows + row0;
        const unsigned* index = layer || !p.x.index ? nullptr : p.x.index + (long)network * p.x.stride;
        const auto store = [&](int r, int c, float x, float y) {
            // Factors are powers of two: so are their inverses.
            const float f = p.share * (layer ? 1.f / HIDDEN : reciprocal(nets.columns[row0 + r]));
            *(float2*)(part + (long)(row0 + r) * outputs + column0 + c) = make_float2(x * f, y * f);
        };
        const long left_low = layer ? plane : p.x.low;
        if (head) {
            const half_t* e = p.work.e + (long)network * F::PLANES * room * OUTPUTS;
            transposed_product<1, 2, 1, X, OUTPUTS>((half_t*)shared, left, W, left_low, index, p.work.rows, e, (long)room * OUTPUTS, scales, first, last, store);
        } else {
            const half_t* d = p.work.d + (long)(network * nets.layers + layer) * F::PLANES * plane + column0;
            transposed_product<2, W == 64 ? 4 : 8, 2, X, W>((half_t*)shared, left, inputs, left_low, index, p.work.rows, d, plane, scales, first, last, store);
        }
        return;
    }
}

struct Adam {
    Networks nets;
    const float* parts;  // null: only make the images
    const float *biases, *outputs;  // see Work
    const double* slopes;
    double* squares;  // [network][block]: of the gradient
    Control* control;
    const double* log;
    double* recent;
    int number, chunks, tiles, room, part, of, costs;
    double weight;
    float share, epsilon, steps[MOST_NETS], roots[MOST_NETS];  // rates with the corrections of the moments' start
    float* mean;  // moving average of the first network's parameters, in which this step has a part of `recent_share`; null: none
    float recent_share;
};

// Weights of output n, from input k on, into the images: as they lie in the one that goes forward, and one by one into that which
// goes backward, where neighbouring threads' lie together.
template <int W, int X> INLINE void place_weights(const Networks& nets, half_t* image, int layer, int k, int n, float (&x)[EACH]) {
    using F = Form<W, X>;
    const int heads = before_heads<W>(nets);
    const bool head = layer == nets.layers;
    unsigned high[EACH / 2], lower[EACH / 2];
    const auto split = [&]() {
#pragma unroll
        for (int i = 0; i < EACH / 2; i++) {
            high[i] = pack(x[2 * i], x[2 * i + 1]);
            lower[i] = low(high[i], x[2 * i], x[2 * i + 1]);
        }
    };
#pragma unroll
    for (int e = 0; e < EACH; e++) x[e] *= WEIGHTS;
    if (head || layer) {
        split();
        const long block = head ? heads + 1 : heads + F::HEADS + (nets.layers - 1 - layer) * W / 16 + (n >> 4);
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            half_t* to = image + block * F::BLOCK + in_block(place(k + e), n & 15);
            to[0] = (half_t)(high[e >> 1] >> (e & 1) * 16);
            if (X == 3) to[W * 16] = (half_t)(lower[e >> 1] >> (e & 1) * 16);
        }
    } else {
#pragma unroll
        for (int e = 0; e < EACH; e++) x[e] *= reciprocal(constant(nets.columns + k + e));
        split();
    }
    const int before = layer ? nets.inputs / 16 + (layer - 1) * W / 16 : 0;
    half_t* to = image + (head ? (long)heads * F::BLOCK + (k >> 4) * 256 * F::PLANES + in_block(n, k) : (long)(before + (k >> 4)) * F::BLOCK + in_block(place(n), k));
    *(uint2*)to = make_uint2(high[0], high[1]);
    if (X == 3) *(uint2*)(to + (head ? 256 : W * 16)) = make_uint2(lower[0], lower[1]);
}

// The gradient from its parts, a step of Adam, and the images of the new weights; blockIdx.y is the network. Blocks of EACH
// weights a thread come first, then those of eight biases each, then that of log_std.
template <int W, int X> INLINE void adam(const Adam& p) {
    constexpr int ROWS_OF_TILE = Form<W, X>::GROUPS, TILE = Form<W, X>::TILE, SEGMENTS = THREADS / 8;
    const Networks& nets = p.nets;
    if (p.control) {
        if (p.number >= p.control->until) return;
        if (p.of && blockIdx.x == 0 && (int)threadIdx.x < p.costs) p.recent[threadIdx.x * p.of + p.part] = p.weight * p.log[(long)p.number * (2 + p.costs + EXTRA) + 2 + threadIdx.x];
    }
    SHARED(shared);
    double* sums = (double*)shared;
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, network = blockIdx.y, layers = nets.layers, block = blockIdx.x;
    const int tail = nets.length - OUTPUTS, weights = (nets.inputs * W + (layers - 1) * W * W + W * OUTPUTS) / EACH, plain = (weights + THREADS - 1) / THREADS, biases = layers * (W / 8) + OUTPUTS / 8;
    double square = 0.;
    // The steps of some parameters, `across` apart; what is loaded is so before anything is stored.
    const auto step = [&](int i, int across, auto& x, const auto& g) {
        constexpr int COUNT = sizeof(x) / sizeof(float);
        const long own = (long)network * nets.length + i;
        float m[COUNT], v[COUNT];
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            x[e] = nets.parameters[own + e * across];
            m[e] = nets.m[own + e * across];
            v[e] = nets.v[own + e * across];
        }
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            m[e] = 0.9f * m[e] + 0.1f * g[e];
            v[e] = 0.999f * v[e] + 0.001f * g[e] * g[e];
            x[e] -= p.steps[network] * m[e] / (sqrtf(v[e]) * p.roots[network] + p.epsilon);
            nets.gradient[own + e * across] = g[e];
            nets.m[own + e * across] = m[e];
            nets.v[own + e * across] = v[e];
            nets.parameters[own + e * across] = x[e];
            if (p.mean && !network) {
                float& mean = p.mean[i + e * across];
                // Before the first step nothing is there.
                mean = p.number ? mean + p.recent_share * (x[e] - mean) : x[e];
            }
            if (i < tail) square += (double)g[e] * g[e];
        }
    };
    if (block < plain) {
        int at = block * THREADS + tid, layer = 0, before = 0, inputs = nets.inputs, outputs = W;
        for (; layer < layers && at >= inputs * outputs / EACH; layer++, inputs = W, outputs = layer == layers ? OUTPUTS : W) {
            at -= inputs * outputs / EACH;
            before += (inputs + 1) * outputs;
        }
        if (at < inputs * outputs / EACH) {
            const int n = at % outputs, k = at / outputs * EACH, i = before + k * outputs + n;
            float x[EACH], g[EACH] = {};
            if (p.parts) {
                const float* part = p.parts + (long)network * nets.length + i;
                const long stride = (long)nets.count * nets.length;
#pragma unroll 8
                for (int c = 0; c < p.chunks; c++)
#pragma unroll
                    for (int e = 0; e < EACH; e++) g[e] += constant(part + c * stride + e * outputs);
                step(i, outputs, x, g);
            } else
#pragma unroll
                for (int e = 0; e < EACH; e++) x[e] = nets.parameters[(long)network * nets.length + i + e * outputs];
            place_weights<W, X>(nets, nets.images + network * nets.image, layer, k, n, x);
        }
    } else if (!p.parts) {
        return;
    } else if (block < plain + biases) {
        const int b = block - plain, layer = min(b / (W / 8), layers);
        const bool head = layer == layers;
        const int column = (b - layer * (W / 8)) * 8 + (tid & 7), across = head ? OUTPUTS : W, rows = p.tiles * (head ? 1 : ROWS_OF_TILE), segment = tid >> 3;
        const long before = head ? (long)network * (p.room / TILE) * OUTPUTS : (long)(network * layers + layer) * (p.room / TILE) * ROWS_OF_TILE * W;
        const float* from = (head ? p.outputs : p.biases) + before + column;
        float sum = 0.f;
#pragma unroll 16
        for (int r = rows * segment / SEGMENTS; r < rows * (segment + 1) / SEGMENTS; r++) sum += from[(long)r * across];
        float* parts = (float*)(sums + 32);
        parts[tid] = sum;
        __syncthreads();
        if (tid < 8) {
            float all = 0.f;
            for (int k = 0; k < SEGMENTS; k++) all += parts[k * 8 + tid];
            float x[1], g[1] = {all * p.share};
            step(column + (head ? tail - OUTPUTS : (nets.inputs + 1) * W + layer * (W + 1) * W - W), 1, x, g);
        }
    } else {
        if (p.slopes) total<THREADS>(p.slopes, p.tiles, OUTPUTS, sums);
        if (tid < OUTPUTS && p.slopes) {
            float x[1], g[1] = {(float)(sums[tid] * p.share)};
            step(tail + tid, 1, x, g);
        }
    }
    if (!p.parts) return;
    for (int mask = 16; mask; mask >>= 1) square += other_lane(square, mask);
    if (lane == 0) sums[OUTPUTS + warp] = square;
    __syncthreads();
    if (tid == 0) p.squares[network * gridDim.x + block] = sums[OUTPUTS] + sums[OUTPUTS + 1] + (sums[OUTPUTS + 2] + sums[OUTPUTS + 3]);
}

// Every column's factor: a power of two that brings its largest number to 64 to 128, where weights of ordinary size allow it.
KERNEL(THREADS, 1) columns(const float* x, float* factors, int rows, int inputs) {
    SHARED(shared);
    float most = 0.f;
    if ((int)blockIdx.x < inputs)
        for (int i = threadIdx.x; i < rows; i += THREADS) most = fmaxf(most, fabsf(x[(long)i * inputs + blockIdx.x]));
    for (int mask = 16; mask; mask >>= 1) most = fmaxf(most, other_lane(most, mask));
    float* warps = (float*)shared;
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = most;
    __syncthreads();
    if (threadIdx.x) return;
    most = fmaxf(fmaxf(warps[0], warps[1]), fmaxf(warps[2], warps[3]));
    factors[blockIdx.x] = most > 0.f ? fminf(fmaxf(exponent_factor(most, 6), 1.f / 64.f), 1024.f) : 1.f;
}

// Rows as halves, padded with zeros; a thread for each eight numbers.
KERNEL(THREADS, 1) split(const float* x, const float* factors, half_t* to, long distance, int rows, int room, int inputs, int padded) {
    const long i = (long)blockIdx.x * THREADS + threadIdx.x;
    const int pieces = padded / 8, row = (int)(i / pieces), column = (int)(i % pieces) * 8;
    if (row >= room) return;
    for (int k = 0; k < 8; k += 2) {
        const auto get = [&](int c) { return row < rows && c < inputs ? x[(long)row * inputs + c] * factors[c] : 0.f; };
        const float v = get(column + k), u = get(column + k + 1);
        const unsigned high = pack(v, u);
        *(unsigned*)(to + (long)row * padded + column + k) = high;
        if (distance) *(unsigned*)(to + distance + (long)row * padded + column + k) = low(high, v, u);
    }
}

#define FORMS_OF(W, X, precision)                                                                              \
    KERNEL((Form<W, X>::THREADS), (W == 64 ? 3 : 2)) net_##W##_##precision(ARGUMENT Pass p) { net<W, X>(p); }  \
    KERNEL(THREADS, 2) weights_##W##_##precision(ARGUMENT Weights p) { weights<W, X>(p); } \
    KERNEL(THREADS, 4) adam_##W##_##precision(ARGUMENT Adam p) { adam<W, X>(p); }
#define FORMS(X, precision) FORMS_OF(64, X, precision) FORMS_OF(128, X, precision) FORMS_OF(256, X, precision)
FORMS(3, fp32)
FORMS(1, tf32)

#ifdef EMULATE
#define OFFERED(precision) \
    OFFER(net_64_##precision); OFFER(net_128_##precision); OFFER(net_256_##precision); \
    OFFER(weights_64_##precision); OFFER(weights_128_##precision); OFFER(weights_256_##precision); \
    OFFER(adam_64_##precision); OFFER(adam_128_##precision); OFFER(adam_256_##precision)
OFFERED(fp32); OFFERED(tf32); OFFER(columns); OFFER(split);
#endif
