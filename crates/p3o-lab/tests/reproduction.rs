//! The paper's experiments as data: every run is valid, made once, and its folder is named by what it is.

use p3o::algo::{Constraints, Settings};
use p3o::record::Table;
use p3o::run::{CostSummary, Summary};
use p3o::{Algorithm, ConfigError, Error, Request};
use p3o_lab::reproduce::data::{Curve, Kind};
use p3o_lab::reproduce::report::{self, document};
use p3o_lab::reproduce::results::{Known, Outcome};
use p3o_lab::reproduce::{BENCHMARK, PAPER, Plan, Results, Row, Scale};
use std::collections::HashSet;
use std::path::Path;

fn plan(names: &[&str], scale: &str, seeds: Option<u16>) -> Plan {
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    let (experiments, scale) = (PAPER.named(&names).unwrap(), Scale::named(scale).unwrap());
    Plan::new(experiments, scale, seeds, Path::new("out")).unwrap()
}

/// PointGoal's, everybody without a margin.
fn pointgoal_without_margins() -> Plan {
    let mut experiments = PAPER.named(&["pointgoal".into()]).unwrap();
    for curve in &mut experiments[0].group[0].curves {
        curve.set.retain(|setting| !setting.starts_with("constraint."));
        curve.set.push("constraint.margin=0".into());
    }
    Plan::new(experiments, Scale::named("cpu").unwrap(), Some(3), Path::new("out")).unwrap()
}

fn folder(plan: &Plan, run: usize) -> String {
    plan.jobs[run].folder.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_experiment_can_be_planned_at_every_scale() {
    for scale in ["smoke", "cpu", "paper"] {
        let plan = plan(&["all"], scale, None);
        assert_eq!(plan.experiments.len(), 8);
        let folders: HashSet<_> = plan.jobs.iter().map(|job| &job.folder).collect();
        assert_eq!(folders.len(), plan.jobs.len(), "a run would be made twice");
        assert_eq!(plan.names.len(), plan.jobs.len());
    }
    let paper = plan(&["table1"], "paper", None);
    let config = &paper.jobs[runs(&paper, (0, 0), "P3O")[4]].config;
    assert_eq!((config.run.steps, config.run.seed), (10_000_000, 104));
    assert_eq!(config.net.hidden, [255, 255]);
    // The paper's row is its preset to the letter.
    let literal = &paper.jobs[runs(&paper, (0, 0), "P3O (paper)")[4]].config;
    let request = Request { preset: "paper".into(), ..Request::new("AntCircle", Algorithm::P3o.into()) };
    let mut preset = request.resolve().unwrap().config;
    preset.run.seed = 104;
    assert_eq!(preset.difference(literal), None);
    assert!(matches!(&literal.own, Settings::P3o(own) if own.kappa == 20.0));
}

#[test]
fn our_row_is_what_the_quick_preset_trains() {
    for (scale, steps, batch) in [("cpu", 2_000_000, 10_000), ("published", 10_000_000, 20_000)] {
        let experiments = BENCHMARK.named(&["goal".into()]).unwrap();
        let plan = Plan::new(experiments, Scale::named(scale).unwrap(), Some(1), Path::new("out")).unwrap();
        let row = &plan.jobs[runs(&plan, (0, 0), "P3O")[0]].config;
        let request = Request { seed: Some(100), ..Request::new("PointGoal", Algorithm::P3o.into()) };
        let by_option = Request { steps: Some(steps), ..request.clone() };
        let by_setting = Request { set: vec![format!("run.steps={steps}")], ..request };
        for quick in [by_option, by_setting].map(|request| request.resolve().unwrap().config) {
            assert_eq!(quick.difference(row), None);
            assert_eq!((quick.run.steps, quick.rollout.batch), (steps, batch));
        }
    }
}

/// The runs of the curve of this name in a group of a plan.
fn runs<'a>(plan: &'a Plan, (e, g): (usize, usize), name: &str) -> &'a [usize] {
    let curve = plan.experiments[e].group[g].curves.iter().position(|curve| curve.name == name);
    &plan.runs[e][g][curve.unwrap_or_else(|| panic!("no curve {name}"))]
}

