//! Origins as browsers send them: scheme, host and port (RFC 6454).

use std::panic::Location;

use crate::layer::LayerFault;

/// Origins, each with the place where it was given.
#[derive(Debug, Clone, Default)]
pub(super) struct Origins {
    list: Vec<(String, &'static Location<'static>)>,
}

impl Origins {
    #[track_caller]
    pub(super) fn add(&mut self, origin: &str) {
        self.list.push((origin.to_owned(), Location::caller()));
    }

    /// Where the first one was given.
    pub(super) fn place(&self) -> Option<&'static Location<'static>> {
        self.list.first().map(|(_, place)| *place)
    }

    /// Whether it is one of these. A browser writes origins in lower case and without a default port.
    pub(super) fn contains(&self, origin: &str) -> bool {
        self.list.iter().any(|(own, _)| own == origin)
    }

    /// The first one that no browser sends.
    pub(super) fn fault(&self) -> Option<LayerFault> {
        let (origin, place) = self.list.iter().find(|(origin, _)| !is_origin(origin))?;
        let what = format!("lists {origin:?}, which is no origin as a browser sends it");
        Some(
            LayerFault::new(what, "write scheme and host in lower case, such as https://shop.example")
                .at(place),
        )
    }
}

/// Scheme, host and port, in the form in which a browser serializes it.
fn is_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => "",
    };
    let is_fine =
        |byte: u8| byte.is_ascii_graphic() && !byte.is_ascii_uppercase() && !b"/?#@\\*".contains(&byte);
    let is_scheme = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
    !scheme.is_empty()
        && scheme.bytes().all(is_scheme)
        && !authority.is_empty()
        && authority.bytes().all(is_fine)
        && (default_port.is_empty() || !authority.ends_with(default_port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for right in ["https://a.example", "http://localhost:3000", "https://[::1]:8443", "app://x"] {
            assert!(is_origin(right), "{right}");
        }
        let wrong =
            ["null", "*", "a.example", "https://", "https://a/", "https://A.example", "https://*.a.example"];
        for wrong in wrong.into_iter().chain(["https://a.example:443", "http://a:80", "https://u@a", "://a"])
        {
            assert!(!is_origin(wrong), "{wrong}");
        }
    }
}
