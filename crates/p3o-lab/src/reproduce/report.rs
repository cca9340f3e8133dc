//! The report: what was run, what came out beside what the paper says, and a verdict on each of its claims.

use super::data::{Claim, Experiment, Group, LONG, Row as Contestant};
use super::document::{Block, Document};
use super::likeliest::EPISODES;
use super::results::{Results, Spot, short};
use super::verdict::{Judged, Judgement, LEVEL, Verdict, judge, range};
use crate::figure::{Limit, Picture, Row, Study, curves, studies};
use crate::statistics::{Interval, iqm_ci95, mean_ci95, probability_of_improvement};
use p3o::record::{Table, write_atomic};
use p3o::{Error, Request};
use std::path::Path;

/// Pixels to a point.
const PIXELS: f32 = 2.0;

/// Writes `index.html`, `README.md` with its pictures, the two tables, and what it was made from into a folder. `command` is what was typed.
pub fn write(results: &Results, command: &str, folder: &Path) -> Result<(), Error> {
    let document = document(results, command);
    for (file, contents) in document.figures() {
        write_atomic(&folder.join(file), contents)?;
    }
    write_atomic(&folder.join("index.html"), document.html().as_bytes())?;
    write_atomic(&folder.join("README.md"), document.markdown().as_bytes())?;
    results.write_runs(&folder.join("runs"))?;
    results.write_csv(folder)
}

/// All of it.
pub fn document(results: &Results, command: &str) -> Document {
    let judged = judge(results);
    let mut blocks = opening(results);
    blocks.extend(overview(results, &judged));
    for (e, experiment) in results.plan.experiments.iter().enumerate() {
        blocks.push(Block::Heading(2, experiment.title.clone()));
        blocks.push(Block::Text(experiment.about.clone()));
        for (g, group) in experiment.group.iter().enumerate() {
            blocks.push(Block::Heading(3, group.task.clone()));
            blocks.extend(section(results, (e, g), &judged.claims[e][g]));
        }
    }
    blocks.extend(settings(results));
    blocks.extend(circumstances(results, command));
    Document { title: results.plan.book().title.into(), blocks }
}

fn opening(results: &Results) -> Vec<Block> {
    let scale = &results.plan.scale;
    let (done, all) = (results.finished(), results.plan.jobs.len());
    let failed = results.troubles().count();
    let mut partial = String::new();
    if failed > 0 {
        partial += &format!(" {failed} failed (below): claims about them are not decided.");
    }
    if done + failed < all {
        partial += " The rest is still to come: everything below is from those that are.";
    }
    let caution = if scale.decides { "" } else { " Runs of this scale are too short to decide any claim." };
    let mut blocks = vec![
        Block::Text(format!(
            "{} Scale {}: {}. {done} of {all} runs are finished.{partial}{caution}",
            results.plan.book().source,
            scale.name,
            scale.about
        )),
        Block::Text(
            "Every figure of a run is its mean over the last tenth of training. ± is half of Student's 95 % interval over \
             the seeds. A cost per step is what early ends of episodes cannot lower. Trained for: the limit less the margin that \
             a run held back of it."
                .into(),
        ),
        Block::Text(
            "A claim's p value is twice the smaller of two one-sided ones, of what it says and of the opposite: Student's for a mean \
             against a limit, Welch's for two means, two one-sided tests for a band. Holm's correction over all claims, each set of \
             runs counted once, decides which agree or differ. Otherwise, or with fewer than two seeds, a claim is not decided."
                .into(),
        ),
        Block::Text(
            "An interquartile mean leaves out the best and the worst quarter of the seeds, which is none of fewer than four; its \
             interval is a bootstrap's. The change of return from row to row is its standard deviation in the second half of training. Over a limit: the \
             share of training, the mean excess and the worst."
                .into(),
        ),
    ];
    if results.plan.book().likeliest {
        blocks.push(Block::Text(format!(
            "Likeliest actions: means over {EPISODES} episodes in which a run's last policy takes its likeliest actions instead of \
             drawing them, as the evaluator of the library with the published figures does. What a policy earns at least is judged by them."
        )));
    }
    blocks.extend(results.unsealed().map(Block::Text));
    blocks.extend(results.troubles().map(|trouble| Block::Text(format!("Failed: {trouble}"))));
    blocks
}