#[test]
fn experiments_share_their_runs() {
    let both = plan(&["table1", "single"], "smoke", Some(2));
    for (g, name) in [(0, "P3O"), (0, "PPO"), (1, "P3O (paper)"), (1, "FOCOPS")] {
        assert_eq!(runs(&both, (0, g), name), runs(&both, (1, g), name));
    }
    // Ten rows on two tasks.
    assert_eq!(both.jobs.len(), 2 * 10 * 2);
    // Of five kappas, a growing one and twelve limits, 20, the growing one and those of 50 are there already.
    let studies = plan(&["table1", "kappa", "limits"], "smoke", Some(2));
    assert_eq!(studies.jobs.len(), 40 + 2 * 4 + 2 * 8);
    assert_eq!(runs(&studies, (1, 0), "kappa = 20"), runs(&studies, (0, 0), "P3O (paper)"));
    assert_eq!(runs(&studies, (2, 0), "CPO, d = 50"), runs(&studies, (0, 0), "CPO"));
}

#[test]
fn first_seeds_come_first_and_of_these_what_matters_most() {
    let all = plan(&["all"], "paper", None);
    let seeds: Vec<u64> = all.jobs.iter().map(|job| job.config.run.seed).collect();
    assert!(seeds.is_sorted() && seeds[0] == 100 && seeds.last() == Some(&104), "{seeds:?}");
    let tasks: Vec<&str> =
        all.jobs.iter().take_while(|job| job.config.run.seed == 100).map(|j| &j.config.task[..]).collect();
    let first = |task: &str| tasks.iter().position(|t| *t == task).unwrap();
    let order = ["AntCircle", "PointGather", "PointGoal", "Navigation", "SimpleSpread"];
    assert!(order.map(first).is_sorted() && tasks.last() == Some(&"SimpleSpread"), "{tasks:?}");
    assert!(plan(&["all"], "cpu", Some(1)).jobs.iter().all(|job| job.config.run.seed == 100));
    // A task may have more seeds than the others.
    let (cpu, scale) = (plan(&["all"], "cpu", None), Scale::named("cpu").unwrap());
    assert!(cpu.jobs.iter().all(|job| job.config.run.seed < 100 + u64::from(scale.seeds_of(&job.config.task))));
}

#[test]
fn reported_seeds_are_none_of_those_that_choose_settings() {
    let read = |first: u64, seeds: u16, of_task: u16| {
        let head =
            format!("[x]\nabout = \"\"\npreset = \"quick\"\nfirst_seed = {first}\nseeds = {seeds}\ndecides = true\n");
        Scale::read(&format!("{head}[x.tasks.PointGoal]\nseeds = {of_task}\n")).map(drop)
    };
    assert_eq!((read(100, 3, 5), read(995, 3, 5)), (Ok(()), Ok(())));
    assert!(read(99, 3, 5).unwrap_err().contains("at least 100 and below 1000"));
    assert!(read(998, 3, 1).unwrap_err().contains("not 1000"));
    assert!(read(996, 3, 5).unwrap_err().contains("not 1000"));
    // Nor can a user ask for them.
    let (experiments, scale) = (PAPER.named(&["pointgoal".into()]).unwrap(), Scale::named("smoke").unwrap());
    let planned = |seeds: u16| Plan::new(experiments.clone(), scale.clone(), Some(seeds), Path::new("out"));
    assert!(planned(900).is_ok() && matches!(planned(901), Err(Error::Config(ConfigError::OutOfRange { .. }))));
}

#[test]
fn a_row_has_the_same_settings_everywhere_and_no_hidden_margin() {
    for row in Row::all() {
        assert!(!row.differs.is_empty() && row.differs.ends_with('.'), "{}: {:?}", row.name, row.differs);
    }
    for scale in ["smoke", "cpu", "paper"] {
        let plan = plan(&["all"], scale, Some(1));
        let groups = plan.experiments.iter().zip(&plan.runs).flat_map(|(e, runs)| e.group.iter().zip(runs));
        for (curve, runs) in groups.flat_map(|(group, runs)| group.curves.iter().zip(runs)) {
            let row = Row::named(&curve.row).unwrap();
            assert_eq!((curve.algo, &curve.set[..row.set.len()]), (row.algo, &row.set[..]));
            let config = &plan.jobs[runs[0]].config;
            let is_free = config.algorithm().info().constraints == Constraints::None;
            let is_shown = row.set.iter().any(|setting| setting.starts_with("constraint.margin"));
            assert!(is_free || is_shown || config.constraint.margin == 0.0, "{scale}: {}", row.name);
        }
    }
}

