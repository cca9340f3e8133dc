//! The processes that a launcher such as mpirun started to make one run together.
//!
//! The first has the folder, the screen and the last word on how a command ends; the others work, and are quiet. MPI is only asked where a
//! launcher has left its variables and has started more than one: nothing else needs it.

use crate::args::Command;
#[cfg(feature = "mpi")]
use crate::screen::tell;
use crate::{Failure, stop_on_ctrl_c};
use p3o::Ranks;
#[cfg(feature = "mpi")]
use p3o::run::last_checkpoint;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// One process of a run, or the only one.
pub struct Party {
    /// All of them.
    pub ranks: Ranks,
    /// Set once this one has been asked to stop.
    pub stop: Arc<AtomicBool>,
    /// Its number among those on the same machine.
    pub local: usize,
    /// The run's folder, where this process has it.
    pub folder: Arc<Mutex<Option<PathBuf>>>,
}

/// What keeps the connection to the others; to be dropped on the thread that started the program, when all is done.
#[cfg(feature = "mpi")]
pub type Connection = Option<crate::mpi::World>;
/// See above.
#[cfg(not(feature = "mpi"))]
pub type Connection = ();

/// Number and count of this process by the variables of mpirun (Open MPI, MPICH and their kin) and srun.
fn launched() -> Option<(usize, usize)> {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse::<usize>().ok();
    let names = [
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
        ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
        ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
    ];
    let found = names.iter().find_map(|(rank, size)| Some((number(rank)?, number(size)?)));
    found.filter(|(_, size)| *size > 1)
}

/// Whether this process says what all of them would say alike.
pub fn speaks() -> bool {
    launched().is_none_or(|(rank, _)| rank == 0)
}

/// A line that the first of the processes shows.
fn refuse((rank, _): (usize, usize), line: String) -> Failure {
    if rank == 0 { Failure::Usage(line) } else { Failure::Quiet }
}

/// Refuses a command of which several processes would each do the same.
pub fn check(command: &Command) -> Result<(), Failure> {
    let Some(launched) = launched() else { return Ok(()) };
    let shard = match command {
        Command::Train(_) | Command::Resume(_) => return Ok(()),
        Command::Bench(args) if args.as_rank.is_some() => return Ok(()),
        Command::Compare(args) => Some(args.shard.is_some()),
        Command::Reproduce(args) => Some(args.how.shard.is_some()),
        Command::Benchmark(args) => Some(args.how.shard.is_some()),
        _ => None,
    };
    let started = format!("the launcher started {} processes", launched.1);
    match shard {
        Some(true) => Ok(()),
        Some(false) => Err(refuse(launched, format!("{started}, and a sweep is not one run: give each a --shard K/N"))),
        None => Err(refuse(launched, format!("{started}, and this command is for one: train and resume take several"))),
    }
}

impl Party {
    /// Joins those that the launcher started; alone if it started no other. A wait of more than `patience` is the end of the run.
    pub fn join(patience: Duration) -> Result<(Party, Connection), Failure> {
        let Some(launched) = launched() else {
            let stop = stop_on_ctrl_c(Some("finishing this update, then saving"))?;
            return Ok((
                Party { ranks: Ranks::default(), stop, local: 0, folder: Arc::default() },
                Connection::default(),
            ));
        };
        Party::connect(launched, patience)
    }

    #[cfg(not(feature = "mpi"))]
    fn connect(launched: (usize, usize), _: Duration) -> Result<(Party, Connection), Failure> {
        let size = launched.1;
        Err(refuse(
            launched,
            format!("the launcher started {size} processes, and this p3o has no MPI: build it with --features mpi"),
        ))
    }

    #[cfg(feature = "mpi")]
    fn connect(_: (usize, usize), patience: Duration) -> Result<(Party, Connection), Failure> {
        let stop = stop_on_ctrl_c(None)?;
        let folder = Arc::<Mutex<Option<PathBuf>>>::default();
        let seen = Arc::clone(&folder);
        let give_up = move |why: &str| give_up(why, &seen);
        let joined = crate::mpi::World::join(patience, Arc::clone(&stop), Box::new(give_up));
        // Each process says it: the first may have started well.
        let (world, ranks, local) = joined.map_err(|e| Failure::Usage(format!("MPI does not start: {e}")))?;
        Ok((Party { ranks, stop, local, folder }, Some(world)))
    }

    /// What this process has come to, if all have come that far; otherwise the first process ends with the first failure and the others
    /// end quietly.
    pub fn together<T>(&self, own: Result<T, Failure>) -> Result<T, Failure> {
        if self.ranks.is_alone() {
            return own;
        }
        let said = own.as_ref().err().map(Failure::in_words);
        let all = self.ranks.gather_values(said)?;
        let Some((rank, (code, line))) = all.into_iter().enumerate().find_map(|(rank, said)| Some((rank, said?)))
        else {
            return own;
        };
        match (self.ranks.rank(), own) {
            (0, Err(own)) => Err(own),
            (0, Ok(_)) => Err(Failure::Coded(code, format!("rank {rank}: {line}"))),
            _ => Err(Failure::Quiet),
        }
    }
}

/// Says that the run cannot go on.
#[cfg(feature = "mpi")]
fn give_up(why: &str, folder: &Mutex<Option<PathBuf>>) {
    let folder = folder.lock().ok().and_then(|folder| folder.clone());
    let rest = folder.map_or("the last checkpoint is intact".to_string(), |folder| {
        let after = last_checkpoint(&folder).map_or("is intact".to_string(), |n| format!("is after update {n}"));
        format!("the last checkpoint {after}; go on with p3o resume {}", crate::train::shown(&folder))
    });
    tell!("p3o: {why}: {rest}");
}
