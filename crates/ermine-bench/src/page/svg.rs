//! Charts as SVG, drawn by plotters.
//!
//! Colours are those of the page's style sheet, which knows light and dark: plotters draws in the numbers of the inks
//! below, and their names replace the numbers. Titles, legends and the names of the axes are HTML, since SVG does not
//! break lines.

use std::ops::Range;

use plotters::{
    coord::{
        Shift,
        cartesian::Cartesian2d,
        ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
        types::RangedCoordf64,
    },
    prelude::*,
};

use super::{Axis, COLOURS, Chart, Line, Point, Scale};

/// A size at which letters are legible both on a phone and in a column of a wide screen.
const SIZE: (u32, u32) = (480, 240);
const SOFT: RGBColor = RGBColor(1, 0, 0);
const GRID: RGBColor = RGBColor(2, 0, 0);
/// Lines of more points have no dots.
const DOTS_MAX: usize = 30;
/// Distances between labels of an axis are at least a part of this many.
const LABELS: usize = 6;

fn ink(colour: usize) -> RGBColor {
    RGBColor(0, 0, (colour % COLOURS) as u8 + 1)
}

/// Draws a chart as an element of HTML.
pub(super) fn svg(chart: &Chart, label: &str) -> String {
    let mut text = String::new();
    draw(chart, SVGBackend::with_string(&mut text, SIZE).into_drawing_area()).expect("a string accepts all text");
    let inks = (0..COLOURS).map(|colour| (ink(colour), format!("c{}", colour + 1)));
    for (RGBColor(red, green, blue), name) in inks.chain([(SOFT, "soft".to_owned()), (GRID, "grid".to_owned())]) {
        text = text.replace(&format!("\"#{red:02X}{green:02X}{blue:02X}\""), &format!("\"var(--{name})\""));
    }
    // The tag of plotters has a size in pixels.
    let (_, content) = text.split_once('>').expect("it begins with a tag");
    format!("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{label}\">{content}", SIZE.0, SIZE.1)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ticks, Ticks>>;

fn draw(chart: &Chart, area: Area<'_>) -> Result<(), String> {
    let points = || chart.lines.iter().flat_map(|line| &line.points);
    let heights = points().flat_map(|point| point.spread.into_iter().flatten().chain([point.y]));
    let marks = chart.lines.iter().flat_map(|line| line.marks.iter().copied());
    let (x, y) = (Places::of(&chart.x, points().map(|point| point.x).chain(marks)), Places::of(&chart.y, heights));
    let failed = |error: DrawingAreaErrorKind<_>| error.to_string();
    let mut builder = ChartBuilder::on(&area);
    builder.margin_top(12).margin_right(26).margin_left(4).x_label_area_size(26).y_label_area_size(48);
    let mut drawn = builder.build_cartesian_2d(x.ticks(), y.ticks()).map_err(failed)?;
    let (x_label, y_label) = (|place: &f64| x.label(*place), |place: &f64| y.label(*place));
    let mut mesh = drawn.configure_mesh();
    mesh.disable_x_mesh().bold_line_style(GRID).light_line_style(TRANSPARENT).axis_style(GRID);
    mesh.x_label_formatter(&x_label).y_label_formatter(&y_label);
    mesh.label_style(("sans-serif", 14, &SOFT)).draw().map_err(failed)?;
    chart.lines.iter().try_for_each(|line| draw_line(&mut drawn, line, &x, &y).map_err(failed))?;
    drop(drawn);
    area.present().map_err(failed)
}

fn draw_line(
    drawn: &mut Drawn<'_, '_>,
    line: &Line,
    x: &Places<'_>,
    y: &Places<'_>,
) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
    let colour = ink(line.colour);
    for mark in line.marks.iter().filter_map(|&mark| x.place(mark)) {
        let ends = [(mark, y.low), (mark, y.high)];
        drawn.draw_series(DashedLineSeries::new(ends, 3, 4, colour.stroke_width(1)))?;
    }
    let place = |point: &Point| Some((x.place(point.x)?, y.place(point.y)?));
    let places: Vec<_> = line.points.iter().filter_map(place).collect();
    match line.is_dashed {
        true => drawn.draw_series(DashedLineSeries::new(places.clone(), 6, 4, colour.stroke_width(2)))?,
        false => drawn.draw_series(LineSeries::new(places.clone(), colour.stroke_width(2)))?,
    };
    for point in &line.points {
        if let (Some(at), Some([low, high])) = (x.place(point.x), point.spread) {
            let ends = vec![(at, y.place(low).unwrap_or(y.low)), (at, y.place(high).unwrap_or(y.low))];
            drawn.draw_series([PathElement::new(ends, colour.stroke_width(1))])?;
        }
    }
    if places.len() <= DOTS_MAX {
        drawn.draw_series(places.into_iter().map(|place| Circle::new(place, 3, colour.filled())))?;
    }
    Ok(())
}