#[test]
fn a_folder_is_named_by_what_its_run_is() {
    let here = plan(&["table1"], "smoke", None);
    let (first, second) = (folder(&here, here.runs[0][0][0][0]), folder(&here, here.runs[0][0][0][1]));
    let (head, hash) = first.strip_suffix("-seed100").unwrap().rsplit_once('-').unwrap();
    assert_eq!((head, hash.len()), ("AntCircle-p3o-smoke", 8));
    assert_eq!(second, format!("{head}-{hash}-seed101"));
    let with = |change: &dyn Fn(&mut Curve)| {
        let mut experiments = PAPER.named(&["table1".into()]).unwrap();
        change(&mut experiments[0].group[0].curves[0]);
        let plan = Plan::new(experiments, Scale::named("smoke").unwrap(), None, Path::new("out")).unwrap();
        folder(&plan, plan.runs[0][0][0][0])
    };
    assert_eq!(with(&|_| {}), first);
    assert_ne!(with(&|curve| curve.limit.push("boundary=40".into())), first);
    for setting in ["rollout.gamma=0.98", "env.obs=113", "run.checkpoint_every=1", "run.steps=5000"] {
        assert_ne!(with(&|curve| curve.set.push(setting.into())), first, "{setting}");
    }
}

#[test]
fn a_setting_at_its_base_value_leaves_the_name_of_a_run_alone() {
    let name = |settings: &[&str]| {
        let mut experiments = PAPER.named(&["pointgoal".into()]).unwrap();
        experiments[0].group[0].curves[0].set = settings.iter().map(|s| s.to_string()).collect();
        folder(&Plan::new(experiments, Scale::named("cpu").unwrap(), Some(1), Path::new("out")).unwrap(), 0)
    };
    let plain = name(&[]);
    // As they are without being set: what a new setting would be in the runs that there are already.
    for base in ["critic.lr_decay=none", "constraint.sum=episode", "p3o.kappa_growth=1", "critic.target=return"] {
        assert_eq!(name(&[base]), plain, "{base}");
    }
    let others = ["critic.lr_decay=linear", "constraint.sum=discounted", "p3o.kappa_growth=2", "critic.target=lambda"];
    let names: HashSet<String> = others.iter().map(|other| name(&[other])).chain([plain]).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(name(&["p3o.kappa_growth=2", "p3o.kappa_growth=1"]), name(&[]), "the last one counts");
}

#[test]
fn an_algorithm_goes_without_shared_settings_that_it_does_not_have() {
    // Smoke sets policy.passes, which CPO does not have.
    let smoke = plan(&["pointgoal"], "smoke", Some(1));
    let config = |curve: &str| &smoke.jobs[runs(&smoke, (0, 0), curve)[0]].config;
    assert_eq!((config("P3O (paper)").algorithm(), config("P3O (paper)").policy.passes), (Algorithm::P3o, 3));
    assert_eq!((config("CPO").algorithm(), config("CPO").policy.passes), (Algorithm::Cpo, 40));
    assert!(config("CPO").differences().iter().all(|setting| !setting.starts_with("policy.passes")));
    // A curve asks for what it sets.
    let curve = |set: &str| Curve { set: vec![set.into()], ..smoke.experiments[0].group[0].curves[2].clone() };
    let refused = |set: &str| smoke.scale.config("PointGoal", &curve(set)).unwrap_err();
    assert!(matches!(refused("policy.passes=3"), Error::Config(ConfigError::WithoutEffect { .. })));
    assert!(matches!(refused("p3o.kappa=3"), Error::Config(ConfigError::OfAnother { .. })));
    assert!(smoke.scale.config("PointGoal", &curve("cpo.damping=0.2")).is_ok());
}

