//! The colours of a page, and how a chart follows the reader's choice of light or dark.
//!
//! `plotters` writes a colour as an attribute (`fill="#0969DA"`). Each colour here stands for one role, and the page
//! has one style rule a role which matches that attribute and puts the role's CSS variable in its place
//! (`svg [fill="#0969DA"] { fill: var(--server) }`): a style rule outranks an attribute. So the chart is right by itself in
//! the light colours, wherever it is copied to, and nothing rewrites its text. No two roles may share a light colour.

use plotters::style::RGBColor;

/// A role with its two colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    name: &'static str,
    light: (u8, u8, u8),
    dark: (u8, u8, u8),
}

impl Colour {
    /// The colour to draw with.
    pub(crate) fn rgb(self) -> RGBColor {
        let (red, green, blue) = self.light;
        RGBColor(red, green, blue)
    }

    /// The CSS that stands for it in the page's own text.
    pub(crate) fn variable(self) -> String {
        format!("var(--{})", self.name)
    }
}

/// The style rules for all roles.
pub(crate) fn css() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    let mut rules = String::new();
    for colour in ROLES {
        let (name, drawn) = (colour.name, hex(colour.light));
        light.push_str(&format!("--{name}:{drawn};"));
        dark.push_str(&format!("--{name}:{};", hex(colour.dark)));
        rules.push_str(&format!(
            "svg [fill=\"{drawn}\"]{{fill:var(--{name})}}svg [stroke=\"{drawn}\"]{{stroke:var(--{name})}}\n"
        ));
    }
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{rules}")
}

/// Capitals, as `plotters` writes them: attributes are compared letter by letter.
fn hex((red, green, blue): (u8, u8, u8)) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Text.
pub(crate) const INK: Colour = Colour { name: "ink", light: (31, 35, 40), dark: (230, 237, 243) };
/// Lesser text.
pub(crate) const FAINT: Colour = Colour { name: "faint", light: (89, 99, 110), dark: (145, 152, 161) };
/// Lines of a grid.
pub(crate) const GRID: Colour = Colour { name: "grid", light: (209, 217, 224), dark: (61, 68, 77) };
/// The page.
pub(crate) const PAPER: Colour = Colour { name: "paper", light: (255, 255, 255), dark: (13, 17, 23) };
/// The server's part, and the only part where there is one.
pub(crate) const SERVER: Colour = Colour { name: "server", light: (9, 105, 218), dark: (88, 166, 255) };
/// The client's part.
pub(crate) const CLIENT: Colour = Colour { name: "client", light: (191, 135, 0), dark: (210, 153, 34) };
/// The usual latency.
pub(crate) const USUAL: Colour = Colour { name: "usual", light: (26, 127, 55), dark: (63, 185, 80) };
/// The tail of the latencies.
pub(crate) const TAIL: Colour = Colour { name: "tail", light: (188, 76, 0), dark: (240, 136, 62) };

const ROLES: [Colour; 8] = [INK, FAINT, GRID, PAPER, SERVER, CLIENT, USUAL, TAIL];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_roles_share_a_light_colour() {
        for (index, one) in ROLES.iter().enumerate() {
            for other in &ROLES[index + 1..] {
                assert_ne!(one.light, other.light, "{} and {}", one.name, other.name);
                assert_ne!(one.name, other.name);
            }
        }
    }

    #[test]
    fn every_role_has_a_rule_for_fill_and_for_stroke() {
        let css = css();
        assert!(css.contains("svg [fill=\"#0969DA\"]{fill:var(--server)}"), "{css}");
        assert!(css.contains("svg [stroke=\"#D1D9E0\"]{stroke:var(--grid)}"), "{css}");
    }
}