/// The places of values on an axis, which plotters regards as linear.
struct Places<'a> {
    axis: &'a Axis,
    low: f64,
    high: f64,
}

impl<'a> Places<'a> {
    fn of(axis: &'a Axis, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| value.is_finite());
        let (low, high) = match &axis.scale {
            Scale::Linear => (0.0, values.fold(0.0, f64::max)),
            Scale::Named(names) => (0.0, names.len().saturating_sub(1) as f64),
            Scale::Logarithmic => {
                let logarithms = values.filter(|&value| value > 0.0).map(f64::log10);
                let ends = (f64::INFINITY, f64::NEG_INFINITY);
                let (low, high) = logarithms.fold(ends, |(low, high), value| (low.min(value), high.max(value)));
                (low.floor(), high.ceil())
            }
        };
        let is_range = low.is_finite() && high > low;
        let low = if low.is_finite() { low } else { 0.0 };
        Self { axis, low, high: if is_range { high } else { low + 1.0 } }
    }

    /// The place of a value, if it has one.
    fn place(&self, value: f64) -> Option<f64> {
        let place = if matches!(self.axis.scale, Scale::Logarithmic) { value.log10() } else { value };
        place.is_finite().then_some(place)
    }

    /// The axis with the places of its labels.
    fn ticks(&self) -> Ticks {
        let line = RangedCoordf64::from(self.low..self.high);
        let whole = || (self.low as i64..=self.high as i64).map(|place| place as f64);
        let labelled = match self.axis.scale {
            Scale::Linear => line.key_points(LABELS),
            Scale::Named(_) => whole().collect(),
            Scale::Logarithmic => whole().step_by((self.high - self.low) as usize / LABELS + 1).collect(),
        };
        Ticks { line, labelled }
    }

    /// The text at a place.
    fn label(&self, place: f64) -> String {
        match self.axis.scale {
            Scale::Linear => short(place),
            Scale::Logarithmic => short(10_f64.powf(place)),
            Scale::Named(_) => self.axis.name_of(place),
        }
    }
}

/// A linear axis with labels at these places.
struct Ticks {
    line: RangedCoordf64,
    labelled: Vec<f64>,
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.line.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.labelled.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.line.range()
    }
}

/// A number in few characters.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = format!("{value:.3}");
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.25, 100.0, 1_000.0, 25_000.0, 1_500_000.0, 2e9].map(short);
        assert_eq!(shown, ["0", "0.25", "100", "1000", "25 k", "1.5 M", "2 G"]);
    }

    #[test]
    fn logarithmic_axes_end_at_powers_of_ten_and_leave_out_zero() {
        let axis = Axis::logarithmic("us");
        let places = Places::of(&axis, [0.0, 3.0, 450.0].into_iter());
        assert_eq!((places.low, places.high), (0.0, 3.0));
        assert_eq!((places.place(0.0), places.place(100.0)), (None, Some(2.0)));
        assert_eq!(places.label(2.0), "100");
    }

    #[test]
    fn axes_without_values_have_a_length() {
        for axis in [Axis::linear("s"), Axis::logarithmic("s"), Axis::named("s", ["a"])] {
            let places = Places::of(&axis, std::iter::empty());
            assert_eq!((places.low, places.high), (0.0, 1.0));
        }
    }
}
