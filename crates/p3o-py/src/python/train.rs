//! Training for Python. The learner computes on threads of its own; worlds and callbacks of Python run on the thread that
//! called, which holds Python's lock only then, and notices Ctrl-C meanwhile.

use super::errors::exception;
use super::runs::draw;
use super::settings::{PySpec, parse};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use p3o::run::named_task;
use p3o::{Config, Error, Learner, Run, RunFolder, Stop};
use p3o_env::{Actuation, EnvSpec, Stepper, VectorEnv, VectorStep, WorldError};
use p3o_lab::sweep::Place;
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often Ctrl-C is looked for while nothing is asked.
const GLANCE: Duration = Duration::from_millis(50);

/// What a run is made of.
struct Job {
    folder: PathBuf,
    /// The settings of a new run; none goes on with the folder's.
    config: Option<Config>,
    /// Steps in all, if others than the folder's settings say.
    steps: Option<u64>,
    /// What the worlds of Python look like, and how many there are; none where the task is one of p3o's.
    worlds: Option<(EnvSpec, Option<Actuation>, usize)>,
    place: Box<dyn Place + Send>,
    threads: Option<usize>,
}

/// What the learner asks of the thread that has Python.
enum Ask {
    Reset(Vec<u64>),
    Step(Vec<f32>, VectorStep),
    Row(Vec<(String, f64)>),
    Note(String),
    Ended(Result<(), Error>),
}

/// What it answers.
enum Answer {
    Begun(Vec<f32>),
    Stepped(Vec<f32>, VectorStep, Vec<bool>),
    Noted { go_on: bool },
    Failed(String),
}

/// The learner's side of the conversation.
struct Line {
    ask: Sender<Ask>,
    answers: Mutex<Receiver<Answer>>,
}

impl Line {
    fn ask(&self, what: Ask) -> Answer {
        let gone = || Answer::Failed("Python has gone".into());
        match self.ask.send(what) {
            Ok(()) => self.answers.lock().unwrap_or_else(PoisonError::into_inner).recv().unwrap_or_else(|_| gone()),
            Err(_) => gone(),
        }
    }
}

/// Worlds of Python as the learner sees them.
struct Worlds {
    line: Arc<Line>,
    spec: EnvSpec,
    actuation: Option<Actuation>,
    count: usize,
    actions: Vec<f32>,
    waiting: Vec<bool>,
}

impl Stepper for Worlds {
    fn count(&self) -> usize {
        self.count
    }

    fn waiting(&self) -> &[bool] {
        &self.waiting
    }

    fn step(
        &mut self,
        actions: &[f32],
        _: &mut dyn FnMut(usize) -> u64,
        out: &mut VectorStep,
    ) -> Result<(), WorldError> {
        let mut own = std::mem::take(&mut self.actions);
        own.clear();
        own.extend_from_slice(actions);
        if let Some(actuation) = &self.actuation {
            actuation.apply(&mut own);
        }
        match self.line.ask(Ask::Step(own, std::mem::take(out))) {
            Answer::Stepped(actions, step, waiting) => {
                (self.actions, *out, self.waiting) = (actions, step, waiting);
                Ok(())
            }
            other => Err(other.failure()),
        }
    }
}

impl VectorEnv for Worlds {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn actuation(&self) -> Option<&Actuation> {
        self.actuation.as_ref()
    }

    fn reset(&mut self, seeds: &[u64], obs: &mut [f32]) -> Result<(), WorldError> {
        self.waiting.clear();
        match self.line.ask(Ask::Reset(seeds.to_vec())) {
            Answer::Begun(first) if first.len() == obs.len() => {
                obs.copy_from_slice(&first);
                Ok(())
            }
            other => Err(other.failure()),
        }
    }
}

impl Answer {
    fn failure(self) -> WorldError {
        match self {
            Answer::Failed(what) => WorldError(what),
            _ => WorldError("Python gave something else than was asked for".into()),
        }
    }
}

