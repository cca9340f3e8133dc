// A CPU in the place of a GPU, for tests: the kernels' own source, a fiber for each thread of a block, one block after another.
// Copies in the background land as late as they may, or at once: either finds a missing wait. What a warp does together is done
// by the last lane that asks for it.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#define INLINE static inline
#define KERNEL(threads, blocks) extern "C" void
#define ARGUMENT const
#define SHARED(name) unsigned char* name = fiber->block->memory()
#define __global__
#define __device__
#define __shared__ static
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __forceinline__ inline

typedef unsigned short half_t;
using std::isfinite, std::max, std::min;
struct uint2 { unsigned x, y; };
struct uint4 { unsigned x, y, z, w; };
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
INLINE uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
INLINE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
INLINE float2 make_float2(float x, float y) { return {x, y}; }
struct Place { unsigned x, y, z; };

struct Barrier {
    int here = 0, round = 0;
};
// What a lane of a warp asks for, and where the answer goes.
struct Lane {
    const void* row;
    unsigned words[6];
    unsigned* loaded;
    float* sums;
    double given, number;
};
struct Warp {
    Barrier barrier;
    Lane lanes[32];
};
struct Fiber;
struct Block {
    Place place;
    Barrier barrier;
    std::vector<Fiber> fibers;
    std::vector<Warp> warps;
    std::vector<unsigned char> bytes;
    unsigned char* memory() { return (unsigned char*)(((uintptr_t)bytes.data() + 127) & ~(uintptr_t)127); }
};
struct Copy {
    void* to;
    const void* from;
};
struct Fiber {
    void* top;
    Block* block;
    Place place;
    bool done = false;
    const Barrier* waits_for = nullptr;
    int round = 0;
    std::vector<Copy> copies;
    std::vector<size_t> ends;  // of the groups of copies
    size_t landed = 0, groups_landed = 0;
    bool can_go_on() const { return !done && !(waits_for && waits_for->round == round); }
    Warp& warp() { return block->warps[place.x / 32]; }
    Lane& lane() { return warp().lanes[place.x % 32]; }
};
extern Fiber* fiber;
extern Place gridDim, blockDim;
extern bool copies_land_early;
void give_way();
#define threadIdx (fiber->place)
#define blockIdx (fiber->block->place)

// Waits until all are there; the last one does the work of all.
template <class Work> INLINE void meet(Barrier& b, size_t all, Work work) {
    if (++b.here == (int)all) {
        work();
        b.here = 0;
        b.round++;
    } else {
        fiber->waits_for = &b;
        fiber->round = b.round;
        give_way();
    }
}
INLINE void __syncthreads() { meet(fiber->block->barrier, fiber->block->fibers.size(), [] {}); }
INLINE void __syncwarp() { meet(fiber->warp().barrier, 32, [] {}); }
INLINE void __threadfence_system() {}
INLINE unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
INLINE float __uint_as_float(unsigned u) { float x; memcpy(&x, &u, 4); return x; }

INLINE void aligned(const void* p) {
    if ((uintptr_t)p % 16) {
        fprintf(stderr, "an address of 16 bytes is not aligned\n");
        abort();
    }
}
INLINE void copy16(void* to, const void* from) {
    aligned(to), aligned(from);
    if (copies_land_early) memcpy(to, from, 16);
    else fiber->copies.push_back({to, from});
}
INLINE void store16(void* to, uint4 v) {
    aligned(to);
    memcpy(to, &v, 16);
}
INLINE void copies_end() { fiber->ends.push_back(fiber->copies.size()); }
template <int N> INLINE void copies_wait() {
    Fiber& f = *fiber;
    for (; f.groups_landed + N < f.ends.size(); f.groups_landed++)
        for (; f.landed < f.ends[f.groups_landed]; f.landed++) memcpy(f.copies[f.landed].to, f.copies[f.landed].from, 16);
}