#[test]
fn the_requests_of_a_report_are_those_of_its_runs() {
    for name in ["smoke", "cpu", "paper"] {
        let scale = Scale::named(name).unwrap();
        for group in PAPER.all().iter().flat_map(|experiment| &experiment.group) {
            for curve in &group.curves {
                let exact = scale.exact_request(&group.task, curve).unwrap();
                assert!(!exact.shared);
                assert_eq!(exact.resolve().unwrap().config, scale.config(&group.task, curve).unwrap());
            }
        }
    }
}

#[test]
fn single_constraints_of_navigation_leave_the_other_out() {
    let plan = plan(&["navigation"], "cpu", Some(1));
    let limits = |curve: usize| {
        let names: Vec<&str> = plan.jobs[plan.runs[0][0][curve][0]].config.limits.keys().map(String::as_str).collect();
        names.join(" ")
    };
    assert_eq!([limits(1), limits(2), limits(3)], ["hazards", "pillars", "hazards pillars"]);
}

#[test]
fn claims_are_about_curves_and_costs_that_there_are() {
    for experiment in PAPER.all() {
        for group in &experiment.group {
            let is_curve = |name: &String| group.curves.iter().any(|curve| curve.name == *name);
            let spec = p3o_env::tasks::make(&group.task, &Default::default()).unwrap().spec().clone();
            assert!(group.towering.iter().chain(&group.drawn).all(is_curve));
            for claim in &group.claims {
                assert!(claim.unlike.iter().all(is_curve));
                let named: Vec<&String> =
                    claim.all.iter().chain([&claim.a, &claim.b]).filter(|n| !n.is_empty()).collect();
                assert!(!named.is_empty() && named.iter().all(|n| is_curve(n)), "{}: {claim:?}", experiment.name);
                let is_cost = |name: &String| spec.costs.iter().any(|cost| cost.name == *name);
                let is_clear = spec.costs.len() == 1 || !claim.b.is_empty();
                assert!(claim.cost.as_ref().map_or(is_clear, is_cost), "{claim:?}");
                assert_eq!(claim.than.is_some(), claim.kind == Kind::EarlierOver);
                assert!(claim.than.iter().all(is_cost));
                assert!(claim.by == 0.0 || claim.kind == Kind::HigherReturn, "{claim:?}");
                let is_band = matches!(claim.kind, Kind::StableOver | Kind::ReachesLimit);
                assert_eq!(claim.within > 0.0, is_band, "{claim:?}");
            }
            for name in group.curves.iter().flat_map(|curve| curve.paper.keys()) {
                assert!(name == "return" || spec.costs.iter().any(|c| c.name == *name), "{name}");
            }
        }
    }
}

#[test]
fn unknown_names_are_refused_with_the_nearest() {
    let name = |e: ConfigError| e.to_string();
    assert!(name(PAPER.named(&["tabel1".into()]).unwrap_err()).contains("did you mean `table1`"));
    assert!(name(Scale::named("cpus").unwrap_err()).contains("did you mean `cpu`"));
}

/// A run of PointGoal with this return and cost at its end, and over the limit of 25 in two of ten rows.
fn outcome(plan: &Plan, run: usize, ret: f64, cost: f64) -> Outcome {
    let columns = ["steps", "episodes", "return", "length", "cost_hazards", "cost_per_step_hazards"];
    let costs = [35.0, 35.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0];
    let row = |(i, cost): (usize, f64)| vec![(i + 1) as f64 * 1e5, 4.0, ret, 1000.0, cost, cost / 1000.0];
    let rows = costs.into_iter().enumerate().map(row).collect();
    let config = &plan.jobs[run].config;
    let satisfied = Some(cost <= 25.0);
    let cost = CostSummary { mean: Some(cost), limit: Some(25.0), satisfied };
    let summary = Summary {
        task: config.task.clone(),
        algo: config.method().to_string(),
        seed: config.run.seed,
        steps: 400_000,
        wall_s: 3600.0,
        steps_per_s: 111.1,
        return_mean: Some(ret),
        costs: [("hazards".to_string(), cost)].into(),
    };
    Outcome::new(config, summary, Table { columns: columns.map(String::from).to_vec(), rows })
}

