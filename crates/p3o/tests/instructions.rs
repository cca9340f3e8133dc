//! Whole updates are the same bits with every instruction set that the processor has.

use crate::util::{bits, named_learner, small_task};
use p3o_nn::{Isa, instruction_set};

/// Reports and parameters of two updates by networks that are made now.
fn trained(algo: &str, task: &str, changes: &[&str]) -> (Vec<u64>, Vec<u32>) {
    let mut learner = named_learner(small_task(algo, task, changes));
    let mut reported = Vec::new();
    for _ in 0..2 {
        let report = learner.update().unwrap();
        reported.extend(bits(&[report.ret, report.passes.kl, report.passes.loss, report.passes.gradient_norm]));
        reported.extend(bits(&report.costs));
    }
    (reported, learner.policy().net.params().iter().map(|x| x.to_bits()).collect())
}

/// The only test here that chooses: the choice is the whole program's, and the others may run meanwhile on any set.
#[test]
fn every_instruction_set_makes_the_same_updates() {
    for (algo, task, changes) in [
        ("p3o", "PointGoal", &[][..]),
        ("p3o", "PointGoal", &["net.gru=8", "policy.minibatch=100"]),
        ("cpo", "PointGoal", &["net.activation=relu"]),
    ] {
        let expected = trained(algo, task, changes);
        for isa in Isa::available() {
            isa.choose().unwrap();
            assert_eq!(instruction_set(), isa.name());
            assert!(trained(algo, task, changes) == expected, "{algo} {changes:?}: {isa:?} is not the best one");
        }
        Isa::available()[0].choose().unwrap();
    }
}
