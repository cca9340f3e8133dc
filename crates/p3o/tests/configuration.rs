//! A configuration that exists is valid, and one that cannot be is refused in one line.

use crate::util::{SMALL, method, one_line, small_task, spec_for, task_of};
use p3o::algo::p3o::Form;
use p3o::algo::{Constraints, Order};
use p3o::config::{Activation, Agents, PRESETS, Preset, Setting, Sum, Takes, Team, VERSION, count};
use p3o::run::named_task;
use p3o::{Algorithm, Config, ConfigError, Method, Request};
use p3o_env::{EnvSpec, TASKS, tasks};
use std::path::Path;

fn spec(task: &str) -> EnvSpec {
    tasks::make(task, &Default::default()).unwrap().spec().clone()
}

fn point_goal() -> Config {
    small_task("p3o", "PointGoal", &[])
}

/// What `set` says against an assignment.
fn refused(assignment: &str) -> String {
    refused_by("p3o", assignment)
}

fn refused_by(algo: &str, assignment: &str) -> String {
    let before = small_task(algo, "PointGoal", &[]);
    let mut config = before.clone();
    let error = config.set(assignment).expect_err(assignment);
    assert_eq!(config, before, "{assignment} changed something all the same");
    one_line(error)
}

/// What `set` says against a value, or `check` against the configuration with it. A key names its algorithm.
fn nonsense(assignment: &str) -> String {
    let section = assignment.split('.').next().unwrap();
    let algo = Algorithm::ALL.iter().map(|a| a.info().name).find(|name| *name == section).unwrap_or("p3o");
    let mut config = small_task(algo, "PointGoal", &[]);
    if let Err(error) = config.set(assignment) {
        return one_line(error);
    }
    one_line(config.check(&spec("PointGoal")).expect_err(assignment))
}

