//! The media types that the methods of a path take, as fields of a response say them.

use anywire_http::accept::MediaType;
use anywire_http::{Headers, Method};

/// Says what would have been taken, in a 415 (RFC 9110 section 15.5.16).
pub(crate) fn refuse(headers: &mut Headers, method: &Method, types: &[&str]) {
    set(headers, "accept", &types.join(", "));
    offer(headers, method, types);
}

/// Says what a method takes, if there is a field for that: RFC 5789 section 3.1, Linked Data Platform section 7.1, and RFC 10008
/// section 3.
pub(crate) fn offer(headers: &mut Headers, method: &Method, types: &[&str]) {
    match *method {
        Method::PATCH => set(headers, "accept-patch", &types.join(", ")),
        Method::POST => set(headers, "accept-post", &types.join(", ")),
        Method::QUERY => {
            let types = types.iter().filter_map(|text| MediaType::parse(text).ok());
            let members: Vec<String> = types.filter_map(|of| of.to_structured()).collect();
            if !members.is_empty() {
                set(headers, "accept-query", &members.join(", "));
            }
        }
        _ => {}
    }
}

/// The methods for which there is a field.
pub(crate) const METHODS: [Method; 3] = [Method::PATCH, Method::POST, Method::QUERY];

fn set(headers: &mut Headers, name: &str, value: &str) {
    let set = headers.insert(name, value);
    debug_assert!(set.is_ok(), "media types are values");
}
