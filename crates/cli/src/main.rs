//! The program of the command `anywire`.

use std::process::ExitCode;

fn main() -> ExitCode {
    anywire_cli::main()
}
