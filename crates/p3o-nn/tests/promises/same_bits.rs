//! The same bits for any number of threads, any set of instructions and any neighbours.

use super::support::*;
use p3o_nn::{Activation, Adam, Isa, Mlp, Peers, Tiles, parts_of};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

fn bits_of_loss(sum: &mut f32, first: usize, y: &[f32], d: &mut [f32]) {
    for (i, (d, y)) in d.iter_mut().zip(y).enumerate() {
        *d = y - 0.01 * ((first + i) % 50) as f32;
        *sum += *d * *d;
    }
}

/// Everything a batch can be put through: outputs, gradient, sums of the loss, and the same in forward mode.
fn all_results(net: &Mlp<f32>, x: &Tiles<f32>) -> Vec<(&'static str, Vec<u32>)> {
    let mut workspace = net.pass_workspace(x.parts());
    let mut sums = vec![0.0; x.parts()];
    net.pass(&mut workspace, x, &mut sums, bits_of_loss);
    let gradient = workspace.gradient().to_vec();
    let mut tangent_sums = vec![0.0; x.parts()];
    let direction = random_direction(net, 3);
    net.tangent_pass(&mut workspace, x, &direction, &mut tangent_sums, |sum, first, _, t, d| {
        bits_of_loss(sum, first, t, d);
    });
    let mut d_input = vec![0.0; x.rows() * net.inputs()];
    let outputs = evaluate(net, x);
    net.input_gradient(x, &outputs, &mut d_input);
    vec![
        ("outputs", bits(&outputs)),
        ("gradient", bits(&gradient)),
        ("sums", bits(&sums)),
        ("forward-mode gradient", bits(workspace.gradient())),
        ("forward-mode sums", bits(&tangent_sums)),
        ("input gradient", bits(&d_input)),
    ]
}

#[test]
fn one_two_and_three_threads() {
    let net = random_net::<f32>(&[33, 70, 17, 5], Activation::Tanh, 1);
    for rows in [121, 500, 2500] {
        let x = tiles(33, &uniform(rows * 33, &mut rng(2)));
        let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let expected = on(1).install(|| all_results(&net, &x));
        for threads in [2, 3] {
            let pool = on(threads);
            for _ in 0..3 {
                assert!(pool.install(|| all_results(&net, &x)) == expected, "{rows} rows on {threads} threads");
            }
        }
    }
}

#[test]
fn every_instruction_set() {
    for activation in ACTIVATIONS {
        for (sizes, rows) in [(&[17, 33, 20, 3][..], 130), (&[5, 64, 5, 70, 40], 23), (&[33, 2], 121)] {
            let x = tiles(sizes[0], &uniform(rows * sizes[0], &mut rng(2)));
            let run = |isa| {
                let mut net = Mlp::<f32>::on(isa, sizes, activation);
                randomize(&mut net, 1);
                let mut results = all_results(&net, &x);
                let mut adam = Adam::new(net.params().len(), 3e-3);
                let mut workspace = net.pass_workspace(x.parts());
                for _ in 0..4 {
                    net.pass(&mut workspace, &x, &mut vec![0.0; x.parts()], bits_of_loss);
                    net.step(&mut adam, workspace.gradient());
                }
                results.push(("parameters after four steps", bits(net.params())));
                results.push(("moments after four steps", bits(&[adam.state().0, adam.state().1].concat())));
                results
            };
            let expected = run(Isa::Scalar);
            for &isa in Isa::available() {
                for ((what, found), (_, expected)) in run(isa).iter().zip(&expected) {
                    assert!(found == expected, "{what} of {sizes:?} {activation:?}: {isa:?} is not Scalar");
                }
            }
        }
    }
}

