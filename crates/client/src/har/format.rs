//! The part of HAR 1.2 that is written and read.

use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct File {
    pub(super) log: Log,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Log {
    pub(super) version: String,
    pub(super) creator: Creator,
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Creator {
    pub(super) name: String,
    pub(super) version: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// By ISO 8601.
    pub(super) started_date_time: String,
    /// Milliseconds in all.
    pub(super) time: f64,
    pub(super) request: Request,
    pub(super) response: Response,
    #[serde(default)]
    pub(super) cache: Empty,
    pub(super) timings: Timings,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Empty {}

/// Milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Timings {
    pub(super) send: f64,
    pub(super) wait: f64,
    pub(super) receive: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) http_version: String,
    #[serde(default)]
    pub(super) cookies: Vec<Pair>,
    pub(super) headers: Vec<Pair>,
    #[serde(default)]
    pub(super) query_string: Vec<Pair>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) post_data: Option<PostData>,
    pub(super) headers_size: i64,
    pub(super) body_size: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PostData {
    pub(super) mime_type: String,
    pub(super) text: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) status_text: String,
    pub(super) http_version: String,
    #[serde(default)]
    pub(super) cookies: Vec<Pair>,
    pub(super) headers: Vec<Pair>,
    pub(super) content: Content,
    #[serde(rename = "redirectURL")]
    pub(super) redirect_url: String,
    pub(super) headers_size: i64,
    pub(super) body_size: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Content {
    pub(super) size: i64,
    pub(super) mime_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    /// `base64` for what is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) encoding: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) name: String,
    pub(super) value: String,
}
