//! The scheme of each name.

use super::{
    Control,
    declared::{Declared, Everything, Partitions, Records},
    hardware::Hardware,
    rc::Rc,
    rcl::Rcl,
    si::Si,
    ssi::Ssi,
    ssn::Ssn,
    timestamps::{Dirty, Ended, Safe, Timestamps},
    two_phase::TwoPhase,
    validated::{Private, Validated},
};
use crate::scheme::Scheme;

/// A simulation that runs under any scheme.
pub(crate) trait Simulated {
    /// Its results.
    type Output;

    /// Runs under this scheme.
    fn run<C: Control>(self) -> Self::Output;
}

/// Runs a simulation under the scheme with this name.
pub(crate) fn run_under<S: Simulated>(scheme: Scheme, simulated: S) -> S::Output {
    match scheme {
        Scheme::TwoPhase => simulated.run::<TwoPhase>(),
        Scheme::Rcl => simulated.run::<Rcl>(),
        Scheme::RclSsn => simulated.run::<Ssn<Rcl>>(),
        Scheme::Rc => simulated.run::<Rc>(),
        Scheme::RcSsn => simulated.run::<Ssn<Rc>>(),
        Scheme::Si => simulated.run::<Si>(),
        Scheme::SiSsi => simulated.run::<Ssi>(),
        Scheme::SiSsn => simulated.run::<Ssn<Si>>(),
        Scheme::MvOcc => simulated.run::<Validated<Si>>(),
        Scheme::Silo => simulated.run::<Validated<Private>>(),
        Scheme::Sto => simulated.run::<Timestamps<Dirty>>(),
        Scheme::Tso => simulated.run::<Timestamps<Ended>>(),
        Scheme::TsoSafe => simulated.run::<Timestamps<Safe>>(),
        Scheme::Hardware => simulated.run::<Hardware>(),
        Scheme::Serial => simulated.run::<Declared<Everything>>(),
        Scheme::Partitioned => simulated.run::<Declared<Partitions>>(),
        Scheme::Vll => simulated.run::<Declared<Records>>(),
    }
}
