// The fibers of emulate.h, and what a program calls.
#include "emulate.h"

Fiber* fiber = nullptr;
Place gridDim, blockDim;
bool copies_land_early = false;
static void* caller;
static const Entry* job;
static void** job_arguments;

std::map<std::string, Entry>& kernels() {
    static std::map<std::string, Entry> all;
    return all;
}

// Leaves the stack at *from and goes on with that at `to`: the registers that a call keeps lie on top of it.
extern "C" void change_stacks(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl change_stacks
change_stacks:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
)");
enum { SAVED = 6 };
#else
#error "the emulation knows x86-64 alone"
#endif

// Goes on with the next thread that can: of this warp, or else of the next ones.
void give_way() {
    Fiber* const from = fiber;
    std::vector<Fiber>& all = from->block->fibers;
    const int count = (int)all.size(), me = (int)from->place.x, warp = me / 32 * 32;
    for (int i = 1; i <= count; i++) {
        Fiber& next = all[i <= 32 ? warp + (me + i) % 32 : (warp + i - 1) % count];
        if (!next.can_go_on()) continue;
        fiber = &next;
        if (fiber != from) change_stacks(&from->top, fiber->top);
        return;
    }
    for (const Fiber& f : all)
        if (!f.done) {
            fprintf(stderr, "threads wait for each other\n");
            abort();
        }
    change_stacks(&from->top, caller);
}

static void begin() {
    (*job)(job_arguments);
    fiber->done = true;
    give_way();
}

// Runs a kernel; -1 if there is none of that name.
extern "C" int emulate(const char* name, const unsigned* grid, unsigned threads, unsigned long memory, int early, void** arguments) {
    const auto found = kernels().find(name);
    if (found == kernels().end()) return -1;
    copies_land_early = early;
    job = &found->second;
    job_arguments = arguments;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {threads, 1, 1};
    const size_t size = 1 << 17;
    static std::vector<void*> stacks;
    while (stacks.size() < threads) stacks.push_back(aligned_alloc(64, size));
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                Block block{{x, y, z}, {}, std::vector<Fiber>(threads), std::vector<Warp>((threads + 31) / 32), std::vector<unsigned char>(memory + 256, 0xff)};
                for (unsigned t = 0; t < threads; t++) {
                    void** top = (void**)((char*)stacks[t] + size - 64);
                    *top = (void*)begin;
                    memset(top - SAVED, 0, SAVED * sizeof(void*));
                    block.fibers[t] = {top - SAVED, &block, {t, 0, 0}};
                }
                fiber = &block.fibers[0];
                change_stacks(&caller, fiber->top);
            }
    return 0;
}
