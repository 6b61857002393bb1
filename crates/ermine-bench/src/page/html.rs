//! A page as one HTML file: its style and its charts are inside, and it loads nothing.

use std::fmt::Write;

use super::{Axis, Bars, Chart, Group, Page, Section, svg::svg};
use crate::report::Grid;

const STYLE: &str = include_str!("style.css");

pub(super) fn html(page: &Page) -> String {
    let title = escaped(&page.title);
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n<link rel=\"icon\" \
         href=\"data:,\">\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n<h1>{title}</h1>\n</header>\n<main>\n"
    );
    let facts = page.facts.iter().map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(fact)));
    text += &card("", &format!("<dl>\n{}</dl>", facts.collect::<String>()));
    for sections in page.sections.chunk_by(|one, other| is_drawn(one) == is_drawn(other)) {
        let (class, shown) = (if is_drawn(&sections[0]) { "charts" } else { "tables" }, sections.iter().map(show));
        write!(text, "<div class=\"{class}\">\n{}</div>\n", shown.collect::<String>()).expect("into a string");
    }
    text + "</main>\n</body>\n</html>\n"
}

/// Whether a section is a drawing: all have the same width, while tables are as wide as they need.
fn is_drawn(section: &Section) -> bool {
    matches!(section, Section::Chart(_) | Section::Bars(_))
}

fn show(section: &Section) -> String {
    match section {
        Section::Chart(chart) => show_chart(chart),
        Section::Bars(bars) => card(&heading(&bars.title, ""), &show_bars(bars)),
        Section::Table { title, grid } => card(&heading(title, ""), &show_grid(title, grid)),
        Section::Text { title, text } => card(&heading(title, ""), &format!("<pre>{}</pre>", escaped(text))),
    }
}

fn card(heading: &str, content: &str) -> String {
    format!("<section class=\"card\">\n{heading}{content}\n</section>\n")
}

fn heading(title: &str, unit: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(" <small>{}</small>", escaped(unit)) };
    format!("<h2>{}{unit}</h2>\n", escaped(title))
}

fn show_chart(chart: &Chart) -> String {
    let Chart { title, x, y: Axis { label: unit, .. }, mark, lines } = chart;
    let mut legend = String::new();
    for line in lines {
        let (number, style) = (line.colour + 1, if line.is_dashed { " dashed" } else { "" });
        let mut key = |class: &str, name: &str| {
            let name = escaped(name);
            write!(legend, "<span><i class=\"key{class}\" style=\"border-color: var(--c{number})\"></i>{name}</span>")
                .expect("into a string");
        };
        key(style, &line.name);
        if !line.marks.is_empty() {
            key(" mark", mark);
        }
    }
    let label = escaped(&format!("{title}, {unit}, by {}", x.label));
    let drawn = svg(chart, &label);
    let axis = escaped(&x.label);
    let content = format!("<div class=\"legend\">{legend}</div>\n{drawn}<div class=\"axis\">{axis}</div>");
    card(&heading(title, unit), &content)
}

/// The letters of a drawing in a file of its own.
const FONT: &str = "font: 13px system-ui, sans-serif";
/// About the width of a letter.
const LETTER: usize = 8;
/// Height of a line of text.
const LINE: usize = 20;
/// Width and height of a drawing.
const SIZE: (usize, usize) = (480, 240);

