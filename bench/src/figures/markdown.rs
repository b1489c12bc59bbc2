//! Tables of Markdown, and figures as text.

use serde_json::Value;

/// A table: its headings, and a row of cells for each line.
pub(super) fn table<H: AsRef<str>>(headings: &[H], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let headings: Vec<_> = headings.iter().map(|heading| heading.as_ref().to_owned()).collect();
    let rule = vec!["---".to_owned(); headings.len()];
    [headings, rule].into_iter().chain(rows).map(|cells| format!("| {} |\n", cells.join(" | "))).collect()
}

/// The median of a spread.
pub(super) fn median(spread: &Value) -> Option<f64> {
    spread["median"].as_f64()
}

/// Three digits or so, and a dash for what is unknown.
pub(super) fn figure(value: Option<f64>) -> String {
    let Some(value) = value else { return "–".to_owned() };
    match value.abs() {
        0.0 => "0".to_owned(),
        ..0.095 => format!("{value:.3}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => whole(value),
    }
}

/// A median with the smallest and the largest value: `6.18 (5.51-6.96)`.
pub(super) fn spread(spread: &Value) -> String {
    match (spread["min"].as_f64(), spread["max"].as_f64()) {
        (Some(min), Some(max)) => {
            format!("{} ({}-{})", figure(median(spread)), figure(Some(min)), figure(Some(max)))
        }
        _ => figure(median(spread)),
    }
}

/// Millions: `14.7 M`.
pub(super) fn millions(value: Option<f64>) -> String {
    value.map_or_else(|| figure(None), |value| format!("{} M", figure(Some(value / 1e6))))
}

/// Hundredths: `57 %`.
pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| figure(None), |value| format!("{:.0} %", value * 100.0))
}

/// A count.
pub(super) fn count(value: &Value) -> String {
    value.as_f64().map_or_else(|| figure(None), whole)
}

/// A whole number with a comma before each three digits.
fn whole(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A name as code.
pub(super) fn code(name: &Value) -> String {
    name.as_str().map_or_else(|| figure(None), |name| format!("`{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_or_so() {
        let texts = [0.0, 0.0063, 0.4, 9.994, 9.996, 64.3, 99.96, 934.4, 1_234_567.4, -45.2];
        let texts = texts.map(|value| figure(Some(value)));
        let expected = ["0", "0.006", "0.40", "9.99", "10.0", "64.3", "100", "934", "1,234,567", "-45.2"];
        assert_eq!(texts, expected);
        assert_eq!(figure(None), "–");
    }
}
