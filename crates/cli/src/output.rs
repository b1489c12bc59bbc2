//! Results on stdout: nothing else goes there, and a reader that goes away (`| head`) is no panic.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use crate::failure::{Code, Failure};

/// Whether what is written there is coloured: the one decision for errors, help, the log and progress.
pub(crate) fn is_coloured(to: &impl IsTerminal) -> bool {
    colours(to.is_terminal(), |name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

/// The decision by what is set to a value that is not empty: NO_COLOR (no-color.org), then CLICOLOR_FORCE and CLICOLOR
/// (bixense.com/clicolors). Else a terminal has colours, unless it is one that knows none.
fn colours(terminal: bool, set: impl Fn(&str) -> Option<OsString>) -> bool {
    if set("NO_COLOR").is_some() {
        return false;
    }
    if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") {
        return true;
    }
    terminal
        && set("CLICOLOR").is_none_or(|value| value != "0")
        && set("TERM").is_some_and(|value| value != "dumb")
}

/// Says something beside the result, on stderr. Where that cannot be written the result matters more.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{}", tamed(&text.to_string()));
}

/// Prints a result for a person.
pub(crate) fn print_text(result: &str) -> Result<(), Failure> {
    print(tamed(result).as_bytes())
}

/// A text that cannot steer a terminal, wherever its parts came from: a server's answer, an agent, a file. Lines and tabs stay, other
/// control characters and those that turn the direction of text become escapes.
pub(crate) fn tamed(text: &str) -> Cow<'_, str> {
    let is_wild = |letter: char| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_wild) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if is_wild(letter) => shown.extend(letter.escape_default()),
            letter => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Prints a result.
pub(crate) fn print(result: &[u8]) -> Result<(), Failure> {
    let mut stdout = stdout()?.lock();
    stdout.write_all(result).and_then(|()| stdout.flush()).map_err(|cause| unwritten("stdout", &cause))
}

/// Where results go, if there is such a place: without a check, what is written to a closed stdout would vanish.
pub(crate) fn stdout() -> Result<io::Stdout, Failure> {
    if anywire_sys::stdout::was_closed() {
        return Err(Failure::new(Code::Write, "writing stdout failed: it is closed")
            .help("leave it open, or send it to a file or to /dev/null"));
    }
    Ok(io::stdout())
}

/// Prints a result and ends its line.
pub(crate) fn print_line(line: impl Display) -> Result<(), Failure> {
    print(format!("{line}\n").as_bytes())
}

/// Prints a result as a table and writes it as JSON to `json`; with `-` it prints the JSON alone.
pub(crate) fn table_or_json(result: &(impl Display + Serialize), json: Option<&Path>) -> Result<(), Failure> {
    if json != Some(Path::new("-")) {
        print_text(&result.to_string())?;
    }
    json.map_or(Ok(()), |path| write(path, &self::json(result)))
}

fn json(result: &impl Serialize) -> String {
    serde_json::to_string_pretty(result).expect("a result holds only strings and numbers")
}

/// Writes a result to a file; `-` is stdout.
pub(crate) fn write(path: &Path, result: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print_line(result);
    }
    fs::write(path, result).map_err(|cause| unwritten(&path.display().to_string(), &cause))
}

/// Opens the file that a result will be written to, so that a measurement of minutes, or an answer, is not lost for want of a place. A file
/// that was not there is removed again.
pub(crate) fn check(path: &Path) -> Result<(), Failure> {
    Tried::open(path).map(drop)
}

/// Whether both are of one file, by whatever path each was found.
pub(crate) fn is_one_file(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// A file that was opened to see whether it can be.
struct Tried {
    file: File,
    /// It was made for that. What a link names, and not the link.
    made: Option<PathBuf>,
}

impl Tried {
    /// `None` for stdout and for what is no file: opening a pipe would wait for its reader, and closing it would end the reader's
    /// input.
    fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let found = fs::metadata(path);
        let is_special = found.as_ref().is_ok_and(|found| !found.is_file() && !found.is_dir());
        if path == Path::new("-") || is_special {
            return Ok(None);
        }
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|cause| unwritten(&path.display().to_string(), &cause))?;
        let made = if found.is_err() { fs::canonicalize(path).ok() } else { None };
        Ok(Some(Self { file, made }))
    }

    /// By whatever path each was opened.
    fn is_the_same(&self, other: &Self) -> bool {
        let found = self.file.metadata().and_then(|own| Ok((own, other.file.metadata()?)));
        found.is_ok_and(|(own, other)| is_one_file(&own, &other))
    }
}

