//! One run over several processes, its *ranks*: who does what, and what they tell each other.
//!
//! Every rank holds all networks, the whole batch and all that is carried from update to update; only the work is shared out. A
//! rank steps its own worlds and sums its own parts of a gradient. All else follows from numbers that every rank has, so that it is
//! computed everywhere and comes to the same. What crosses over is bytes that one rank computed and another would have computed
//! alike: the outcome has the bits of one process, whatever the number of ranks.
//!
//! A [`Link`] carries bytes between ranks and is all that MPI has to be; [`threads`] is one inside a process. Where a rank does not
//! answer, the first failure is kept, nothing more is sent, and every later question has the same answer.

use crate::error::Error;
use p3o_nn::Peers;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What carries bytes between the ranks of a run.
pub trait Link: Send + Sync {
    /// This process's number, from 0.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn size(&self) -> usize;

    /// Sends `bytes` to some ranks and fills `into` with what one of them sends, in the order in which it sends. An error is a
    /// sentence, and the end of all exchanges.
    fn exchange(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>) -> Result<(), String>;

    /// Says whether the others may take their time: the first rank is writing files, or all have agreed to stop. Then a request to stop is
    /// no sign that another one has died.
    fn be_patient(&self, _: bool) {}
}

/// The processes of a run, of which this is one. All clones are the same.
#[derive(Clone)]
pub struct Ranks(Arc<Joined>);

struct Joined {
    link: Box<dyn Link>,
    failed: Mutex<Option<String>>,
    /// What is sent and received, kept so that its memory need not be asked for again.
    scratch: Mutex<[Vec<u8>; 2]>,
}

/// The only process of a run.
struct Alone;

impl Link for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn exchange(&self, _: &[u8], _: &[usize], _: &mut [u8], _: Option<usize>) -> Result<(), String> {
        Ok(())
    }
}

impl Default for Ranks {
    fn default() -> Self {
        Ranks::new(Alone)
    }
}

impl Ranks {
    /// Those that a link connects.
    pub fn new(link: impl Link + 'static) -> Ranks {
        Ranks(Arc::new(Joined { link: Box::new(link), failed: Mutex::default(), scratch: Mutex::default() }))
    }

    /// This process's number, from 0.
    pub fn rank(&self) -> usize {
        self.0.link.rank()
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.0.link.size()
    }

    /// Whether this one has the run's folder.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether there is no other.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// Who shares passes with this one, if anybody does.
    pub(crate) fn peers(&self) -> Option<Arc<dyn Peers>> {
        (!self.is_alone()).then(|| Arc::new(self.clone()) as Arc<dyn Peers>)
    }

    /// This rank's share of so many things.
    pub fn own(&self, count: usize) -> Range<usize> {
        self.share(self.rank(), count)
    }

    /// A rank's share of so many things, neighbours all.
    pub fn share(&self, rank: usize, count: usize) -> Range<usize> {
        rank * count / self.size()..(rank + 1) * count / self.size()
    }

    /// Whether all have answered so far.
    pub fn check(&self) -> Result<(), Error> {
        let failed = self.0.failed.lock().expect("nothing panics with it");
        failed.as_ref().map_or(Ok(()), |reason| Err(Error::Ranks(reason.clone())))
    }

    fn send(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>) -> Result<(), Error> {
        self.check()?;
        if let Err(reason) = self.0.link.exchange(bytes, to, into, from) {
            self.0.failed.lock().expect("nothing panics with it").get_or_insert(reason);
        }
        self.check()
    }

    /// Brings together what all ranks have of one row of bytes, of which every rank knows where each one's are: neighbours, in
    /// the order of the ranks or the same for some of them.
    pub fn complete(&self, all: &mut [u8], place: &dyn Fn(usize) -> Range<usize>) -> Result<(), Error> {
        let (rank, size) = (self.rank(), self.size());
        let mut scratch = std::mem::take(&mut *self.0.scratch.lock().expect("nothing panics with it"));
        let [sent, got] = &mut scratch;
        // Bruck's algorithm: after each round a rank has the blocks of twice as many ranks, from its own on.
        let mut distance = 1;
        while distance < size {
            let blocks = distance.min(size - distance);
            let from = |first: usize| (0..blocks).map(move |i| place((first + i) % size));
            let there = (rank + distance) % size;
            sent.clear();
            from(rank).for_each(|block| sent.extend_from_slice(&all[block]));
            got.resize(from(there).map(|block| block.len()).sum(), 0);
            self.send(sent, &[(rank + size - distance) % size], got, Some(there))?;
            let mut rest = &got[..];
            for block in from(there) {
                let (bytes, after) = rest.split_at(block.len());
                all[block].copy_from_slice(bytes);
                rest = after;
            }
            distance *= 2;
        }
        *self.0.scratch.lock().expect("nothing panics with it") = scratch;
        Ok(())
    }

