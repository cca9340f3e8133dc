//! A configuration that exists is valid, and one that cannot be is refused in one line.

use crate::util::{one_line, small_task, task_of};
use p3o::config::{ALGORITHMS, Activation, KappaSchedule, MULTI_AGENT, ONE_CONSTRAINT, Offset, PRESETS, count};
use p3o::run::{make_for, named_task};
use p3o::{
    Algorithm, Config, Cpo, Focops, Ipo, Map3o, Map3oDec, Mappo, MappoLag, P3o, Pcpo, Ppo, PpoLag, Trpo, TrpoLag,
};
use p3o_env::{EnvSpec, TASKS, tasks};

fn spec(task: &str) -> EnvSpec {
    tasks::make(task, &Default::default()).unwrap().spec().clone()
}

/// A task as an algorithm sees it.
fn spec_for(algo: &str, task: &str) -> EnvSpec {
    make_for(algo, task, &Default::default()).unwrap().spec().clone()
}

fn point_goal() -> Config {
    small_task("p3o", "PointGoal", &[])
}

/// What `set` says against an assignment.
fn refused(assignment: &str) -> String {
    let mut config = point_goal();
    let error = config.set(assignment).expect_err(assignment);
    assert_eq!(config, point_goal(), "{assignment} changed something all the same");
    one_line(error)
}

/// What `set` says against a value, or `check` against the configuration with it.
fn nonsense(assignment: &str) -> String {
    let mut config = point_goal();
    if let Err(error) = config.set(assignment) {
        return one_line(error);
    }
    one_line(config.check(&spec("PointGoal")).expect_err(assignment))
}

