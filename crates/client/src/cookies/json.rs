//! A jar as JSON: all that is known of each cookie, in the order in which they were made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anywire_http::SameSite;
use serde::{Deserialize, Serialize};

use super::{Cookie, CookieFileError};

#[derive(Serialize, Deserialize)]
struct File {
    cookies: Vec<Row>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    name: String,
    value: String,
    domain: String,
    path: String,
    host_only: bool,
    secure: bool,
    http_only: bool,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    same_site: Option<Site>,
}

#[derive(Serialize, Deserialize)]
enum Site {
    Strict,
    Lax,
    None,
}

pub(super) fn write(cookies: &[Cookie]) -> String {
    let row = |cookie: &Cookie| Row {
        name: cookie.name.clone(),
        value: cookie.value.clone(),
        domain: cookie.domain.clone(),
        path: cookie.path.clone(),
        host_only: cookie.is_host_only,
        secure: cookie.is_secure,
        http_only: cookie.is_http_only,
        expires: cookie.expires.map(seconds),
        same_site: cookie.same_site.map(|site| match site {
            SameSite::Strict => Site::Strict,
            SameSite::Lax => Site::Lax,
            SameSite::None => Site::None,
        }),
    };
    let file = File { cookies: cookies.iter().map(row).collect() };
    serde_json::to_string_pretty(&file).expect("texts, numbers and booleans are JSON")
}

pub(super) fn read(text: &str) -> Result<Vec<Cookie>, CookieFileError> {
    let file: File = serde_json::from_str(text).map_err(CookieFileError::Json)?;
    Ok(file.cookies.into_iter().map(cookie).collect())
}

fn cookie(row: Row) -> Cookie {
    let mut cookie = Cookie::new(row.domain, row.name, row.value);
    cookie.is_host_only = row.host_only;
    cookie.path = row.path;
    cookie.expires = row.expires.map(time);
    cookie.is_secure = row.secure;
    cookie.is_http_only = row.http_only;
    cookie.same_site = row.same_site.map(|site| match site {
        Site::Strict => SameSite::Strict,
        Site::Lax => SameSite::Lax,
        Site::None => SameSite::None,
    });
    cookie
}

/// Seconds since 1970. A part of a second is a whole one: a cookie that has not ended must not be written as one of the session, 0.
pub(super) fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().saturating_add(u64::from(since.subsec_nanos() > 0))
}

/// A time that the system cannot name is the last second of the year 9999.
pub(super) fn time(seconds: u64) -> SystemTime {
    let last = Duration::from_secs(253_402_300_799);
    UNIX_EPOCH + Duration::from_secs(seconds).min(last)
}
