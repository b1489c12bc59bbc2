//! A chart under construction, and how much room its text takes.

use crate::report::page::escaped;
use crate::report::palette::{Colour, Marker, PAPER, Style};

/// The part of a text that is at its point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

pub(super) struct Svg(String);

impl Svg {
    pub(super) const fn new() -> Self {
        Self(String::new())
    }

    pub(super) fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: Colour) {
        let paint = colour.paint();
        self.0 += &format!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" style=\"fill:{paint}\"/>\n"
        );
    }

    /// A filled shape, let through so much of what is behind it.
    pub(super) fn path(&mut self, path: &str, opacity: f64, colour: Colour) {
        let paint = colour.paint();
        self.0 += &format!("<path d=\"{path}\" opacity=\"{opacity:.2}\" style=\"fill:{paint}\"/>\n");
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: Colour) {
        let paint = colour.paint();
        self.0 += &format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" opacity=\"0.6\" style=\"fill:{paint}\"/>\n"
        );
    }

    pub(super) fn line(&mut self, points: &[(f64, f64)], width: u32, colour: Colour) {
        self.styled(points, width, Style::solid(colour));
    }

    /// A line, with a marker at each point if its style has one.
    pub(super) fn styled(&mut self, points: &[(f64, f64)], width: u32, style: Style) {
        let places: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        let dash = match style.dash.array() {
            "" => String::new(),
            array => format!(" stroke-dasharray=\"{array}\""),
        };
        self.0 += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke-width=\"{width}\"{dash} style=\"stroke:{}\"/>\n",
            places.trim_end(),
            style.colour.paint()
        );
        if let Some(marker) = style.marker {
            points.iter().for_each(|&point| self.marker(point, marker, style.colour));
        }
    }

    /// A marker has an edge in the colour of the page, which parts it from lines that it lies on.
    fn marker(&mut self, (x, y): (f64, f64), marker: Marker, colour: Colour) {
        let (paint, paper) = (colour.paint(), PAPER.paint());
        let corners = |corners: &[(f64, f64)]| -> String {
            let places: Vec<_> =
                corners.iter().map(|(right, down)| format!("{:.1},{:.1}", x + right, y + down)).collect();
            places.join(" ")
        };
        let shape = match marker {
            Marker::Circle => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\""),
            Marker::Square => {
                format!(
                    "<polygon points=\"{}\"",
                    corners(&[(-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)])
                )
            }
            Marker::Triangle => {
                format!("<polygon points=\"{}\"", corners(&[(0.0, -6.0), (5.5, 4.0), (-5.5, 4.0)]))
            }
            Marker::Diamond => {
                format!(
                    "<polygon points=\"{}\"",
                    corners(&[(0.0, -6.5), (6.5, 0.0), (0.0, 6.5), (-6.5, 0.0)])
                )
            }
            Marker::Cross => {
                let cross = [(0.0, -1.8), (3.2, -5.0), (5.0, -3.2), (1.8, 0.0), (5.0, 3.2), (3.2, 5.0)];
                let turned = cross.map(|(right, down): (f64, f64)| (-right, -down));
                format!("<polygon points=\"{}\"", corners(&[cross, turned].concat()))
            }
        };
        self.0 += &format!("{shape} stroke-width=\"1\" style=\"fill:{paint};stroke:{paper}\"/>\n");
    }

    pub(super) fn text(&mut self, text: &str, (x, y): (f64, f64), colour: Colour, anchor: Anchor) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.0 += &format!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" dominant-baseline=\"central\" \
             font-size=\"{FONT_SIZE}\" style=\"fill:{}\">{}</text>\n",
            colour.paint(),
            escaped(text)
        );
    }

    /// The whole, with a title for screen readers.
    pub(super) fn finish(self, title: &str, height: f64) -> String {
        format!(
            "<svg role=\"img\" aria-label=\"{}\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n{}</svg>",
            escaped(title),
            self.0
        )
    }

    /// A piece of a line, as a legend shows it beside the name.
    pub(super) fn sample(mut self, style: Style) -> String {
        self.styled(&[(1.0, 8.0), (37.0, 8.0)], 3, Style { marker: None, ..style });
        if let Some(marker) = style.marker {
            self.marker((19.0, 8.0), marker, style.colour);
        }
        format!(
            "<svg aria-hidden=\"true\" width=\"38\" height=\"16\" viewBox=\"0 0 38 16\">\n{}</svg>",
            self.0
        )
    }
}

/// The room that a text takes at most, in units of the chart. The reader's system chooses the font, so this is that of the widest
/// of the usual ones (DejaVu Sans).
pub(super) fn width(text: &str) -> f64 {
    text.chars().map(em).sum::<f64>() * FONT_SIZE
}

/// The width of a character by the size of the font.
fn em(character: char) -> f64 {
    match character {
        'f' | 'i' | 'j' | 'l' | 'r' | 't' | '.' | ',' | ':' | ';' | '\'' | '!' | '|' | ' ' | '/' | '('
        | ')' | '[' | ']' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '&' | '\u{2026}' => 1.0,
        '<' | '>' | '=' | '+' | '~' | '#' => 0.84,
        'A'..='Z' => 0.79,
        ' '..='~' => 0.64,
        // Letters of other scripts, and signs as wide as they are high.
        '\u{a1}'..='\u{10ff}' => 0.95,
        _ => 1.4,
    }
}

/// A text with its middle left out, if it takes more room: names often differ in their first or last letters.
pub(super) fn shortened(text: &str, room: f64) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    let (mut first, mut last) = (0, letters.len());
    let mut left = room - width("\u{2026}");
    loop {
        let is_first = first <= letters.len() - last;
        let next = if is_first { letters[first] } else { letters[last - 1] };
        left -= em(next) * FONT_SIZE;
        if left < 0.0 {
            break;
        }
        if is_first { first += 1 } else { last -= 1 }
    }
    letters[..first].iter().chain(&['\u{2026}']).chain(&letters[last..]).collect()
}

pub(super) const WIDTH: f64 = 480.0;
pub(super) const FONT_SIZE: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_too_long_keep_both_ends() {
        assert_eq!(shortened("tcp", 480.0), "tcp");
        let long = format!("first-{}-last", "m".repeat(200));
        let short = shortened(&long, 480.0);
        assert!(short.starts_with("first-m") && short.ends_with("m-last"), "{short}");
        assert!((440.0..=480.0).contains(&width(&short)), "{short}");
        assert_eq!(shortened("mmm", 14.0), "\u{2026}");
    }
}