#[test]
fn every_preset_of_every_task_is_valid_and_survives_writing_and_reading() {
    for task in TASKS {
        for preset in PRESETS.iter().map(|p| p.0).chain(["base"]) {
            for method in Method::all().into_iter().filter(|m| task.has_team() || m.agents == Agents::Single) {
                let spec = spec_for(&method.to_string(), task.name);
                let config = Config::preset(preset, method, &spec).unwrap();
                let checked = config.check(&spec);
                if spec.costs.len() > 1 && method.algorithm.info().constraints == Constraints::One {
                    let line = one_line(checked.unwrap_err());
                    assert!(line.starts_with(&method.to_string()) && line.contains("use p3o"), "{line}");
                } else {
                    checked.unwrap_or_else(|e| panic!("{} {preset} {method}: {e}", task.name));
                }
                assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
                assert_eq!((&config.task[..], &config.preset[..], config.method()), (task.name, preset, method));
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
    for assignment in ["policy.learning_rate=0.1234567890123456789", "policy.target_kl=1e-300", "env.goal_bonus=0.3"] {
        config.set(assignment).unwrap();
    }
    (config.run.seed, config.run.steps) = (i64::MAX as u64, 9_007_199_254_740_993);
    config.limits.insert("hazards".into(), f64::MIN_POSITIVE);
    assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
}

#[test]
fn values_are_read_by_the_kind_that_stands_there() {
    let mut config = point_goal();
    for assignment in [
        "run.steps=2e6",
        "run.seed=7",
        "rollout.batch=1_000",
        "rollout.normalize_obs=true",
        "net.hidden=[128, 64,32]",
        "net.activation=relu",
        "constraint.form=\"literal\"",
        "p3o.kappa=10",
        " p3o.clip = 0.1 ",
        "limits.hazards=12.5",
        "env.level=2",
    ] {
        config.set(assignment).unwrap_or_else(|e| panic!("{assignment}: {e}"));
    }
    assert_eq!((config.run.steps, config.run.seed, config.rollout.batch), (2_000_000, 7, 1000));
    assert!(config.rollout.normalize_obs);
    assert_eq!((&config.net.hidden[..], config.net.activation), (&[128, 64, 32][..], Activation::Relu));
    let p3o::algo::Settings::P3o(own) = &config.own else { panic!("it trains by P3O") };
    assert_eq!((config.constraint.form, own.kappa, own.clip), (Form::Literal, 10.0, 0.1));
    assert_eq!((config.limits["hazards"], config.env["level"]), (12.5, 2.0));
    config.set("rollout.normalize_obs=false").unwrap();
    config.set("net.hidden=[]").unwrap();
    config.set("limits.hazards=none").unwrap();
    assert!(!config.rollout.normalize_obs && config.net.hidden.is_empty() && config.limits.is_empty());
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
        ("p3o.kapa=3", "did you mean `p3o.kappa`?"),
        ("kappa=3", "did you mean `p3o.kappa`?"),
        ("algo.kappa=3", "did you mean `p3o.kappa`?"),
        ("hidden=[3]", "did you mean `net.hidden`?"),
        ("rollout.kappa=3", "did you mean `p3o.kappa`?"),
        ("policy.learning-rate=3", "did you mean `policy.learning_rate`?"),
        ("steps=3", "did you mean `run.steps`?"),
        ("run.stepz=3", "did you mean `run.steps`?"),
        ("p3o.kappa.x=3", "there is no setting `p3o.kappa.x`"),
        ("zzz=3", "there is no setting `zzz`"),
        ("=3", "there is no setting ``"),
    ] {
        let line = refused(assignment);
        assert!(line.contains(hint), "{assignment}: {line}");
    }
    assert!(!refused("zzz=3").contains("did you mean"));
    for group in ["p3o", "policy", "limits", "env"] {
        assert!(refused(&format!("{group}=3")).contains("a group of settings"), "{group}");
    }
    assert!(refused("p3o.kappa").contains("not of the form key=value"));
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_the_right_kind() {
    for (assignment, reason) in [
        ("run.steps=many", "run.steps takes a whole number, not `many`"),
        ("run.steps=1.5", "run.steps takes a whole number, not `1.5`"),
        ("run.seed=-1", "run.seed takes a whole number, not `-1`"),
        ("rollout.envs=-4", "rollout.envs takes a whole number"),
        ("rollout.normalize_obs=1", "rollout.normalize_obs takes true or false, not `1`"),
        ("net.hidden=64x64", "net.hidden takes whole numbers such as [64,64]"),
        ("net.hidden=[64,-1]", "net.hidden takes whole numbers such as [64,64]"),
        ("p3o.kappa=big", "p3o.kappa takes a finite number, not `big`"),
        ("p3o.kappa=", "p3o.kappa takes a finite number, not ``"),
        ("p3o.kappa=nan", "p3o.kappa takes a finite number, not `nan`"),
        ("p3o.clip=inf", "p3o.clip takes a finite number, not `inf`"),
        ("limits.hazards=-inf", "limits.hazards takes a finite number"),
        ("env.level=two", "env.level takes a finite number, not `two`"),
        ("env.hide=velocit", "unknown value of env.hide `velocit`; did you mean `velocity`?"),
    ] {
        let line = refused(assignment);
        assert!(line.contains(reason), "{assignment}: {line}");
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    for (assignment, reason) in [
        ("run.steps=0", "run.steps must be a whole number of at least 1"),
        ("run.checkpoint_every=0", "run.checkpoint_every"),
        ("rollout.envs=0", "rollout.envs must be a whole number between 1"),
        ("rollout.batch=0", "rollout.batch must be a whole number between 2"),
        ("rollout.batch=401", "rollout.batch (401) must be a multiple of rollout.envs (4)"),
        ("rollout.gamma=1", "rollout.gamma must be a number between 0 and 0.999999"),
        ("rollout.gamma=-0.1", "rollout.gamma"),
        ("rollout.lambda=1.01", "rollout.lambda must be a number between 0 and 1"),
        ("net.hidden=[16,0]", "net.hidden"),
        ("net.hidden=[20000,20000]", "networks of 4.0e8 parameters; more than 1e8 are refused"),
        ("net.bptt=0", "net.bptt"),
        ("net.log_std=50", "net.log_std"),
        ("net.activation=tan", "unknown net.activation `tan`; did you mean `tanh`?"),
        ("net.init=orthogonl", "did you mean `orthogonal`?"),
        ("policy.learning_rate=-1e-3", "policy.learning_rate"),
        ("policy.lr_decay=linar", "did you mean `linear`?"),
        ("policy.passes=0", "policy.passes"),
        ("policy.target_kl=-0.01", "policy.target_kl must be a number of at least 0"),
        ("policy.entropy=-1", "policy.entropy"),
        ("constraint.form=perstep", "did you mean `per_step`?"),
        ("constraint.margin=1.5", "constraint.margin"),
        ("constraint.smoothing=1", "constraint.smoothing must be a number between 0 and 0.999"),
        ("p3o.clip=0", "p3o.clip"),
        ("p3o.kappa=-20", "p3o.kappa must be"),
        ("p3o.kappa_growth=0.9", "p3o.kappa_growth"),
        ("p3o.kappa_max=-1", "p3o.kappa_max"),
        ("ipo.barrier=0", "ipo.barrier"),
        ("focops.temperature=-1", "focops.temperature"),
        ("focops.multiplier=-1", "focops.multiplier"),
        ("ppo-lag.multiplier_rate=-0.1", "ppo-lag.multiplier_rate"),
        ("trpo-lag.multiplier_max=-1", "trpo-lag.multiplier_max"),
        ("cpo.damping=-0.1", "cpo.damping"),
        ("trpo.cg_iterations=0", "trpo.cg_iterations"),
        ("trpo.backtrack=1", "trpo.backtrack must be a number between 0.001 and 0.999"),
        ("pcpo.backtracks=1e9", "pcpo.backtracks"),
        ("pcpo.projection=l1", "unknown pcpo.projection `l1` (there is: kl, l2)"),
        ("critic.learning_rate=2", "critic.learning_rate"),
        ("limits.hazards=-1", "limits.hazards must be a number of at least 0"),
        ("limits.hazard=5", "unknown cost `hazard`; did you mean `hazards`?"),
    ] {
        let line = nonsense(assignment);
        assert!(line.contains(reason), "{assignment}: {line}");
    }
    // Recurrent networks need whole sequences, first-order steps and something to normalise.
    let refusal = |config: &Config, spec| one_line(config.check(spec).unwrap_err());
    let spec = spec("PointGoal");
    let recurrent = |algo: &str| small_task(algo, "PointGoal", &["net.gru=8"]);
    let mut config = recurrent("p3o");
    config.check(&spec).unwrap();
    config.net.bptt = 30;
    assert!(refusal(&config, &spec).contains("net.bptt (30) must divide the steps"));
    (config.net.bptt, config.net.gru) = (5, 1);
    assert!(refusal(&config, &spec).contains("widths of at least 2"));
    config.net.gru = 8192;
    assert!(refusal(&config, &spec).contains("networks of 2.0e8 parameters"));
    assert!(refusal(&recurrent("cpo"), &spec).contains("cpo needs second derivatives"));
    let single = EnvSpec { obs_dim: 1, ..spec.clone() };
    assert!(refusal(&recurrent("p3o"), &single).contains("leaves nothing of the single number"));
    // A world without costs has nothing to limit.
    let bare = tasks::make("PointGoal", &[("level".to_string(), 0.0)].into()).unwrap().spec().clone();
    assert!(one_line(point_goal().check(&bare).unwrap_err()).contains("has no costs"));
    let preset = Config::preset("quik", Algorithm::P3o, &bare);
    assert!(one_line(preset.unwrap_err()).contains("did you mean `quick`?"));
    assert!(one_line(Method::named("pppo").unwrap_err()).contains("did you mean `ppo`?"));
}

#[test]
fn what_someone_wrote_stands_in_one_line_whatever_it_was() {
    assert_eq!(refused("p3o.kap\npa=1"), "there is no setting `p3o.kap\\npa`; did you mean `p3o.kappa`?");
    assert!(refused("p3o.kappa=\u{1b}[2J").ends_with("not `\\u{1b}[2J`"));
    assert!(one_line(Method::named("p3\no").unwrap_err()).starts_with("unknown algorithm `p3\\no`"));
    // Letters beyond ASCII are no control characters.
    assert!(refused("p3o.κ=1").contains("`p3o.κ`"));
}

#[test]
fn an_algorithm_is_asked_only_for_what_it_can_do() {
    let navigation = spec("Navigation");
    for algorithm in Algorithm::ALL.iter().filter(|a| a.info().constraints == Constraints::One) {
        let mut config = small_task(algorithm.info().name, "Navigation", &[]);
        let line = one_line(config.check(&navigation).unwrap_err());
        assert!(line.contains("one limit only, not 2 (hazards, pillars)") && line.contains("use p3o"), "{line}");
        // One limit or none is within its power.
        config.limits.remove("pillars");
        config.check(&navigation).unwrap();
        config.limits.clear();
        config.check(&navigation).unwrap();
    }
    for method in Method::all() {
        let (name, task) = (method.to_string(), task_of(method));
        let mut config = small_task(&name, task, &[]);
        let set = config.set("policy.minibatch=100");
        if method.algorithm.info().order == Order::First {
            set.unwrap();
            config.check(&spec_for(&name, task)).unwrap();
        } else {
            assert!(one_line(set.unwrap_err()).contains("for first-order algorithms"), "{name}");
        }
    }
}

#[test]
fn an_algorithm_for_several_agents_needs_several() {
    for method in Method::all().into_iter().filter(|m| m.agents != Agents::Single) {
        let name = method.to_string();
        let error = named_task(&Config { task: "PointGoal".into(), ..small_task(&name, "SimpleSpread", &[]) }).err();
        let line = one_line(error.expect("one agent is not enough"));
        assert!(line.contains("PointGoal has one agent; the tasks of several agents are SimpleSpread"), "{line}");
        // A world of one's own is asked too.
        let one = spec("PointGoal");
        let line = one_line(Config::preset("quick", method, &one).unwrap().check(&one).unwrap_err());
        assert!(line.starts_with(&format!("{name} is for several agents")) && line.contains("PointGoal"), "{line}");
    }
    let team = spec_for("map3o", "SimpleSpread");
    for algorithm in Algorithm::ALL {
        let name = algorithm.info().name;
        let line = one_line(small_task(name, "SimpleSpread", &[]).check(&team).unwrap_err());
        let start = format!("{name} is for one agent, and SimpleSpread shows 3 side by side: use ");
        // What is proposed exists.
        let proposed = line.strip_prefix(&start).unwrap_or_else(|| panic!("{line}")).split(',').next().unwrap();
        assert_ne!(Method::named(proposed).unwrap().agents, Agents::Single, "{line}");
    }
    assert!(one_line(small_task("p3o", "SimpleSpread", &[]).check(&team).unwrap_err()).contains("use map3o,"));
}

#[test]
fn every_method_has_a_name_that_leads_back_to_it() {
    let all = Method::all();
    for method in &all {
        assert_eq!(Method::named(&method.to_string()).unwrap(), *method);
    }
    let names: Vec<String> = all.iter().map(Method::to_string).collect();
    for name in ["p3o", "ppo-lag", "pcpo", "map3o", "map3o-dec", "mappo", "mappo-lag", "mafocops-dec", "maipo"] {
        assert_eq!(names.iter().filter(|n| *n == name).count(), 1, "{name} in {names:?}");
    }
    // Second-order steps are for one agent.
    assert!(!names.iter().any(|name| name.contains("macpo") || name.contains("matrpo")), "{names:?}");
    let dec = Method { algorithm: Algorithm::P3o, agents: Agents::Decentralised };
    assert_eq!(method("map3o-dec"), dec);
    assert_eq!(method("ppo-lag"), Algorithm::PpoLag.into());
    for wrong in ["", "P3O", "ma", "-dec", "p3o-dec", "macpo"] {
        let line = one_line(Method::named(wrong).unwrap_err());
        assert!(line.starts_with(&format!("unknown algorithm `{wrong}`")), "{line}");
    }
}

#[test]
fn task_algorithm_preset_and_agents_are_no_settings() {
    for key in ["task", "algo", "preset", "agents", "version"] {
        let mut config = point_goal();
        assert_eq!(config.set(&format!("{key}=ppo")).unwrap_err(), ConfigError::Chosen(key.to_string()));
        let line = refused(&format!("{key}=ppo"));
        assert!(line.starts_with(&format!("`{key}` decides which settings there are")), "{line}");
        // Nor among settings that several algorithms share.
        let set = vec![format!("{key}=ppo")];
        let shared = Request { set, shared: true, ..Request::new("PointGoal", method("p3o")) };
        assert!(one_line(shared.resolve().unwrap_err()).contains("chosen before them"), "{key}");
    }
}

#[test]
fn a_setting_of_another_algorithm_names_its_owner() {
    for (algo, assignment, owner) in [
        ("p3o", "ppo-lag.multiplier=2", Algorithm::PpoLag),
        ("p3o", "cpo.damping=0.2", Algorithm::Cpo),
        ("cpo", "p3o.kappa=3", Algorithm::P3o),
        ("trpo", "trpo-lag.damping=0.2", Algorithm::TrpoLag),
    ] {
        let error = small_task(algo, "PointGoal", &[]).set(assignment).unwrap_err();
        assert!(matches!(error, ConfigError::OfAnother { owner: found, .. } if found == owner), "{error}");
        let (key, line) = (assignment.split('=').next().unwrap(), refused_by(algo, assignment));
        assert_eq!(line, format!("{key} is a setting of {owner}, and this run trains by {algo}"));
    }
    // Nobody has these.
    assert!(refused("cpo.kappa=3").contains("there is no setting `cpo.kappa`"));
    assert!(refused("ppo-lag.barrier=3").contains("there is no setting"));
}

#[test]
fn a_setting_without_effect_is_refused_by_what_it_is_for() {
    for (algo, assignment, reason) in [
        ("cpo", "policy.passes=3", "policy.passes has no effect on cpo: it is for first-order algorithms"),
        ("trpo", "policy.learning_rate=1e-3", "policy.learning_rate has no effect on trpo"),
        ("pcpo", "policy.lr_decay=linear", "policy.lr_decay has no effect on pcpo"),
        ("trpo-lag", "policy.minibatch=10", "policy.minibatch has no effect on trpo-lag"),
        (
            "ppo",
            "constraint.margin=0.1",
            "constraint.margin has no effect on ppo: it is for algorithms that keep limits",
        ),
        ("trpo", "constraint.form=raw", "constraint.form has no effect on trpo"),
    ] {
        let line = refused_by(algo, assignment);
        assert!(line.starts_with(reason), "{algo} {assignment}: {line}");
    }
    // Where they have one they are taken.
    small_task("trpo", "PointGoal", &["policy.target_kl=0.02", "critic.lr_decay=linear"]);
    small_task("cpo", "PointGoal", &["constraint.margin=0.1"]);
}

#[test]
fn shared_settings_are_passed_over_where_an_algorithm_does_not_have_them() {
    let set: Vec<String> = SMALL.lines().map(String::from).collect();
    for algorithm in Algorithm::ALL {
        let name = algorithm.info().name;
        let request = |shared| Request { set: set.clone(), shared, ..Request::new("PointGoal", (*algorithm).into()) };
        let resolved = request(true).resolve().unwrap();
        assert_eq!(resolved.config, small_task(name, "PointGoal", &[]));
        assert!(matches!(
            request(false).resolve(),
            Err(p3o::Error::Config(ConfigError::OfAnother { .. } | ConfigError::WithoutEffect { .. }))
        ));
        // The small settings leave nothing to the preset: every setting is among them.
        for key in resolved.config.settings().iter().map(Setting::key) {
            assert_eq!(resolved.origins.get(&key).map(String::as_str), Some("set"), "{key} of {name}");
        }
    }
    let wrong = Request { set: vec!["p3o.kapa=3".into()], shared: true, ..Request::new("PointGoal", method("cpo")) };
    assert!(one_line(wrong.resolve().unwrap_err()).contains("there is no setting `p3o.kapa`"));
}

/// The keys of all settings of all algorithms.
fn all_keys() -> Vec<String> {
    let of = |algorithm: &Algorithm| Config::base("", (*algorithm).into()).settings();
    Algorithm::ALL.iter().flat_map(of).map(|setting| setting.key()).collect()
}

/// What a preset names that does not exist.
fn unknown_names(preset: &Preset) -> Vec<String> {
    let (keys, mut unknown) = (all_keys(), Vec::new());
    for layer in &preset.layers {
        unknown.extend(layer.set.keys().filter(|key| !keys.contains(key)).cloned());
        unknown.extend(layer.tasks.iter().filter(|name| !TASKS.iter().any(|task| task.name == **name)).cloned());
        unknown.extend(layer.algos.iter().filter(|n| !Algorithm::ALL.iter().any(|a| a.info().name == **n)).cloned());
        unknown.extend(layer.agents.iter().filter(|word| Agents::of(word).is_none()).cloned());
    }
    unknown
}

#[test]
fn all_that_a_preset_names_exists() {
    for (name, text) in PRESETS {
        let preset = Preset::named(name).unwrap();
        assert_eq!(unknown_names(&preset), [""; 0], "{name}");
        assert!(!preset.about.is_empty() && preset.layers.iter().all(|l| !l.why.is_empty() && !l.set.is_empty()));
        assert!(text.contains(&preset.about), "{name} is another file");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("presets/{name}.toml"));
        assert_eq!(std::fs::read_to_string(file).unwrap(), *text);
    }
    // A typo in any of the four places would be noticed.
    let spoiled = |change: fn(&mut Preset)| {
        let mut preset = Preset::named("quick").unwrap();
        change(&mut preset);
        unknown_names(&preset)
    };
    let key = |p: &mut Preset| drop(p.layers[0].set.insert("p3o.kapa".into(), toml::Value::Float(1.0)));
    assert_eq!(spoiled(key), ["p3o.kapa"]);
    assert_eq!(spoiled(|p| p.layers[0].tasks.push("PointGaol".into())), ["PointGaol"]);
    assert_eq!(spoiled(|p| p.layers[0].algos.push("map3o".into())), ["map3o"]);
    assert_eq!(spoiled(|p| p.layers[0].agents.push("central".into())), ["central"]);
}

#[test]
fn every_layer_of_a_preset_is_for_something() {
    for (name, _) in PRESETS {
        let layers = Preset::named(name).unwrap().layers;
        let mut used = std::collections::BTreeSet::new();
        for task in TASKS {
            for method in Method::all().into_iter().filter(|m| task.has_team() || m.agents == Agents::Single) {
                // One limit at most, for those that keep no more.
                let limits = spec_for(&method.to_string(), task.name)
                    .costs
                    .iter()
                    .skip(1)
                    .map(|c| &c.name)
                    .map(|name| format!("{name}=none"))
                    .collect();
                let request = Request { preset: name.to_string(), limits, ..Request::new(task.name, method) };
                // The limits and steps are set here, everything else comes from layers.
                for steps in layers.iter().map(|layer| layer.from_steps.max(1)) {
                    let resolved = Request { steps: Some(steps), ..request.clone() }.resolve().unwrap();
                    used.extend(resolved.origins.into_values().filter(|origin| origin != "set"));
                }
            }
        }
        let expected: std::collections::BTreeSet<String> =
            layers.iter().map(|layer| format!("{name}: {}", layer.name)).collect();
        assert_eq!(used, expected);
        assert_eq!(expected.len(), layers.len(), "no two layers have the same name");
    }
}

#[test]
fn every_setting_is_documented_in_one_line_and_its_base_value_is_in_range() {
    for algorithm in Algorithm::ALL {
        let config = Config::base("PointGoal", (*algorithm).into());
        for (section, part) in config.sections() {
            for field in part.fields() {
                let (key, value) = (format!("{section}.{}", field.name), part.get(field.name).unwrap());
                field.takes.check(&key, &value).unwrap_or_else(|e| panic!("{e}"));
                let about = field.about();
                assert!(about.ends_with('.') && about.len() > 10, "{key}: {about:?}");
                assert!(!about.contains('\n') && !about.contains("  ") && about.len() <= 130, "{key}: {about:?}");
                if let Takes::Words(words) = field.takes {
                    assert!(words.len() > 1, "{key} leaves no choice");
                }
            }
        }
        assert_eq!(config.settings().iter().filter(|setting| setting.section == "run").count(), 3);
    }
}

#[test]
fn differences_are_the_assignments_that_lead_from_the_base_values_here() {
    for method in Method::all() {
        assert_eq!(Config::base("PointGoal", method).differences(), [""; 0], "{method}");
        for preset in ["quick", "paper"] {
            let spec = spec_for(&method.to_string(), task_of(method));
            let config = Config::preset(preset, method, &spec).unwrap();
            let mut again = Config { limits: config.limits.clone(), ..Config::base(&spec.name, method) };
            again.preset = preset.to_string();
            let differences = config.differences();
            differences.iter().for_each(|assignment| again.set(assignment).unwrap());
            assert_eq!(again, config, "{method} {preset}: {differences:?}");
        }
    }
    let mut config = Config::base("PointGoal", method("p3o"));
    for change in ["net.hidden=[8,4]", "p3o.kappa=3", "constraint.form=raw", "rollout.normalize_obs=false"] {
        config.set(change).unwrap();
    }
    let expected = ["rollout.normalize_obs=false", "net.hidden=[8,4]", "constraint.form=raw", "p3o.kappa=3"];
    assert_eq!(config.differences(), expected);
}

#[test]
fn presets_follow_the_papers_table_of_algorithms() {
    for method in Method::all() {
        let paper = Config::preset("paper", method, &spec_for(&method.to_string(), task_of(method))).unwrap();
        assert_eq!((paper.policy.learning_rate, paper.policy.target_kl), (3e-4, 0.01), "{method}");
        let rate = if method.algorithm == Algorithm::Focops { 0.01 } else { 0.05 };
        let expected = [
            ("clip", 0.2),
            ("multiplier", 1.0),
            ("multiplier_rate", rate),
            ("temperature", 1.5),
            ("barrier", 20.0),
            ("kappa", 20.0),
            ("damping", 0.1),
            ("backtrack", 0.8),
            ("backtracks", 10.0),
        ];
        let found = expected.map(|(name, _)| {
            let value = paper.own.section().get(name);
            value.map(|v| v.as_float().unwrap_or_else(|| v.as_integer().unwrap() as f64))
        });
        assert!(found.iter().any(Option::is_some), "{method} has none of them");
        for ((name, expected), found) in expected.into_iter().zip(found) {
            assert!(found.is_none_or(|found| found == expected), "{method}: {name} is {found:?}, not {expected}");
        }
        assert_eq!((paper.rollout.lambda, paper.rollout.cost_lambda), (0.97, 0.97), "{method}");
        // The offset and the surrogate beside it are commensurate for all that weigh the one against the other.
        if method.algorithm.info().constraints != Constraints::None {
            let form = match method.algorithm {
                Algorithm::P3o => Form::Literal,
                Algorithm::PpoLag | Algorithm::TrpoLag => Form::Centred,
                _ => Form::PerStep,
            };
            assert_eq!((paper.constraint.form, paper.constraint.margin), (form, 0.0), "{method}");
        }
    }
}

#[test]
fn numbers_that_a_file_cannot_hold_are_refused() {
    for change in [|c: &mut Config| c.run.seed = u64::MAX, |c: &mut Config| c.run.steps = u64::MAX] {
        let mut config = point_goal();
        change(&mut config);
        let line = one_line(config.check(&spec("PointGoal")).expect_err("TOML has no such whole number"));
        assert!(line.contains("must be"), "{line}");
        // Nor does such a number stand in the way of another setting, or of its error.
        config.set("p3o.kappa=3").unwrap();
        assert!(one_line(config.set("p3o.kappa=x").unwrap_err()).contains("p3o.kappa"));
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused_from_a_file_too() {
    let text = point_goal().to_toml();
    for (from, to, reason) in [
        ("kappa = 20.0", "kappa = nan", "p3o.kappa must be a number between 0 and 1000000000000, not nan"),
        ("hazards = 25.0", "hazards = inf", "limits.hazards must be a number of at least 0, not inf"),
        ("gamma = 0.99", "gamma = -inf", "rollout.gamma must be a number between 0 and 0.999999, not -inf"),
        ("target_kl = 0.03", "target_kl = inf", "policy.target_kl must be a number of at least 0, not inf"),
    ] {
        assert!(text.contains(from), "{text}");
        let config = Config::from_toml(&text.replace(from, to)).unwrap();
        assert_eq!(one_line(config.check(&spec("PointGoal")).expect_err(to)), reason);
    }
}

#[test]
fn a_file_carries_the_version_of_its_format() {
    for method in Method::all() {
        let text = small_task(&method.to_string(), task_of(method), &[]).to_toml();
        assert!(text.starts_with(&format!("version = {VERSION}\n")), "{text}");
        for (version, reason) in [
            ("7", "these settings have version 7, and this program reads versions up to 6: it takes a newer p3o"),
            ("0", "unknown version `0` (there is: 2, 3, 4, 5, 6)"),
            ("\"two\"", "unknown version `\"two\"`"),
        ] {
            let other = text.replacen("version = 6", &format!("version = {version}"), 1);
            let line = one_line(Config::from_toml(&other).unwrap_err());
            assert!(line.starts_with(reason), "{line}");
        }
    }
    // A newer file may hold what nobody knows yet; the version is what it is refused by.
    let line = one_line(Config::from_toml("version = 7\n[new]\nsetting = 1\n").unwrap_err());
    assert!(line.contains("version 7"), "{line}");
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_line() {
    let text = point_goal().to_toml();
    let line_of = |part: &str| 1 + text[..text.find(part).unwrap()].matches('\n').count();
    for (from, to, reason) in [
        ("kappa = ", "kapa = ", "there is no setting `p3o.kapa`; did you mean `p3o.kappa`?"),
        ("seed = 1", "sead = 1", "there is no setting `run.sead`; did you mean `run.seed`?"),
        ("kappa = 20.0", "kappa = \"20\"", "p3o.kappa takes a number"),
        ("seed = 1", "seed = -1", "run.seed takes a whole number"),
        ("normalize_obs = false", "normalize_obs = 0", "rollout.normalize_obs takes true or false"),
        ("activation = \"tanh\"", "activation = \"tan\"", "did you mean `tanh`?"),
        ("algo = \"p3o\"", "algo = \"p30\"", "did you mean `p3o`?"),
        ("agents = \"single\"", "agents = \"double\"", "unknown agents `double`"),
        ("task = \"PointGoal\"", "task = 3", "task takes a word"),
        ("hazards = 25.0", "hazards = \"none\"", "limits.hazards takes a number"),
        (
            "preset = \"quick\"",
            "preset = \"quick\"\nkappa = 3",
            "there is no setting `kappa`; did you mean `p3o.kappa`?",
        ),
        ("seed = 1", "seed = 1\nextra = 1", "there is no setting `run.extra`"),
        ("seed = 1", "seed = ", ""),
        ("seed = 1", "seed = 1\nseed = 2", "duplicate key"),
    ] {
        assert!(text.contains(from), "{from} is not in\n{text}");
        let line = one_line(Config::from_toml(&text.replacen(from, to, 1)).expect_err(to));
        assert!(line.contains(reason), "{to}: {line}");
        let shift = usize::from(to.contains('\n'));
        assert!(line.starts_with(&format!("line {}: ", line_of(from) + shift)), "{to}: {line}");
    }
    // Another algorithm's table, and a setting that would have no effect.
    let line = one_line(Config::from_toml(&format!("{text}\n[ppo]\nclip = 0.1\n")).unwrap_err());
    assert!(line.starts_with("line ") && line.contains("ppo.clip is a setting of ppo"), "{line}");
    let cpo = small_task("cpo", "PointGoal", &[]).to_toml().replace("[policy]\n", "[policy]\npasses = 3\n");
    let line = one_line(Config::from_toml(&cpo).unwrap_err());
    assert!(line.starts_with("line ") && line.contains("policy.passes has no effect on cpo"), "{line}");
    for (text, reason) in [
        ("", "missing field"),
        ("[algo]\n", "missing field"),
        ("version = 6\n", "missing setting `task`"),
        ("hello", ""),
        ("\u{0}", ""),
        ("[[", ""),
    ] {
        let line = one_line(Config::from_toml(text).expect_err(text));
        assert!(line.contains(reason) && !line.starts_with("line 0"), "{text:?}: {line}");
    }
    let missing = text.replacen("kappa = 20.0\n", "", 1);
    assert!(one_line(Config::from_toml(&missing).unwrap_err()).contains("missing setting `p3o.kappa`"));
}

/// Settings of version 1 with some lines changed.
fn version_1(changes: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1/p3o-PointGoal/config.toml");
    let mut text = std::fs::read_to_string(path).unwrap();
    for (key, value) in changes {
        let line =
            text.lines().find(|line| line.split(" = ").next() == Some(key)).unwrap_or_else(|| panic!("no {key}"));
        text = text.replacen(line, &format!("{key} = {value}"), 1);
    }
    Config::from_toml(&text)
}

/// Version 2 knew one joint action only; a world of one agent and agents side by side have none.
#[test]
fn a_joint_action_of_version_2_stays_one_of_all_combinations() {
    for (algo, task, joint) in
        [("p3o", "SimpleSpread", Some(1.0)), ("map3o", "SimpleSpread", None), ("p3o", "PointGoal", None)]
    {
        let text = small_task(algo, task, &[]).to_toml();
        assert_eq!(Config::from_toml(&text).unwrap().env.get("joint"), None);
        let old = text.replacen("version = 6", "version = 2", 1);
        let config = Config::from_toml(&old).unwrap();
        assert_eq!(config.env.get("joint").copied(), joint, "{algo} on {task}");
        assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        let actions = named_task(&config).unwrap()().spec().action.outputs();
        assert_eq!(actions == 125, joint.is_some(), "{algo} on {task}");
    }
}

/// Version 3 lacked two settings of a constraint, and Navigation had one layout.
#[test]
fn a_run_of_version_3_keeps_its_world_and_its_constraint() {
    for (algo, task, layout) in
        [("p3o", "Navigation", Some(0.0)), ("map3o", "SimpleSpread", None), ("ppo", "PointGoal", None)]
    {
        let text = small_task(algo, task, &[]).to_toml();
        let added = |line: &&str| !["sum = ", "team = "].iter().any(|name| line.starts_with(name));
        let old: String = text.lines().filter(added).map(|line| format!("{line}\n")).collect();
        assert_eq!(text.lines().count() - old.lines().count(), if algo == "ppo" { 0 } else { 2 }, "{algo}");
        assert_eq!(Config::from_toml(&old).is_err(), algo != "ppo", "today they must be there");
        for version in ["2", "3"] {
            let config = Config::from_toml(&old.replacen("version = 6", &format!("version = {version}"), 1)).unwrap();
            assert_eq!((config.env.get("layout").copied(), config.constraint.sum), (layout, Sum::Episode), "{algo}");
            assert_eq!(config.constraint.team, if algo == "ppo" { Team::Together } else { Team::Alone });
            assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        }
    }
}

/// Vases of version 4 stopped at once; today's of level 2 slide on. Its bonus was for the sum of a policy's entropies.
#[test]
fn a_run_of_version_4_keeps_its_vases_and_its_bonus() {
    for (task, level, vases) in [("PointGoal", "2", Some(0.0)), ("PointGoal", "1", Some(0.0)), ("Navigation", "", None)]
    {
        let options = if level.is_empty() { vec![] } else { vec![format!("env.level={level}")] };
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let text = small_task("ppo", task, &options).to_toml();
        assert_eq!(Config::from_toml(&text).unwrap().env.get("vases"), None);
        let text = text.replacen("entropy_mean = false\n", "", 1).replacen("entropy_until = 1.0\n", "", 1);
        assert!(Config::from_toml(&text).is_err(), "today it must be there");
        for version in ["2", "3", "4"] {
            let config = Config::from_toml(&text.replacen("version = 6", &format!("version = {version}"), 1)).unwrap();
            assert_eq!(config.env.get("vases").copied(), vases, "{task}, version {version}");
            assert_eq!(
                (config.policy.entropy_mean, config.policy.entropy_until, config.policy.average),
                (false, 1.0, 0)
            );
            assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        }
    }
}

/// Updates of version 5 ended at their last step; algorithms of second order never had another.
#[test]
fn a_run_of_version_5_has_no_average() {
    for algo in ["p3o", "ppo", "cpo"] {
        let text = small_task(algo, "PointGoal", &[]).to_toml();
        let old = text.replacen("average = 0\n", "", 1);
        assert_eq!(text == old, algo == "cpo");
        if algo != "cpo" {
            assert_eq!(one_line(Config::from_toml(&old).unwrap_err()), "missing setting `policy.average`");
        }
        for version in ["2", "3", "4", "5"] {
            let config = Config::from_toml(&old.replacen("version = 6", &format!("version = {version}"), 1)).unwrap();
            assert_eq!(config.policy.average, 0, "{algo}, version {version}");
            assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config);
        }
    }
}

#[test]
fn settings_of_version_1_are_written_as_today_and_mean_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1");
    let runs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    assert!(runs.len() >= 19);
    for run in runs {
        let text = std::fs::read_to_string(run.join("config.toml")).unwrap();
        assert!(!text.contains("version"), "{}", run.display());
        let config = Config::from_toml(&text).unwrap_or_else(|e| panic!("{}: {e}", run.display()));
        assert_eq!(Config::from_toml(&config.to_toml()).unwrap(), config, "{}", run.display());
    }
    let form = |offset: &str, scale: &str, estimate: &str, reward: &str| {
        let [offset, scale, estimate, reward] = [offset, scale, estimate, reward].map(|word| format!("\"{word}\""));
        let changes =
            [("offset", &*offset), ("cost_scale", &scale), ("cost_estimate", &estimate), ("reward_scale", &reward)];
        version_1(&changes)
    };
    for (parts, expected) in [
        (["paper", "advantage", "episodes", "standard"], Form::Literal),
        (["paper", "whole", "steps", "standard"], Form::Scaled),
        (["per_step", "whole", "steps", "standard"], Form::PerStep),
        (["per_step", "whole", "episodes", "standard"], Form::PerStep),
        (["per_step", "centred", "episodes", "none"], Form::Raw),
    ] {
        let [offset, scale, estimate, reward] = parts;
        assert_eq!(form(offset, scale, estimate, reward).unwrap().constraint.form, expected, "{parts:?}");
    }
    // What was put together from several settings and can no longer be said is refused by name.
    for parts in [
        ["discounted", "whole", "episodes", "standard"],
        ["per_step", "whole_mean", "episodes", "standard"],
        ["per_step", "none", "episodes", "standard"],
        ["paper", "advantage", "steps", "standard"],
        ["per_step", "whole", "steps", "none"],
    ] {
        let [offset, scale, estimate, reward] = parts;
        let line = one_line(form(offset, scale, estimate, reward).unwrap_err());
        let named = format!("algo.offset, cost_scale, cost_estimate, reward_scale = {}", parts.join(", "));
        assert!(line.starts_with(&named) && line.contains("no longer exists"), "{line}");
    }
    // The trust region was a product, and kappa grew by a word.
    let kappa = |config: &Config, name: &str| config.own.section().get(name).unwrap().as_float().unwrap();
    let changes = [("target_kl", "0.02"), ("kl_slack", "1.5"), ("kappa_growth", "1.25")];
    let fixed = version_1(&[&changes[..], &[("kappa_schedule", "\"fixed\"")]].concat()).unwrap();
    let growing = version_1(&[&changes[..], &[("kappa_schedule", "\"adaptive\"")]].concat()).unwrap();
    assert!((fixed.policy.target_kl - 0.03).abs() < 1e-15);
    assert_eq!((kappa(&fixed, "kappa_growth"), kappa(&growing, "kappa_growth")), (1.0, 1.25));
    // A word turned recurrent networks on.
    let recurrent = version_1(&[("recurrent", "true"), ("units", "12"), ("chunk", "10")]).unwrap();
    let plain = version_1(&[("recurrent", "false"), ("units", "12"), ("chunk", "10")]).unwrap();
    assert_eq!((recurrent.net.gru, recurrent.net.bptt, plain.net.gru), (12, 10, 0));
}

#[test]
fn a_mistake_in_a_file_of_version_1_has_its_line() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1/p3o-PointGoal/config.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let line_of = |part: &str| 1 + text[..text.find(part).unwrap()].matches('\n').count();
    for (from, to, reason) in [
        ("\nkappa = ", "\nkapa = ", "unknown field `kapa`; did you mean `kappa`?"),
        ("\nseed = ", "\nsead = ", "unknown field `sead`; did you mean `seed`?"),
        ("\nbootstrap = true", "\nbootstrap = 1", "invalid type"),
    ] {
        let line = one_line(Config::from_toml(&text.replacen(from, to, 1)).expect_err(to));
        assert!(line.starts_with(&format!("line {}: {reason}", line_of(from) + 1)), "{to}: {line}");
    }
    let missing = text.replacen("\nbarrier = ", "\n# barrier = ", 1);
    assert!(one_line(Config::from_toml(&missing).unwrap_err()).contains("missing field `barrier`"));
    let name = version_1(&[("name", "\"p30\"")]).unwrap_err();
    assert!(one_line(name).contains("did you mean `p3o`?"));
    let word = version_1(&[("activation", "\"sine\"")]).unwrap_err();
    assert!(one_line(word).contains("net.activation = sine of an older version"));
}

#[test]
fn the_quick_preset_is_one_for_all_tasks_and_the_papers_is_literal() {
    let of = |preset, algorithm: Algorithm, task| Config::preset(preset, algorithm, &spec(task)).unwrap();
    for algorithm in Algorithm::ALL {
        let settings = |task| of("quick", *algorithm, task).differences();
        for task in ["AntCircle", "PointGather", "PointCircle", "Navigation"] {
            assert_eq!(settings(task), settings("PointGoal"), "{algorithm} on {task}");
        }
        let quick = of("quick", *algorithm, "PointGoal");
        assert!(quick.policy.minibatch > 0 || algorithm.info().order == Order::Second, "{algorithm}");
    }
    let paper = of("paper", Algorithm::P3o, "AntCircle");
    let own = |name: &str| paper.own.section().get(name).unwrap();
    assert_eq!((paper.policy.minibatch, paper.policy.passes, paper.policy.target_kl), (0, 80, 0.01));
    assert_eq!((paper.constraint.form, own("balance")), (Form::Literal, toml::Value::Boolean(false)));
    assert_eq!((own("kappa"), paper.constraint.margin), (toml::Value::Float(20.0), 0.0));
    assert_eq!((paper.constraint.correction_rate, paper.policy.entropy), (0.0, 0.0));
}
