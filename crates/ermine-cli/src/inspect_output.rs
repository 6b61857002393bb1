//! The output of `ermine inspect log`, and what ends it early.

use std::io::{self, BufWriter, Write};

use ermine_bench::{Result, standard_output::ended};

/// Runs `show`, which counts the damaged places; returns whether there are none.
pub fn shown(show: impl FnOnce(&mut dyn Write, &mut u64) -> Result<(), Stop>) -> Result<bool> {
    let mut damage = 0;
    match show(&mut BufWriter::new(io::stdout().lock()), &mut damage) {
        Ok(()) => Ok(damage == 0),
        Err(Stop::Output(error)) => ended(Err(error)).map(|()| damage == 0),
        Err(Stop::Engine(error)) => Err(error.into()),
    }
}

/// The reason why the output ends early.
pub enum Stop {
    Output(io::Error),
    Engine(ermine::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<ermine::Error> for Stop {
    fn from(error: ermine::Error) -> Self {
        Self::Engine(error)
    }
}