/// How many claims of each experiment came to which verdict, each of them counted once.
fn overview(results: &Results, judged: &Judged) -> Vec<Block> {
    let all = [Verdict::Agrees, Verdict::Differs, Verdict::NotDecided];
    let is = |j: &&Judgement, verdict: Verdict| j.verdict == verdict && j.before.is_none();
    let count = |of: &[Vec<Judgement>], verdict: Verdict| of.iter().flatten().filter(|j| is(j, verdict)).count();
    let row = |(experiment, of): (&Experiment, &Vec<Vec<Judgement>>)| {
        let counts = all.map(|v| count(of, v).to_string());
        std::iter::once(experiment.title.clone()).chain(counts).collect()
    };
    let with_claims =
        results.plan.experiments.iter().zip(&judged.claims).filter(|(_, of)| of.iter().any(|c| !c.is_empty()));
    let mut rows: Vec<Vec<String>> = with_claims.map(row).collect();
    let total = |v: Verdict| judged.claims.iter().map(|of| count(of, v)).sum::<usize>().to_string();
    rows.push(std::iter::once("all".to_string()).chain(all.map(total)).collect());
    let head = std::iter::once("claims").chain(all.map(Verdict::words)).map(String::from).collect();
    let note = format!(
        "{} different claims, corrected together: the probability of a single wrong verdict is at most {LEVEL}. {} of those not \
         decided would be without the correction.",
        judged.distinct, judged.undecided
    );
    vec![Block::Heading(2, results.plan.book().verdicts.into()), Block::Table { head, rows }, Block::Text(note)]
}

fn section(results: &Results, (e, g): (usize, usize), judged: &[Judgement]) -> Vec<Block> {
    let experiment = &results.plan.experiments[e];
    let group = &experiment.group[g];
    let mut blocks = vec![means(results, (e, g)), details(results, (e, g))];
    blocks.extend(study(results, (e, g)));
    blocks.extend(learning(results, (e, g)));
    let row =
        |(claim, j): (&Claim, &Judgement)| vec![claim.paper.clone(), j.verdict.words().to_string(), j.evidence.clone()];
    if !group.claims.is_empty() {
        let head = [experiment.book.says, "here", "evidence"].map(String::from).to_vec();
        blocks.push(Block::Table { head, rows: group.claims.iter().zip(judged).map(row).collect() });
    }
    blocks
}

/// Learning curves of what is finished.
fn learning(results: &Results, (e, g): (usize, usize)) -> Option<Block> {
    let experiment = &results.plan.experiments[e];
    let Group { task, towering, drawn, .. } = &experiment.group[g];
    let tables = |spot: Spot| -> Vec<Table> { results.of(spot).iter().map(|run| run.progress.clone()).collect() };
    let is_drawn = |spot: &Spot| drawn.is_empty() || drawn.iter().any(|name| name == results.name(*spot));
    let spots = results.spots(e, g).into_iter().filter(is_drawn);
    let named = spots.map(|spot| (results.name(spot).to_string(), tables(spot)));
    let groups: Vec<(String, Vec<Table>)> = named.filter(|(_, tables)| !tables.is_empty()).collect();
    let limit = |name: String| (name.clone(), results.common_limit(e, g, &name));
    let costs: Vec<(String, Option<f64>)> = results.costs(e, g).into_iter().map(limit).collect();
    let is_wanted = experiment.figures && !groups.is_empty();
    let about = format!("{task}: return and costs over the steps, mean and standard deviation over the seeds");
    let draw = || {
        let mut rows = vec![Row { title: task.clone(), groups, costs }];
        if let Some(name) = towering {
            let mut others = Row { title: format!("without {name}"), ..rows[0].clone() };
            others.groups.retain(|(group, _)| group != name);
            let towers = !others.groups.is_empty() && others.groups.len() < rows[0].groups.len();
            rows.extend(towers.then_some(others));
        }
        curves(&rows)
    };
    is_wanted.then(|| picture(format!("{}-{task}", experiment.name), &draw(), about))
}

fn picture(name: String, picture: &Picture, about: String) -> Block {
    let png = picture.png(PIXELS).expect("figures have the size of a page");
    Block::Figure { name, svg: picture.svg(), png, about }
}