impl Job {
    /// The whole of a sitting, on the learner's own threads.
    fn run(self, line: &Arc<Line>, stop: &Stop) -> Result<(), Error> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.unwrap_or(0)).build();
        pool.map_err(|e| Error::Threads(e.to_string()))?.install(|| {
            let mut run = self.open(line)?;
            for note in run.notes() {
                line.ask(Ask::Note(note.clone()));
            }
            run.train_until(Some(stop), &mut |run, _| {
                let row = run.row().map(|(name, value)| (name.to_string(), value)).collect();
                match line.ask(Ask::Row(row)) {
                    Answer::Noted { go_on: true } => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                }
            })?;
            draw(&run)
        })
    }

    fn open(self, line: &Arc<Line>) -> Result<Run, Error> {
        let engines = |networks, several| self.place.engine(networks, several);
        let Some((spec, actuation, count)) = self.worlds else {
            return match self.config {
                Some(config) => {
                    let make = named_task(&config)?;
                    Run::start_on(config, &*make, &self.folder, &engines)
                }
                None => Run::resume_on(&self.folder, &named_task, self.steps, &engines),
            };
        };
        let line = Arc::clone(line);
        let worlds = Box::new(Worlds { line, spec, actuation, count, actions: Vec::new(), waiting: Vec::new() });
        match self.config {
            Some(config) => {
                p3o::run::check_folder(&self.folder)?;
                Run::start_learner(Learner::with_worlds_on(config, worlds, &engines)?, &self.folder)
            }
            None => {
                let mut config = RunFolder::open(&self.folder)?.config;
                config.run.steps = self.steps.unwrap_or(config.run.steps);
                Run::resume_learner(Learner::with_worlds_on(config, worlds, &engines)?, &self.folder)
            }
        }
    }
}

/// Python's side of the conversation.
struct Host<'a, 'py> {
    py: Python<'py>,
    worlds: Option<&'a Bound<'py, PyAny>>,
    on_row: &'a Bound<'py, PyAny>,
    on_note: &'a Bound<'py, PyAny>,
    stop: Stop,
    /// The first exception, to be raised when all is saved.
    exception: Option<PyErr>,
    /// Numbers in an action of all agents, in an observation, and costs.
    sizes: [usize; 3],
}

impl Host<'_, '_> {
    /// Answers until the learner has ended.
    fn serve(&mut self, mut asked: Receiver<Ask>, answers: &Sender<Answer>) -> Result<(), Error> {
        loop {
            let next = &mut asked;
            let ask = match self.py.detach(move || next.recv_timeout(GLANCE)) {
                Ok(Ask::Ended(result)) => return result,
                Ok(ask) => ask,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(e) = self.py.check_signals() {
                        self.fail(e);
                        self.stop.ask();
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Engine("the learner has failed".into())),
            };
            // The learner may have gone meanwhile; then nothing more is asked.
            answers.send(self.answer(ask)).ok();
        }
    }

    fn answer(&mut self, ask: Ask) -> Answer {
        let is_step = matches!(ask, Ask::Reset(_) | Ask::Step(..));
        if is_step && self.stop.is_asked_for() {
            return Answer::Failed("training was stopped".into());
        }
        // Signals are looked at here too: a world may answer so fast that there is no time to wait.
        let answer = self.py.check_signals().and_then(|()| match ask {
            Ask::Reset(seeds) => self.reset(&seeds),
            Ask::Step(actions, out) => self.step(actions, out),
            Ask::Row(row) => self.row(row),
            Ask::Note(note) => self.on_note.call1((note,)).map(|_| Answer::Noted { go_on: true }),
            Ask::Ended(_) => Ok(Answer::Noted { go_on: true }),
        });
        answer.unwrap_or_else(|e| {
            let what = e.to_string();
            if e.is_instance_of::<PyKeyboardInterrupt>(self.py) {
                self.stop.ask();
            }
            self.fail(e);
            Answer::Failed(what)
        })
    }

    fn fail(&mut self, e: PyErr) {
        self.exception.get_or_insert(e);
    }

    fn worlds(&self) -> PyResult<&Bound<'_, PyAny>> {
        self.worlds.ok_or_else(|| PyRuntimeError::new_err("there are no worlds of Python"))
    }

    fn reset(&self, seeds: &[u64]) -> PyResult<Answer> {
        let obs = self.worlds()?.call_method1("reset", (seeds,))?;
        let obs = obs.extract::<PyReadonlyArray2<f32>>()?;
        Ok(Answer::Begun(obs.as_slice()?.to_vec()))
    }

    fn step(&self, actions: Vec<f32>, mut out: VectorStep) -> PyResult<Answer> {
        let [width, dim, costs] = self.sizes;
        let n = out.rewards.len();
        let given = PyArray1::from_slice(self.py, &actions).reshape([n, width])?;
        let step = self.worlds()?.call_method1("step", (given,))?;
        let rows = |i: usize| step.get_item(i)?.extract::<PyReadonlyArray2<f32>>();
        let flags = |i: usize| step.get_item(i)?.extract::<PyReadonlyArray1<bool>>();
        copy(rows(0)?.as_slice()?, &mut out.obs, n * dim)?;
        copy(step.get_item(1)?.extract::<PyReadonlyArray1<f32>>()?.as_slice()?, &mut out.rewards, n)?;
        copy(rows(2)?.as_slice()?, &mut out.costs, n * costs)?;
        copy(flags(3)?.as_slice()?, &mut out.terminated, n)?;
        copy(flags(4)?.as_slice()?, &mut out.truncated, n)?;
        let last = step.get_item(5)?;
        if !last.is_none() {
            copy(last.extract::<PyReadonlyArray2<f32>>()?.as_slice()?, &mut out.last_obs, n * dim)?;
        }
        let waiting = step.get_item(6)?;
        let waiting = match waiting.is_none() {
            true => Vec::new(),
            false => waiting.extract::<PyReadonlyArray1<bool>>()?.as_slice()?.to_vec(),
        };
        Ok(Answer::Stepped(actions, out, waiting))
    }

    /// Hands a row of progress.csv on; returning False stops the run.
    fn row(&self, row: Vec<(String, f64)>) -> PyResult<Answer> {
        let dict = PyDict::new(self.py);
        for (name, value) in row {
            match name.as_str() {
                "update" | "steps" | "episodes" => dict.set_item(name, value as u64)?,
                _ => dict.set_item(name, value)?,
            }
        }
        let answer = self.on_row.call1((dict,))?;
        Ok(Answer::Noted { go_on: !answer.is(pyo3::types::PyBool::new(self.py, false)) })
    }
}

