// What a row of the batch says of a policy: the formulas of the algorithms, as src/host.rs mirrors them.
#pragma once

enum { MOST_COSTS = 16, EXTRA = 2 };  // constraints, and terms beside the reward's and theirs
enum { MOST_TERMS = 1 + MOST_COSTS + EXTRA };

// What a loss is made of; see `Loss` in src/device.rs.
struct Loss {
    int kind;  // 0 clipped, 1 proximal, 2 surrogate
    int clip_costs, costs;
    float epsilon, reward, scale, lambda, delta;
    float factors[MOST_COSTS];
};

// NaN stays NaN.
INLINE float clip(float r, float e) { return r < 1.f - e ? 1.f - e : r > 1.f + e ? 1.f + e : r; }

// A row's terms, and the weights of its grad log pi and of its grad KL.
INLINE void weigh(const Loss& loss, const float* advantages, long rows, long row, float ratio, float kl, double* terms, float& w, float& u) {
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

// The policy that collected the batch, what it did, and what the policy at hand has beside its network.
struct Behaviour {
    const float *outputs, *actions, *log_probs, *advantages, *old_log_std, *log_std;
    const int* heads;  // logits of each discrete action
    int all;           // rows of the batch
    int n, width;      // outputs of a row, numbers of an action
    int discrete;
    float entropy;     // factor of the entropy
};

// The logarithm of the probability of a row's action, and KL(pi_theta || pi_k) there, for the outputs `out`.
INLINE void compare(const Behaviour& b, long row, const float* out, float& log_prob, float& kl) {
    const float *was = b.outputs + row * b.n, *action = b.actions + row * b.width;
    log_prob = kl = 0.f;
    if (!b.discrete) {
        float squares = 0.f, norm = 0.f, shifts = 0.f, base = 0.f;
        for (int a = 0; a < b.n; a++) {
            const float s = b.log_std[a], o = b.old_log_std[a], z = (action[a] - out[a]) * expf(-s), shift = (out[a] - was[a]) * expf(-o);
            squares += z * z;
            norm += s + 0.918938533204672741f;
            shifts += shift * shift;
            base += 0.5f * (expf(2.f * (s - o)) - 1.f) - (s - o);
        }
        log_prob = -(0.5f * squares + norm);
        kl = 0.5f * shifts + base;
        return;
    }
    for (int h = 0, at = 0; h < b.width; at += b.heads[h++]) {
        float top = out[at], sum = 0.f;
        for (int a = 1; a < b.heads[h]; a++) top = fmaxf(top, out[at + a]);
        for (int a = 0; a < b.heads[h]; a++) sum += expf(out[at + a] - top);
        const float log_sum = logf(sum);
        log_prob += out[at + (int)action[h]] - top - log_sum;
        for (int a = 0; a < b.heads[h]; a++) {
            const float x = out[at + a] - top - log_sum;
            kl += expf(x) * (x - was[at + a]);
        }
    }
}

// w grad log pi + u grad KL - entropy share grad entropy, with respect to a row's outputs.
INLINE void slopes(const Behaviour& b, long row, const float* out, float w, float u, float share, float* d) {
    const float *was = b.outputs + row * b.n, *action = b.actions + row * b.width;
    if (!b.discrete) {
        for (int a = 0; a < b.n; a++) {
            const float inverse = expf(-b.log_std[a]), old = expf(-b.old_log_std[a]);
            d[a] = w * (action[a] - out[a]) * inverse * inverse + u * (out[a] - was[a]) * old * old;
        }
        return;
    }
    for (int h = 0, at = 0; h < b.width; at += b.heads[h++]) {
        float top = out[at], sum = 0.f, entropy = 0.f, head_kl = 0.f;
        for (int a = 1; a < b.heads[h]; a++) top = fmaxf(top, out[at + a]);
        for (int a = 0; a < b.heads[h]; a++) sum += expf(out[at + a] - top);
        const float log_sum = logf(sum);
        for (int a = 0; a < b.heads[h]; a++) {
            const float x = out[at + a] - top - log_sum, q = expf(x);
            entropy -= q * x;
            head_kl += q * (x - was[at + a]);
        }
        for (int a = 0; a < b.heads[h]; a++) {
            const float x = out[at + a] - top - log_sum, q = expf(x);
            d[at + a] = w * ((a == (int)action[h] ? 1.f : 0.f) - q) + b.entropy * share * q * (x + entropy) + u * q * (x - was[at + a] - head_kl);
        }
    }
}

// The same with respect to the logarithm of action a's standard deviation.
INLINE float slope_of_log_std(const Behaviour& b, long row, const float* out, float w, float u, float share, int a) {
    const float z = (b.actions[row * b.width + a] - out[a]) * expf(-b.log_std[a]);
    return w * (z * z - 1.f) - b.entropy * share + u * (expf(2.f * (b.log_std[a] - b.old_log_std[a])) - 1.f);
}
