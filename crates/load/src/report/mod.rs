//! Pages of a result: one HTML file each that needs nothing beside itself.
//!
//! Charts are inline SVG in the page's own colours, light or dark as the reader's system says; the tables hold the same
//! figures, and the whole JSON is embedded (`<script type="application/json" id="result">`). A page runs no script
//! and, by its own content policy, could load nothing. It is laid out for a phone first.
//!
//! [`comparison`] and [`outcome`] make the pages of this crate's own results. [`Page`], [`Chart`] and the modules [`chart`]
//! and [`palette`] make those of any other.

pub mod chart;
mod compare;
mod contrast;
mod load;
mod load_charts;
mod page;
pub mod palette;
mod rate;
#[cfg(feature = "udp")]
mod udp;

pub use compare::comparison;
pub use contrast::{ab, diff};
pub use load::outcome;
pub use page::{Chart, Key, Page};
#[cfg(feature = "udp")]
pub use udp::{udp, udp_search};
