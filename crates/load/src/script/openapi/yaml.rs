//! A document in YAML as the tree that its JSON would be.

use serde_json::Value;

use super::error::OpenApiError;

/// The tree of a text. Anchors may make it larger than the text: only as much as the budget allows.
pub(super) fn yaml(text: &[u8]) -> Result<Value, OpenApiError> {
    let wrong = |line, column, found| OpenApiError::Syntax { syntax: "YAML", line, column, found };
    let text = match std::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => {
            let before = String::from_utf8_lossy(&text[..error.valid_up_to()]);
            let column = before.lines().next_back().map_or(0, |line| line.chars().count());
            return Err(wrong(
                before.matches('\n').count() + 1,
                column + 1,
                "it is no text in UTF-8".to_owned(),
            ));
        }
    };
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place = error.location();
        let [line, column] =
            place.map_or([1, 1], |place| [place.line(), place.column()]).map(|at| at as usize);
        wrong(line, column, error.without_snippet().to_string())
    })
}

/// As deep as JSON may be.
const DEPTH_MAX: usize = 128;
