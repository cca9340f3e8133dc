//! The paper's experiments as data: every run is valid, made once, and its folder is named by what it is.

use p3o::algo::Settings;
use p3o::record::Table;
use p3o::run::{CostSummary, Summary};
use p3o::{Algorithm, ConfigError, Error};
use p3o_lab::reproduce::data::Curve;
use p3o_lab::reproduce::report::{self, document};
use p3o_lab::reproduce::results::{Known, Outcome};
use p3o_lab::reproduce::{Experiment, Plan, Results, Scale};
use std::collections::HashSet;
use std::path::Path;

fn plan(names: &[&str], scale: &str, seeds: Option<u16>) -> Plan {
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    let (experiments, scale) = (Experiment::named(&names).unwrap(), Scale::named(scale).unwrap());
    Plan::new(experiments, scale, seeds, Path::new("out")).unwrap()
}

fn folder(plan: &Plan, run: usize) -> String {
    plan.jobs[run].folder.file_name().unwrap().to_string_lossy().into_owned()
}

#[test]
fn every_experiment_can_be_planned_at_every_scale() {
    for scale in ["smoke", "cpu", "paper"] {
        let plan = plan(&["all"], scale, None);
        assert_eq!(plan.experiments.len(), 7);
        let folders: HashSet<_> = plan.jobs.iter().map(|job| &job.folder).collect();
        assert_eq!(folders.len(), plan.jobs.len(), "a run would be made twice");
        assert_eq!(plan.names.len(), plan.jobs.len());
    }
    let paper = plan(&["table1"], "paper", None);
    let config = &paper.jobs[paper.runs[0][0][0][4]].config;
    assert_eq!((config.run.steps, config.run.seed), (10_000_000, 4));
    assert!(matches!(&config.own, Settings::P3o(own) if own.kappa == 20.0));
    assert_eq!(config.net.hidden, [255, 255]);
}

#[test]
fn experiments_share_their_runs() {
    let both = plan(&["table1", "single"], "smoke", Some(2));
    assert_eq!(both.runs[0], both.runs[1]);
    // Five algorithms on two tasks.
    assert_eq!(both.jobs.len(), 2 * 5 * 2);
    // The preset's kappa is 10 and AntCircle's limit 50: of four kappas and three limits, three and two are new.
    let studies = plan(&["table1", "kappa", "limits"], "smoke", Some(2));
    assert_eq!(studies.jobs.len(), 20 + 2 * 3 + 2 * 2);
    assert_eq!(studies.runs[1][0][2], studies.runs[0][0][0]);
    // The paper's kappa is 20.
    let paper = plan(&["table1", "kappa"], "paper", None);
    assert_eq!(paper.runs[1][0][3], paper.runs[0][0][0]);
}

#[test]
fn first_seeds_come_first() {
    let seeds: Vec<u64> = plan(&["all"], "paper", None).jobs.iter().map(|job| job.config.run.seed).collect();
    assert!(seeds.is_sorted() && seeds.last() == Some(&4), "{seeds:?}");
    assert!(plan(&["all"], "cpu", Some(1)).jobs.iter().all(|job| job.config.run.seed == 0));
    // A task may have more seeds than the others.
    let (cpu, scale) = (plan(&["all"], "cpu", None), Scale::named("cpu").unwrap());
    assert!(cpu.jobs.iter().all(|job| job.config.run.seed < u64::from(scale.seeds_of(&job.config.task))));
}

#[test]
fn a_folder_is_named_by_what_its_run_is() {
    let here = plan(&["table1"], "smoke", None);
    let (first, second) = (folder(&here, here.runs[0][0][0][0]), folder(&here, here.runs[0][0][0][1]));
    let (head, hash) = first.strip_suffix("-seed0").unwrap().rsplit_once('-').unwrap();
    assert_eq!((head, hash.len()), ("AntCircle-p3o-smoke", 8));
    assert_eq!(second, format!("{head}-{hash}-seed1"));
    let with = |change: &dyn Fn(&mut Curve)| {
        let mut experiments = Experiment::named(&["table1".into()]).unwrap();
        change(&mut experiments[0].group[0].curves[0]);
        folder(&Plan::new(experiments, Scale::named("smoke").unwrap(), None, Path::new("out")).unwrap(), 0)
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
        let mut experiments = Experiment::named(&["pointgoal".into()]).unwrap();
        experiments[0].group[0].curves[0].set = settings.iter().map(|s| s.to_string()).collect();
        folder(&Plan::new(experiments, Scale::named("cpu").unwrap(), Some(1), Path::new("out")).unwrap(), 0)
    };
    let plain = name(&[]);
    // As they are without being set: what a new setting would be in the runs that there are already.
    for base in ["policy.lr_decay=none", "constraint.smoothing=0", "p3o.kappa=2", "critic.minibatch=0"] {
        assert_eq!(name(&[base]), plain, "{base}");
    }
    let others = ["policy.lr_decay=linear", "constraint.smoothing=0.5", "p3o.kappa=3", "critic.minibatch=500"];
    let names: HashSet<String> = others.iter().map(|other| name(&[other])).chain([plain]).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(name(&["p3o.kappa=3", "p3o.kappa=2"]), name(&[]), "the last one counts");
}

