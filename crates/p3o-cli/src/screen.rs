//! What a person sees: the progress bar, plain lines, and tables.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use p3o::evaluate::Standing;
use p3o::{Algorithm, Error, Learner, Report, Run};
use p3o_lab::sweep::{Ended, Job, Watch};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// Prints a line to standard output, which its reader may have closed (`p3o list | head -1`).
macro_rules! say {
    ($($line:tt)*) => { $crate::screen::print_line(format_args!($($line)*)) };
}
pub(crate) use say;

/// Prints a line to standard error. If that is closed or full there is nobody to tell, and the work goes on.
macro_rules! tell {
    ($($line:tt)*) => { $crate::screen::tell_line(format_args!($($line)*)) };
}
pub(crate) use tell;

/// See [`say`].
pub fn print_line(line: std::fmt::Arguments) {
    must_print(writeln!(std::io::stdout(), "{line}"));
}

/// Ends the program if standard output could not be written to, unless its reader has closed it.
pub fn must_print(printed: std::io::Result<()>) {
    match printed {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => {
            tell!("p3o: cannot write to standard output: {e}");
            std::process::exit(1);
        }
        _ => {}
    }
}

/// See [`tell`].
pub fn tell_line(line: std::fmt::Arguments) {
    // In one write, so that lines of several processes do not mix.
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
}

/// 1234567 as 1,234,567.
pub fn thousands(n: f64) -> String {
    let digits = format!("{:.0}", n.abs());
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if n < 0.0 { format!("-{out}") } else { out }
}

/// Seconds as 2 h 05 m, 3 m 12 s or 8 s.
pub fn duration(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} m {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} m", s / 3600, s % 3600 / 60),
    }
}

/// A figure that may be missing.
pub fn figure(x: f64) -> String {
    if x.is_nan() { "-".into() } else { format!("{x:.2}") }
}

/// Whether to colour what goes to a stream.
fn colours(terminal: bool) -> bool {
    terminal && std::env::var_os("NO_COLOR").is_none()
}

fn paint(text: &str, good: bool, on: bool) -> String {
    if !on {
        return text.to_string();
    }
    format!("\x1b[{}m{text}\x1b[0m", if good { 32 } else { 31 })
}

/// Shows how a run goes: a bar on a terminal, a line per update elsewhere.
pub struct Progress {
    bar: Option<ProgressBar>,
    colours: bool,
}

