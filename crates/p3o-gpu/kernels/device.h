// What the kernels use of a GPU beyond C++, in one place, so that a CPU can stand in for it (emulate.h).
#pragma once
#ifdef EMULATE
#include "emulate.h"
#else

#define INLINE __device__ __forceinline__
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)
#define ARGUMENT const __grid_constant__
#define SHARED(name) unsigned char* name = shared_memory

typedef unsigned short half_t;
extern __shared__ __align__(128) unsigned char shared_memory[];

INLINE unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

// Sixteen bytes from global to shared memory, in the background.
INLINE void copy16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory"); }
INLINE void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> INLINE void copies_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Sixteen bytes to shared memory, as one access.
INLINE void store16(void* to, uint4 v) { asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(shared_address(to)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory"); }

// Four 8 x 8 matrices of halves; lanes 8 i to 8 i + 7 hold the addresses of the rows of matrix i.
INLINE void load_matrices(unsigned (&r)[4], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}
INLINE void load_transposed(unsigned (&r)[4], const void* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}

// c += a b, 16 x 8 += 16 x 16 times 16 x 8: operands of halves, sums in single precision.
INLINE void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers rounded to halves, the first in the lower one.
INLINE unsigned pack(float x, float y) { unsigned r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x)); return r; }
INLINE float2 unpack(unsigned u) {
    float2 r;
    asm("{.reg .f16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}" : "=f"(r.x), "=f"(r.y) : "r"(u));
    return r;
}

// Memory that nothing writes while the kernel runs.
template <class T> INLINE T constant(const T* p) { return __ldg(p); }

INLINE float power_of_two(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
INLINE float reciprocal(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
INLINE float other_lane(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
INLINE double other_lane(double x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
// The same number, known to be that of the whole warp.
INLINE int of_warp(int x) { return __shfl_sync(0xffffffffu, x, 0); }
#endif
