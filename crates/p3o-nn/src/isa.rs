//! Which instructions the kernels use: the best that the processor has, unless a program chooses others.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// 512-bit vectors.
    Avx512,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// No explicit vectors: any processor.
    Scalar,
}

/// The place in `Isa::ALL` of what [`Isa::choose`] was given, or `BEST`.
static CHOSEN: AtomicU8 = AtomicU8::new(BEST);
const BEST: u8 = u8::MAX;

impl Isa {
    /// All that there are kernels for, best first.
    pub const ALL: [Isa; 3] = [Isa::Avx512, Isa::Avx2, Isa::Scalar];

    /// All that this processor has, best first.
    pub fn available() -> &'static [Isa] {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("avx512f") {
                return &Isa::ALL;
            }
            if avx2 {
                return &[Isa::Avx2, Isa::Scalar];
            }
        }
        &[Isa::Scalar]
    }

    /// The one that networks use which are made from now on: the chosen one, or the best that this processor has.
    pub fn current() -> Isa {
        match CHOSEN.load(Ordering::Relaxed) {
            BEST => Isa::available()[0],
            place => Isa::ALL[usize::from(place)],
        }
    }

    /// Makes it the [`current`](Isa::current) one of the whole program. The results are the same bits with any of them.
    pub fn choose(self) -> Result<(), IsaError> {
        if !Isa::available().contains(&self) {
            return Err(IsaError::Missing(self));
        }
        CHOSEN.store(self as u8, Ordering::Relaxed);
        Ok(())
    }

    /// The one of this name.
    pub fn named(name: &str) -> Result<Isa, IsaError> {
        let found = Isa::ALL.into_iter().find(|isa| isa.name() == name);
        found.ok_or_else(|| IsaError::Unknown(name.to_string()))
    }

    /// Its name in lower-case letters.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
            Isa::Scalar => "scalar",
        }
    }
}

/// The name of the instruction set that networks use which are made from now on.
pub fn instruction_set() -> &'static str {
    Isa::current().name()
}

/// Why an instruction set cannot be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsaError {
    /// There are no kernels for one of this name.
    Unknown(String),
    /// The processor does not have it.
    Missing(Isa),
}

impl fmt::Display for IsaError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names = |all: &[Isa]| all.iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        match self {
            IsaError::Unknown(name) => {
                write!(f, "no instruction set is called `{name}`; there is {}", names(&Isa::ALL))
            }
            IsaError::Missing(isa) => {
                write!(f, "this processor does not have {}; it has {}", isa.name(), names(Isa::available()))
            }
        }
    }
}

impl std::error::Error for IsaError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_places_are_those_of_the_list() {
        for (place, isa) in Isa::ALL.into_iter().enumerate() {
            assert_eq!((isa as usize, Isa::named(isa.name())), (place, Ok(isa)));
        }
        let error = Isa::named("AVX2").unwrap_err();
        assert_eq!(error.to_string(), "no instruction set is called `AVX2`; there is avx512, avx2, scalar");
    }

    /// Every test of this program may run meanwhile: it is no matter which set the others use.
    #[test]
    fn what_is_chosen_is_current_and_the_rest_is_refused() {
        assert_eq!(Isa::current(), Isa::available()[0]);
        for isa in Isa::ALL {
            if Isa::available().contains(&isa) {
                isa.choose().unwrap();
                assert_eq!((Isa::current(), instruction_set()), (isa, isa.name()));
            } else {
                assert_eq!(isa.choose(), Err(IsaError::Missing(isa)));
            }
        }
        CHOSEN.store(BEST, Ordering::Relaxed);
    }
}
