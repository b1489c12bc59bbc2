//! Parameters within the segments of a path.

use serde::de::DeserializeOwned;

use super::{FromRequestParts, Needs, OptionalFromRequestParts, Rejection, fields};
use crate::request::Parts;

/// The matrix parameters of the path, decoded by serde: `/cars;colour=red;year=2012/list` into a struct, a map or a vector of pairs.
///
/// A handler that takes them makes its route ignore them: `/cars/{id}` then matches `/cars;year=2012/7;colour=red`, and the parameter `id` is
/// `7`; a `{*rest}` keeps those within it. For all other routes a `;` is a character of its segment like any other. Parameters of all
/// segments come together, in their order. One without a `=` has an empty value, and a `+` is a plus. A route that has the `;` in its
/// own path comes first.
///
/// What does not fit is refused as in a [`Query`](crate::Query). A path without parameters reads as none; as an `Option` it is `None`.
///
/// ```
/// use anywire_server::{Matrix, Path, Router};
///
/// #[derive(serde::Deserialize)]
/// struct Choice {
///     colour: String,
/// }
///
/// let car = async |Path(id): Path<u32>, Matrix(choice): Matrix<Choice>| format!("{id} in {}", choice.colour);
/// let router = Router::new().get("/cars/{id}", car);
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/cars/7;colour=red")).await;
/// assert_eq!(response.body.text(1024).await?, "7 in red");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Matrix<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts for Matrix<T> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Rejection> {
        let parameters = as_query(parts.path());
        fields::from_urlencoded(&parameters, parts.form_fields_max()).map(Self).map_err(Rejection::Matrix)
    }

    fn needs(needs: &mut Needs) {
        needs.matrix();
    }
}

impl<T: DeserializeOwned> OptionalFromRequestParts for Matrix<T> {
    fn is_absent(parts: &Parts) -> bool {
        !parts.path().contains(';')
    }
}

/// The parameters as pairs of a query, where `&` and `+` mean something else.
fn as_query(path: &str) -> String {
    let mut query = String::new();
    let parameters = path.split('/').flat_map(|segment| segment.split(';').skip(1));
    for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
        if !query.is_empty() {
            query.push('&');
        }
        for character in parameter.chars() {
            match character {
                '&' => query.push_str("%26"),
                '+' => query.push_str("%2B"),
                other => query.push(other),
            }
        }
    }
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_pairs() {
        for (path, query) in [
            ("/a;b=1;c/d;;e=%3B&+", "b=1&c&e=%3B%26%2B"),
            ("/a/b", ""),
            ("/;=", "="),
            ("*", ""),
            ("/a;\u{e4}=\u{e4}/", "\u{e4}=\u{e4}"),
        ] {
            assert_eq!(as_query(path), query, "{path}");
        }
    }
}
