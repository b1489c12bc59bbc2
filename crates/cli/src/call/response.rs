//! The options that say what is done with a response.

use std::path::PathBuf;

use clap::Args;

use super::write_out::Format;

/// What is done with a response.
#[derive(Debug, Args)]
#[command(next_help_heading = "Response")]
pub(super) struct ResponseOptions {
    /// Print the head, too
    #[arg(short, long)]
    pub(super) include: bool,
    /// Write the body to a file; for several URLs give several
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Vec<PathBuf>,
    /// Write the body to a file named as the URL ends
    #[arg(short = 'O', long, action = clap::ArgAction::Count)]
    pub(super) remote_name: u8,
    /// Go on with a file that was cut short, where it ends: -C -
    #[arg(short = 'C', long, value_name = "OFFSET", value_parser = found_out, allow_hyphen_values = true)]
    pub(super) continue_at: Option<FoundOut>,
    /// Print this after each response, such as '%{http_code} %{time_total}\n'
    #[arg(short, long, value_name = "FORMAT")]
    pub(super) write_out: Option<Format>,
    /// Show on stderr where the time went: each attempt, and its phases
    #[arg(long)]
    pub(super) trace: bool,
    /// Exit with 22, and print no body, for a status of 400 or more
    #[arg(short, long)]
    pub(super) fail: bool,
    /// Exit with 22 for a status of 400 or more, and print the body
    #[arg(long, conflicts_with = "fail")]
    pub(super) fail_with_body: bool,
    /// Print no errors and no progress
    #[arg(short, long)]
    pub(super) silent: bool,
    /// Print errors with --silent, too
    #[arg(short = 'S', long, hide_short_help = true)]
    pub(super) show_error: bool,
    /// Print a body as it comes at a terminal, too, and no JSON with indentation
    #[arg(short = 'N', long, hide_short_help = true)]
    pub(super) no_buffer: bool,
}

/// Where to go on is where the file ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundOut;

fn found_out(text: &str) -> Result<FoundOut, String> {
    match text {
        "-" => Ok(FoundOut),
        _ => Err("where a file ends is found out: write '-'; a part is asked for by -H 'Range: bytes=0-99'"
            .to_owned()),
    }
}
