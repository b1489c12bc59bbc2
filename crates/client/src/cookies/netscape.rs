//! The cookie file of Netscape, as curl and wget read and write it: a cookie a line, with tabs between its seven fields.

use super::json::{seconds, time};
use super::{Cookie, CookieFileError};

pub(super) fn write(cookies: &[Cookie]) -> String {
    let lines = cookies.iter().filter_map(line);
    ["# Netscape HTTP Cookie File\n\n".to_owned()].into_iter().chain(lines).collect()
}

fn line(cookie: &Cookie) -> Option<String> {
    let Cookie { name, value, domain, path, .. } = cookie;
    if name.is_empty() || [name, value, domain, path].iter().any(|field| field.contains('\t')) {
        return None;
    }
    let word = |is: bool| if is { "TRUE" } else { "FALSE" };
    let marks = if cookie.is_http_only { HTTP_ONLY } else { "" };
    // A dot before the domain is how old readers know that it is for those below it, too.
    let dot = if cookie.is_host_only { "" } else { "." };
    let (tail, secure) = (word(!cookie.is_host_only), word(cookie.is_secure));
    let expires = cookie.expires.map_or(0, seconds);
    Some(format!("{marks}{dot}{domain}\t{tail}\t{path}\t{secure}\t{expires}\t{name}\t{value}\n"))
}

pub(super) fn read(text: &str) -> Result<Vec<Cookie>, CookieFileError> {
    let mut cookies = Vec::new();
    // Some editors begin a file with a mark of its encoding.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, number) in text.lines().zip(1..) {
        let (is_http_only, line) = match line.strip_prefix(HTTP_ONLY) {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        if line.trim().is_empty() || (line.trim_start().starts_with('#') && !is_http_only) {
            continue;
        }
        let mut cookie = parse(line).ok_or(CookieFileError::Line { line: number })?;
        cookie.is_http_only = is_http_only;
        cookies.push(cookie);
    }
    Ok(cookies)
}

fn parse(line: &str) -> Option<Cookie> {
    let mut fields = line.split('\t');
    let (domain, tail) = (fields.next()?, is_true(fields.next()?)?);
    let (path, is_secure, expires) = (fields.next()?, is_true(fields.next()?)?, fields.next()?);
    // Some writers leave an empty value out, with its tab.
    let (name, value) = (fields.next()?, fields.next().unwrap_or_default());
    if fields.next().is_some() {
        return None;
    }
    // A negative number is one of the session for some writers, and others have parts of a second.
    let expires = expires.trim();
    let expires: i64 = expires.split_once('.').map_or(expires, |(seconds, _)| seconds).parse().ok()?;
    let domain = domain.strip_prefix('.').unwrap_or(domain).to_ascii_lowercase();
    let mut cookie = Cookie::new(domain, name, value);
    cookie.is_host_only = !tail;
    cookie.path = path.to_owned();
    cookie.expires = u64::try_from(expires).ok().filter(|seconds| *seconds > 0).map(time);
    cookie.is_secure = is_secure;
    Some(cookie)
}

fn is_true(word: &str) -> Option<bool> {
    match word {
        _ if word.eq_ignore_ascii_case("TRUE") => Some(true),
        _ if word.eq_ignore_ascii_case("FALSE") => Some(false),
        _ => None,
    }
}

/// Before the domain of a cookie that scripts do not see. To readers that do not know it the line is a comment.
const HTTP_ONLY: &str = "#HttpOnly_";
