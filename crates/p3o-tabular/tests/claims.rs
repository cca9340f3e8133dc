//! What `p3o verify` computes: the paper's claims hold, the exceptions are there, and a wrong claim is caught.

use p3o_tabular::verify::{self, Effort, Verdict};
use p3o_tabular::{Cmdp, instances, lp};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn known() -> Vec<Cmdp> {
    instances::all().into_iter().map(|known| known.cmdp).collect()
}

#[test]
fn the_claims_hold_for_several_seeds() {
    for seed in 0..5 {
        let checks = verify::all(&Effort { seed, random: 12, pairs: 100 }).unwrap();
        assert_eq!(checks.len(), 7);
        let findings = checks.iter().filter(|c| c.verdict == Verdict::Finding).count();
        assert_eq!(findings, 2, "{checks:#?}");
        assert!(checks.iter().all(|c| c.verdict != Verdict::Fails), "{checks:#?}");
    }
}

#[test]
fn exactness_fails_for_a_penalty_below_the_threshold() {
    assert_eq!(verify::theorem_2(&known(), 1.001).unwrap().verdict, Verdict::Holds);
    assert_eq!(verify::theorem_2(&known(), 0.999).unwrap().verdict, Verdict::Fails);
    // The threshold itself is no better: what the paper claims there does not hold.
    assert_eq!(verify::theorem_2_below(&known(), 0.999).unwrap().verdict, Verdict::Holds);
    assert_eq!(verify::theorem_2_below(&known(), 1.001).unwrap().verdict, Verdict::Fails);
}

#[test]
fn a_finding_that_is_not_there_fails() {
    // The best policy within the limits cannot lose by an update.
    let cmdp = instances::switch().cmdp;
    let best = lp::constrained(&cmdp).unwrap().policy;
    assert_eq!(verify::proposition_1_from_outside(&cmdp, &best).unwrap().verdict, Verdict::Fails);
}

#[test]
fn the_error_and_its_bound_by_hand() {
    // D from pi_k = (1/2, 1/2) everywhere to pi = "always action 1". Under pi_k: V(s0) = 0.9 M and V(s1) = 1.5 + 0.9 M with
    // M = (V(s0) + V(s1)) / 2 = 0.75 + 0.9 M, so M = 7.5, V = (6.75, 8.25); the cost has a third of all: V_C = (2.25, 2.75).
    // A_R(., 1) = 0.9 * 8.25 - 6.75 = 0.675 and 2 + 7.425 - 8.25 = 1.175; A_C(., 1) = 0.225 and 0.725.
    // d^{pi_k} = (0.1 + 0.9 / 2, 0.45) = (0.55, 0.45), d^pi = (0.1, 0.9). With d = 4 and J_C = 2.25 the offset is -0.175.
    // L_R: -(0.55 * 0.675 + 0.45 * 1.175) = -0.9 and -(0.0675 + 1.0575) = -1.125.
    // L_C: 0.12375 + 0.32625 - 0.175 = 0.275 and 0.0225 + 0.6525 - 0.175 = 0.5. kappa = 2: L = -0.35 and -0.125.
    // delta = ln 2; bound = (1 + 2) 0.9 * 1.175 sqrt(2 ln 2) / 0.1.
    let found = verify::approximation_error(&instances::switch().cmdp, &[0.5; 4], &[0.0, 1.0, 0.0, 1.0], 2.0);
    assert!((found.error - 0.225).abs() < 1e-12, "{found:?}");
    let bound = 3.0 * 0.9 * 1.175 * (2.0 * 2f64.ln()).sqrt() / 0.1;
    assert!((found.bound - bound).abs() < 1e-10, "{found:?}");
}

#[test]
fn a_policy_that_did_not_move_has_no_error() {
    let cmdp = instances::grid().cmdp;
    let found = verify::approximation_error(&cmdp, &[0.25; 64], &[0.25; 64], 20.0);
    assert_eq!((found.error, found.ratio()), (0.0, 0.0));
}

#[test]
fn theorem_3_would_fail_if_its_bound_were_broken() {
    // A bound that is made for kappa = 0 does not hold for the loss with kappa = 10^4.
    let cmdp = instances::switch().cmdp;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let broken = (0..200).any(|_| {
        let (old, new) = (instances::random_policy(&cmdp, &mut rng), instances::random_policy(&cmdp, &mut rng));
        let error = verify::approximation_error(&cmdp, &old, &new, 1e4).error;
        error > verify::approximation_error(&cmdp, &old, &new, 0.0).bound
    });
    assert!(broken);
}