/// Draws a chart as a file: the title, the legend, the drawing, and the name of the horizontal axis.
pub(super) fn file(chart: &Chart) -> String {
    let Chart { title, x, y: Axis { label: unit, .. }, lines, mark } = chart;
    let mut entries: Vec<_> =
        lines.iter().map(|line| (&*line.name, line.colour, if line.is_dashed { "6 4" } else { "none" })).collect();
    let marked = lines.iter().find(|line| !line.marks.is_empty());
    entries.extend(marked.map(|line| (*mark, line.colour, "3 4")));
    let (mut legend, mut at, mut row) = (String::new(), 8, 1);
    for (name, colour, dashes) in entries {
        let width = 36 + LETTER * name.chars().count();
        if at > 8 && at + width > SIZE.0 {
            (at, row) = (8, row + 1);
        }
        let (line, text, high) = (at + 18, at + 22, 26 + LINE * row);
        let (number, name) = (colour + 1, escaped(name));
        writeln!(
            legend,
            "<path d=\"M{at} {} H{line}\" stroke=\"var(--c{number})\" stroke-width=\"3\" \
             stroke-dasharray=\"{dashes}\"/><text x=\"{text}\" y=\"{high}\" fill=\"var(--soft)\">{name}</text>",
            high - 4
        )
        .expect("into a string");
        at += width;
    }
    let (top, label) = (36 + LINE * row, escaped(&format!("{title}, {unit}, by {}", x.label)));
    let (title, unit, axis) = (escaped(title), escaped(unit), escaped(&x.label));
    let (width, height) = (SIZE.0, top + SIZE.1 + LINE);
    let (colours, _) = STYLE.split_once("* {").expect("the colours come first");
    let drawn =
        svg(chart, &label).replacen("<svg ", &format!("<svg y=\"{top}\" width=\"{width}\" height=\"{}\" ", SIZE.1), 1);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{}\" role=\"img\" \
         aria-label=\"{label}\" style=\"{FONT}\">\n<style>\n{colours}</style>\n<rect width=\"100%\" height=\"100%\" \
         fill=\"var(--card)\"/>\n<text x=\"8\" y=\"20\" fill=\"var(--text)\" font-weight=\"600\">{title} <tspan \
         fill=\"var(--soft)\" font-weight=\"400\">{unit}</tspan></text>\n{legend}{drawn}\n<text x=\"{}\" y=\"{}\" \
         fill=\"var(--soft)\" text-anchor=\"middle\">{axis}</text>\n</svg>\n",
        width * 3 / 2,
        width / 2,
        height - 6
    )
}

fn show_bars(bars: &Bars) -> String {
    let greatest_of =
        |groups: &[Group]| groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(0.0, f64::max);
    let show = |group| {
        let compared = if bars.share_scale { &bars.groups[..] } else { std::slice::from_ref(group) };
        show_group(group, greatest_of(compared))
    };
    format!("<div class=\"bars\">\n{}</div>", bars.groups.iter().map(show).collect::<String>())
}

/// Shows bars as long as they are in proportion to the greatest value.
fn show_group(group: &Group, greatest: f64) -> String {
    let name = if group.name.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escaped(&group.name)) };
    let bars = group.bars.iter().map(|bar| {
        let percent = if greatest > 0.0 { 100.0 * bar.value / greatest } else { 0.0 };
        let (name, text) = (escaped(&bar.name), escaped(&bar.text));
        format!("<span>{name}</span><div><i style=\"width: {percent:.1}%\"></i></div><b>{text}</b>\n")
    });
    name + &bars.collect::<String>()
}

fn show_grid(title: &str, grid: &Grid) -> String {
    let headings = grid.headings().iter().map(|heading| format!("<th scope=\"col\">{}</th>", escaped(heading)));
    let rows = grid.rows().iter().map(|row| {
        let (name, cells) = row.split_first().expect("a row has a name");
        // A row may be shorter than the headings.
        let cells = (1..grid.headings().len()).map(|column| cells.get(column - 1).map_or("", String::as_str));
        let cells = cells.map(|cell| format!("<td>{}</td>", escaped(cell)));
        format!("<tr><th scope=\"row\">{}</th>{}</tr>\n", escaped(name), cells.collect::<String>())
    });
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n<thead><tr>{}</tr></thead>\n\
         <tbody>\n{}</tbody>\n</table>\n</div>",
        escaped(title),
        headings.collect::<String>(),
        rows.collect::<String>()
    )
}