/// Of PointGoal's four curves: returns and costs of three seeds each; the last run of PPO-L is not in.
fn results(plan: &Plan) -> Results<'_> {
    let ends = [
        ([13.0, 15.0, 17.0], [20.0, 20.1, 20.2]),
        ([5.0, 6.0, 7.0], [24.0, 26.0, 25.0]),
        ([29.0, 30.0, 31.0], [30.0, 30.1, 30.2]),
        ([9.0, 15.0, 12.0], [24.0, 26.0, 25.0]),
    ];
    let mut known = vec![Known::Nothing; plan.jobs.len()];
    for (curve, (returns, costs)) in ends.iter().enumerate() {
        for (seed, &run) in plan.runs[0][0][curve].iter().enumerate() {
            known[run] = Known::Outcome(outcome(plan, run, returns[seed], costs[seed]).into());
        }
    }
    known[plan.runs[0][0][3][2]] = Known::Nothing;
    Results { plan, known }
}

fn check_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn a_report_has_means_beside_verdicts() {
    let plan = pointgoal_without_margins();
    let text = document(&results(&plan), "p3o reproduce pointgoal").markdown();
    // t(2) = 4.3027 and t(1) = 12.706. P3O: return sd 2, 4.3027 * 2 / sqrt(3) = 4.968; cost sd 0.1, 0.248. CPO's return: sd 1.
    // PPO-L: returns 9 and 15, sd 4.2426, 12.706 * 3 = 38.1; costs 24 and 26, sd 1.4142, 12.7. A step of the last row costs
    // 0.009. P3O's cost is t = -4.9 / (0.1 / sqrt(3)) = -84.9 from its limit: with two degrees p = 1 - t / sqrt(2 + t^2) = 0.00014,
    // CPO's 5.1 with t = 88.3 and p = 0.00013. CPO's return is 15 over P3O's: t = 15 / sqrt(1/3 + 4/3) = 11.62 and
    // (5/3)^2 / ((1/9 + 16/9) / 2) = 2.94 degrees, so two: p = 0.0073. P3O (paper) is at its limit: p = 1.
    // Of five claims with 0.00013, 0.00014, 0.0073, the third has 0.05 / 3 to come below.
    check_lines(
        &text,
        &[
            "11 of 12 runs are finished.",
            "| P3O | 3 | 15.0 ± 4.97 | 1000 | 20.1 ± 0.25 | 0.0090 | 25.0 | 3 of 3 |",
            "| CPO | 3 | 30.0 ± 2.48 | 1000 | 30.1 ± 0.25 | 0.0090 | 25.0 | 0 of 3 |",
            "| PPO-L | 2 of 3 | 12.0 ± 38.1 | 1000 | 25.0 ± 12.7 | 0.0090 | 25.0 | 1 of 2 |",
            // P3O's 13, 15, 17 against 29, 30, 31: never. Against 9 and 15: above both but for 15 = 15 and 13 < 15: 4.5 / 6.
            "| CPO | 30.0 (29.0 to 31.0) | 0 % | 0.00 | 20 %, 2.00, 10.0 |",
            "| PPO-L | 12.0 (9.00 to 15.0) | 75 % | 0.00 | 20 %, 2.00, 10.0 |",
            "| P3O satisfies the constraint | agrees | hazards of P3O: 20.1 (19.9 to 20.3); limit 25, kept by 3 of 3; p = 0.0001 |",
            "| CPO cannot fully ensure the constraint | agrees | hazards of CPO: 30.1 (29.9 to 30.3); limit 25, kept by 0 of 3; p = 0.0001 |",
            "| CPO enjoys a meaningless high return | agrees | return of CPO: 30.0 (27.5 to 32.5), P3O: 15.0 (10.0 to 20.0); +100 %; p = 0.0073 |",
            "| P3O improves the return more than PPO-L | not decided | return of P3O: 15.0 (10.0 to 20.0), PPO-L: 12.0 (-26.1 to 50.1); +25 %; p = ",
            "| Figure 7: Safety Gym's PointGoal | 3 | 0 | 2 |",
            "5 different claims, corrected together: the probability of a single wrong verdict is at most 0.05. 0 of those",
            "| hours of training, all runs added up | 11.00 |",
            "p3o train PointGoal --algo ppo-lag --preset quick",
            "with --seed 100, 101, ...;",
            "p3o reproduce pointgoal --report-only",
        ],
    );
}

