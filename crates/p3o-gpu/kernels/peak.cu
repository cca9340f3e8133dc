// What a GPU reaches in registers alone: the yardstick of `p3o bench`.

#include "device.h"

enum { CHAINS = 16, TENSOR_CHAINS = 8 };

// CHAINS fused multiply-adds a thread and round.
KERNEL(256, 1) peak_fp32(float* out, int rounds) {
    float sums[CHAINS];
    const float a = 1.f + threadIdx.x * 1e-9f, b = 1e-9f * blockIdx.x;
#pragma unroll
    for (int i = 0; i < CHAINS; i++) sums[i] = (float)i;
#pragma unroll 8
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++) sums[i] = fmaf(sums[i], a, b);
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < CHAINS; i++) all += sums[i];
    out[blockIdx.x * 256 + threadIdx.x] = all;
}

// TENSOR_CHAINS products of 16 x 16 by 16 x 8 a warp and round.
KERNEL(256, 1) peak_fp16(float* out, int rounds) {
    float sums[TENSOR_CHAINS][4] = {};
    const unsigned one = pack(1.f, 0.5f), a[4] = {one + threadIdx.x, one, one, one + blockIdx.x};
#pragma unroll 4
    for (int r = 0; r < rounds; r++)
#pragma unroll
        for (int i = 0; i < TENSOR_CHAINS; i++) multiply(sums[i], a, one, one);
    float all = 0.f;
#pragma unroll
    for (int i = 0; i < TENSOR_CHAINS; i++) all += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    out[blockIdx.x * 256 + threadIdx.x] = all;
}
