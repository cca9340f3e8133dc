//! After warming up, an update allocates nothing. A binary of its own: the counting allocator is global.

use p3o_nn::{Activation, Adam, Gru, Init, Mlp, Sequences, Tiles};
use rand::SeedableRng;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: as above.
        unsafe { System.realloc(p, layout, size) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(f: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.load(Ordering::SeqCst);
    f();
    ALLOCATIONS.load(Ordering::SeqCst) - before
}

/// One test for all: the counter would also see what another one allocates at the same time.
#[test]
fn updates_allocate_nothing_after_warming_up() {
    perceptron_updates();
    recurrent_updates();
}

fn perceptron_updates() {
    const ROWS: usize = 2500;
    let mut net = Mlp::<f32>::new(&[33, 64, 17, 2], Activation::Tanh);
    net.init(Init::Glorot, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
    let data: Vec<f32> = (0..ROWS * 33).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let index: Vec<u32> = (0..ROWS as u32).rev().collect();
    let (mut x, mut small) = (Tiles::new(33), Tiles::new(33));
    let (mut workspace, mut work) = (net.pass_workspace(16), net.step_workspace());
    let mut adam = Adam::new(net.params().len(), 1e-3);
    let direction = net.params().to_vec();
    let mut log_std = ([0.0; 2], Adam::new(2, 1e-3));
    let (mut out, mut sums) = (vec![0.0; ROWS * 2], vec![0.0; 16]);

    let update = || {
        x.gather(&data, &index);
        small.gather(&data, &index[..64]);
        net.pass(&mut workspace, &x, &mut sums, |sum, _, y, d| {
            *sum += y[0];
            d.copy_from_slice(y);
        });
        net.step(&mut adam, workspace.gradient());
        net.pass(&mut workspace, &small, &mut [0.0], |_, _, y, d| d.copy_from_slice(y));
        net.step(&mut adam, workspace.gradient());
        log_std.1.step_few(&mut log_std.0, &[0.1, -0.1]);
        net.tangent_pass(&mut workspace, &x, &direction, &mut sums, |_, _, _, t, d| d.copy_from_slice(t));
        net.evaluate(&mut workspace, &x, &mut out);
        net.infer(&mut work, &data[..33 * 16], &mut out[..32]);
    };

    check(update);
}

fn recurrent_updates() {
    const ROWS: usize = 2500;
    let mut net = Gru::<f32>::new(&[33, 64, 17, 2], Activation::Tanh);
    net.init(Init::Glorot, &mut rand_chacha::ChaCha8Rng::seed_from_u64(1));
    let data: Vec<f32> = (0..ROWS * 33).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let (states, starts) = (vec![0.1; ROWS * 17], vec![false; ROWS]);
    let mut after = states.clone();
    let first: Vec<u32> = (0..20).rev().map(|s| s * 125).collect();
    let (mut x, mut small) = (Sequences::new(33, 17), Sequences::new(33, 17));
    let (mut workspace, mut work) = (net.pass_workspace(16), net.step_workspace());
    let mut adam = Adam::new(net.params().len(), 1e-3);
    let (mut out, mut sums, mut carried) = (vec![0.0; ROWS * 2], vec![0.0; 16], vec![0.0; 16 * 17]);
    check(|| {
        x.fill(10, &data, &states, &starts);
        small.gather(25, &first, &data, &states, &starts);
        net.pass(&mut workspace, &x, &mut sums, |sum, _, y, d| {
            *sum += y[0];
            d.copy_from_slice(y);
        });
        net.step(&mut adam, workspace.gradient());
        net.pass(&mut workspace, &small, &mut [0.0; 2], |_, _, y, d| d.copy_from_slice(y));
        net.step(&mut adam, workspace.gradient());
        net.evaluate(&mut workspace, &x, &mut out);
        net.unroll(&mut workspace, &x, &mut out, &mut after);
        net.infer(&mut work, &data[..33 * 16], &mut carried, &mut out[..32]);
    });
}

fn check(mut update: impl FnMut() + Send) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    // Entering the pool may allocate; what counts is the work inside it.
    let (sanity, allocations) = pool.install(|| {
        let sanity = count(|| drop(std::hint::black_box(vec![0u8; 100])));
        (0..3).for_each(|_| update());
        // On a busy machine a thread of the pool may take its first piece of work late, and allocates once for itself then; an update
        // that allocates does so in every round.
        (sanity, (0..5).map(|_| count(|| (0..20).for_each(|_| update()))).min())
    });
    assert_eq!(sanity, 1, "the counter does not count");
    assert_eq!(allocations, Some(0));
}
