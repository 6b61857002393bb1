//! The parameters of the figures.

use super::{
    Curve, Drawing, Figure, FigureOptions, Measure, Panel, Point, aborts_of_readers, aborts_of_writers, completion,
    other_aborts, serializable_completion, snapshot_aborts,
};
use crate::{
    options::{Group, Options, Writes},
    outcome::Outcome,
    scheme::Scheme,
};

/// A curve to be drawn: a scheme and a workload, and what is measured of them.
struct Planned {
    panel: usize,
    suffix: &'static str,
    scheme: Scheme,
    workload: usize,
    measure: Measure,
}

/// A figure to be drawn.
pub(super) struct Plan {
    title: &'static str,
    pub(super) x_label: &'static str,
    y_label: &'static str,
    x_is_logarithmic: bool,
    y_is_logarithmic: bool,
    pub(super) points: Vec<f64>,
    panels: Vec<&'static str>,
    curves: Vec<Planned>,
    /// The records, groups and safe snapshots of a workload at a point.
    workload: fn(x: f64, workload: usize) -> Options,
    transactions: u32,
    load: f64,
}

const SINGLE: [Scheme; 3] = [Scheme::TwoPhase, Scheme::Rcl, Scheme::RclSsn];
const MULTI: [Scheme; 5] = [Scheme::Rc, Scheme::RcSsn, Scheme::Si, Scheme::SiSsi, Scheme::SiSsn];

impl Plan {
    pub(super) fn of(figure: Figure, options: &FigureOptions) -> Self {
        let mut plan = match figure {
            Figure::Contention => contention(),
            Figure::WriteShare => write_share(),
            Figure::Interference => interference(),
            Figure::SafeSnapshots => safe_snapshots(),
        };
        if options.quick {
            plan.transactions /= QUICK;
            plan.points = plan.points.into_iter().step_by(2).collect();
        }
        plan.transactions = options.transactions.unwrap_or(plan.transactions);
        plan.load = options.load;
        plan
    }

    /// The simulations of a point: schemes, each with its workload.
    pub(super) fn cases(&self) -> Vec<(Scheme, usize)> {
        let mut cases: Vec<_> = self.curves.iter().map(|curve| (curve.scheme, curve.workload)).collect();
        cases.sort_unstable();
        cases.dedup();
        cases
    }

    pub(super) fn options(&self, x: f64, workload: usize, seed: u64) -> Options {
        Options { transactions: self.transactions, seed, load: self.load, ..(self.workload)(x, workload) }
    }

    /// The figure without points.
    pub(super) fn empty(&self, figure: Figure, options: &FigureOptions) -> Drawing {
        let curves = |panel| {
            let of_panel = self.curves.iter().filter(move |curve| curve.panel == panel);
            let named = |curve: &Planned| Curve {
                name: format!("{}{}", curve.scheme.title(), curve.suffix),
                colour: Scheme::SSN_PAPER.iter().position(|&scheme| scheme == curve.scheme).expect("it is one of them"),
                is_dashed: !curve.suffix.is_empty() && DASHED.contains(&curve.suffix),
                points: Vec::new(),
            };
            of_panel.map(named).collect()
        };
        let titles = self.panels.iter().enumerate();
        Drawing {
            paper: "SSN",
            number: figure.number(),
            title: self.title,
            x_label: self.x_label,
            y_label: self.y_label,
            x_is_logarithmic: self.x_is_logarithmic,
            y_is_logarithmic: self.y_is_logarithmic,
            transactions: self.transactions,
            seeds: options.seeds,
            panels: titles.map(|(number, &title)| Panel { title: title.to_owned(), curves: curves(number) }).collect(),
            broken: Vec::new(),
        }
    }

    /// Adds the outcomes of a scheme at a point to its curves.
    pub(super) fn add(&self, drawing: &mut Drawing, x: f64, case: (Scheme, usize), outcomes: &[Outcome]) {
        let mut places = vec![0; self.panels.len()];
        for curve in &self.curves {
            let place = places[curve.panel];
            places[curve.panel] += 1;
            if (curve.scheme, curve.workload) == case {
                let values: Vec<f64> = outcomes.iter().map(curve.measure).collect();
                drawing.panels[curve.panel].curves[place].points.push(Point::of(x, &values));
            }
        }
    }
}

/// The reduced form has this part of the transactions.
const QUICK: u32 = 5;
/// The second curves of schemes.
const DASHED: [&str; 3] = ["/SER", " read", " L"];