impl Progress {
    /// For a run that is about to start.
    pub fn new(learner: &Learner) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| {
            let config = learner.config();
            let total = config.updates() * config.rollout.batch as u64;
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            bar.set_style(bar_style("{wide_bar:.cyan/black} {percent:>3} %  {prefix}\n{msg}"));
            bar.set_position(learner.progress().steps);
            bar.set_prefix("starting");
            bar.tick();
            bar
        });
        Progress { bar, colours: colours(terminal) }
    }

    /// After an update.
    pub fn show(&self, run: &Run, report: &Report) {
        let (learner, updates) = (run.learner(), run.learner().config().updates());
        let batch = learner.config().rollout.batch as f64;
        let speed = batch / ((report.rollout_ms + report.update_ms) / 1e3);
        let left = duration((updates - report.update) as f64 * batch / speed);
        let figures = self.figures(learner, report);
        let speed = format!("{} steps/s", thousands(speed));
        match &self.bar {
            Some(bar) => {
                bar.set_position(report.steps);
                bar.set_prefix(format!("{speed}, {left} left"));
                bar.set_message(figures);
            }
            None => {
                let steps = thousands(report.steps as f64);
                let line =
                    format!("update {}/{updates}  steps {steps}  {figures}  {speed}  {left} left", report.update);
                // A closed pipe must not end the training.
                writeln!(std::io::stdout(), "{line}").ok();
            }
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn figures(&self, learner: &Learner, report: &Report) -> String {
        let mut parts = vec![format!("return {}", figure(report.ret))];
        for ((cost, mean), limit) in learner.spec().costs.iter().zip(&report.costs).zip(learner.limits()) {
            let text = if mean.is_nan() { "-".to_string() } else { format!("{mean:.1}") };
            parts.push(if limit.is_finite() {
                format!("{} {}/{limit}", cost.name, paint(&text, *mean <= limit, self.colours && !mean.is_nan()))
            } else {
                format!("{} {text}", cost.name)
            });
        }
        parts.push(format!("kl {:.4}", report.passes.kl));
        let short = |x: f64| format!("{x:.3}").trim_end_matches('0').trim_end_matches('.').to_string();
        if !learner.signals().constraints().is_empty() && learner.config().algorithm() == Algorithm::P3o {
            parts.push(format!("kappa {}", short(report.passes.kappa)));
        }
        parts.extend(report.passes.multipliers.iter().map(|&nu| format!("multiplier {}", short(nu))));
        parts.join("  ")
    }
}

/// A line that says what is being done, on a terminal and only while it lasts.
pub struct Doing(ProgressBar);

impl Doing {
    /// Nothing yet.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(bar_style("{msg}"));
        Doing(bar)
    }

    /// The next thing. It is drawn once: what is measured meanwhile is not disturbed.
    pub fn now(&self, what: String) {
        self.0.set_message(what);
        self.0.tick();
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows on a terminal how far `evaluate --certify` has come.
pub struct Search(Option<ProgressBar>);

impl Search {
    /// For at most so many episodes.
    pub fn new(episodes: usize) -> Self {
        Search(std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(episodes as u64), ProgressDrawTarget::stderr());
            bar.set_style(bar_style("{wide_bar:.cyan/black} {human_pos} of at most {human_len} episodes\n{msg}"));
            bar.tick();
            bar
        }))
    }

    /// After some episodes.
    pub fn show(&self, standing: &Standing) {
        if let Some(bar) = &self.0 {
            let cost = |(name, mean, (lower, upper), limit): &(String, f64, (f64, f64), f64)| {
                format!("{name} {} ({} .. {})/{limit}", figure(*mean), figure(*lower), figure(*upper))
            };
            bar.set_position(standing.episodes as u64);
            bar.set_message(standing.costs.iter().map(cost).collect::<Vec<_>>().join("  "));
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// How many runs an hour a sitting made, if it made more than one.
fn pace(runs: f64, seconds: f64) -> Option<String> {
    // Parts of a run do not add up to it exactly.
    if runs < 1.0 + 1e-6 {
        return None;
    }
    let per_hour = runs / seconds * 3600.0;
    let (runs, time) = (format!("{runs:.1}"), duration(seconds.max(1.0)));
    let per_hour = if per_hour < 10.0 { format!("{per_hour:.1}") } else { thousands(per_hour) };
    Some(format!("In this sitting: {} runs in {time}, {per_hour} runs per hour.", runs.trim_end_matches(".0")))
}

/// A bar per run at work, and one for all of a sweep; without a terminal, a line when a run starts and when it ends.
pub struct Bars {
    names: Vec<String>,
    /// Steps of every run.
    totals: Vec<u64>,
    /// What a step of every run counts in the bar for all.
    weights: Vec<f64>,
    /// Runs that have ended.
    over: AtomicUsize,
    all: MultiProgress,
    overall: ProgressBar,
    active: Mutex<BTreeMap<usize, ProgressBar>>,
    terminal: bool,
    start: Instant,
    /// Runs made in this sitting, parts of them by their steps.
    made: Mutex<f64>,
}

impl Bars {
    /// For the runs of a sweep.
    pub fn new(jobs: &[Job]) -> Self {
        let names = jobs.iter().map(|job| format!("{} seed {}", job.config.method(), job.config.run.seed)).collect();
        Self::weighted(jobs, names, vec![1.0; jobs.len()])
    }

    /// For runs with names of their own, whose steps take times in these proportions.
    pub fn weighted(jobs: &[Job], names: Vec<String>, weights: Vec<f64>) -> Self {
        let totals: Vec<u64> = jobs.iter().map(Job::steps).collect();
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let all = MultiProgress::with_draw_target(target);
        let work: f64 = totals.iter().zip(&weights).map(|(steps, weight)| *steps as f64 * weight).sum();
        let overall = all.add(ProgressBar::new(work as u64));
        overall.set_style(bar_style("{prefix:<28} {bar:30.white/black} {percent:>3} %  {msg}{eta} left"));
        overall.set_prefix(format!("all {} runs", jobs.len()));
        let (over, active, made) = (AtomicUsize::new(0), Mutex::default(), Mutex::default());
        Bars { names, totals, weights, over, all, overall, active, terminal, start: Instant::now(), made }
    }

    fn advance(&self, job: usize, steps: u64) {
        self.overall.inc((steps as f64 * self.weights[job]) as u64);
    }

    /// Removes the bars; returns a sentence on this sitting if it made more than one run.
    pub fn clear(&self) -> Option<String> {
        self.all.clear().ok();
        pace(*self.made.lock().expect("adding does not panic"), self.start.elapsed().as_secs_f64())
    }

    fn line(&self, job: usize, what: &str) {
        let line = format!("{}: {what}", self.names[job]);
        if self.terminal {
            self.all.println(line).ok();
        } else {
            // A closed pipe must not end the training.
            writeln!(std::io::stdout(), "{line}").ok();
        }
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<usize, ProgressBar>> {
        self.active.lock().expect("drawing does not panic")
    }
}

fn bar_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is fixed").progress_chars("━╸─")
}

impl Watch for Bars {
    fn started(&self, job: usize, steps: u64) {
        if !self.terminal {
            self.line(job, &format!("starting at step {}", thousands(steps as f64)));
        }
        let bar = self.all.insert_before(&self.overall, ProgressBar::new(self.totals[job]));
        bar.set_style(bar_style("{prefix:<28} {bar:30.cyan/black} {percent:>3} %  {msg}"));
        bar.set_prefix(self.names[job].clone());
        bar.set_position(steps);
        // What an earlier sitting did says nothing about the time that is left.
        self.advance(job, steps);
        self.overall.reset_eta();
        self.active().insert(job, bar);
    }

    fn noted(&self, job: usize, note: &str) {
        self.line(job, note);
    }

    fn updated(&self, job: usize, report: &Report) {
        if let Some(bar) = self.active().get(&job) {
            let costs: Vec<String> = report.costs.iter().map(|c| figure(*c)).collect();
            let steps = report.steps - bar.position();
            self.advance(job, steps);
            *self.made.lock().expect("adding does not panic") += steps as f64 / self.totals[job] as f64;
            bar.set_position(report.steps);
            bar.set_message(format!("return {}  cost {}", figure(report.ret), costs.join(" ")));
        }
    }

    fn ended(&self, job: usize, ended: &Ended) {
        let bar = self.active().remove(&job);
        if let Some(bar) = &bar {
            bar.finish_and_clear();
        } else {
            self.advance(job, self.totals[job]);
            self.overall.reset_eta();
        }
        let count = format!("{} of {}", 1 + self.over.fetch_add(1, Ordering::SeqCst), self.names.len());
        match ended {
            Ok(Some(summary)) => {
                let costs: Vec<String> =
                    summary.costs.iter().map(|(n, c)| format!("{n} {}", optional(c.mean))).collect();
                let ret = optional(summary.return_mean);
                self.line(job, &format!("done ({count}), return {ret}, {}", costs.join(", ")));
            }
            Ok(None) if bar.is_some() => self.line(job, "stopped"),
            // What another process still has is named at the end.
            Ok(None) | Err(Error::InUse { .. }) => {}
            Err(error) => self.line(job, &error.to_string()),
        }
    }
}

fn optional(x: Option<f64>) -> String {
    figure(x.unwrap_or(f64::NAN))
}

/// Rows under headings, the first column left, the others right unless they hold words.
pub struct Grid {
    rows: Vec<Vec<String>>,
    /// Row and column of coloured cells, and whether they are good.
    painted: Vec<(usize, usize, bool)>,
    left: bool,
}

impl Grid {
    /// With its headings.
    pub fn new(headings: &[&str]) -> Self {
        Grid { rows: vec![headings.iter().map(|h| h.to_string()).collect()], painted: Vec::new(), left: false }
    }

    /// For words: all columns left.
    pub fn left(self) -> Self {
        Grid { left: true, ..self }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Colours a cell of the last row.
    pub fn paint(&mut self, column: usize, good: bool) {
        self.painted.push((self.rows.len() - 1, column, good));
    }

    /// Prints it to standard output.
    pub fn print(&self) {
        self.lines(colours(std::io::stdout().is_terminal())).iter().for_each(|line| say!("{line}"));
    }

    /// Its lines, coloured or not.
    pub fn lines(&self, colours: bool) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.rows.iter().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let line = |(r, row): (usize, &Vec<String>)| {
            let mut line = String::from(" ");
            for (c, text) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - text.chars().count());
                let mark = self.painted.iter().find(|(pr, pc, _)| (*pr, *pc) == (r, c));
                let cell = mark.map_or(text.clone(), |(_, _, good)| paint(text, *good, colours));
                line += &match c {
                    0 => format!(" {cell}{pad}"),
                    _ if self.left => format!("  {cell}{pad}"),
                    _ => format!("  {pad}{cell}"),
                };
            }
            line.trim_end().to_string()
        };
        self.rows.iter().enumerate().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_of_a_sitting_is_that_of_all_it_made() {
        assert_eq!(pace(0.0, 3.0), None);
        assert_eq!(pace(0.9999999 + 1e-7, 3.0), None, "one run");
        // 24 runs in 725 s are 119.17 an hour; 1.5 in 3 hours are 0.5.
        assert_eq!(pace(24.0, 725.0).unwrap(), "In this sitting: 24 runs in 12 m 05 s, 119 runs per hour.");
        assert_eq!(pace(1.5, 10800.0).unwrap(), "In this sitting: 1.5 runs in 3 h 00 m, 0.5 runs per hour.");
        assert_eq!(pace(25.0, 2.5).unwrap(), "In this sitting: 25 runs in 3 s, 36,000 runs per hour.");
    }
}