#[test]
fn what_only_one_claim_would_show_many_do_not() {
    let plan = plan(&["pointgoal"], "cpu", Some(3));
    let mut results = results(&plan);
    // P3O at 19, 20.5 and 22: sd 1.5, t = 4.5 / (1.5 / sqrt(3)) = 5.196, p = 1 - t / sqrt(2 + t^2) = 0.0351. Alone that would do,
    // but two of the five are below it, so that it has 0.05 / 3 to come below.
    for (&run, cost) in plan.runs[0][0][0].iter().zip([19.0, 20.5, 22.0]) {
        results.known[run] = Known::Outcome(outcome(&plan, run, 15.0, cost).into());
    }
    check_lines(
        &document(&results, "").markdown(),
        &[
            "| P3O satisfies the constraint | not decided | hazards of P3O: 20.5 (16.8 to 24.2); limit 25, kept by 3 of 3; p = 0.0351 |",
            "1 of those not decided would be without the correction.",
        ],
    );
}

#[test]
fn runs_that_are_the_same_prove_nothing() {
    let plan = plan(&["pointgoal"], "cpu", Some(3));
    let mut results = results(&plan);
    for (curve, shift) in [(0, 0.0), (3, 0.0), (2, 1.0)] {
        for (&run, cost) in plan.runs[0][0][curve].iter().zip([20.0, 20.1, 20.2]) {
            results.known[run] = Known::Outcome(outcome(&plan, run, cost + shift, cost).into());
        }
    }
    check_lines(
        &document(&results, "").markdown(),
        &[
            "| P3O improves the return more than PPO-L | not decided | return of P3O: 20.1 (19.9 to 20.3), PPO-L: 20.1 (19.9 to 20.3); +0 %; the runs are the same |",
            // The same costs, but other returns.
            "| CPO enjoys a meaningless high return | agrees |",
        ],
    );
}

#[test]
fn a_claim_about_the_same_runs_counts_once() {
    let mut plan = plan(&["pointgoal"], "cpu", Some(3));
    let mut again = plan.experiments[0].clone();
    again.title = "Figure 8: the same".into();
    again.group[0].claims.truncate(2);
    again.group[0].claims[1].kind = Kind::Violates;
    plan.experiments.push(again);
    plan.runs.push(plan.runs[0].clone());
    check_lines(
        &document(&results(&plan), "").markdown(),
        &[
            "| Figure 7: Safety Gym's PointGoal | 3 | 0 | 2 |",
            // One is repeated, the other says something else of the same runs.
            "| Figure 8: the same | 0 | 0 | 1 |",
            "| all | 3 | 0 | 3 |",
            "6 different claims",
            "p = 0.0001; the same runs and claim as in Figure 7: counted there |",
        ],
    );
}

#[test]
fn a_margin_is_taken_off_what_a_run_trained_for() {
    let plan = plan(&["pointgoal"], "cpu", Some(1));
    let mut config = plan.jobs[plan.runs[0][0][0][0]].config.clone();
    config.constraint.margin = 0.2;
    let Outcome { summary, progress, .. } = outcome(&plan, plan.runs[0][0][0][0], 10.0, 20.0);
    assert_eq!(Outcome::new(&config, summary.clone(), progress.clone()).trained_for["hazards"], 20.0);
    // What a run ignores it was not trained for.
    config.limits.clear();
    assert!(Outcome::new(&config, summary, progress).trained_for.is_empty());
}

