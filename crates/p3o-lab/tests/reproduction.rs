//! The paper's experiments as data: every run is valid, made once, and its folder is named by what it is.

use p3o_lab::reproduce::{Experiment, Plan, Scale};
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
    assert_eq!((config.steps, config.seed, config.algo.kappa), (10_000_000, 4, 20.0));
    assert_eq!(config.net.hidden, [256, 256]);
}

#[test]
fn experiments_share_their_runs() {
    let both = plan(&["table1", "single"], "smoke", Some(2));
    assert_eq!(both.runs[0], both.runs[1]);
    // Five algorithms on two tasks.
    assert_eq!(both.jobs.len(), 2 * 5 * 2);
    // The preset's kappa is 2 and AntCircle's limit 50: of four kappas and three limits, three and two are new.
    let studies = plan(&["table1", "kappa", "limits"], "smoke", Some(2));
    assert_eq!(studies.jobs.len(), 20 + 2 * 3 + 2 * 2);
    assert_eq!(studies.runs[1][0][0], studies.runs[0][0][0]);
    // The paper's kappa is 20.
    let paper = plan(&["table1", "kappa"], "paper", None);
    assert_eq!(paper.runs[1][0][3], paper.runs[0][0][0]);
}

#[test]
fn first_seeds_come_first() {
    let seeds: Vec<u64> = plan(&["all"], "paper", None).jobs.iter().map(|job| job.config.seed).collect();
    assert!(seeds.is_sorted() && seeds.last() == Some(&4), "{seeds:?}");
    assert!(plan(&["all"], "cpu", Some(1)).jobs.iter().all(|job| job.config.seed == 0));
    // A task may have more seeds than the others.
    let (cpu, scale) = (plan(&["all"], "cpu", None), Scale::named("cpu").unwrap());
    assert!(cpu.jobs.iter().all(|job| job.config.seed < u64::from(scale.seeds_of(&job.config.task))));
}

#[test]
fn a_folder_is_named_by_what_its_run_is() {
    let here = plan(&["table1"], "smoke", None);
    let (first, second) = (folder(&here, here.runs[0][0][0][0]), folder(&here, here.runs[0][0][0][1]));
    let (head, hash) = first.strip_suffix("-seed0").unwrap().rsplit_once('-').unwrap();
    assert_eq!((head, hash.len()), ("AntCircle-p3o-smoke", 8));
    assert_eq!(second, format!("{head}-{hash}-seed1"));
    let mut scale = Scale::named("smoke").unwrap();
    scale.set.push("rollout.gamma=0.98".into());
    let other = Plan::new(Experiment::named(&["table1".into()]).unwrap(), scale, None, Path::new("out")).unwrap();
    assert_ne!(folder(&other, 0), first);
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
    let name = |e: p3o::ConfigError| e.to_string();
    assert!(name(Experiment::named(&["tabel1".into()]).unwrap_err()).contains("did you mean `table1`"));
    assert!(name(Scale::named("cpus").unwrap_err()).contains("did you mean `cpu`"));
}
