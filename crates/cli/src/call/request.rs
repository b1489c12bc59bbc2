//! The head of a request: its fields, who asks, and as whom.

use std::fmt;

use anywire::http::Headers;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use percent_encoding::percent_decode_str;

use super::cookies::CookieOptions;
use super::password;
use crate::failure::{Code, Failure};
use crate::values::{self, Field};

/// What the head of a request says.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(super) struct RequestOptions {
    /// A header field, 'Name: value'; 'Name:' leaves one out, 'Name;' is empty
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    headers: Vec<Field>,
    /// Log in with basic authentication; without a password it is asked for
    #[arg(short, long, value_name = "USER[:PASSWORD]")]
    user: Option<User>,
    #[command(flatten)]
    pub(super) cookies: CookieOptions,
    /// Who asks, instead of anywire
    #[arg(short = 'A', long, value_name = "NAME", hide_short_help = true)]
    user_agent: Option<String>,
}

/// A user, and the password if it was given.
#[derive(Clone)]
struct User(String);

impl std::str::FromStr for User {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the password.
        f.write_str(self.0.split(':').next().unwrap_or_default())
    }
}

impl RequestOptions {
    /// The fields of each request. `data` are those that its data ask for, unless a field says otherwise.
    pub(super) fn headers(&self, data: &[(&str, &str)]) -> Result<Headers, Failure> {
        let (left_out, given): (Vec<_>, Vec<_>) = self.headers.iter().cloned().partition(Field::is_left_out);
        let mut headers = values::headers(&given)?;
        let mut add = |name: &str, value: &dyn Fn() -> Result<String, Failure>| {
            let is_said =
                headers.contains(name) || left_out.iter().any(|field| field.name.eq_ignore_ascii_case(name));
            if is_said {
                return Ok(());
            }
            headers.append(name, value()?).map_err(|invalid| Failure::of(Code::Usage, &invalid))
        };
        if let Some(User(user)) = &self.user {
            add("authorization", &|| basic(user))?;
        }
        if let Some(cookies) = self.cookies.field() {
            add("cookie", &|| Ok(cookies.clone()))?;
        }
        // RFC 9110 section 10.1.5.
        let agent = self.user_agent.as_deref().unwrap_or(AGENT);
        if !agent.is_empty() {
            add("user-agent", &|| Ok(agent.to_owned()))?;
        }
        data.iter().try_for_each(|(name, value)| add(name, &|| Ok((*value).to_owned())))?;
        Ok(headers)
    }
}

/// A URL without the user that it may hold, and what says the user to the server: the URL is shown in messages.
pub(super) fn without_user(url: String) -> (String, Option<String>) {
    let begin = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[begin..].find(['/', '\\', '?', '#']).map_or(url.len(), |at| begin + at);
    let Some(at) = url[begin..end].rfind('@').map(|at| begin + at) else { return (url, None) };
    let (name, password) = url[begin..at].split_once(':').unwrap_or((&url[begin..at], ""));
    let pair: Vec<u8> =
        percent_decode_str(name).chain(std::iter::once(b':')).chain(percent_decode_str(password)).collect();
    let said = format!("Basic {}", BASE64_STANDARD.encode(pair));
    (format!("{}{}", &url[..begin], &url[at + 1..]), Some(said))
}

/// The value of basic authentication (RFC 7617).
fn basic(user: &str) -> Result<String, Failure> {
    let credentials = match user.contains(':') {
        true => user.to_owned(),
        false => format!("{user}:{}", password::ask(user)?),
    };
    Ok(format!("Basic {}", BASE64_STANDARD.encode(credentials)))
}

const AGENT: &str = concat!("anywire/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_taken_out_of_a_url() {
        let taken = |url: &str| without_user(url.to_owned());
        let said = |pair: &str| Some(format!("Basic {}", BASE64_STANDARD.encode(pair)));
        assert_eq!(taken("http://me:se%3Acret@h:80/a@b"), ("http://h:80/a@b".to_owned(), said("me:se:cret")));
        assert_eq!(taken("http://me@h"), ("http://h".to_owned(), said("me:")));
        assert_eq!(taken("http://a@b:c@h?d"), ("http://h?d".to_owned(), said("a@b:c")));
        assert_eq!(taken("http://h/?a@b"), ("http://h/?a@b".to_owned(), None));
    }
}