#[test]
fn an_algorithm_goes_without_shared_settings_that_it_does_not_have() {
    // Smoke sets policy.passes, which CPO does not have.
    let smoke = plan(&["pointgoal"], "smoke", Some(1));
    let config = |curve: usize| &smoke.jobs[smoke.runs[0][0][curve][0]].config;
    assert_eq!((config(0).algorithm(), config(0).policy.passes), (Algorithm::P3o, 3));
    assert_eq!((config(1).algorithm(), config(1).policy.passes), (Algorithm::Cpo, 40));
    assert!(config(1).differences().iter().all(|setting| !setting.starts_with("policy.passes")));
    // A curve asks for what it sets.
    let curve = |set: &str| Curve { set: vec![set.into()], ..smoke.experiments[0].group[0].curves[1].clone() };
    let refused = |set: &str| smoke.scale.config("PointGoal", &curve(set)).unwrap_err();
    assert!(matches!(refused("policy.passes=3"), Error::Config(ConfigError::WithoutEffect { .. })));
    assert!(matches!(refused("p3o.kappa=3"), Error::Config(ConfigError::OfAnother { .. })));
    assert!(smoke.scale.config("PointGoal", &curve("cpo.damping=0.2")).is_ok());
}

#[test]
fn the_requests_of_a_report_are_those_of_its_runs() {
    for name in ["smoke", "cpu", "paper"] {
        let scale = Scale::named(name).unwrap();
        for group in Experiment::all().iter().flat_map(|experiment| &experiment.group) {
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
    for experiment in Experiment::all() {
        for group in &experiment.group {
            let is_curve = |name: &String| group.curves.iter().any(|curve| curve.name == *name);
            let spec = p3o_env::tasks::make(&group.task, &Default::default()).unwrap().spec().clone();
            assert!(group.towering.iter().all(is_curve));
            for claim in &group.claims {
                let named: Vec<&String> =
                    claim.all.iter().chain([&claim.a, &claim.b]).filter(|n| !n.is_empty()).collect();
                assert!(!named.is_empty() && named.iter().all(|n| is_curve(n)), "{}: {claim:?}", experiment.name);
                let cost = claim.cost.as_ref();
                assert!(
                    cost.map_or(spec.costs.len() == 1 || !claim.b.is_empty(), |c| spec
                        .costs
                        .iter()
                        .any(|s| s.name == *c))
                );
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
    assert!(name(Experiment::named(&["tabel1".into()]).unwrap_err()).contains("did you mean `table1`"));
    assert!(name(Scale::named("cpus").unwrap_err()).contains("did you mean `cpu`"));
}

/// A run of PointGoal with this return and cost at its end, and over the limit of 25 in two of eight rows.
fn outcome(plan: &Plan, run: usize, ret: f64, cost: f64) -> Outcome {
    let columns = ["steps", "return", "cost_hazards"].map(String::from).to_vec();
    let rows =
        [35.0, 35.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0].into_iter().enumerate().map(|(i, c)| vec![i as f64 * 1e5, ret, c]);
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
    Outcome { summary, progress: Table { columns, rows: rows.collect() } }
}

/// Of PointGoal's three curves: returns and costs of three seeds each; the last run of PPO-L is not in.
fn results(plan: &Plan) -> Results<'_> {
    let ends = [
        ([13.0, 15.0, 17.0], [20.0, 21.0, 22.0]),
        ([29.0, 30.0, 31.0], [30.0, 31.0, 32.0]),
        ([9.0, 15.0, 12.0], [24.0, 26.0, 25.0]),
    ];
    let mut known = vec![Known::Nothing; plan.jobs.len()];
    for (curve, (returns, costs)) in ends.iter().enumerate() {
        for (seed, &run) in plan.runs[0][0][curve].iter().enumerate() {
            known[run] = Known::Outcome(outcome(plan, run, returns[seed], costs[seed]).into());
        }
    }
    known[plan.runs[0][0][2][2]] = Known::Nothing;
    Results { plan, known }
}

#[test]
fn a_report_has_means_beside_verdicts() {
    let plan = plan(&["pointgoal"], "cpu", Some(3));
    let text = document(&results(&plan), "p3o reproduce pointgoal").markdown();
    // t(2) = 4.3027 and t(1) = 12.706. P3O: return sd 2, 4.3027 * 2 / sqrt(3) = 4.968; cost sd 1, 2.484. CPO: both sd 1.
    // PPO-L: returns 9 and 15, sd 4.2426, 12.706 * 3 = 38.1; costs 24 and 26, sd 1.4142, 12.7.
    for line in [
        "8 of 9 runs are finished.",
        "| P3O | 3 | 15.0 ± 4.97 | 21.0 ± 2.48 | 3 of 3 |",
        "| CPO | 3 | 30.0 ± 2.48 | 31.0 ± 2.48 | 0 of 3 |",
        "| PPO-L | 2 of 3 | 12.0 ± 38.1 | 25.0 ± 12.7 | 1 of 2 |",
        // P3O's 13, 15, 17 against 29, 30, 31: never. Against 9 and 15: above both but for 15 = 15 and 13 < 15: 4.5 / 6.
        "| CPO | 30.0 (29.0 to 31.0) | 0 % | 0.00 | 25 %, 2.50, 10.0 |",
        "| PPO-L | 12.0 (9.00 to 15.0) | 75 % | 0.00 | 25 %, 2.50, 10.0 |",
        "| P3O satisfies the constraint | agrees | hazards of P3O: 21.0 (18.5 to 23.5); limit 25, kept by 3 of 3 |",
        "| CPO cannot fully ensure the constraint | agrees | hazards of CPO: 31.0 (28.5 to 33.5); limit 25, kept by 0 of 3 |",
        "| CPO enjoys a meaningless high return | agrees | return of CPO: 30.0 (27.5 to 32.5), P3O: 15.0 (10.0 to 20.0); +100 % |",
        "| P3O improves the return more than PPO-L | not decided | return of P3O: 15.0 (10.0 to 20.0), PPO-L: 12.0 (-26.1 to 50.1); +25 % |",
        "| Figure 7: Safety Gym's PointGoal | 3 | 0 | 1 |",
        "| hours of training, all runs added up | 8.00 |",
        "p3o train PointGoal --algo ppo-lag --preset quick",
        "p3o reproduce pointgoal --report-only",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn a_run_that_failed_is_named_and_leaves_its_claims_open() {
    let plan = plan(&["pointgoal"], "cpu", Some(3));
    let mut results = results(&plan);
    results.known[plan.runs[0][0][1][0]] = Known::Trouble("runs/x: loss is not finite".into());
    let text = document(&results, "").markdown();
    for line in [
        "7 of 9 runs are finished. 1 failed (below): claims about them are not decided. The rest is still to come",
        "Failed: runs/x: loss is not finite",
        // 31 and 32: 12.706 * 0.5 = 6.35.
        "| CPO cannot fully ensure the constraint | not decided | hazards of CPO: 31.5 (25.1 to 37.9); limit 25, kept by 0 of 2; 1 failed |",
        "| P3O satisfies the constraint | agrees |",
    ] {
        assert!(text.contains(line), "no {line:?} in {text}");
    }
}

#[test]
fn the_smallest_scale_decides_nothing() {
    let smoke = plan(&["pointgoal"], "smoke", Some(3));
    assert!(document(&results(&smoke), "").markdown().contains("| all | 0 | 0 | 4 |"));
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
    let (home, plan) = (tempfile::tempdir().unwrap(), plan(&["pointgoal"], "cpu", Some(3)));
    report::write(&results(&plan), "p3o reproduce pointgoal", home.path()).unwrap();
    let read = |name: &str| std::fs::read_to_string(home.path().join(name)).unwrap();
    assert!(
        read("README.md").contains("](pointgoal-PointGoal.svg)") && read("pointgoal-PointGoal.svg").starts_with("<svg")
    );
    let runs = read("runs.csv");
    assert_eq!(runs.lines().count(), 9);
    // A quarter of the rows over the limit, by 10: 2.5 on average.
    assert!(
        runs.lines().nth(1).unwrap().ends_with(",PointGoal,p3o,cpu,0,400000,3600.0,13,hazards,20,25,1,0.25,2.5,10")
    );
    let curves = read("curves.csv");
    let cpo = curves.lines().find(|line| line.starts_with("pointgoal,PointGoal,CPO,cpo,3,30,27.5")).unwrap();
    assert!(cpo.contains(",30,29,31,0,hazards,31,28.5"), "{cpo}");
    assert!(read("index.html").len() < 200_000);
}