impl Drop for Tried {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            // A result takes its place soon.
            let _ = fs::remove_file(made);
        }
    }
}

/// Where a result goes beside the table.
#[derive(Debug, Args)]
pub(crate) struct Results {
    /// Write the result as JSON to a file, or to stdout (-) instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the result as a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Results {
    /// Looks before a measurement whether its results can be written, each to a place of its own.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        check_places(&self.places())
    }

    /// The options and what they name.
    pub(crate) fn places(&self) -> Vec<(&'static str, &Path)> {
        let (json, html) = (self.json.as_deref(), self.html.as_deref());
        [("--json", json), ("--html", html)]
            .into_iter()
            .filter_map(|(option, path)| Some((option, path?)))
            .collect()
    }

    /// Prints a result as a table, unless stdout gets its JSON, and writes its JSON and its page if they were asked for.
    pub(crate) fn write<R: Display + Serialize>(
        &self,
        result: &R,
        page: fn(&R) -> String,
    ) -> Result<(), Failure> {
        if self.json.as_deref() != Some(Path::new("-")) {
            print_text(&result.to_string())?;
        }
        self.write_files(result, page)
    }

    /// Writes its JSON and its page if they were asked for. If one fails, the other is written.
    pub(crate) fn write_files<R: Serialize>(
        &self,
        result: &R,
        page: fn(&R) -> String,
    ) -> Result<(), Failure> {
        let json = self.json.as_deref().map_or(Ok(()), |path| write(path, &json(result)));
        let html = self.html.as_deref().map_or(Ok(()), |path| write(path, &page(result)));
        json.and(html)
    }
}

/// Looks whether results can be written to these places, each given with its option, and whether each has one of its own.
pub(crate) fn check_places(places: &[(&'static str, &Path)]) -> Result<(), Failure> {
    let tried = places.iter().map(|(_, path)| Tried::open(path)).collect::<Result<Vec<_>, _>>()?;
    for (index, (option, path)) in places.iter().enumerate() {
        for (other_index, (other, other_path)) in places.iter().enumerate().skip(index + 1) {
            let files = tried[index].as_ref().zip(tried[other_index].as_ref());
            if path == other_path || files.is_some_and(|(one, other)| one.is_the_same(other)) {
                let message = format!("writing {}: both {option} and {other} name it", path.display());
                return Err(Failure::new(Code::Usage, message).help("give each a file of its own"));
            }
        }
    }
    Ok(())
}

/// Why a result did not get where it should. A reader that closed its pipe needs no message.
pub(crate) fn unwritten(place: &str, cause: &io::Error) -> Failure {
    if cause.kind() == io::ErrorKind::BrokenPipe {
        return Failure::silent(Code::Write);
    }
    let help = match cause.kind() {
        io::ErrorKind::NotFound => "make its directory first",
        io::ErrorKind::PermissionDenied => "choose a place that this user may write to",
        io::ErrorKind::StorageFull => "make room on the disk, or choose another place",
        _ => "choose another place",
    };
    Failure::new(Code::Write, format_args!("writing {place} failed: {cause}")).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_steers_a_terminal() {
        assert!(matches!(tamed("plain: \u{e9}\n\tx"), Cow::Borrowed(_)));
        assert_eq!(tamed("a\u{1b}[2J\u{9b}31m\r\u{202e}b\0"), r"a\u{1b}[2J\u{9b}31m\r\u{202e}b\u{0}");
    }

    #[test]
    fn one_decision_about_colour() {
        let decided = |terminal, set: &[(&str, &str)]| {
            colours(terminal, |name| {
                set.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value))
            })
        };
        let term = ("TERM", "xterm");
        assert!(decided(true, &[term]));
        assert!(!decided(false, &[term]), "a pipe or a file");
        assert!(!decided(true, &[]), "a terminal of which nothing is known");
        assert!(!decided(true, &[("TERM", "dumb")]));
        assert!(!decided(true, &[term, ("NO_COLOR", "1")]));
        assert!(!decided(true, &[term, ("CLICOLOR", "0")]));
        assert!(decided(true, &[term, ("CLICOLOR", "1")]));
        assert!(!decided(false, &[term, ("CLICOLOR", "1")]));
        assert!(decided(false, &[("CLICOLOR_FORCE", "1")]));
        assert!(!decided(false, &[("CLICOLOR_FORCE", "0")]));
        assert!(!decided(true, &[term, ("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]));
    }
}
