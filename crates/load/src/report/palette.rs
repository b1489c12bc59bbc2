//! The colours of a page, light or dark as the reader's system says.
//!
//! Each colour stands for one role and is a CSS variable of the page. A chart names the light colour beside the variable, so
//! it is right in the light colours wherever it is copied to.

/// A role with its two colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    name: &'static str,
    light: &'static str,
    dark: &'static str,
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
    format!(":root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n")
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
pub const USUAL: Colour = Colour { name: "usual", light: "#1a7f37", dark: "#3fb950" };
/// The tail of the latencies.
pub const TAIL: Colour = Colour { name: "tail", light: "#bc4c00", dark: "#f0883e" };

/// Beside [`SERVER`], [`CLIENT`], [`USUAL`] and [`TAIL`]: the fifth of several things of one kind.
pub const FIFTH: Colour = Colour { name: "fifth", light: "#8250df", dark: "#bc8cff" };
/// The sixth.
pub const SIXTH: Colour = Colour { name: "sixth", light: "#bf3989", dark: "#f778ba" };

/// The colours of several things of one kind, such as the lines of a chart. Where there are more, they begin anew.
pub const SERIES: [Colour; 6] = [SERVER, CLIENT, USUAL, TAIL, FIFTH, SIXTH];

const ROLES: [Colour; 10] = [INK, FAINT, GRID, PAPER, SERVER, CLIENT, USUAL, TAIL, FIFTH, SIXTH];
