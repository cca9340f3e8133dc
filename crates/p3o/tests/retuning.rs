//! Between two updates a program may change what a schedule would, and nothing that decides the shape of what is learned.

use crate::recurrence::waves;
use crate::util::{bits, float_bits, named_learner, one_line, small, small_task};
use p3o::algo::Settings;
use p3o::config::{Activation, Agents};
use p3o::{Algorithm, Config, ConfigError, Learner};

fn learner() -> Learner {
    named_learner(small_task("p3o", "PointGoal", &[]))
}

#[test]
fn what_decides_the_shape_is_refused_and_nothing_changes() {
    let mut learner = learner();
    learner.update().unwrap();
    let before = learner.config().clone();
    type Change = (fn(&mut Config), &'static str);
    let changes: [Change; 9] = [
        (|c| c.net.hidden = vec![8], "net"),
        (|c| c.net.activation = Activation::Relu, "net"),
        (|c| c.net.gru = 8, "net"),
        (|c| c.rollout.batch = 800, "rollout"),
        (|c| c.rollout.normalize_obs = true, "rollout"),
        (|c| c.limits.clear(), "the task, its options or its limits"),
        (|c| c.env.extend([("level".to_string(), 1.0)]), "the task, its options or its limits"),
        (|c| c.task = "PointCircle".into(), "the task, its options or its limits"),
        (|c| c.own = Algorithm::Ppo.settings(), "the algorithm"),
    ];
    for (change, what) in changes {
        assert_eq!(learner.retune(change).unwrap_err(), ConfigError::Fixed(what.to_string()));
        assert_eq!(*learner.config(), before, "{what}");
    }
    // A value that no configuration may have, and a method that the world is not made for.
    let line = one_line(learner.retune(|c| c.constraint.margin = 2.0).unwrap_err());
    assert!(line.contains("constraint.margin must be"), "{line}");
    let line = one_line(learner.retune(|c| c.agents = Agents::Centralised).unwrap_err());
    assert!(line.contains("map3o is for several agents"), "{line}");
    assert_eq!(*learner.config(), before);
    learner.update().unwrap();
}

/// Figures and parameters of a second update, with some settings changed before it. An episode costs 1, and may cost 1/2.
fn second_update(change: impl FnOnce(&mut Config)) -> (Vec<u64>, Vec<u32>, p3o::Report) {
    let world = waves(1, 1.0);
    let config = small("p3o", &world.spec, &["rollout.batch=84", "limits.risk=0.5"]);
    let mut learner = Learner::new(config, &world.maker()).unwrap();
    learner.update().unwrap();
    learner.retune(change).unwrap();
    let report = learner.update().unwrap();
    let figures = [&[report.passes.loss, report.passes.kl][..], &report.critic_losses, &report.excess].concat();
    (bits(&figures), float_bits(&learner.policy().parameters()), report)
}

#[test]
fn a_schedules_settings_are_taken_by_the_next_update() {
    let (figures, after, plain) = second_update(|_| ());
    assert_eq!((plain.passes.kappa, plain.passes.steps), (20.0, 3));
    let (_, other, report) = second_update(|c| {
        let Settings::P3o(own) = &mut c.own else { unreachable!("it trains by P3O") };
        own.kappa = 5.0;
    });
    assert_eq!((report.passes.kappa, report.excess == plain.excess), (5.0, true));
    assert!(other != after);
    let (_, _, report) = second_update(|c| c.policy.passes = 1);
    assert_eq!(report.passes.steps, 1);
    let (_, other, _) = second_update(|c| c.policy.learning_rate = 1e-4);
    assert!(other != after);
    // Half of the limit of 1/2 is held back.
    let (_, _, report) = second_update(|c| c.constraint.margin = 0.5);
    assert!((plain.excess[0] - 0.5).abs() < 1e-9, "{:?}", plain.excess);
    assert!((report.excess[0] - 0.75).abs() < 1e-9, "{:?}", report.excess);
    // What comes into play later leaves this update as it was.
    let (same, parameters, _) = second_update(|c| c.run.checkpoint_every = 7);
    assert!((same, parameters) == (figures, after));
}