/// Results against the setting that a group varies.
fn study(results: &Results, (e, g): (usize, usize)) -> Option<Block> {
    let experiment = &results.plan.experiments[e];
    let group = &experiment.group[g];
    let setting = group.study.as_ref()?;
    let costs = results.costs(e, g);
    let panel = |what: &str, limit: Limit, values: &dyn Fn(Spot) -> Vec<f64>| {
        let mut series: Vec<(String, Vec<(f64, Interval)>)> = Vec::new();
        for spot in results.spots(e, g) {
            let (curve, values) = (&group.curves[spot.curve], values(spot));
            let Some(at) = curve.at.filter(|_| !values.is_empty()) else { continue };
            if series.last().is_none_or(|(row, _)| *row != curve.row) {
                series.push((curve.row.clone(), Vec::new()));
            }
            series.last_mut().expect("it was just made").1.push((at, mean_ci95(&values)));
        }
        Study {
            title: format!("{}: {what}", group.task),
            x_label: setting.clone(),
            y_label: what.to_string(),
            limit,
            series,
        }
    };
    let mut panels = vec![panel("return", Limit::None, &|spot| results.returns(spot))];
    for cost in &costs {
        // Where every curve has a limit of its own, the limit is the setting.
        let limit = results.common_limit(e, g, cost).map_or(Limit::Diagonal, Limit::At);
        panels.push(panel(cost, limit, &|spot| results.finals(spot, cost)));
    }
    if panels[0].series.is_empty() {
        return None;
    }
    let drawn = studies(&[panels], "bars: 95 % intervals over the seeds");
    let about = format!("{}: return and costs against {setting}, with 95 % intervals; the limit is dashed", group.task);
    Some(picture(format!("{}-study", experiment.name), &drawn, about))
}

/// Means beside the paper's.
pub fn means(results: &Results, (e, g): (usize, usize)) -> Block {
    let experiment = &results.plan.experiments[e];
    let (group, source) = (&experiment.group[g], experiment.book.quoted.to_string());
    let quoted = group.curves.iter().any(|c| !c.paper.is_empty());
    let costs = results.costs(e, g);
    let likeliest = experiment.book.likeliest;
    let mut head: Vec<String> = ["", "seeds", "return"].map(String::from).to_vec();
    head.extend(likeliest.then(|| "likeliest actions".into()));
    head.extend(quoted.then(|| source.clone()));
    head.push("length".into());
    for cost in &costs {
        head.push(results.common_limit(e, g, cost).map_or(cost.clone(), |limit| format!("{cost} (limit {limit})")));
        head.extend(likeliest.then(|| "likeliest actions".into()));
        head.extend(quoted.then(|| source.clone()));
        head.extend(["per step", "trained for"].map(String::from));
    }
    head.push("limits kept".into());
    let row = |spot: Spot| {
        let paper = &group.curves[spot.curve].paper;
        let quote =
            |name: &str| quoted.then(|| paper.get(name).map_or(String::new(), |(m, h)| format!("{m:.2} ± {h:.2}")));
        let runs = results.of(spot).len();
        let planned = results.planned(spot);
        let seeds = if runs == planned { runs.to_string() } else { format!("{runs} of {planned}") };
        let mut row = vec![results.name(spot).to_string(), seeds, plus_minus(&mean_ci95(&results.returns(spot)))];
        row.extend(likeliest.then(|| plus_minus(&mean_ci95(&results.likeliest_returns(spot)))));
        row.extend(quote("return"));
        row.push(short(mean_ci95(&results.lengths(spot)).mean));
        for cost in &costs {
            row.push(plus_minus(&mean_ci95(&results.finals(spot, cost))));
            row.extend(likeliest.then(|| plus_minus(&mean_ci95(&results.likeliest_costs(spot, cost)))));
            row.extend(quote(cost));
            let per_step = mean_ci95(&results.per_step(spot, cost)).mean;
            row.push(if per_step.is_nan() { "-".into() } else { format!("{per_step:.4}") });
            row.push(short(mean_ci95(&results.trained_for(spot, cost)).mean));
        }
        row.push(format!("{} of {runs}", results.kept(spot)));
        row
    };
    Block::Table { head, rows: results.spots(e, g).into_iter().map(row).collect() }
}

