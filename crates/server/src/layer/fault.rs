//! What is wrong with the settings of a layer.

use std::borrow::Cow;
use std::panic::Location;

use anywire_advice::Advice;

/// What is wrong with the settings of a layer; its author's fault. An error at start shows it, as
/// [`RouteError::Layer`](crate::RouteError::Layer).
#[derive(Debug, thiserror::Error)]
#[error("{what}{also}{help}", also = listed(places), help = Advice(advice))]
pub struct LayerFault {
    what: Cow<'static, str>,
    /// Where the settings were made that are wrong, or do not go together.
    places: Vec<&'static Location<'static>>,
    advice: Cow<'static, str>,
}

impl LayerFault {
    /// A fault in words, such as `allows any origin together with credentials`, and what to do about it, such as
    /// `list the origins`.
    pub fn new(what: impl Into<Cow<'static, str>>, advice: impl Into<Cow<'static, str>>) -> Self {
        Self { what: what.into(), places: Vec::new(), advice: advice.into() }
    }

    /// Adds where a setting was made that has to do with it.
    #[must_use]
    pub fn at(mut self, place: &'static Location<'static>) -> Self {
        self.places.push(place);
        self
    }
}

/// Where settings were made.
fn listed(places: &[&'static Location<'static>]) -> String {
    let places: Vec<String> = places.iter().map(ToString::to_string).collect();
    if places.is_empty() { String::new() } else { format!(", set at {}", places.join(" and at ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_its_places() {
        let here = Location::caller();
        let fault = LayerFault::new("contradicts itself", "remove one").at(here).at(here).to_string();
        assert_eq!(fault, format!("contradicts itself, set at {here} and at {here}; remove one"));
        assert_eq!(LayerFault::new("is wrong", "mend it").to_string(), "is wrong; mend it");
    }
}
