//! CPO's step is the best in its model, and PCPO's is the nearest that the limit allows.

use crate::problem::{Head, Problem};
use crate::util::rng;
use p3o::algo::cpo::{Case, accepts, best_step};
use p3o::algo::natural::dot;
use p3o::algo::pcpo::projected_step;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

const DELTA: f64 = 0.01;

/// H = L L^T with L lower triangular, so that |L^T x|^2 = x.H x and g.x = (L^-1 g).(L^T x).
struct Model {
    l: Vec<Vec<f64>>,
    g: Vec<f64>,
    b: Vec<f64>,
    c: f64,
}

impl Model {
    fn random(rng: &mut ChaCha8Rng) -> Model {
        let n = rng.random_range(2..7);
        let mut vector = |by: f64| -> Vec<f64> { (0..n).map(|_| by * rng.random_range(-1.0..1.0)).collect() };
        let mut l: Vec<Vec<f64>> = (0..n).map(|_| vector(1.0)).collect();
        for (i, row) in l.iter_mut().enumerate() {
            row[i] = 0.3 + row[i].abs();
            row[i + 1..].fill(0.0);
        }
        let (g, b) = (vector(2.0), vector(0.5));
        let mut model = Model { l, g, b, c: 0.0 };
        // From deep inside the limit to far outside, in units of what the trust region can change.
        let b_size = dot(&model.white(&model.b), &model.white(&model.b)).sqrt();
        model.c = rng.random_range(-1.4..1.4) * b_size * (2.0 * DELTA).sqrt();
        model
    }

    /// L^-1 v
    fn white(&self, v: &[f64]) -> Vec<f64> {
        let mut out: Vec<f64> = Vec::new();
        for (i, row) in self.l.iter().enumerate() {
            out.push((v[i] - dot(&row[..i], &out)) / row[i]);
        }
        out
    }

    /// H^-1 v = L^-T L^-1 v
    fn solve(&self, v: &[f64]) -> Vec<f64> {
        let mut out = self.white(v);
        for i in (0..v.len()).rev() {
            let above: f64 = (i + 1..v.len()).map(|j| self.l[j][i] * out[j]).sum();
            out[i] = (out[i] - above) / self.l[i][i];
        }
        out
    }

    /// x.H x
    fn length(&self, x: &[f64]) -> f64 {
        let n = x.len();
        (0..n).map(|j| (j..n).map(|i| self.l[i][j] * x[i]).sum::<f64>().powi(2)).sum()
    }

    /// q, r and s.
    fn forms(&self) -> (f64, f64, f64) {
        let (g, b) = (self.white(&self.g), self.white(&self.b));
        (dot(&g, &g), dot(&g, &b), dot(&b, &b))
    }

    fn combine(&self, on_g: f64, on_b: f64) -> Vec<f64> {
        self.solve(&self.g).iter().zip(self.solve(&self.b)).map(|(g, b)| on_g * g + on_b * b).collect()
    }

    /// The largest g.x by plane geometry, with no dual: in coordinates z = L^T x the trust region is a disc of radius
    /// sqrt(2 delta) in the plane of L^-1 g and L^-1 b, and the limit a line at distance c / |L^-1 b| from its middle. A
    /// linear function is largest at the disc's own best point, or, where the line cuts that off, at an end of the chord.
    /// None where the line leaves nothing of the disc.
    fn best_value(&self) -> Option<f64> {
        let (g, b) = (self.white(&self.g), self.white(&self.b));
        let (radius, b_size) = ((2.0 * DELTA).sqrt(), dot(&b, &b).sqrt());
        let along = dot(&g, &b) / b_size;
        let across = (dot(&g, &g) - along * along).max(0.0).sqrt();
        let size = along.hypot(across);
        if self.c + b_size * radius * along / size <= 0.0 {
            return Some(radius * size);
        }
        let z = -self.c / b_size;
        (z.abs() <= radius).then(|| along * z + across * (radius * radius - z * z).sqrt())
    }
}

