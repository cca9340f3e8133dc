//! A critic learns its targets whatever their unit is.

use p3o::critic::Critic;
use p3o::{Algorithm, Config};
use p3o_env::{Env, PointGoal};
use p3o_nn::Source;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const ROWS: usize = 600;

/// Rows of two numbers, and a smooth function of them with the given mean and size.
fn batch(mean: f32, size: f32) -> (Vec<f32>, Vec<f32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let rows: Vec<f32> = (0..2 * ROWS).map(|_| rng.random_range(-1.0..1.0)).collect();
    let targets = rows.chunks_exact(2).map(|r| mean + size * (r[0] - r[1] * r[1])).collect();
    (rows, targets)
}

fn settings(normalize: bool) -> Config {
    let mut config = Config::preset("quick", Algorithm::P3o, PointGoal::default().spec()).expect("a known preset");
    (config.critic.normalize, config.critic.passes, config.critic.minibatch) = (normalize, 40, 0);
    config
}

/// Share of the variance left after some fits of one batch.
fn left_over(mean: f32, size: f32, normalize: bool) -> f64 {
    let config = settings(normalize);
    let (rows, targets) = batch(mean, size);
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut critic = Critic::new(&config.net, 2, &mut rng);
    critic.adam.learning_rate = config.critic.learning_rate;
    let mut workspace = critic.workspace(16);
    let source = Source::of_rows(&rows);
    let mut x = critic.net.batch();
    x.fill(source);
    for _ in 0..10 {
        critic.fit(&mut workspace, &config.critic, &x, source, &targets, &mut rng);
    }
    let mut values = vec![0.0; ROWS];
    critic.evaluate(&mut workspace, &x, &mut values);
    let (_, spread) = p3o::advantage::moments(&targets);
    let errors = values.iter().zip(&targets).map(|(v, t)| f64::from(v - t).powi(2));
    errors.sum::<f64>() / ROWS as f64 / (spread * spread)
}

#[test]
fn targets_in_the_hundreds_are_learnt_as_well_as_small_ones() {
    let (small, large) = (left_over(0.0, 1.0, true), left_over(400.0, 200.0, true));
    assert!(small < 0.1 && (small - large).abs() < 0.01, "{small} {large}");
    assert!(left_over(400.0, 200.0, false) > 1.0, "without the scale the mean itself is out of reach");
}

#[test]
fn new_statistics_leave_the_value_function_as_it_was() {
    let mut config = settings(true);
    let (rows, targets) = batch(3.0, 2.0);
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut critic = Critic::new(&config.net, 2, &mut rng);
    critic.adam.learning_rate = config.critic.learning_rate;
    let mut workspace = critic.workspace(16);
    let source = Source::of_rows(&rows);
    let mut x = critic.net.batch();
    x.fill(source);
    critic.fit(&mut workspace, &config.critic, &x, source, &targets, &mut rng);
    let mut before = vec![0.0; ROWS];
    critic.evaluate(&mut workspace, &x, &mut before);
    // No passes: only the statistics move, from (3, 2)-like targets towards far larger ones.
    config.critic.passes = 0;
    let (_, others) = batch(-50.0, 30.0);
    let scale = critic.scale;
    critic.fit(&mut workspace, &config.critic, &x, source, &others, &mut rng);
    assert!(critic.scale.deviation > 2.0 * scale.deviation && critic.scale.mean < 0.0);
    let mut after = vec![0.0; ROWS];
    critic.evaluate(&mut workspace, &x, &mut after);
    let worst = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-5, "{worst}");
}

#[test]
fn the_loss_is_in_the_unit_of_the_targets() {
    // The first statistics are the batch's own, so a fresh critic starts at V = mean + deviation net(s), and its first
    // loss is the mean squared error of that, which evaluate sees too: with its learning rate of zero it stays as it is.
    let mut config = settings(true);
    config.critic.passes = 1;
    let (rows, targets) = batch(10.0, 5.0);
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut critic = Critic::new(&config.net, 2, &mut rng);
    let mut workspace = critic.workspace(16);
    let source = Source::of_rows(&rows);
    let mut x = critic.net.batch();
    x.fill(source);
    let loss = critic.fit(&mut workspace, &config.critic, &x, source, &targets, &mut rng);
    let mut values = vec![0.0; ROWS];
    critic.evaluate(&mut workspace, &x, &mut values);
    let errors = values.iter().zip(&targets).map(|(v, t)| f64::from(v - t).powi(2));
    let expected = errors.sum::<f64>() / ROWS as f64;
    assert!((loss - expected).abs() < 1e-4 * expected, "{loss} {expected}");
}