#[test]
fn lengths_are_means_over_the_episodes_of_the_last_tenth() {
    let plan = plan(&["pointgoal"], "cpu", Some(1));
    let Outcome { summary, mut progress, .. } = outcome(&plan, plan.runs[0][0][0][0], 10.0, 20.0);
    // The rows at 0.95 and 1 million steps: (3 * 100 + 1 * 500) / 4, and (0.02 + 0.04) / 2; one without episodes has no length.
    let row = |steps: f64, episodes: f64, length: f64, cost: f64| vec![steps, episodes, 1.0, length, 1.0, cost];
    progress.rows.push(row(0.95e6, 3.0, 100.0, 0.02));
    progress.rows.remove(9);
    progress.rows.push(row(1e6, 1.0, 500.0, 0.04));
    let config = &plan.jobs[0].config;
    let late = Outcome::new(config, summary.clone(), progress.clone());
    assert_eq!((late.length, late.per_step["hazards"]), (Some(200.0), 0.03));
    progress.rows.last_mut().unwrap()[3] = f64::NAN;
    assert_eq!(Outcome::new(config, summary, progress).length, Some(100.0));
}

/// A run of Navigation with the costs of three rows and its return at the end.
fn on_navigation(plan: &Plan, ret: f64, hazards: [f64; 3], pillars: [f64; 3]) -> Known {
    let columns = ["steps", "return", "cost_hazards", "cost_pillars"].map(String::from).to_vec();
    let rows = (0..3).map(|i| vec![(i + 1) as f64 * 1e5, ret, hazards[i], pillars[i]]).collect();
    let cost = |rows: [f64; 3]| CostSummary { mean: Some(rows[2]), limit: None, satisfied: None };
    let summary = Summary {
        task: "Navigation".into(),
        algo: "ppo".into(),
        seed: 100,
        steps: 300_000,
        wall_s: 1.0,
        steps_per_s: 1.0,
        return_mean: Some(ret),
        costs: [("hazards".to_string(), cost(hazards)), ("pillars".to_string(), cost(pillars))].into(),
    };
    Known::Outcome(Outcome::new(&plan.jobs[0].config, summary, Table { columns, rows }).into())
}

#[test]
fn the_first_row_over_a_limit_tells_which_cost_comes_first() {
    let plan = plan(&["navigation"], "cpu", Some(2));
    let mut known = vec![Known::Nothing; plan.jobs.len()];
    let places = runs(&plan, (0, 0), "unconstrained");
    // Over 25 in the first row, over 20 in the third; over 25 in the second, never over 20, which counts as the last.
    known[places[0]] = on_navigation(&plan, 1.0, [30.0, 1.0, 1.0], [0.0, 20.0, 21.0]);
    known[places[1]] = on_navigation(&plan, 1.0, [25.0, 26.0, 1.0], [0.0, 0.0, 0.0]);
    let results = Results { plan: &plan, known };
    let spot = results.spots(0, 0)[results.curve_named(0, 0, "unconstrained")];
    assert_eq!(results.earlier_over(spot, "hazards", "pillars"), [2e5, 1e5]);
    assert_eq!(results.earlier_over(spot, "pillars", "hazards"), [-2e5, -1e5]);
}

#[test]
fn a_constraint_that_never_worked_proves_nothing() {
    let plan = plan(&["navigation"], "cpu", Some(2));
    let with_pillars_only = |shift: f64| {
        let mut known = vec![Known::Nothing; plan.jobs.len()];
        for (name, shift) in [("unconstrained", 0.0), ("pillars only", shift)] {
            for (seed, &run) in runs(&plan, (0, 0), name).iter().enumerate() {
                known[run] = on_navigation(&plan, seed as f64 + shift, [50.0; 3], [1.0; 3]);
            }
        }
        document(&Results { plan: &plan, known }, "").markdown()
    };
    let kept = "limit 20, kept by 2 of 2";
    check_lines(
        &with_pillars_only(0.0),
        &[&format!(
            "| a single constraint is kept | not decided | pillars of pillars only: 1.00 (1.00 to 1.00); {kept}; the runs are the same as those of unconstrained |"
        )],
    );
    check_lines(
        &with_pillars_only(1.0),
        &[&format!(
            "| a single constraint is kept | agrees | pillars of pillars only: 1.00 (1.00 to 1.00); {kept}; p < 0.0001 |"
        )],
    );
}