    /// The same for numbers.
    pub(crate) fn complete_numbers<T: bytemuck::Pod>(&self, all: &mut [T], place: &dyn Fn(usize) -> Range<usize>) {
        let size = std::mem::size_of::<T>();
        let bytes = bytemuck::cast_slice_mut(all);
        let place = |rank: usize| place(rank).start * size..place(rank).end * size;
        if !self.is_alone() && self.complete(bytes, &place).is_err() {
            // As numbers of any size these bytes are NaN, which ends every loop of passes; `check` says why.
            bytes.fill(0xff);
        }
    }

    /// What every rank has to say, in their order, one behind the other in `all`; returns where each one's begins and ends.
    pub fn gather_into(&self, own: &[u8], all: &mut Vec<u8>) -> Result<Vec<Range<usize>>, Error> {
        let mut lengths = vec![0u64; self.size()];
        lengths[self.rank()] = own.len() as u64;
        self.complete(bytemuck::cast_slice_mut(&mut lengths), &|rank| rank * 8..rank * 8 + 8)?;
        let mut end = 0;
        let mut place = |length: &u64| {
            end += *length as usize;
            end - *length as usize..end
        };
        let places: Vec<Range<usize>> = lengths.iter().map(&mut place).collect();
        all.resize(end, 0);
        all[places[self.rank()].clone()].copy_from_slice(own);
        self.complete(all, &|rank| places[rank].clone())?;
        Ok(places)
    }

    /// The same as plain data.
    pub fn gather_values<T: Serialize + DeserializeOwned>(&self, own: T) -> Result<Vec<T>, Error> {
        if self.is_alone() {
            return Ok(vec![own]);
        }
        let mut all = Vec::new();
        let places = self.gather_into(&to_bytes(&own), &mut all)?;
        let read = |place: Range<usize>| postcard::from_bytes(&all[place]).map_err(|_| self.misunderstood());
        places.into_iter().map(read).collect()
    }

    /// Gives every rank the bytes of one.
    pub fn broadcast(&self, of: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let size = self.size();
        // A binomial tree: what has come is passed on, to the farthest first.
        let virtual_rank = (self.rank() + size - of) % size;
        let lowest =
            if virtual_rank == 0 { size.next_power_of_two() } else { virtual_rank & virtual_rank.wrapping_neg() };
        let parent = (virtual_rank > 0).then(|| (virtual_rank - lowest + of) % size);
        let steps = std::iter::successors(Some(lowest / 2), |step| Some(step / 2)).take_while(|step| *step > 0);
        let children: Vec<usize> =
            steps.filter(|step| virtual_rank + step < size).map(|step| (virtual_rank + step + of) % size).collect();
        let mut length = [bytes.len() as u64];
        if parent.is_some() {
            self.send(&[], &[], bytemuck::cast_slice_mut(&mut length), parent)?;
            bytes.clear();
            bytes.resize(length[0] as usize, 0);
        }
        self.send(bytemuck::cast_slice(&length), &children, &mut [], None)?;
        if parent.is_some() {
            self.send(&[], &[], bytes, parent)?;
        }
        self.send(bytes, &children, &mut [], None)
    }

    /// Gives every rank what one has; the others give nothing.
    pub fn broadcast_value<T: Serialize + DeserializeOwned>(&self, of: usize, own: Option<T>) -> Result<T, Error> {
        let mut bytes = own.as_ref().map(to_bytes).unwrap_or_default();
        self.broadcast(of, &mut bytes)?;
        own.map_or_else(|| postcard::from_bytes(&bytes).map_err(|_| self.misunderstood()), Ok)
    }

    /// See [`Link::be_patient`].
    pub(crate) fn be_patient(&self, patient: bool) {
        self.0.link.be_patient(patient);
    }

