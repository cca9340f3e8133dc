//! A run is the same to the last bit with every instruction set that the processor has.

use crate::util::{Home, outcome, small, text};
use p3o_nn::Isa;

#[test]
fn every_instruction_set_trains_the_same_run() {
    let home = Home::new();
    // Feed-forward, recurrent, several agents, and steps of second order.
    for (algo, task, more) in [
        ("p3o", "PointGoal", &[][..]),
        ("p3o", "Navigation", &["--set", "net.gru=8", "--set", "net.bptt=20"]),
        ("map3o", "SimpleSpread", &["--set", "policy.minibatch=300"]),
        ("cpo", "PointGoal", &[]),
    ] {
        let train = |isa: &str| {
            let out = format!("{algo}-{task}-{isa}");
            let args = [&["--algo", algo, "--steps", "800", "--out", &out], more].concat();
            let output = home.command(&small(task, &args)).env("P3O_ISA", isa).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            outcome(&home.path(&out))
        };
        // Without a word it is the best there is.
        let expected = train("");
        for isa in Isa::available() {
            assert!(train(isa.name()) == expected, "{algo} on {task} with {}", isa.name());
        }
    }
}

#[test]
fn instructions_that_cannot_be_had_are_refused() {
    let home = Home::new();
    let refused = |name: &str| {
        let output = home.command(&["list"]).env("P3O_ISA", name).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""));
        text(&output.stderr)
    };
    assert_eq!(refused("sse9"), "p3o: P3O_ISA: no instruction set is called `sse9`; there is avx512, avx2, scalar\n");
    for isa in Isa::ALL.into_iter().filter(|isa| !Isa::available().contains(isa)) {
        assert!(refused(isa.name()).starts_with(&format!("p3o: P3O_ISA: this processor does not have {}", isa.name())));
    }
}