/// What means alone do not show.
fn details(results: &Results, (e, g): (usize, usize)) -> Block {
    let (spots, costs) = (results.spots(e, g), results.costs(e, g));
    let first = results.returns(spots[0]);
    let mut head = vec![String::new(), "return, interquartile mean".into()];
    head.push(format!("probability that {} earns more", results.name(spots[0])));
    head.push("change of return from row to row".into());
    head.extend(costs.iter().map(|cost| format!("over the limit of {cost} in training: share, mean, worst")));
    let row = |spot: Spot| {
        let returns = results.returns(spot);
        let chance = probability_of_improvement(&first, &returns);
        let iqm = range(&iqm_ci95(&[returns], 0));
        let chance =
            if spot == spots[0] || chance.is_nan() { String::new() } else { format!("{:.0} %", 100.0 * chance) };
        let steady = mean_ci95(&results.changes(spot)).mean;
        let mut row = vec![results.name(spot).to_string(), iqm, chance, short(steady)];
        for cost in &costs {
            let over = results.overshoots(spot, cost);
            let mean =
                |f: &dyn Fn(&crate::statistics::Overshoot) -> f64| over.iter().map(f).sum::<f64>() / over.len() as f64;
            let share = 100.0 * mean(&|o| o.share_of_steps);
            let share = if share.is_nan() { "-".into() } else { format!("{share:.0} %") };
            row.push(format!("{share}, {}, {}", short(mean(&|o| o.mean_excess)), short(mean(&|o| o.worst))));
        }
        row
    };
    Block::Table { head, rows: spots.iter().copied().map(row).collect() }
}

fn plus_minus(x: &Interval) -> String {
    match (x.mean.is_nan(), x.low.is_finite()) {
        (true, _) => "-".into(),
        (_, false) => short(x.mean),
        _ => format!("{} ± {}", short(x.mean), short((x.high - x.low) / 2.0)),
    }
}

/// How each curve is trained, as a command.
fn settings(results: &Results) -> Vec<Block> {
    let plan = results.plan;
    let mut lines: Vec<String> = Vec::new();
    for group in plan.experiments.iter().flat_map(|e| &e.group) {
        for curve in &group.curves {
            let request = plan.scale.exact_request(&group.task, curve).expect("the plan has resolved it once");
            let line = command_line(&request);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    let first = plan.scale.first_seed;
    vec![
        Block::Heading(2, "Settings".into()),
        contestants(results),
        Block::Text(format!(
            "Every run is one of these with --seed {first}, {}, ...; all else is the preset's, and each run's folder has it in \
             full in config.toml. Algorithms share what the scale and their task set, as far as they have these settings.",
            first + 1
        )),
        Block::Code(lines.join("\n")),
    ]
}

/// The rows of the contest that the report has, with their own settings.
fn contestants(results: &Results) -> Block {
    let groups = || results.plan.experiments.iter().flat_map(|e| &e.group);
    let is_here = |row: &Contestant| groups().any(|group| group.curves.iter().any(|curve| curve.row == row.name));
    let settings = |row: &Contestant| match row.long.is_empty() {
        true => row.set.join(" "),
        false => format!("{}; from {LONG} steps on {}", row.set.join(" "), row.long.join(" ")),
    };
    let row = |row: Contestant| vec![row.name.clone(), row.algo.to_string(), settings(&row), row.differs];
    let head = ["row", "algorithm", "its own settings on all tasks", "differs from the original"];
    let rows = Contestant::all().into_iter().filter(is_here).map(row).collect();
    Block::Table { head: head.map(String::from).to_vec(), rows }
}

/// The command that trains what is asked for.
fn command_line(request: &Request) -> String {
    let mut line = format!("p3o train {} --algo {} --preset {}", request.task, request.method, request.preset);
    for setting in &request.set {
        // A shell would take brackets for a pattern.
        let quote = if setting.contains('[') { "'" } else { "" };
        line += &format!(" --set {quote}{setting}{quote}");
    }
    request.limits.iter().for_each(|limit| line += &format!(" --limit {limit}"));
    line
}

fn circumstances(results: &Results, command: &str) -> Vec<Block> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let hours = results.outcomes().map(|o| o.summary.wall_s).sum::<f64>() / 3600.0;
    let steps = results.outcomes().map(|o| o.summary.steps as f64).sum::<f64>();
    let row = |name: &str, value: String| vec![name.to_string(), value];
    let rows = vec![
        row("program", format!("p3o {}", env!("CARGO_PKG_VERSION"))),
        row("processor", processor()),
        row("cores", cores.to_string()),
        row("system", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        row("steps of the finished runs", format!("{steps:.3e}")),
        row("hours of training, all runs added up", format!("{hours:.2}")),
    ];
    vec![
        Block::Heading(2, "Machine and commands".into()),
        Block::Table { head: vec!["".into(), "of the report".into()], rows },
        Block::Text("The runs go on, or are made again, by the first command; the second remakes this report.".into()),
        Block::Code(format!("{command}\n{command} --report-only")),
    ]
}

/// The processor's name, where the system tells it.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(':'));
    line.map_or("unknown".to_string(), |(_, name)| name.trim().to_string())
}