    pub(crate) fn misunderstood(&self) -> Error {
        Error::Ranks("the processes of this run do not understand each other: are they all the same program?".into())
    }
}

fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain data can be written to memory")
}

impl Peers for Ranks {
    fn rank(&self) -> usize {
        Ranks::rank(self)
    }

    fn size(&self) -> usize {
        Ranks::size(self)
    }

    fn exchange(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>) {
        if self.send(bytes, to, into, from).is_err() {
            // As numbers of either size these bytes are NaN, which ends every loop of passes.
            into.fill(0xff);
        }
    }
}

/// Ranks that are threads of this process.
struct Thread {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Mutex<Vec<Receiver<Vec<u8>>>>,
    patience: Duration,
}

/// So many ranks as threads of this process, each to be moved to its own: to see what ranks come to without starting any.
pub fn threads(size: usize, patience: Duration) -> Vec<Ranks> {
    let mut to: Vec<Vec<Sender<Vec<u8>>>> = vec![Vec::new(); size];
    let mut from: Vec<Vec<Receiver<Vec<u8>>>> = Vec::new();
    for _ in 0..size {
        let row = to.iter_mut().map(|to| {
            let (sender, receiver) = channel();
            to.push(sender);
            receiver
        });
        from.push(row.collect());
    }
    let rank = |(rank, (to, from))| Ranks::new(Thread { rank, to, from: Mutex::new(from), patience });
    to.into_iter().zip(from).enumerate().map(rank).collect()
}

impl Link for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, bytes: &[u8], to: &[usize], into: &mut [u8], from: Option<usize>) -> Result<(), String> {
        let died = |rank: usize| format!("rank {rank} of this run has died");
        for &rank in to {
            self.to[rank].send(bytes.to_vec()).map_err(|_| died(rank))?;
        }
        if let Some(rank) = from {
            let received = self.from.lock().expect("nothing panics with it")[rank].recv_timeout(self.patience);
            let received = received.map_err(|error| match error {
                RecvTimeoutError::Disconnected => died(rank),
                RecvTimeoutError::Timeout => format!("rank {rank} of this run does not answer"),
            })?;
            if received.len() != into.len() {
                return Err(format!("rank {rank} of this run is doing something else"));
            }
            into.copy_from_slice(&received);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `act` gives on every one of so many ranks.
    fn on<T: Send>(size: usize, act: impl Fn(&Ranks) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let ranks = threads(size, Duration::from_secs(20));
            let running: Vec<_> = ranks.into_iter().map(|ranks| scope.spawn(|| act(&{ ranks }))).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn what_all_have_to_say_reaches_all_in_order() {
        for size in 1..=9 {
            // Rank r says r times r, so that the first says nothing.
            let said: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8; rank]).collect();
            let found = on(size, |ranks| ranks.gather_values(vec![ranks.rank() as u8; ranks.rank()]).unwrap());
            assert!(found.iter().all(|all| *all == said), "{size} ranks: {found:?}");
        }
    }

    #[test]
    fn any_rank_can_speak_to_all() {
        for size in 1..=9 {
            for of in 0..size {
                let found = on(size, |ranks| {
                    ranks.broadcast_value(of, (ranks.rank() == of).then(|| format!("from {of}"))).unwrap()
                });
                assert_eq!(found, vec![format!("from {of}"); size]);
            }
        }
    }

    #[test]
    fn a_rank_that_has_gone_is_an_error_at_once_and_ever_after() {
        let found = on(3, |ranks| match ranks.rank() {
            1 => Vec::new(),
            _ => (0..2).map(|_| ranks.gather_values(1).map_err(|e| e.to_string())).collect(),
        });
        for answers in [&found[0], &found[2]] {
            assert!(answers.iter().all(Result::is_err), "{answers:?}");
            assert_eq!(answers[0], answers[1]);
        }
    }

    #[test]
    fn everything_is_in_one_share() {
        for size in [1, 2, 3, 7] {
            let ranks = threads(size, Duration::ZERO);
            let shares: Vec<usize> = (0..size).flat_map(|rank| ranks[0].share(rank, 20)).collect();
            assert_eq!(shares, (0..20).collect::<Vec<_>>());
        }
    }
}
