//! `ermine bench .. --check`: records the reads and writes of a workload's transactions and judges them afterwards.

use std::{
    fs::File,
    io::{BufWriter, Write},
    sync::Arc,
};

use ermine::{Scheme, observer::Observer};
use ermine_bench::{Error, Result, report, standard_output::Stdout};
use ermine_check::{Level, Recorder, file};

use crate::{arguments::Run, progress};

/// Watches a run, if that is asked for.
pub struct Watch<'a> {
    run: &'a Run,
    recorder: Option<Arc<Recorder>>,
}

impl<'a> Watch<'a> {
    pub fn new(run: &'a Run) -> Self {
        Self { run, recorder: run.check.map(|sample| Arc::new(Recorder::new(sample))) }
    }

    /// Returns the observer with which the database is opened.
    pub fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.recorder.clone().map(|recorder| recorder as Arc<dyn Observer>)
    }

    /// Judges the recorded history; returns whether it is what the scheme promises.
    pub fn judge(&self, scheme: Scheme) -> Result<bool> {
        let Some(recorder) = &self.recorder else { return Ok(true) };
        eprintln!("recorded: {}", report::mib(recorder.bytes()));
        let history = recorder.finish();
        if let Some(path) = &self.run.history {
            let failed = |source| Error::File { path: path.clone(), source };
            let mut output = BufWriter::new(File::create(path).map_err(failed)?);
            file::write(&history, &mut output).and_then(|()| output.flush()).map_err(failed)?;
        }
        let bar = progress::bar();
        let found = ermine_check::judge(&history, &mut |of| progress::show(&bar, of.step, of.done, of.total));
        bar.finish_and_clear();
        // A file of the report that goes to the standard output is alone there.
        match self.run.output.is_stdout() {
            true => eprintln!("\n{found}"),
            false => writeln!(Stdout, "\n{found}")?,
        }
        let mut holds = true;
        for &level in Level::promised_by(scheme) {
            let level_holds = found.holds(level);
            eprintln!("{scheme} promises {level}: {}", if level_holds { "PASS" } else { "FAIL" });
            holds &= level_holds;
        }
        Ok(holds)
    }
}
