//! The link between the ranks of a run where it is MPI: bytes sent and received without blocking, and waited for with an end to patience.
//!
//! A process that no longer answers would leave the others waiting for ever, and MPI has no way to take a request back. So a wait that
//! lasts too long ends the program from within: what is on disk is whole at any time.

use ferrompi::{Communicator, Mpi, Request, ThreadLevel};
use p3o::Ranks;
use p3o::ranks::Link;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of a message: MPI counts in 32 bits.
const MOST: usize = 1 << 30;
/// A wait begins by asking again and again, then lets others have the core, then sleeps between questions.
const SPIN: Duration = Duration::from_micros(20);
const YIELD: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(500);
/// A launcher that has lost a process asks the others to stop, and kills them a second later. The first gives up before the others do:
/// it has most to say.
const LAST_WORDS: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(400)];

/// How long the second process waits to hear that the first has said why the run ends.
const HEARSAY: Duration = Duration::from_millis(250);
/// Tags of what the ranks send, and of the news that the first has said why the run ends.
const WORK: i32 = 0;
const SAID: i32 = 1;

/// Says why the run ends.
pub type GiveUp = Box<dyn Fn(&str) + Send + Sync>;

/// MPI while it is needed.
pub struct World {
    mpi: Mpi,
}

impl World {
    /// Connects to the others; returns this process's number on its machine, too.
    pub fn join(patience: Duration, stop: Arc<AtomicBool>, give_up: GiveUp) -> Result<(World, Ranks, usize), String> {
        let told = |e: ferrompi::Error| e.to_string();
        // Any thread of the pool may send, one at a time.
        let mpi = Mpi::init_thread(ThreadLevel::Serialized).map_err(told)?;
        if mpi.thread_level() < ThreadLevel::Serialized {
            return Err("this MPI allows no calls from several threads".into());
        }
        let world = mpi.world();
        let local = world.split_shared().map_err(told)?.rank() as usize;
        let (rank, size) = (world.rank() as usize, world.size() as usize);
        let ranks = Ranks::new(Mail {
            world,
            rank,
            size,
            patience,
            stop,
            patient: AtomicBool::new(false),
            give_up,
            turn: Mutex::new(()),
        });
        Ok((World { mpi }, ranks, local))
    }
}

impl Drop for World {
    /// After a panic the others would wait for this process to take its leave.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.mpi.world().abort(101);
        }
    }
}

struct Mail {
    world: Communicator,
    rank: usize,
    size: usize,
    patience: Duration,
    stop: Arc<AtomicBool>,
    /// Whether nobody is to be hurried.
    patient: AtomicBool,
    give_up: GiveUp,
    turn: Mutex<()>,
}

impl Link for Mail {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>) -> Result<(), String> {
        let _turn = self.turn.lock();
        let sent = ferrompi::scope(|scope| {
            let mut requests: Vec<(Request, Option<usize>)> = Vec::new();
            for (part, from) in into.chunks_mut(MOST).zip(from.into_iter().cycle()) {
                let due = Some(part.len());
                requests.push((self.world.irecv(scope, part, from as i32, WORK)?, due));
            }
            for to in to {
                for part in bytes.chunks(MOST) {
                    requests.push((self.world.isend(scope, part, *to as i32, WORK)?, None));
                }
            }
            // The scope would wait for what has not come, so an error does not leave it.
            self.wait(&mut requests).unwrap_or_else(|e| self.end(&format!("MPI failed ({e})")));
            Ok(())
        });
        sent.map_err(|e| format!("MPI failed: {e}"))
    }

    fn be_patient(&self, patient: bool) {
        self.patient.store(patient, Ordering::SeqCst);
    }
}

impl Mail {
    /// Until all requests are done, those that receive with as many bytes as are due.
    fn wait(&self, requests: &mut [(Request, Option<usize>)]) -> ferrompi::Result<()> {
        let (start, mut asked) = (Instant::now(), None);
        loop {
            let mut done = true;
            for (request, due) in requests.iter_mut().filter(|(request, _)| !request.is_completed()) {
                match (request.test()?, due) {
                    (None, _) => done = false,
                    (Some(status), Some(due)) if status.count != Some(*due) => {
                        self.end("the processes of this run do not understand each other (are all the same program?)");
                    }
                    (Some(_), _) => {}
                }
            }
            if done {
                return Ok(());
            }
            let waited = start.elapsed();
            match () {
                () if waited < SPIN => std::hint::spin_loop(),
                () if waited < YIELD => std::thread::yield_now(),
                () => std::thread::sleep((waited / 50).min(SLEEP)),
            }
            let told = self.stop.load(Ordering::SeqCst) && !self.patient.load(Ordering::SeqCst);
            if told && asked.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS[self.rank.min(1)] {
                self.end("another process of this run has died or does not answer");
            }
            if waited > self.patience {
                let seconds = self.patience.as_secs_f64();
                self.end(&format!("another process of this run has not answered for {seconds} s"));
            }
        }
    }

    /// Ends the run for all. The first process says why, since it knows most; the second does where the first is silent.
    fn end(&self, why: &str) -> ! {
        // Where neither the others nor the launcher can be reached, the rest would take for ever.
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            std::process::exit(1);
        });
        if self.rank == 0 {
            (self.give_up)(why);
            ferrompi::scope(|scope| self.world.isend(scope, &[0u8], 1, SAID).map(drop)).ok();
        }
        if self.rank > 1 {
            // To end the run is theirs.
            std::thread::sleep(4 * HEARSAY);
        }
        let start = Instant::now();
        while self.rank == 1 && start.elapsed() < HEARSAY {
            std::thread::sleep(YIELD);
            if self.world.iprobe::<u8>(0, SAID).is_ok_and(|news| news.is_some()) {
                self.world.abort(1);
            }
        }
        if self.rank == 1 {
            (self.give_up)(why);
        }
        self.world.abort(1)
    }
}