/// A row's outputs are the same alone, in a full tile and in a batch, whichever register tile it falls into.
#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    for &isa in Isa::available() {
        let (rows, inputs) = (if isa == Isa::Scalar { 127 } else { 2500 }, 33);
        let mut net = Mlp::<f32>::on(isa, &[inputs, 70, 17, 5], Activation::Tanh);
        randomize(&mut net, 1);
        let x: Vec<f32> = uniform(rows * inputs, &mut rng(2));
        let batch = evaluate(&net, &tiles(inputs, &x));
        let mut work = net.step_workspace();
        for (r, (x, y)) in x.chunks_exact(inputs).zip(batch.chunks_exact(5)).enumerate() {
            let mut alone = [0.0; 5];
            net.infer(&mut work, x, &mut alone);
            assert_eq!(bits(&alone), bits(y), "row {r} on {isa:?}");
        }
        let mut some = [0.0; 5 * 119];
        net.infer(&mut work, &x[3 * inputs..122 * inputs], &mut some);
        assert_eq!(bits(&some), bits(&batch[3 * 5..122 * 5]), "119 rows on {isa:?}");
    }
}

/// `gather` picks the rows that `fill` would be given, also where a row occurs twice and after a larger batch.
#[test]
fn gathered_rows_are_the_rows_themselves() {
    let net = random_net::<f32>(&[33, 17, 5], Activation::Tanh, 1);
    let x: Vec<f32> = uniform(500 * 33, &mut rng(2));
    let mut gathered = tiles(33, &x);
    let all = evaluate(&net, &gathered);
    let index: Vec<u32> = (0..130).map(|i| i * 7 % 90 * 5).collect();
    gathered.gather(&x, &index);
    assert_eq!((gathered.rows(), gathered.count(), gathered.parts()), (130, 2, 2));
    let expected: Vec<f32> = index.iter().flat_map(|&i| all[i as usize * 5..][..5].to_vec()).collect();
    assert_eq!(bits(&evaluate(&net, &gathered)), bits(&expected));
}

/// Processes as threads, which send each other what they would send.
struct Process {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Mutex<Vec<Receiver<Vec<u8>>>>,
}

impl Peers for Process {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>) {
        to.iter().for_each(|rank| self.to[*rank].send(bytes.to_vec()).unwrap());
        if let Some(rank) = from {
            into.copy_from_slice(&self.from.lock().unwrap()[rank].recv().unwrap());
        }
    }
}

fn processes(size: usize) -> Vec<Arc<Process>> {
    let mut to: Vec<Vec<Sender<Vec<u8>>>> = vec![Vec::new(); size];
    let mut from = Vec::new();
    for _ in 0..size {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..size).map(|_| channel()).unzip();
        to.iter_mut().zip(senders).for_each(|(to, sender)| to.push(sender));
        from.push(receivers);
    }
    let all = to.into_iter().zip(from).enumerate();
    all.map(|(rank, (to, from))| Arc::new(Process { rank, to, from: Mutex::new(from) })).collect()
}

#[test]
fn any_number_of_processes_share_the_rows_and_have_the_whole_gradient() {
    let net = random_net::<f32>(&[3, 4, 2], Activation::Tanh, 1);
    // One part, fewer than processes, sixteen, and 17 of 64 tiles each.
    for rows in [100, 300, 2500, 17 * 64 * 120] {
        let x = tiles(3, &uniform(rows * 3, &mut rng(2)));
        let pass = |peers: Option<Arc<dyn Peers>>| {
            let mut workspace = net.pass_workspace(16);
            workspace.share(peers);
            let mut sums = vec![0; x.parts()];
            net.pass(&mut workspace, &x, &mut sums, |seen, first, y, d| {
                *seen += y.len() / 2;
                bits_of_loss(&mut 0.0, first, y, d);
            });
            (bits(workspace.gradient()), sums)
        };
        let (expected, seen) = pass(None);
        assert_eq!(seen.iter().sum::<usize>(), rows);
        for size in [2, 3, 4, 7] {
            let found: Vec<_> = std::thread::scope(|scope| {
                let run = |process: Arc<Process>| scope.spawn(|| pass(Some(process)));
                let running: Vec<_> = processes(size).into_iter().map(run).collect();
                running.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for (rank, (gradient, own)) in found.iter().enumerate() {
                assert!(*gradient == expected, "{rows} rows by {size} processes");
                let mine = parts_of(rank, size, x.parts());
                let is_mine = |part: usize| if mine.contains(&part) { seen[part] } else { 0 };
                assert_eq!(*own, (0..x.parts()).map(is_mine).collect::<Vec<_>>(), "{rows} rows by {size} processes");
            }
        }
    }
}
