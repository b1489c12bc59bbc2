//! The colours of a page, light or dark as the reader's system says.
//!
//! Each colour stands for one role and is a CSS variable of the page. A chart names the light colour beside the variable, so
//! it is right in the light colours wherever it is copied to. Bars that stand beside each other differ in colour for readers
//! who see fewer colours, too. Lines differ in their dashes and markers as well ([`style`]).

/// A role with its two colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    name: &'static str,
    light: &'static str,
    dark: &'static str,
}

/// How a line is drawn: in a colour, with dashes, and with a marker at each of its points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub(crate) colour: Colour,
    pub(crate) dash: Dash,
    pub(crate) marker: Option<Marker>,
}

/// The strokes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dash {
    Solid,
    Dashed,
    Dotted,
}

/// The shape at a point of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

/// The style of the line with this index, of several in one chart. The first 15 differ in dashes or marker, so that they can be
/// told apart without their colours; the first 30 differ if the colours count, too.
pub fn style(index: usize) -> Style {
    Style {
        colour: SERIES[index % SERIES.len()],
        dash: DASHES[index % DASHES.len()],
        marker: Some(MARKERS[index % MARKERS.len()]),
    }
}

impl Style {
    /// A line without markers.
    pub const fn solid(colour: Colour) -> Self {
        Self { colour, dash: Dash::Solid, marker: None }
    }

    /// The same, in dots: for a third line.
    pub const fn dotted(colour: Colour) -> Self {
        Self { colour, dash: Dash::Dotted, marker: None }
    }

    /// The same, in dashes: for a second line beside a solid one.
    pub const fn dashed(colour: Colour) -> Self {
        Self { colour, dash: Dash::Dashed, marker: None }
    }
}

impl Dash {
    /// The lengths of strokes and gaps; none of a solid line.
    pub(crate) fn array(self) -> &'static str {
        match self {
            Self::Solid => "",
            Self::Dashed => "9 5",
            Self::Dotted => "2 4",
        }
    }
}

impl Colour {
    /// The CSS that paints with it.
    pub(crate) fn paint(self) -> String {
        format!("var(--{},{})", self.name, self.light)
    }
}

/// The variables of all roles.
pub(crate) fn css() -> String {
    let all = |shade: fn(&Colour) -> &str| -> String {
        ROLES.iter().map(|role| format!("--{}:{};", role.name, shade(role))).collect()
    };
    let (light, dark) = (all(|role| role.light), all(|role| role.dark));
    // Paper is white, whatever the screen is.
    format!(
        ":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n@media print{{:root{{{light}}}}}\n"
    )
}

/// Text.
pub const INK: Colour = Colour { name: "ink", light: "#1f2328", dark: "#e6edf3" };
/// Lesser text.
pub const FAINT: Colour = Colour { name: "faint", light: "#59636e", dark: "#9198a1" };
/// Lines of a grid.
pub const GRID: Colour = Colour { name: "grid", light: "#d1d9e0", dark: "#3d444d" };
/// The page.
pub const PAPER: Colour = Colour { name: "paper", light: "#ffffff", dark: "#0d1117" };
/// The server's part, and the only part where there is one.
pub const SERVER: Colour = Colour { name: "server", light: "#0969da", dark: "#58a6ff" };
/// The client's part.
pub const CLIENT: Colour = Colour { name: "client", light: "#bf8700", dark: "#d29922" };
/// The usual latency.
pub const USUAL: Colour = Colour { name: "usual", light: "#8250df", dark: "#bc8cff" };
/// The tail of the latencies.
pub const TAIL: Colour = Colour { name: "tail", light: "#bc4c00", dark: "#f0883e" };
const FIFTH: Colour = Colour { name: "fifth", light: "#1a7f37", dark: "#3fb950" };
const SIXTH: Colour = Colour { name: "sixth", light: "#bf3989", dark: "#f778ba" };

const ROLES: [Colour; 10] = [INK, FAINT, GRID, PAPER, SERVER, CLIENT, USUAL, TAIL, FIFTH, SIXTH];

/// Their numbers have no common divisor, so that the same pair comes again as late as can be.
const SERIES: [Colour; 6] = [SERVER, CLIENT, USUAL, TAIL, FIFTH, SIXTH];
const MARKERS: [Marker; 5] =
    [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Cross];
const DASHES: [Dash; 3] = [Dash::Solid, Dash::Dashed, Dash::Dotted];

#[cfg(test)]
mod tests {
    use super::*;

    type Rgb = [f64; 3];

    /// Red, green and blue as amounts of light.
    fn light(hex: &str) -> Rgb {
        [1, 3, 5].map(|at| {
            let part = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn luminance([red, green, blue]: Rgb) -> f64 {
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// As WCAG 2.2 defines it.
    fn contrast(one: &str, other: &str) -> f64 {
        let [one, other] = [one, other].map(|hex| luminance(light(hex)) + 0.05);
        one.max(other) / one.min(other)
    }

    /// How far apart two colours look (CIE 1976): 2 is just visible.
    fn difference(one: Rgb, other: Rgb) -> f64 {
        let lab = |[red, green, blue]: Rgb| {
            let root = |part: f64| if part > 0.008_856 { part.cbrt() } else { 7.787 * part + 16.0 / 116.0 };
            let x = root((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505);
            let y = root(luminance([red, green, blue]));
            let z = root((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089);
            [116.0 * y, 500.0 * (x - y), 200.0 * (y - z)]
        };
        lab(one).into_iter().zip(lab(other)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// What readers see who lack one kind of cone (Machado, Oliveira and Fernandes, 2009).
    const SEEN: [[Rgb; 3]; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
        [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
        [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9309, 0.1476], [0.0047, 0.6914, 0.3039]],
    ];

    #[test]
    fn colours_beside_each_other_differ_for_every_eye() {
        for (one, other) in [(SERVER, CLIENT), (SERVER, TAIL), (USUAL, TAIL), (USUAL, CLIENT)] {
            for (one, other) in [(one.light, other.light), (one.dark, other.dark)] {
                for matrix in SEEN {
                    let seen = |hex| {
                        let [red, green, blue] = light(hex);
                        matrix.map(|[r, g, b]| (r * red + g * green + b * blue).clamp(0.0, 1.0))
                    };
                    let far = difference(seen(one), seen(other));
                    assert!(far > 30.0, "{one} and {other}: {far}");
                }
            }
        }
    }

    #[test]
    fn all_colours_stand_out_of_the_page() {
        for role in [SERVER, CLIENT, USUAL, TAIL, FIFTH, SIXTH] {
            for (colour, paper) in [(role.light, PAPER.light), (role.dark, PAPER.dark)] {
                assert!(contrast(colour, paper) >= 3.0, "{role:?}");
            }
        }
        for role in [INK, FAINT] {
            assert!(contrast(role.light, PAPER.light).min(contrast(role.dark, PAPER.dark)) >= 4.5);
        }
    }

    #[test]
    fn fifteen_lines_differ_without_their_colours() {
        let styles: Vec<_> = (0..30).map(style).collect();
        for (index, one) in styles.iter().enumerate() {
            assert!(!styles[..index].contains(one), "{index}");
            let alike = |other: &&Style| (other.dash, other.marker) == (one.dash, one.marker);
            assert!(styles[..index].iter().rev().take(14).find(alike).is_none(), "{index}");
        }
    }
}