#[test]
fn the_dual_finds_the_best_step_of_a_thousand_random_problems() {
    let mut rng = rng(41);
    let mut counts: BTreeMap<(Case, bool), usize> = BTreeMap::new();
    for round in 0..1000 {
        let m = Model::random(&mut rng);
        let (q, r, s) = m.forms();
        let step = best_step(q, r, s, m.c, DELTA);
        let x = m.combine(step.on_g, step.on_b);
        let what = format!("round {round}: {step:?}, c {}", m.c);
        *counts.entry((step.case, step.on_b < 0.0)).or_default() += 1;
        assert!(m.length(&x) / 2.0 <= DELTA * (1.0 + 1e-9), "{what}: outside the trust region");
        match m.best_value() {
            None => {
                // Nothing is feasible: the largest fall of the cost is |L^-1 b| times the radius.
                assert_eq!(step.case, Case::Recover, "{what}");
                assert!((dot(&m.b, &x) + (2.0 * DELTA * s).sqrt()).abs() < 1e-9, "{what}");
            }
            Some(best) => {
                assert_ne!(step.case, Case::Recover, "{what}");
                assert!(m.c + dot(&m.b, &x) <= 1e-9, "{what}: over the limit");
                let found = dot(&m.g, &x);
                assert!((found - best).abs() <= 1e-8 * (2.0 * DELTA * q).sqrt(), "{what}: {found} is not {best}");
            }
        }
    }
    // Every case, with and without a price on the limit where there can be both.
    let all = [
        (Case::Free, false),
        (Case::Feasible, false),
        (Case::Feasible, true),
        (Case::Infeasible, false),
        (Case::Infeasible, true),
        (Case::Recover, true),
    ];
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), all, "{counts:?}");
    assert!(counts.values().all(|&n| n >= 20), "{counts:?}");
}

#[test]
fn steps_by_hand() {
    // H = I, delta = 0.02, so a radius of 0.2; g = (1, 0) and b = (0, 1): q = 1, r = 0, s = 1.
    let near = |step: p3o::algo::cpo::Step, case: Case, on_g: f64, on_b: f64| {
        assert_eq!(step.case, case);
        assert!((step.on_g - on_g).abs() < 1e-12 && (step.on_b - on_b).abs() < 1e-12, "{step:?}");
    };
    // The limit is 0.3 away, outside: x = (0.2, 0). It is 0.12 away, on the side where g does not lead: the same.
    near(best_step(1.0, 0.0, 1.0, -0.3, 0.02), Case::Free, 0.2, 0.0);
    near(best_step(1.0, 0.0, 1.0, -0.12, 0.02), Case::Feasible, 0.2, 0.0);
    // It is overstepped by 0.12: x = (sqrt(0.04 - 0.0144), -0.12) = (0.16, -0.12). By 0.3: x = (0, -0.2).
    near(best_step(1.0, 0.0, 1.0, 0.12, 0.02), Case::Infeasible, 0.16, -0.12);
    near(best_step(1.0, 0.0, 1.0, 0.3, 0.02), Case::Recover, 0.0, -0.2);
    // g = (0.6, 0.8): r = 0.8. On the limit x = (0.2, 0) = (g - 0.8 b) / 3.
    near(best_step(1.0, 0.8, 1.0, 0.0, 0.02), Case::Feasible, 1.0 / 3.0, -0.8 / 3.0);
    // A cost that does not depend on the policy: the step of TRPO, over the limit or under it.
    near(best_step(1.0, 0.0, 0.0, 0.3, 0.02), Case::Free, 0.2, 0.0);
    near(best_step(1.0, 0.0, 0.0, -0.3, 0.02), Case::Free, 0.2, 0.0);
}

#[test]
fn degenerate_problems_have_finite_steps() {
    for q in [0.0f64, 1e-20, 1.0] {
        for s in [0.0, 1e-20, 1.0] {
            for r in [-1.0, 0.0, 1.0].map(|sign: f64| sign * (q * s).sqrt()) {
                for c in [-1.0, -0.1, -1e-12, 0.0, 1e-12, 0.1, 1.0] {
                    for delta in [0.0, 0.01] {
                        let step = best_step(q, r, s, c, delta);
                        let (on_g, on_b) = projected_step(q, r, s, c, delta);
                        let all = [step.on_g, step.on_b, on_g, on_b];
                        assert!(all.iter().all(|x| x.is_finite()), "{q} {r} {s} {c} {delta}: {all:?}");
                        // With no reward to gain the step only serves the limit, and stays in the trust region.
                        let length = on(step, q, r, s);
                        assert!(length <= 2.0 * delta + 1e-9, "{q} {r} {s} {c} {delta}: {step:?} of {length}");
                    }
                }
            }
        }
    }
}

/// x.H x
fn on(step: p3o::algo::cpo::Step, q: f64, r: f64, s: f64) -> f64 {
    step.on_g * step.on_g * q + 2.0 * step.on_g * step.on_b * r + step.on_b * step.on_b * s
}