#[test]
fn a_run_that_failed_is_named_and_leaves_its_claims_open() {
    let plan = plan(&["pointgoal"], "cpu", Some(3));
    let mut results = results(&plan);
    results.known[plan.runs[0][0][2][0]] = Known::Trouble("runs/x: loss is not finite".into());
    check_lines(
        &document(&results, "").markdown(),
        &[
            "10 of 12 runs are finished. 1 failed (below): claims about them are not decided. The rest is still to come",
            "Failed: runs/x: loss is not finite",
            // 30.1 and 30.2: 12.706 * 0.05 = 0.635.
            "| CPO cannot fully ensure the constraint | not decided | hazards of CPO: 30.1 (29.5 to 30.8); limit 25, kept by 0 of 2; 1 failed |",
            "| P3O satisfies the constraint | agrees |",
        ],
    );
}

#[test]
fn a_claim_about_curves_without_runs_has_no_figures() {
    let plan = plan(&["table1"], "published", Some(2));
    let none = Results { plan: &plan, known: vec![Known::Nothing; plan.jobs.len()] };
    let text = document(&none, "").markdown();
    check_lines(&text, &["| P3O earns 15 % more than CPO | not decided | return of P3O: -, CPO: - |"]);
    assert!(!text.contains("NaN"), "{text}");
}

#[test]
fn a_tasks_steps_win_over_the_scales() {
    let steps = |task: &str| -> Vec<u64> {
        let plan = plan(&["all"], "paper", Some(1));
        plan.jobs.iter().filter(|job| job.config.task == task).map(|job| job.config.run.steps).collect()
    };
    assert!(steps("SimpleSpread").iter().all(|&steps| steps == 5_000_000));
    assert!(steps("AntCircle").iter().all(|&steps| steps == 10_000_000));
}

#[test]
fn the_smallest_scale_decides_nothing() {
    let smoke = plan(&["pointgoal"], "smoke", Some(3));
    assert!(document(&results(&smoke), "").markdown().contains("| all | 0 | 0 | 5 |"));
}

#[test]
fn a_page_needs_nothing_else() {
    let plan = plan(&["pointgoal"], "cpu", Some(3));
    let page = document(&results(&plan), "p3o reproduce pointgoal").html();
    assert!(page.contains("<svg ") && page.contains("prefers-color-scheme: dark"));
    assert!(page.contains("<td class=\"agrees\">agrees</td>"));
    for outside in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn the_report_is_a_folder_of_small_files() {
    let (home, plan) = (tempfile::tempdir().unwrap(), pointgoal_without_margins());
    report::write(&results(&plan), "p3o reproduce pointgoal", home.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    assert!(
        read("README.md").contains("](pointgoal-PointGoal.svg)") && read("pointgoal-PointGoal.svg").starts_with("<svg")
    );
    let table = read("runs.csv");
    assert_eq!(table.lines().count(), 12);
    // A fifth of the rows over the limit, by 10: 2 on average.
    let first = ",PointGoal,p3o,cpu,100,400000,3600.0,13,1000,hazards,20,0.009,25,25,1,0.2,2,10";
    assert!(table.lines().nth(1).unwrap().ends_with(first), "{table}");
    let curves = read("curves.csv");
    let cpo = curves.lines().find(|line| line.starts_with("pointgoal,PointGoal,CPO,cpo,3,30,27.5")).unwrap();
    assert!(cpo.contains(",30,29,31,1000,0,hazards,30.1,29.85") && cpo.ends_with(",0.009,25,25"), "{cpo}");
    assert!(read("index.html").len() < 200_000);
}

#[test]
fn a_figure_has_a_second_row_only_where_a_curve_towers() {
    let drawn = |towering: &str| {
        let (home, mut plan) = (tempfile::tempdir().unwrap(), pointgoal_without_margins());
        plan.experiments[0].group[0].towering = Some(towering.into());
        report::write(&results(&plan), "p3o reproduce pointgoal", home.path()).unwrap();
        std::fs::read_to_string(home.path().join("pointgoal-PointGoal.svg")).unwrap()
    };
    assert!(drawn("CPO").contains("without CPO"));
    // No run of it is in: the second row would be the first again.
    assert!(!drawn("PPO (not run)").contains("without"));
}
