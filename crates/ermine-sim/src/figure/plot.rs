//! Figures as SVG.

use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::*,
};

use super::{Curve, Drawing, Panel, Point};

const PANEL_WIDTH: u32 = 560;
const HEIGHT: u32 = 440;
/// A colour for each scheme, distinguishable with the usual colour deficiencies (after Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(90, 90, 90),
    RGBColor(86, 180, 233),
    RGBColor(0, 90, 178),
    RGBColor(230, 159, 0),
    RGBColor(213, 94, 0),
    RGBColor(120, 190, 60),
    RGBColor(204, 121, 167),
    RGBColor(0, 120, 90),
];
/// Smaller values do not appear where y is drawn in logarithms, in percent.
const FLOOR: f64 = 0.01;
const CEILING: f64 = 100.0;

pub(super) fn svg(drawing: &Drawing) -> String {
    let mut text = String::new();
    {
        let size = (PANEL_WIDTH * drawing.panels.len() as u32, HEIGHT);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        let drawn = root.fill(&WHITE).map_err(|error| error.to_string()).and_then(|()| {
            let areas = root.split_evenly((1, drawing.panels.len()));
            areas.iter().zip(&drawing.panels).try_for_each(|(area, panel)| draw_panel(drawing, panel, area))
        });
        drawn.and_then(|()| root.present().map_err(|error| error.to_string())).expect("a string accepts all text");
    }
    text
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(drawing: &Drawing, panel: &Panel, area: &Area<'_>) -> Result<(), String> {
    let points = || panel.curves.iter().flat_map(|curve| &curve.points);
    let (low, high) = points().fold((f64::MAX, f64::MIN), |(low, high), point| (low.min(point.x), high.max(point.x)));
    let (x, y) = (low..high, if drawing.y_is_logarithmic { FLOOR..CEILING } else { 0.0..CEILING });
    match (drawing.x_is_logarithmic, drawing.y_is_logarithmic) {
        (false, false) => draw_chart(drawing, panel, area, x, y),
        (false, true) => draw_chart(drawing, panel, area, x, y.log_scale()),
        (true, false) => draw_chart(drawing, panel, area, x.log_scale(), y),
        (true, true) => draw_chart(drawing, panel, area, x.log_scale(), y.log_scale()),
    }
}

fn draw_chart<X, Y>(drawing: &Drawing, panel: &Panel, area: &Area<'_>, x: X, y: Y) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let failed = |error: DrawingAreaErrorKind<_>| error.to_string();
    let Drawing { paper, number, title, .. } = drawing;
    let caption = format!("{paper} figure {number}: {}, {}", title.to_lowercase(), panel.title);
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).margin_right(24).x_label_area_size(40).y_label_area_size(48);
    builder.caption(caption, ("sans-serif", 16));
    let mut chart = builder.build_cartesian_2d(x, y).map_err(failed)?;
    let number = |value: &f64| format!("{value}");
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(drawing.x_label).y_desc(drawing.y_label).x_label_formatter(&number).y_label_formatter(&number);
    mesh.light_line_style(WHITE).label_style(("sans-serif", 12)).draw().map_err(failed)?;
    for Curve { name, colour, is_dashed, points } in &panel.curves {
        let colour = COLOURS[*colour % COLOURS.len()];
        let visible = points.iter().filter(|point| !drawing.y_is_logarithmic || point.mean >= FLOOR);
        let visible: Vec<Point> = visible.copied().collect();
        let line = visible.iter().map(|point| (point.x, point.mean));
        let style = colour.stroke_width(2);
        let series = match is_dashed {
            true => chart.draw_series(DashedLineSeries::new(line, 6, 4, style)),
            false => chart.draw_series(LineSeries::new(line, style)),
        };
        let dashed = *is_dashed;
        series.map_err(failed)?.label(name).legend(move |(x, y)| {
            let dashes = if dashed { vec![(x, y), (x + 8, y)] } else { vec![(x, y), (x + 22, y)] };
            PathElement::new(dashes, style)
        });
        let spread = |point: &Point| vec![(point.x, point.min.max(FLOOR)), (point.x, point.max)];
        let bars = visible.iter().map(|point| PathElement::new(spread(point), colour.stroke_width(1)));
        chart.draw_series(bars).map_err(failed)?;
        let marks = visible.iter().map(|point| Circle::new((point.x, point.mean), 3, colour.filled()));
        chart.draw_series(marks).map_err(failed)?;
    }
    let mut labels = chart.configure_series_labels();
    // Completion rises with the records, and falls with the writes.
    let rises = drawing.x_is_logarithmic && !drawing.y_is_logarithmic;
    let place = if rises { SeriesLabelPosition::LowerRight } else { SeriesLabelPosition::LowerLeft };
    labels.position(place).background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3));
    labels.label_font(("sans-serif", 12)).draw().map_err(failed)
}
