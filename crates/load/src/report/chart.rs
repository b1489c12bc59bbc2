//! The charts, as SVG: bars, the spread of rounds, the percentile curve, lines on scales of powers, and figures over time.
//!
//! Each function takes the title that screen readers say. Text is escaped.
//!
//! A chart is 480 units wide, so that its text is still legible on a phone, where it is scaled to about 360 pixels. Names
//! stand above their bars, not beside them: a long name then takes no room from the bars. Margins and steps follow from the
//! labels, so that large figures are neither cut nor run into each other.

mod axis;
mod bars;
mod lines;
mod svg;
mod time;

pub use axis::power;
pub use bars::{Bar, Group, Strip, bars, strips};
pub use lines::{Line, curve, lines};
pub use time::{Moment, heat_map, over_time};

use crate::report::palette::Style;

/// A piece of a line of this style, for a legend.
pub(super) fn sample(style: Style) -> String {
    svg::Svg::new().sample(style)
}