INLINE float to_float(half_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
INLINE half_t to_half(float f) { const _Float16 x = (_Float16)f; half_t h; memcpy(&h, &x, 2); return h; }
INLINE unsigned pack(float x, float y) { return to_half(x) | (unsigned)to_half(y) << 16; }
INLINE float2 unpack(unsigned u) { return {to_float((half_t)u), to_float((half_t)(u >> 16))}; }

INLINE void load_matrices(unsigned (&r)[4], const void* p) {
    aligned(p);
    Warp& warp = fiber->warp();
    fiber->lane().row = p;
    fiber->lane().loaded = r;
    meet(warp.barrier, 32, [&] {
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < 4; i++) warp.lanes[l].loaded[i] = ((const unsigned*)warp.lanes[i * 8 + (l >> 2)].row)[l & 3];
    });
}
INLINE void load_transposed(unsigned (&r)[4], const void* p) {
    aligned(p);
    Warp& warp = fiber->warp();
    fiber->lane().row = p;
    fiber->lane().loaded = r;
    meet(warp.barrier, 32, [&] {
        const auto at = [&](int row, int column) { return (unsigned)((const half_t*)warp.lanes[row].row)[column]; };
        for (int l = 0; l < 32; l++)
            for (int i = 0; i < 4; i++) warp.lanes[l].loaded[i] = at(i * 8 + 2 * (l & 3), l >> 2) | at(i * 8 + 2 * (l & 3) + 1, l >> 2) << 16;
    });
}
// Rounded towards zero, as tensor cores do (Fasi et al., Numerical behavior of NVIDIA tensor cores, 2021).
INLINE float truncated(double x) {
    uint64_t bits;
    memcpy(&bits, &x, 8);
    bits &= ~(uint64_t)((1 << 29) - 1);
    memcpy(&x, &bits, 8);
    return (float)x;
}
// The sums of a whole warp: exact products and sums, rounded once.
INLINE void multiply_all(Warp& warp) {
    float a[16][16], b[16][8];
    double sums[16][8];
    for (int l = 0; l < 32; l++) {
        const Lane& lane = warp.lanes[l];
        const int g = l >> 2, t = l & 3;
        for (int i = 0; i < 4; i++) {
            const float2 x = unpack(lane.words[i]);
            float* to = &a[g + 8 * (i & 1)][2 * t + 8 * (i >> 1)];
            to[0] = x.x, to[1] = x.y;
        }
        for (int i = 0; i < 2; i++) {
            const float2 x = unpack(lane.words[4 + i]);
            b[2 * t + 8 * i][g] = x.x, b[2 * t + 8 * i + 1][g] = x.y;
        }
        for (int c = 0; c < 4; c++) sums[g + 8 * (c >> 1)][2 * t + (c & 1)] = lane.sums[c];
    }
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < 16; k++)
            for (int n = 0; n < 8; n++) sums[row][n] += (double)a[row][k] * b[k][n];
    for (int l = 0; l < 32; l++)
        for (int c = 0; c < 4; c++) warp.lanes[l].sums[c] = truncated(sums[(l >> 2) + 8 * (c >> 1)][2 * (l & 3) + (c & 1)]);
}
INLINE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    Warp& warp = fiber->warp();
    Lane& lane = fiber->lane();
    memcpy(lane.words, a, 16);
    lane.words[4] = b0, lane.words[5] = b1;
    lane.sums = c;
    meet(warp.barrier, 32, [&] { multiply_all(warp); });
}
template <class T> INLINE T other_lane_of(T x, int mask) {
    Warp& warp = fiber->warp();
    fiber->lane().given = (double)x;
    meet(warp.barrier, 32, [&] {
        for (Lane& lane : warp.lanes) lane.number = lane.given;
    });
    return (T)warp.lanes[(fiber->place.x % 32) ^ mask].number;
}
INLINE float other_lane(float x, int mask) { return other_lane_of(x, mask); }
INLINE double other_lane(double x, int mask) { return other_lane_of(x, mask); }
INLINE int of_warp(int x) { return x; }
template <class T> INLINE T constant(const T* p) { return *p; }
INLINE float power_of_two(float x) { return exp2f(x); }
INLINE float reciprocal(float x) { return 1.f / x; }

// Kernels by name, called with the addresses of their arguments.
typedef std::function<void(void**)> Entry;
std::map<std::string, Entry>& kernels();
template <class... A, size_t... I> Entry entry(void (*kernel)(A...), std::index_sequence<I...>) {
    return [kernel](void** arguments) { kernel(*(std::remove_const_t<A>*)arguments[I]...); };
}
struct Offer {
    template <class... A> Offer(const char* name, void (*kernel)(A...)) { kernels()[name] = entry(kernel, std::index_sequence_for<A...>{}); }
};
#define OFFER(kernel) static Offer offer_##kernel(#kernel, kernel)