#[test]
fn the_projection_ends_on_the_limit_or_leaves_a_feasible_step_alone() {
    let mut rng = rng(42);
    let (mut alone, mut back) = (0, 0);
    for round in 0..1000 {
        let m = Model::random(&mut rng);
        let (q, r, s) = m.forms();
        let trpo = m.combine((2.0 * DELTA / q).sqrt(), 0.0);
        let over = m.c + dot(&m.b, &trpo);
        // L = H, and L = I, for which L^-1 b is b itself.
        for (kind, s, way) in [("kl", s, m.solve(&m.b)), ("l2", dot(&m.b, &m.b), m.b.clone())] {
            let (on_g, on_b) = projected_step(q, r, s, m.c, DELTA);
            let x: Vec<f64> = m.solve(&m.g).iter().zip(&way).map(|(g, b)| on_g * g + on_b * b).collect();
            if over <= 0.0 {
                assert_eq!(on_b, 0.0, "round {round}, {kind}");
                alone += 1;
            } else {
                assert!((m.c + dot(&m.b, &x)).abs() < 1e-9, "round {round}, {kind}: not on the limit");
                back += 1;
            }
            let moved: Vec<f64> = x.iter().zip(&trpo).map(|(x, t)| x - t).collect();
            // The way back is along L^-1 b, the shortest one.
            let error = moved.iter().zip(&way).map(|(m, w)| (m - on_b * w).abs()).fold(0.0, f64::max);
            assert!(error < 1e-9, "round {round}, {kind}");
        }
    }
    assert!(alone > 100 && back > 100, "{alone} alone and {back} back");
    // q = 4, r = 1, s = 2, c = 0.1, delta = 0.02: a reach of sqrt(0.04 / 4) = 0.1, and (0.1 + 0.1) / 2 = 0.1 back.
    let (on_g, on_b) = projected_step(4.0, 1.0, 2.0, 0.1, 0.02);
    assert!((on_g - 0.1).abs() < 1e-12 && (on_b + 0.1).abs() < 1e-12);
}

#[test]
fn the_line_search_takes_what_the_limit_allows() {
    // Under the limit by 0.1: the cost may rise by 0.1, and the reward must not fall.
    assert!(accepts(-0.1, 0.0, 0.1) && !accepts(-0.1, 0.0, 0.11) && !accepts(-0.1, -1e-9, 0.0));
    // Over it: the cost must not rise, and the reward may fall.
    assert!(accepts(0.1, -1.0, 0.0) && !accepts(0.1, 1.0, 1e-9));
    assert!(!accepts(-0.1, f64::NAN, 0.0) && !accepts(0.1, 0.0, f64::NAN));
}

#[test]
fn updates_keep_to_the_trust_region_and_come_back_under_the_limit() {
    for head in Head::ALL {
        for (c, case) in
            [(-10.0, Case::Free), (-0.003, Case::Feasible), (0.003, Case::Infeasible), (10.0, Case::Recover)]
        {
            for algo in ["cpo", "pcpo"] {
                let mut problem = Problem::new(head, 300, 1, 43).at_home();
                problem.offsets = vec![c];
                let config = problem.config(algo, &["policy.target_kl=0.002"]);
                let before = problem.surrogate(&problem.adv_c[0]);
                let report = problem.bench().update(&config);
                let what = format!("{head:?} {algo} {c}: {report:?}");
                assert!(report.steps == 1 && report.kl <= 0.002 && report.fraction > 0.1, "{what}");
                let change = report.loss_c[0] - before;
                assert!(change <= f64::max(-c, 0.0) + 1e-7, "{what}");
                if c > 0.0 {
                    assert!(change < -1e-3, "{what}");
                } else {
                    assert!(report.loss_r < -problem.surrogate(&problem.adv_r), "{what}");
                }
                if algo == "cpo" {
                    assert_eq!(report.case, Some(case), "{what}");
                }
            }
        }
    }
}

#[test]
fn without_a_limit_they_are_trpo() {
    let problem = Problem::new(Head::Gaussian, 130, 0, 44).at_home();
    let train = |algo: &str| {
        let mut bench = problem.bench();
        let report = bench.update(&problem.config(algo, &["policy.target_kl=0.01"]));
        (report, bench.bits())
    };
    assert_eq!(train("cpo"), train("trpo"));
    assert_eq!(train("pcpo"), train("trpo"));
}