/// A text as the content of an element or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        page::{Bar, Point},
        report::Facts,
    };

    /// A page with every kind of section, all names of which need escaping.
    fn page() -> Page {
        const NAME: &str = "a<b & \"c\"";
        let mut page = Page::new(NAME, Facts::default().with("options", NAME));
        for (x, y) in [
            (Axis::linear(NAME), Axis::linear(NAME)),
            (Axis::linear(NAME), Axis::logarithmic(NAME)),
            (Axis::named(NAME, [NAME, NAME]), Axis::logarithmic(NAME)),
        ] {
            let mut chart = Chart { mark: NAME, ..Chart::new(NAME, x, y) };
            (0..10).for_each(|line| chart.line(NAME, vec![Point::new(0.0, 0.0), Point::new(1.0, f64::from(line))]));
            chart.line(NAME, vec![Point { x: 0.0, y: 2.0, spread: Some([0.0, 3.0]) }]);
            chart.lines[0].marks.push(0.5);
            page.chart(chart);
        }
        let bar = |value: f64| Bar { name: NAME.into(), value, text: value.to_string() };
        let group = |values: [f64; 2]| Group { name: NAME.into(), bars: values.map(bar).into() };
        page.bars(Bars::grouped(NAME, vec![group([1.0, 4.0]), group([3.0, 15.0])]));
        page.bars(Bars { share_scale: true, ..Bars::grouped(NAME, vec![group([1.0, 2.0]), group([3.0, 10.0])]) });
        let mut grid = Grid::new(&[NAME, NAME]);
        grid.row([NAME.into(), "1,234".into()]);
        grid.row([NAME.into()]);
        page.table(NAME, grid);
        page.text(NAME, NAME.into());
        page
    }

    #[test]
    fn a_page_escapes_every_name_and_loads_nothing() {
        let html = html(&page());
        assert!(!html.contains("a<b") && !html.contains("& \"c\""), "{html}");
        for loading in ["http:", "https:", "src=", "@import", "url(", "<script", "<iframe"] {
            assert!(!html.contains(loading), "{loading}");
        }
        assert_eq!((html.matches("<svg ").count(), html.matches("</svg>").count()), (3, 3));
        // Two groups of their own scales, and two that share one.
        let lengths = ["25.0", "100.0", "20.0", "100.0", "10.0", "20.0", "30.0", "100.0"];
        assert!(
            html.split("width: ").filter_map(|rest| rest.split_once("%\"></i>")).map(|(length, _)| length).eq(lengths)
        );
        assert!(html.contains("<td>1,234</td>") && html.contains("<td></td>"));
    }

    #[test]
    fn every_colour_is_one_of_the_style() {
        let html = html(&page());
        let (_, content) = html.split_once("</style>").unwrap();
        assert!(!content.contains("\"#"), "a colour that does not know dark screens: {content}");
        for used in content.split("var(--").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            assert_eq!(STYLE.matches(&format!("--{used}:")).count(), 2, "{used} is not light and dark");
        }
    }

    #[test]
    fn a_chart_is_a_file_of_its_own() {
        let page = page();
        let drawn: Vec<_> = page
            .sections
            .iter()
            .filter_map(|section| match section {
                Section::Chart(chart) => Some(file(chart)),
                _ => None,
            })
            .collect();
        assert_eq!(drawn.len(), 3);
        for text in drawn {
            assert!(!text.contains("a<b") && !text.contains("& \"c\""), "{text}");
            assert_eq!(text.matches("<svg ").count(), text.matches("</svg>").count());
            for used in text.split("var(--").skip(1).map(|rest| rest.split(')').next().unwrap()) {
                assert_eq!(text.matches(&format!("--{used}:")).count(), 2, "{used} is not light and dark");
            }
        }
    }

    #[test]
    fn empty_sections_are_left_out() {
        let mut page = Page::new("title", Facts::default());
        page.chart(Chart::new("empty", Axis::linear(""), Axis::linear("")));
        page.bars(Bars::grouped("empty", Vec::new()));
        page.table("empty", Grid::new(&["name", "n"]));
        page.text("empty", String::new());
        assert!(!html(&page).contains("empty"));
    }
}
