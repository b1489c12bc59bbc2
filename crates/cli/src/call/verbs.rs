//! The commands that call, one for each method.

use anywire::http::Method;
use clap::{Args, Subcommand};

use super::arguments::Call;
use super::help;
use super::sequence;
use crate::failure::Failure;

/// A call, by its method.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Get a URL and print the response's body
    #[command(after_help = help::short(help::GET), after_long_help = help::long(help::GET))]
    Get(Get),
    /// Post data to a URL and print the response's body
    #[command(after_help = help::short(help::POST), after_long_help = help::long(help::POST))]
    Post(Post),
    /// Put data at a URL
    #[command(after_help = help::short(help::PUT), after_long_help = help::long(help::PUT))]
    Put(Call),
    /// Change what is at a URL (PATCH)
    #[command(after_help = help::short(help::PATCH), after_long_help = help::long(help::PATCH))]
    Patch(Call),
    /// Delete what is at a URL
    #[command(after_help = help::short(help::DELETE), after_long_help = help::long(help::DELETE))]
    Delete(Call),
    /// Ask for the head alone, and print it
    #[command(after_help = help::short(help::HEAD), after_long_help = help::long(help::HEAD))]
    Head(Call),
    /// Ask what a URL, or the server of a URL without a path, allows
    #[command(after_help = help::short(help::OPTIONS), after_long_help = help::long(help::OPTIONS))]
    Options(Call),
    /// Ask with a body, safe to repeat (QUERY, RFC 10008)
    #[command(after_help = help::short(help::QUERY), after_long_help = help::long(help::QUERY))]
    Query(Call),
    /// Call with any method
    #[command(after_help = help::short(help::REQUEST), after_long_help = help::long(help::REQUEST))]
    Request(Request),
}

/// `get`, which may ask for the head alone.
#[derive(Debug, Args)]
pub(crate) struct Get {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    other: Other,
    /// Ask with HEAD, and print the head alone
    #[arg(short = 'I', long, conflicts_with = "method", help_heading = "Response")]
    head: bool,
}

/// `post`, which may have another method.
#[derive(Debug, Args)]
pub(crate) struct Post {
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    other: Other,
}

/// The method instead of that of the command, as with curl.
#[derive(Debug, Args)]
pub(crate) struct Other {
    /// Another method
    #[arg(short = 'X', long = "request", value_name = "METHOD", help_heading = "Request")]
    method: Option<Method>,
}

/// `request`, which is told its method.
#[derive(Debug, Args)]
pub(crate) struct Request {
    /// The method, such as PURGE
    #[arg(value_name = "METHOD")]
    verb: Method,
    #[command(flatten)]
    call: Call,
}

impl Verb {
    /// Calls each URL.
    pub(crate) fn run(self, verbose: bool) -> Result<(), Failure> {
        let (method, call) = match self {
            Self::Get(Get { head: true, call, .. }) | Self::Head(call) => (Method::HEAD, call.of_head()?),
            Self::Get(get) => (get.other.method.unwrap_or(Method::GET), get.call),
            Self::Post(post) => (post.other.method.unwrap_or(Method::POST), post.call),
            Self::Put(call) => (Method::PUT, call),
            Self::Patch(call) => (Method::PATCH, call),
            Self::Delete(call) => (Method::DELETE, call),
            Self::Options(call) => (Method::OPTIONS, call),
            Self::Query(call) => (Method::QUERY, call),
            Self::Request(request) => (request.verb, request.call),
        };
        sequence::run(call, method, verbose)
    }
}