#[test]
fn every_preset_of_every_task_is_valid_and_survives_writing_and_reading() {
    for task in TASKS {
        for (preset, _) in PRESETS {
            for (algo, _) in ALGORITHMS.iter().filter(|(algo, _)| task.has_team() || !MULTI_AGENT.contains(algo)) {
                let spec = spec_for(algo, task.name);
                let config = Config::preset(preset, algo, &spec).unwrap();
                let checked = config.check(&spec);
                if spec.costs.len() > 1 && ONE_CONSTRAINT.contains(algo) {
                    let line = one_line(checked.unwrap_err());
                    assert!(line.starts_with(algo) && line.contains("use p3o"), "{line}");
                } else {
                    checked.unwrap_or_else(|e| panic!("{} {preset} {algo}: {e}", task.name));
                }
                assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
                assert_eq!((&config.task[..], &config.preset[..], &config.algo.name[..]), (task.name, *preset, *algo));
                // Every cost starts with the limit that the task proposes.
                let limits: Vec<f64> = spec.costs.iter().map(|c| config.limits[&c.name]).collect();
                assert_eq!(limits, spec.costs.iter().map(|c| c.limit).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn writing_and_reading_keeps_every_digit() {
    let mut config = point_goal();
    for assignment in ["algo.learning_rate=0.1234567890123456789", "algo.target_kl=1e-300", "env.goal_bonus=0.3"] {
        config.set(assignment).unwrap();
    }
    (config.seed, config.steps) = (i64::MAX as u64, 9_007_199_254_740_993);
    config.limits.insert("hazards".into(), f64::MIN_POSITIVE);
    assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
}

#[test]
fn values_are_read_by_the_kind_that_stands_there() {
    let mut config = point_goal();
    for assignment in [
        "steps=2e6",
        "seed=7",
        "rollout.batch=1_000",
        "rollout.normalize_obs=true",
        "net.hidden=[128, 64,32]",
        "net.activation=relu",
        "algo.kappa_schedule=\"adaptive\"",
        "algo.kappa=10",
        " algo.clip = 0.1 ",
        "limits.hazards=12.5",
        "env.level=2",
    ] {
        config.set(assignment).unwrap_or_else(|e| panic!("{assignment}: {e}"));
    }
    assert_eq!((config.steps, config.seed, config.rollout.batch), (2_000_000, 7, 1000));
    assert!(config.rollout.normalize_obs);
    assert_eq!((&config.net.hidden[..], config.net.activation), (&[128, 64, 32][..], Activation::Relu));
    assert_eq!((config.algo.kappa_schedule, config.algo.kappa, config.algo.clip), (KappaSchedule::Adaptive, 10.0, 0.1));
    assert_eq!((config.limits["hazards"], config.env["level"]), (12.5, 2.0));
    config.set("rollout.normalize_obs=false").unwrap();
    config.set("net.hidden=[]").unwrap();
    assert!(!config.rollout.normalize_obs && config.net.hidden.is_empty());
}

#[test]
fn whole_numbers_may_be_written_as_powers_of_ten() {
    let good = [("0", 0), ("17", 17), ("1_000_000", 1_000_000), ("2e6", 2_000_000), ("2.5e3", 2500), ("1E2", 100)];
    for (text, expected) in good {
        assert_eq!(count(text), Some(expected), "{text}");
    }
    for text in ["", "-1", "-1e3", "1.5", "1e-3", "1e400", "nan", "inf", "-inf", "ten", "1e3x", "0x10", "9e15"] {
        assert_eq!(count(text), None, "{text}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    for (assignment, hint) in [
        ("algo.kapa=3", "did you mean `algo.kappa`?"),
        ("kappa=3", "did you mean `algo.kappa`?"),
        ("hidden=[3]", "did you mean `net.hidden`?"),
        ("rollout.kappa=3", "did you mean `algo.kappa`?"),
        ("algo.learning-rate=3", "did you mean `algo.learning_rate`?"),
        ("stepz=3", "did you mean `steps`?"),
        ("algo.kappa.x=3", "there is no setting `algo.kappa.x`"),
        ("zzz=3", "there is no setting `zzz`"),
        ("=3", "there is no setting ``"),
    ] {
        let line = refused(assignment);
        assert!(line.contains(hint), "{assignment}: {line}");
    }
    assert!(!refused("zzz=3").contains("did you mean"));
    assert!(refused("algo=3").contains("a group of settings"));
    assert!(refused("limits=3").contains("a group of settings"));
    assert!(refused("algo.kappa").contains("not of the form key=value"));
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_the_right_kind() {
    for (assignment, reason) in [
        ("steps=many", "steps takes a whole number, not `many`"),
        ("steps=1.5", "steps takes a whole number, not `1.5`"),
        ("seed=-1", "seed takes a whole number, not `-1`"),
        ("rollout.envs=-4", "rollout.envs takes a whole number"),
        ("rollout.normalize_obs=1", "rollout.normalize_obs takes true or false, not `1`"),
        ("net.hidden=64x64", "net.hidden takes whole numbers such as [64,64]"),
        ("net.hidden=[64,-1]", "net.hidden takes whole numbers such as [64,64]"),
        ("algo.kappa=big", "algo.kappa takes a number, not `big`"),
        ("algo.kappa=", "algo.kappa takes a number, not ``"),
        ("algo.kappa=nan", "algo.kappa takes a finite number, not `nan`"),
        ("algo.clip=inf", "algo.clip takes a finite number, not `inf`"),
        ("limits.hazards=-inf", "limits.hazards takes a finite number"),
        ("env.level=two", "env.level takes a number, not `two`"),
        ("env.hide=velocit", "unknown value of env.hide `velocit`; did you mean `velocity`?"),
    ] {
        let line = refused(assignment);
        assert!(line.contains(reason), "{assignment}: {line}");
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    for (assignment, reason) in [
        ("steps=0", "steps must be at least 1"),
        ("rollout.envs=0", "rollout.envs must be between 1"),
        ("rollout.batch=0", "rollout.batch must be between 2"),
        ("rollout.batch=401", "rollout.batch (401) must be a multiple of rollout.envs (4)"),
        ("rollout.gamma=1", "rollout.gamma must be between 0 and 0.999999"),
        ("rollout.gamma=-0.1", "rollout.gamma"),
        ("rollout.lambda=1.01", "rollout.lambda must be between 0 and 1"),
        ("net.hidden=[16,0]", "net.hidden"),
        ("net.hidden=[20000,20000]", "networks of 4.0e8 parameters; more than 1e8 are refused"),
        ("net.units=0", "net.units"),
        ("net.chunk=0", "net.chunk"),
        ("net.log_std=50", "net.log_std"),
        ("net.activation=tan", "unknown activation `tan`; did you mean `tanh`?"),
        ("net.init=orthogonl", "did you mean `orthogonal`?"),
        ("algo.name=p30", "unknown algorithm `p30`; did you mean `p3o`?"),
        ("algo.learning_rate=-1e-3", "algo.learning_rate"),
        ("algo.passes=0", "algo.passes"),
        ("algo.clip=0", "algo.clip"),
        ("algo.target_kl=-0.01", "algo.target_kl must be at least 0"),
        ("algo.kl_slack=0", "algo.kl_slack"),
        ("algo.entropy=-1", "algo.entropy"),
        ("algo.kappa=-20", "algo.kappa must be"),
        ("algo.kappa_schedule=adaptiv", "did you mean `adaptive`?"),
        ("algo.kappa_growth=0.9", "algo.kappa_growth"),
        ("algo.kappa_max=-1", "algo.kappa_max"),
        ("algo.offset=perstep", "did you mean `per_step`?"),
        ("algo.cost_scale=hole", "did you mean `whole`?"),
        ("algo.reward_scale=standart", "did you mean `standard`?"),
        ("algo.margin=1.5", "algo.margin"),
        ("algo.barrier=0", "algo.barrier"),
        ("algo.temperature=-1", "algo.temperature"),
        ("multiplier.init=-1", "multiplier.init"),
        ("multiplier.learning_rate=-0.1", "multiplier.learning_rate"),
        ("multiplier.max=-1", "multiplier.max"),
        ("second_order.damping=-0.1", "second_order.damping"),
        ("second_order.cg_iterations=0", "second_order.cg_iterations"),
        ("second_order.backtrack=1", "second_order.backtrack must be between 0.001 and 0.999"),
        ("second_order.backtracks=1e9", "second_order.backtracks"),
        ("second_order.projection=l1", "unknown projection `l1` (there is: kl, l2)"),
        ("critic.learning_rate=2", "critic.learning_rate"),
        ("run.checkpoint_every=0", "run.checkpoint_every"),
        ("limits.hazards=-1", "limit of hazards must be at least 0"),
        ("limits.hazard=5", "unknown cost `hazard`; did you mean `hazards`?"),
    ] {
        let line = nonsense(assignment);
        assert!(line.contains(reason), "{assignment}: {line}");
    }
    // Memory needs whole sequences, first-order steps and something to normalise.
    let mut config = point_goal();
    config.set("net.recurrent=true").unwrap();
    let refusal = |config: &Config, spec| one_line(config.check(spec).unwrap_err());
    let spec = spec("PointGoal");
    config.check(&spec).unwrap();
    config.net.chunk = 30;
    assert!(refusal(&config, &spec).contains("net.chunk (30) must divide the steps"));
    (config.net.chunk, config.net.units) = (5, 1);
    assert!(refusal(&config, &spec).contains("widths of at least 2"));
    config.net.units = 8192;
    assert!(refusal(&config, &spec).contains("networks of 2.0e8 parameters"));
    config.net.units = 8;
    config.set("algo.name=cpo").unwrap();
    assert!(refusal(&config, &spec).contains("cpo needs second derivatives"));
    assert!(refusal(&config, &EnvSpec { obs_dim: 1, ..spec.clone() }).contains("leaves nothing of the single number"));
    // A world without costs has nothing to limit.
    let bare = tasks::make("PointGoal", &[("level".to_string(), 0.0)].into()).unwrap().spec().clone();
    assert!(one_line(point_goal().check(&bare).unwrap_err()).contains("has no costs"));
    assert!(one_line(Config::preset("quik", "p3o", &bare).unwrap_err()).contains("did you mean `quick`?"));
    assert!(one_line(Config::preset("quick", "pppo", &bare).unwrap_err()).contains("did you mean `ppo`?"));
}

#[test]
fn an_algorithm_is_asked_only_for_what_it_can_do() {
    let navigation = spec("Navigation");
    for algo in ONE_CONSTRAINT {
        let mut config = small_task(algo, "Navigation", &[]);
        let line = one_line(config.check(&navigation).unwrap_err());
        assert!(line.contains("one limit only, not 2 (hazards, pillars)") && line.contains("use p3o"), "{line}");
        // One limit or none is within its power.
        config.limits.remove("pillars");
        config.check(&navigation).unwrap();
        config.limits.clear();
        config.check(&navigation).unwrap();
    }
    for (algo, _) in ALGORITHMS {
        let config = small_task(algo, task_of(algo), &["algo.minibatch=100"]);
        let checked = config.check(&spec_for(algo, task_of(algo)));
        if ["p3o", "ppo", "map3o", "map3o-dec", "mappo"].contains(algo) {
            checked.unwrap();
        } else {
            assert!(one_line(checked.unwrap_err()).contains("algo.minibatch must be 0"), "{algo}");
        }
    }
}

#[test]
fn an_algorithm_for_several_agents_needs_several() {
    for algo in MULTI_AGENT {
        let error = named_task(&Config { task: "PointGoal".into(), ..small_task(algo, "SimpleSpread", &[]) }).err();
        let line = one_line(error.expect("one agent is not enough"));
        assert!(line.contains("PointGoal has one agent; the tasks of several agents are SimpleSpread"), "{line}");
        // A world of one's own is asked too.
        let one = spec("PointGoal");
        let line = one_line(Config::preset("quick", algo, &one).unwrap().check(&one).unwrap_err());
        assert!(line.starts_with(&format!("{algo} is for several agents")) && line.contains("SimpleSpread"), "{line}");
    }
    let line = one_line(small_task("p3o", "SimpleSpread", &[]).check(&spec_for("map3o", "SimpleSpread")).unwrap_err());
    assert!(line.starts_with("p3o is for one agent, and SimpleSpread has 3: use map3o"), "{line}");
}

#[test]
fn every_algorithm_has_a_type_for_programs() {
    let (p3o, ppo, ppo_lag, focops) = (P3o::default().name(), Ppo.name(), PpoLag.name(), Focops.name());
    let rest = [Ipo.name(), Trpo.name(), TrpoLag.name(), Cpo.name(), Pcpo.name()];
    let teams = [Map3o.name(), Map3oDec.name(), Mappo.name(), MappoLag.name()];
    let types = [&[p3o, ppo, ppo_lag, focops][..], &rest, &teams].concat();
    assert_eq!(types, ALGORITHMS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn presets_follow_the_papers_table_of_algorithms() {
    for (algo, _) in ALGORITHMS {
        let paper = Config::preset("paper", algo, &spec_for(algo, task_of(algo))).unwrap();
        let (a, m, o) = (&paper.algo, &paper.multiplier, &paper.second_order);
        assert_eq!((a.learning_rate, a.clip, a.target_kl, a.kl_slack), (3e-4, 0.2, 0.01, 1.0), "{algo}");
        assert_eq!((o.damping, o.backtrack, o.backtracks), (0.1, 0.8, 10), "{algo}");
        let rate = if *algo == "focops" { 0.01 } else { 0.05 };
        assert_eq!((m.init, m.learning_rate, a.temperature, a.barrier), (1.0, rate, 1.5, 20.0), "{algo}");
        let lambda = if MULTI_AGENT.contains(algo) { 0.95 } else { 0.97 };
        assert_eq!((paper.rollout.lambda, paper.rollout.cost_lambda, a.margin), (lambda, lambda, 0.0), "{algo}");
        // The offset and the surrogate beside it are commensurate for all that weigh the one against the other.
        let literal = ["p3o", "ppo", "map3o", "map3o-dec", "mappo"].contains(algo);
        assert_eq!(a.offset, if literal { Offset::Paper } else { Offset::PerStep }, "{algo}");
    }
}

#[test]
fn numbers_that_a_file_cannot_hold_are_refused() {
    for change in [|c: &mut Config| c.seed = u64::MAX, |c: &mut Config| c.steps = u64::MAX] {
        let mut config = point_goal();
        change(&mut config);
        let line = one_line(config.check(&spec("PointGoal")).expect_err("TOML has no such whole number"));
        assert!(line.contains("must be"), "{line}");
        // Nor does such a number, once read from a file, stand in the way of another setting's error.
        let mut read = Config::from_toml(&config.to_toml()).unwrap();
        assert!(one_line(read.set("algo.kappa=3").unwrap_err()).contains("algo.kappa"));
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused_from_a_file_too() {
    let text = point_goal().to_toml();
    for (from, to) in
        [("kappa = 20.0", "kappa = nan"), ("hazards = 25.0", "hazards = inf"), ("gamma = 0.99", "gamma = -inf")]
    {
        assert!(text.contains(from), "{text}");
        let config = Config::from_toml(&text.replace(from, to)).unwrap();
        assert!(one_line(config.check(&spec("PointGoal")).expect_err(to)).contains("finite"));
    }
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_line() {
    let text = point_goal().to_toml();
    let line_of = |part: &str| 1 + text[..text.find(part).unwrap()].matches('\n').count();
    for (from, to, reason) in [
        ("kappa = ", "kapa = ", "unknown field `kapa`; did you mean `kappa`?"),
        ("seed = 1", "sead = 1", "unknown field `sead`; did you mean `seed`?"),
        ("kappa = 20.0", "kappa = \"20\"", "invalid type"),
        ("seed = 1", "seed = -1", "invalid value"),
        ("normalize_obs = false", "normalize_obs = 0", "invalid type"),
        ("seed = 1", "seed = ", ""),
        ("seed = 1", "seed = 1\nseed = 2", "duplicate key"),
    ] {
        assert!(text.contains(from), "{from} is not in\n{text}");
        let line = one_line(Config::from_toml(&text.replacen(from, to, 1)).expect_err(to));
        assert!(line.contains(reason), "{to}: {line}");
        let shift = usize::from(to.contains('\n'));
        assert!(line.starts_with(&format!("line {}: ", line_of(from) + shift)), "{to}: {line}");
    }
    for (text, reason) in
        [("", "missing field"), ("[algo]\n", "missing field"), ("hello", ""), ("\u{0}", ""), ("[[", "")]
    {
        let line = one_line(Config::from_toml(text).expect_err(text));
        assert!(line.contains(reason) && !line.starts_with("line 0"), "{text:?}: {line}");
    }
    let missing = text.replacen("kappa = 20.0\n", "", 1);
    assert!(one_line(Config::from_toml(&missing).unwrap_err()).contains("missing field `kappa`"));
}

#[test]
fn the_quick_preset_suits_single_tasks_and_the_papers_is_literal() {
    let of = |preset, algo, task| Config::preset(preset, algo, &spec(task)).unwrap();
    let ant = of("quick", "p3o", "AntCircle");
    assert_eq!((ant.algo.minibatch, ant.algo.passes, ant.critic.minibatch), (2000, 20, 2000));
    assert!(ant.critic.normalize && ant.algo.target_kl == 0.02 && ant.algo.balance);
    // CPO and its kin take whole batches.
    let cpo = of("quick", "cpo", "AntCircle");
    assert_eq!((cpo.algo.minibatch, cpo.algo.passes, cpo.critic.minibatch), (0, 40, 2000));
    assert_eq!((cpo.rollout.batch, ant.rollout.batch), (8000, 8000));
    assert!(of("quick", "p3o", "PointGather").critic.normalize && !of("quick", "p3o", "PointGoal").critic.normalize);
    assert_eq!(of("quick", "p3o", "PointCircle").rollout.cost_lambda, 0.95);
    let paper = of("paper", "p3o", "AntCircle");
    assert_eq!((paper.algo.minibatch, paper.algo.passes, paper.algo.target_kl), (0, 80, 0.01));
}
