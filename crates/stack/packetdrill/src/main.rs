//! Runs the scripts of a set against the engine, and says what came of each and why those fail that do.
//!
//! `run.sh` beside this crate builds it and calls it; what it takes is in [`USAGE`].

#![forbid(unsafe_code)]

mod scripts;

use std::path::PathBuf;
use std::process::ExitCode;

use scripts::{Plan, Set};

/// How to call it.
const USAGE: &str = "\
Runs packetdrill's scripts about TCP against the engine, and prints what came of each.

    run.sh PACKETDRILL SET [FOLDER] [OPTION...]

PACKETDRILL  a checkout of https://github.com/google/packetdrill in which packetdrill has been built as its README says
SET          google: the scripts of PACKETDRILL/gtests/net/tcp
             linux: those of FOLDER, a copy of tools/testing/selftests/net/packetdrill of Linux
             freebsd: those of FOLDER, a checkout of https://github.com/freebsd-net/tcp-testsuite
--only WORD  the scripts alone whose path has this word
--into FILE  writes the tables into FILE, between the lines <!-- packetdrill SET --> and <!-- end of SET -->

Why scripts fail that we do not mean to pass is in reasons/SET.txt. Exit code 1: some fail for which there is no reason there.";

fn main() -> ExitCode {
    let plan = match parse(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(fault) => {
            eprintln!("{fault}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match scripts::run(&plan) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Plan, String> {
    let packetdrill = PathBuf::from(words.next().ok_or("PACKETDRILL is missing")?);
    let set = words.next().ok_or("SET is missing")?;
    let set = Set::named(&set).ok_or_else(|| format!("there is no set {set:?}"))?;
    let (mut folder, mut only, mut into) = (set.folder_in(&packetdrill), None, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => only = Some(words.next().ok_or("--only has no word")?),
            "--into" => into = Some(PathBuf::from(words.next().ok_or("--into has no file")?)),
            option if option.starts_with('-') => return Err(format!("there is no option {option}")),
            path => folder = Some(PathBuf::from(path)),
        }
    }
    let folder = folder.ok_or_else(|| format!("FOLDER is missing: where the scripts of {} are", set.name))?;
    Ok(Plan { packetdrill, set, folder, only, into })
}
