//! The limits of hardware transactions (HTM III.B, figures 5 and 6), aborts by size and by duration; and the aborts of
//! those that a database transaction consists of, by the number of restarts (VI.B, figure 15).
//!
//! The paper measured all of these on one processor. Here they follow from its explanations: the associativity of the
//! cache, interrupts, the lines that accesses have in common. The first two are drawn at random and computed.

mod cache;
mod elided;
mod interrupts;

use fastrand::Rng;

use self::{
    cache::Cache,
    elided::{Accesses, Layout},
    interrupts::Interrupts,
};
use crate::{
    figure::{Curve, Drawing, Panel, Point},
    options::Usage,
    trace::Trace,
};

/// The transactions of a point.
#[derive(Clone, Copy, Debug)]
pub struct Samples {
    /// Number of simulations of each point, each with a seed of its own.
    pub seeds: u32,
    /// The first of the seeds.
    pub seed: u64,
    /// Transactions of a simulation.
    pub transactions: u32,
}

impl Default for Samples {
    fn default() -> Self {
        Self { seeds: 3, seed: 1, transactions: 10_000 }
    }
}

impl Samples {
    fn check(&self) -> Result<(), Usage> {
        if self.seeds == 0 || self.transactions == 0 {
            return Err(Usage("a point needs at least one seed and one transaction".into()));
        }
        Ok(())
    }

    /// The share of transactions that abort, in percent: mean and spread over the seeds.
    fn measure(&self, x: f64, mut aborts: impl FnMut(&mut Rng) -> bool) -> Point {
        let percent = |number: u64| {
            let mut random = Rng::with_seed(self.seed.wrapping_add(number));
            let aborted = (0..self.transactions).filter(|_| aborts(&mut random)).count();
            100.0 * aborted as f64 / f64::from(self.transactions)
        };
        let values: Vec<f64> = (0..u64::from(self.seeds)).map(percent).collect();
        Point::of(x, &values)
    }
}

/// Sizes of transactions, in lines.
const SIZES: [u32; 12] = [8, 16, 32, 64, 96, 128, 160, 192, 256, 320, 384, 512];

/// Draws the aborts of transactions that access random lines, by the number of lines, for caches of one size with
/// several numbers of ways.
pub fn draw_sizes(cache_kib: u32, ways: &[u32], samples: &Samples) -> Result<Drawing, Usage> {
    samples.check()?;
    let caches = ways.iter().map(|&ways| Cache::new(cache_kib, ways)).collect::<Result<Vec<_>, _>>()?;
    let curves = |point: &dyn Fn(Cache, u32) -> Point| {
        let curve = |(colour, &cache): (usize, &Cache)| Curve {
            name: format!("{} ways", cache.ways),
            colour,
            is_dashed: false,
            points: SIZES.iter().map(|&lines| point(cache, lines)).collect(),
        };
        caches.iter().enumerate().map(curve).collect()
    };
    let drawn = curves(&|cache, lines| {
        let mut held = Vec::new();
        samples.measure(lines.into(), |random| cache.overflows(lines, random, &mut held))
    });
    let computed = curves(&|cache, lines| Point::of(lines.into(), &[100.0 * cache.overflow_probability(lines)]));
    let x_label = "transaction size (lines of 64 bytes)";
    Ok(limits(5, "Aborts from random memory writes", x_label, samples, [drawn, computed]))
}

/// Durations of transactions, in cycles.
const DURATIONS: [f64; 11] = [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8];
/// Limits of the time between two interrupts, in cycles.
const INTERVAL_MIN: f64 = 1.0;
const INTERVAL_MAX: f64 = 1e12;

/// Draws the aborts of transactions that only compute, by their duration, with interrupts at this mean interval in
/// cycles.
pub fn draw_durations(interval_cycles: f64, samples: &Samples) -> Result<Drawing, Usage> {
    samples.check()?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval_cycles) {
        return Err(Usage(format!(
            "the time between two interrupts lies between {INTERVAL_MIN} and {INTERVAL_MAX:e} cycles"
        )));
    }
    let curves = |point: &dyn Fn(Interrupts, f64) -> Point| {
        let curve = |(colour, interrupts): (usize, Interrupts)| Curve {
            name: interrupts.title().to_owned(),
            colour,
            is_dashed: false,
            points: DURATIONS.iter().map(|&cycles| point(interrupts, cycles)).collect(),
        };
        Interrupts::ALL.into_iter().enumerate().map(curve).collect()
    };
    let drawn = curves(&|interrupts, cycles| {
        samples.measure(cycles, |random| interrupts.strikes(cycles / interval_cycles, random))
    });
    let computed =
        curves(&|interrupts, cycles| Point::of(cycles, &[100.0 * interrupts.probability(cycles / interval_cycles)]));
    let x_label = "transaction duration (cycles)";
    Ok(limits(6, "Aborts from transaction duration", x_label, samples, [drawn, computed]))
}

/// A figure of aborts by a size or a duration, drawn at random and computed.
fn limits(
    number: u32,
    title: &'static str,
    x_label: &'static str,
    samples: &Samples,
    [drawn, computed]: [Vec<Curve>; 2],
) -> Drawing {
    let panel = |title: &str, curves| Panel { title: title.to_owned(), curves };
    Drawing {
        paper: "HTM",
        number,
        title,
        x_label,
        y_label: "abort rate (%)",
        x_is_logarithmic: true,
        y_is_logarithmic: false,
        transactions: samples.transactions,
        seeds: samples.seeds,
        panels: vec![panel("drawn at random", drawn), panel("computed", computed)],
        broken: Vec::new(),
    }
}

