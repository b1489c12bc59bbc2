//! A number within the bounds of a schema.

use serde_json::{Map, Number, Value};

use super::error::LackReason;

/// The simplest number that is within all bounds of these parts of a schema: 1, else one at a bound.
pub(super) fn within(parts: &[&Map<String, Value>], is_integer: bool) -> Result<Value, LackReason> {
    let bounds = Bounds::of(parts);
    let step = bounds.multiple.unwrap_or(1.0);
    let beside = |bound: f64| {
        let nearest = (bound / step).round() * step;
        [bound, nearest, nearest + step, nearest - step, nearest + step / 2.0, nearest - step / 2.0]
    };
    let middle = bounds.low.zip(bounds.high).map(|(low, high)| low + (high - low) / 2.0);
    let bounded = [bounds.low, bounds.high, middle].into_iter().flatten().flat_map(beside);
    let fits = |number: &f64| bounds.hold(*number) && (!is_integer || number.fract() == 0.0);
    let number = [1.0, step, 0.0].into_iter().chain(bounded).find(fits).ok_or(LackReason::Bounds)?;
    // Beyond them a float has no digits behind the point, and an integer might be another one.
    let whole = (number.fract() == 0.0 && number.abs() < EXACT).then(|| Value::from(number as i64));
    whole.or_else(|| Number::from_f64(number).map(Value::Number)).ok_or(LackReason::Bounds)
}

/// The bounds of several parts together.
#[derive(Debug, Default)]
struct Bounds {
    low: Option<f64>,
    is_above_low: bool,
    high: Option<f64>,
    is_below_high: bool,
    multiple: Option<f64>,
}

impl Bounds {
    fn of(parts: &[&Map<String, Value>]) -> Self {
        let mut bounds = Self::default();
        for part in parts {
            let number = |key: &str| part.get(key).and_then(Value::as_f64);
            // Of 3.0 it says that the other bound is not within.
            let says = |key: &str| part.get(key) == Some(&Value::Bool(true));
            bounds.raise(number("minimum"), says("exclusiveMinimum"));
            bounds.raise(number("exclusiveMinimum"), true);
            bounds.lower(number("maximum"), says("exclusiveMaximum"));
            bounds.lower(number("exclusiveMaximum"), true);
            bounds.multiple = bounds.multiple.or(number("multipleOf").filter(|multiple| *multiple > 0.0));
        }
        bounds
    }

    fn raise(&mut self, low: Option<f64>, is_above: bool) {
        let is_higher = |low: &f64| self.low.is_none_or(|known| *low > known || (*low == known && is_above));
        if let Some(low) = low.filter(is_higher) {
            (self.low, self.is_above_low) = (Some(low), is_above);
        }
    }

    fn lower(&mut self, high: Option<f64>, is_below: bool) {
        let is_lower =
            |high: &f64| self.high.is_none_or(|known| *high < known || (*high == known && is_below));
        if let Some(high) = high.filter(is_lower) {
            (self.high, self.is_below_high) = (Some(high), is_below);
        }
    }

    fn hold(&self, number: f64) -> bool {
        let above = self.low.is_none_or(|low| number > low || (number == low && !self.is_above_low));
        let below = self.high.is_none_or(|high| number < high || (number == high && !self.is_below_high));
        let is_multiple = self.multiple.is_none_or(|multiple| {
            let times = number / multiple;
            (times - times.round()).abs() < 1e-9
        });
        number.is_finite() && above && below && is_multiple
    }
}

/// Up to here each integer is a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn found(schema: &Value, is_integer: bool) -> Option<Value> {
        within(&[schema.as_object().unwrap()], is_integer).ok()
    }

    #[test]
    fn a_number_is_the_simplest_within_its_bounds() {
        for (schema, is_integer, number) in [
            (json!({}), true, json!(1)),
            (json!({ "minimum": 0 }), true, json!(1)),
            (json!({ "minimum": 100 }), true, json!(100)),
            (json!({ "minimum": 99.5 }), true, json!(100)),
            (json!({ "exclusiveMinimum": 100 }), true, json!(101)),
            (json!({ "minimum": 100, "exclusiveMinimum": true }), true, json!(101)),
            (json!({ "maximum": -5 }), true, json!(-5)),
            (json!({ "maximum": 0, "minimum": 0 }), true, json!(0)),
            (json!({ "minimum": 15, "multipleOf": 10 }), true, json!(20)),
            (json!({ "multipleOf": 0.01, "exclusiveMinimum": 5, "maximum": 5.5 }), false, json!(5.01)),
            (json!({ "exclusiveMinimum": 0, "exclusiveMaximum": 1 }), false, json!(0.5)),
        ] {
            assert_eq!(found(&schema, is_integer), Some(number), "{schema}");
        }
        for none in
            [json!({ "minimum": 2, "maximum": 1 }), json!({ "exclusiveMinimum": 1, "exclusiveMaximum": 2 })]
        {
            assert_eq!(found(&none, true), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn what_is_found_is_within(low in any::<f64>(), high in any::<f64>(), is_integer: bool) {
            let schema = json!({ "minimum": low, "exclusiveMaximum": high });
            if let Some(number) = found(&schema, is_integer) {
                let number = number.as_f64().unwrap();
                prop_assert!(number >= low && number < high);
                prop_assert!(!is_integer || number.fract() == 0.0);
            }
        }
    }
}