/// 30 clients, 8 to 12 accesses, a quarter of them writes.
fn contention() -> Plan {
    let mut curves = Vec::new();
    for (panel, schemes) in [&SINGLE[..], &MULTI[..]].into_iter().enumerate() {
        for &scheme in schemes {
            let curve = |suffix, measure| Planned { panel, suffix, scheme, workload: 0, measure };
            curves.push(curve("", completion));
            if !scheme.is_serializable() {
                curves.push(curve("/SER", serializable_completion));
            }
        }
    }
    Plan {
        title: "Contention",
        x_label: "records",
        y_label: "completion rate (%)",
        x_is_logarithmic: true,
        y_is_logarithmic: false,
        points: (0..9).map(|power| f64::from(50 << power)).collect(),
        panels: vec!["single version", "several versions"],
        curves,
        workload: |records, _| Options { records: records as u32, ..Options::default() },
        transactions: 30_000,
        load: 1.0,
    }
}

/// 30 clients, 100 accesses, 100,000 records.
fn write_share() -> Plan {
    let schemes = SINGLE.iter().chain(&MULTI);
    let curve = |&scheme| Planned { panel: 0, suffix: "", scheme, workload: 0, measure: completion };
    Plan {
        title: "Share of writes",
        x_label: "writes (%)",
        y_label: "completion rate (%)",
        x_is_logarithmic: false,
        y_is_logarithmic: false,
        points: (0..=10).map(|tenth| f64::from(10 * tenth)).collect(),
        panels: vec!["100 accesses, 100,000 records"],
        curves: schemes.map(curve).collect(),
        workload: |percent, _| Options {
            records: 100_000,
            groups: vec![Group::new(30, 100..=100, Writes::Percent(percent))],
            ..Options::default()
        },
        transactions: 10_000,
        load: 1.0,
    }
}

/// 10 clients that write 8 to 12 records of 3000, and some that read 100 to 200.
fn interference() -> Plan {
    let panels = [&[Scheme::TwoPhase, Scheme::RclSsn][..], &[Scheme::RcSsn, Scheme::SiSsi, Scheme::SiSsn][..]];
    let mut curves = Vec::new();
    for (panel, schemes) in panels.into_iter().enumerate() {
        for &scheme in schemes {
            let curve = |suffix, measure| Planned { panel, suffix, scheme, workload: 0, measure };
            curves.push(curve(" write", aborts_of_writers));
            curves.push(curve(" read", aborts_of_readers));
        }
    }
    Plan {
        title: "Readers beside ten writers",
        x_label: "clients that read",
        y_label: "abort rate (%)",
        x_is_logarithmic: false,
        y_is_logarithmic: true,
        points: [1, 2, 5, 10, 15, 20, 25, 30].map(f64::from).to_vec(),
        panels: vec!["single version", "several versions"],
        curves,
        workload: |readers, _| Options {
            records: 3000,
            groups: vec![
                Group::new(10, 8..=12, Writes::Percent(100.0)),
                Group::new(readers as u32, 100..=200, Writes::Number(0)),
            ],
            ..Options::default()
        },
        transactions: 100_000,
        load: 1.0,
    }
}

/// 30 clients that write a quarter of their accesses: small ones of 10 in 1000 records, large ones of 40 in 4000.
fn safe_snapshots() -> Plan {
    let mut curves = Vec::new();
    for (panel, measure) in [snapshot_aborts as Measure, other_aborts].into_iter().enumerate() {
        for scheme in [Scheme::SiSsi, Scheme::SiSsn, Scheme::RcSsn] {
            for (workload, suffix) in [" S", " L"].into_iter().enumerate() {
                curves.push(Planned { panel, suffix, scheme, workload, measure });
            }
        }
    }
    Plan {
        title: "Safe snapshots",
        x_label: "time between safe snapshots (mean accesses)",
        y_label: "abort rate (%)",
        x_is_logarithmic: true,
        y_is_logarithmic: true,
        points: (0..=11).map(|power| f64::from(1 << power)).collect(),
        panels: vec!["safe snapshot conflicts", "other causes"],
        curves,
        workload: |interval, workload| {
            let (footprint, records) = [(8..=12, 1000), (32..=48, 4000)][workload].clone();
            Options {
                records,
                groups: vec![Group::new(30, footprint, Writes::Percent(25.0))],
                safe_snapshot_interval: Some(interval),
                ..Options::default()
            }
        },
        transactions: 30_000,
        load: 1.0,
    }
}