/// Most restarts of a hardware transaction that are drawn.
const RESTARTS_MAX: u32 = 8;

/// Draws the accesses of a trace that end up taking the latch of their table, by the restarts before: a curve for each
/// number of cores, a panel for each number of insert zones. The seeds choose the zones of transactions.
pub fn draw_restarts(trace: &Trace, cores: &[u32], zones: &[u32], seeds: u32) -> Result<Drawing, Usage> {
    if trace.transactions() == 0 || seeds == 0 || cores.contains(&0) || zones.contains(&0) {
        return Err(Usage("there is at least one transaction, one core, one zone and one seed".into()));
    }
    let percent = |layout, seed| {
        let Accesses { all, latched } = elided::run(trace, layout, seed);
        100.0 * latched as f64 / all.max(1) as f64
    };
    let point = |cores, zones, restarts| {
        let layout = Layout { cores, zones, restarts };
        let values: Vec<f64> = (1..=u64::from(seeds)).map(|seed| percent(layout, seed)).collect();
        Point::of(restarts.into(), &values)
    };
    let curve = |zones, (colour, &cores): (usize, &u32)| Curve {
        name: format!("cores: {cores}"),
        colour,
        is_dashed: false,
        points: (0..=RESTARTS_MAX).map(|restarts| point(cores, zones, restarts)).collect(),
    };
    let panel = |&zones: &u32| Panel {
        title: format!("insert zones: {zones}"),
        curves: cores.iter().enumerate().map(|numbered| curve(zones, numbered)).collect(),
    };
    Ok(Drawing {
        paper: "HTM",
        number: 15,
        title: "Aborts of hardware transactions by restarts",
        x_label: "restarts",
        y_label: "abort rate (%)",
        x_is_logarithmic: false,
        y_is_logarithmic: true,
        transactions: trace.transactions(),
        seeds,
        panels: zones.iter().map(panel).collect(),
        broken: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Kind, Touch};

    #[test]
    fn the_panels_agree() {
        let samples = Samples { transactions: 2000, ..Samples::default() };
        for drawing in [draw_sizes(32, &[1, 8, 512], &samples).unwrap(), draw_durations(1e6, &samples).unwrap()] {
            let [drawn, computed] = &drawing.panels[..] else { panic!("two panels") };
            for (drawn, computed) in drawn.curves.iter().zip(&computed.curves) {
                for (drawn, computed) in drawn.points.iter().zip(&computed.points) {
                    assert!((drawn.mean - computed.mean).abs() < 3.0, "{drawn:?}, {computed:?}");
                }
            }
            assert!(drawing.csv().starts_with("figure,panel,curve,x,mean,min,max\n"));
            assert!(drawing.svg().contains("HTM figure"));
        }
    }

    /// "Transactions that take more than 1 million CPU cycles (about 0.3 ms) will likely be aborted" (HTM III.B).
    #[test]
    fn long_transactions_abort() {
        let drawing = draw_durations(1e6, &Samples::default()).unwrap();
        for curve in &drawing.panels[1].curves {
            let at = |cycles| curve.points.iter().find(|point| point.x == cycles).unwrap().mean;
            assert!(at(1e3) < 0.2 && at(1e6) > 50.0 && at(1e7) > 99.9, "{curve:?}");
        }
    }

    /// "Most aborts are transient"; "with only one zone" there are more, and they "often do not vanish after restarts"
    /// (HTM VI.B).
    #[test]
    fn restarts_and_zones_save_latches() {
        let mut trace = Trace::new(1);
        for number in 0..1000_u32 {
            let touch = |at: u32| {
                let (table, record) = (at % 3, 10 * number + at);
                Touch { table, record, partition: None, kind: if table == 0 { Kind::Insert } else { Kind::Read } }
            };
            trace.add((0..10).map(touch));
        }
        let drawing = draw_restarts(&trace, &[1, 4], &[8, 1], 2).unwrap();
        let latched =
            |panel: usize, curve: usize, restarts: usize| drawing.panels[panel].curves[curve].points[restarts].mean;
        assert_eq!([latched(0, 0, 0), latched(1, 0, 0)], [0.0, 0.0], "one core meets no other");
        let [zones, one_zone] = [0, 1].map(|panel| [latched(panel, 1, 0), latched(panel, 1, 8)]);
        assert!(zones[0] < 0.3 * one_zone[0], "{zones:?}, {one_zone:?}");
        assert!(zones[1] < 0.05 * zones[0] && one_zone[1] > 0.3 * one_zone[0], "{zones:?}, {one_zone:?}");
    }

    #[test]
    fn requests_that_cannot_work_are_refused() {
        let samples = Samples::default();
        assert!(draw_sizes(32, &[7], &samples).is_err());
        assert!(draw_durations(0.0, &samples).is_err() && draw_durations(f64::NAN, &samples).is_err());
        assert!(draw_durations(1e6, &Samples { seeds: 0, ..samples }).is_err());
        assert!(draw_durations(1e6, &Samples { transactions: 0, ..samples }).is_err());
        let mut trace = Trace::new(1);
        assert!(draw_restarts(&trace, &[1], &[1], 1).is_err());
        trace.add([]);
        assert!(draw_restarts(&trace, &[0], &[1], 1).is_err() && draw_restarts(&trace, &[1], &[0], 1).is_err());
        assert!(draw_restarts(&trace, &[1], &[1], 1).is_ok());
    }
}
