//! `ermined promote`.

use std::path::Path;

use ermine::LogReceiver;

use crate::{Failure, failed, replication, standard_output::Stdout};

/// Makes the standby in a directory a database of its own.
pub fn promote(dir: &Path) -> Result<(), Failure> {
    if !dir.join("STANDBY").exists() {
        let dir = dir.display();
        return Err(Failure::Usage(format!("{dir} is no standby: of a node of a cluster, name NODE/database")));
    }
    let standby = LogReceiver::open(dir).map_err(failed)?;
    let position = standby.position();
    // In this order: after a crash in between, it can be promoted again.
    replication::forget(dir).map_err(failed)?;
    standby.promote().map_err(failed)?;
    writeln!(Stdout, "{} is a database of its own now, with everything up to position {position}", dir.display())
}