fn copy<T: Copy>(from: &[T], to: &mut [T], length: usize) -> PyResult<()> {
    if from.len() != length || to.len() != length {
        return Err(PyValueError::new_err(format!("{} numbers where there should be {length}", from.len())));
    }
    to.copy_from_slice(from);
    Ok(())
}

/// Trains a run in its folder: a new one with the settings `config`, or the folder's, to so many steps in all if `steps` says
/// so. `worlds` are Python's, of which `spec` is the description; None where the task is one of p3o's. `on_row` gets every row of
/// progress.csv as a dict and stops the run by returning False; `on_note` gets sentences.
#[pyfunction]
#[pyo3(signature = (folder, config, steps, worlds, spec, device, precision, threads, on_row, on_note))]
#[expect(clippy::too_many_arguments, reason = "what a sitting consists of, by name")]
pub fn train(
    py: Python<'_>,
    folder: PathBuf,
    config: Option<&str>,
    steps: Option<u64>,
    worlds: Option<&Bound<'_, PyAny>>,
    spec: Option<&PySpec>,
    device: &str,
    precision: &str,
    threads: Option<usize>,
    on_row: &Bound<'_, PyAny>,
    on_note: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let described = match (worlds, spec) {
        (Some(worlds), Some(PySpec { spec, actuation })) => {
            Some((spec.clone(), actuation.clone(), worlds.getattr("count")?.extract()?))
        }
        _ => None,
    };
    let sizes = spec.map_or([0; 3], |s| [s.spec.action_width(), s.spec.obs_dim, s.spec.costs.len()]);
    let place = p3o_cli::place(device, precision).map_err(PyValueError::new_err)?;
    let job = Job { folder, config: config.map(parse).transpose()?, steps, worlds: described, place, threads };
    let stop = Stop::default();
    let (ask, asked) = channel();
    let (answers, heard) = channel();
    let mut host = Host { py, worlds, on_row, on_note, stop: stop.clone(), exception: None, sizes };
    let result = std::thread::scope(|scope| {
        let ended = ask.clone();
        let line = Arc::new(Line { ask, answers: Mutex::new(heard) });
        let learner = std::thread::Builder::new().name("p3o learner".into()).spawn_scoped(scope, move || {
            let result = job.run(&line, &stop);
            ended.send(Ask::Ended(result)).ok();
        });
        let learner = learner.map_err(|e| Error::Threads(e.to_string()))?;
        let result = host.serve(asked, &answers);
        // A learner that panicked has said so itself, and its result is an error already.
        drop(answers);
        learner.join().ok();
        result
    });
    match host.exception {
        Some(e) => Err(e),
        None => result.map_err(exception),
    }
}

/// Makes the folder of a new run and nothing more.
#[pyfunction]
#[pyo3(signature = (folder, config, spec, native))]
pub fn start(py: Python<'_>, folder: PathBuf, config: &str, spec: &PySpec, native: bool) -> PyResult<()> {
    let config = parse(config)?;
    let start = |folder: &Path| {
        let learner = match native {
            true => Learner::new(config.clone(), &*named_task(&config)?)?,
            false => {
                let worlds = super::agent::still(spec.spec.clone(), spec.actuation.clone(), config.rollout.envs);
                Learner::with_worlds(config, worlds)?
            }
        };
        Run::start_learner(learner, folder).map(drop)
    };
    py.detach(|| start(&folder)).map_err(exception)
}
