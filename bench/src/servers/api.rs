//! What a usual service does to a request, the same in each framework: three layers (one asks for a token, one counts, one sets a
//! field), a path and a query parameter, JSON in and out.

use serde::{Deserialize, Serialize};

/// What is posted to.
pub(crate) const PATH: &str = "/orders/7?notify=true";
/// What is posted.
pub(crate) const ORDER: &str = r#"{"item":"tea","count":2,"tags":["green","loose"]}"#;
/// The response to [`ORDER`].
pub(crate) const FILED: &str = r#"{"id":7,"item":"tea","count":2,"tags":["green","loose"],"notify":true}"#;
/// The field `authorization` of each request.
pub(crate) const AUTHORIZATION: &str = "Bearer 5f2b8c";
/// The field that a layer sets.
pub(crate) const SERVED_BY: (&str, &str) = ("x-served-by", "bench");

#[derive(Deserialize)]
pub(crate) struct Wish {
    notify: bool,
}

#[derive(Deserialize)]
pub(crate) struct Order {
    item: String,
    count: u32,
    tags: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct Filed {
    id: u64,
    item: String,
    count: u32,
    tags: Vec<String>,
    notify: bool,
}

/// What the handler does.
pub(crate) fn file(id: u64, wish: &Wish, order: Order) -> Filed {
    Filed { id, item: order.item, count: order.count, tags: order.tags, notify: wish.notify }
}

/// Whether the token of a request is the right one.
pub(crate) fn is_authorised(field: Option<&[u8]>) -> bool {
    field == Some(AUTHORIZATION.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_has_the_length_that_is_expected() {
        let order: Order = serde_json::from_str(ORDER).unwrap();
        assert_eq!(serde_json::to_string(&file(7, &Wish { notify: true }, order)).unwrap(), FILED);
    }
}
