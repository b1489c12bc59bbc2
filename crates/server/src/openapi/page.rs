//! The page: the document for people.

use super::Document;

/// Nothing but the page's own style and script.
pub(super) const POLICY: &str = "default-src 'none'";

impl Document {
    /// The document as a page for people: one file that needs nothing else.
    pub fn to_html(&self) -> String {
        String::new()
    }
}
