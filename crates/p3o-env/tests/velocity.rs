//! Velocity tasks give the rewards, costs, ends and observations of the originals.

use p3o_env::tasks;

use crate::bodies::Record;
use crate::util::step_by;

#[test]
fn steps_match_the_original_tasks() {
    let (mut costly, mut ended) = (0, 0);
    for task in
        ["Ant", "HalfCheetah", "Hopper", "Walker2d", "Swimmer", "Humanoid"].map(|body| format!("{body}Velocity"))
    {
        let record = Record::open(&format!("velocity/{task}"));
        let [nq, nv, nu, obs, steps] = [(); 5].map(|()| record.count());
        let mut env = tasks::make_open(&task, &Default::default()).expect("a listed task");
        assert_eq!((env.spec().obs_dim, env.spec().action_width()), (obs, nu));
        let mut worst = [0.0f64; 2];
        for i in 0..steps {
            let [qpos, qvel] = [nq, nv].map(|len| record.short(len));
            let action: Vec<f32> = record.short(nu).iter().map(|a| *a as f32).collect();
            let (cost, terminated) = (record.count(), record.count() == 1);
            let reward = record.long(1)[0];
            let expected = record.short(obs);
            env.set_state([("qpos".to_owned(), qpos), ("qvel".to_owned(), qvel)].into()).expect("its state");
            let step = step_by(&mut *env, &action);
            assert_eq!((step.costs[0], step.outcome.terminated), (cost as f32, terminated), "{task}, step {i}");
            let off = |found: f32, expected: f64| (f64::from(found) - expected).abs() / expected.abs().max(1.0);
            worst[0] = worst[0].max(off(step.outcome.reward, reward));
            worst[1] = step.obs.iter().zip(&expected).map(|(f, e)| off(*f, *e)).fold(worst[1], f64::max);
            costly += cost;
            ended += usize::from(terminated);
        }
        record.finish();
        println!("{task}: largest differences of reward and observation {worst:?}");
        // Half a unit in the last place of an f32 is 6e-8 of its size.
        assert!(worst.iter().all(|off| *off <= 1.3e-7), "{task}: {worst:?}");
    }
    assert!(costly > 60 && ended > 60, "{costly} {ended}");
}
