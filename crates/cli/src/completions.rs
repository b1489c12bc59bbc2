//! `anywire completions SHELL`: the script that lets a shell complete commands, options and their values.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    /// Prints the script to stdout.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "anywire", &mut script);
        output::print(&script)
    }
}

const EXAMPLES: &str = "\
Examples:
  anywire completions bash > /etc/bash_completion.d/anywire
  anywire completions zsh > ~/.zfunc/_anywire
  anywire completions fish > ~/.config/fish/completions/anywire.fish";
