//! Where a response goes: stdout, a file that was named, or one that is named as its URL ends.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anywire::http::Url;

use super::data::Data;
use super::response::ResponseOptions;
use crate::failure::{Code, Failure};
use crate::output;

/// Where a response goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Shown to a person if it is a terminal.
    Stdout,
    /// As it came, wherever stdout leads to: `-o -`.
    RawStdout,
    File(PathBuf),
}

impl Place {
    /// The places of all URLs: files as they were named, in order, and behind those what `-O` says.
    pub(super) fn all(options: &ResponseOptions, urls: &[String]) -> Result<Vec<Self>, Failure> {
        if options.output.len() > urls.len() {
            let (files, count) = (options.output.len(), urls.len());
            let urls = if count == 1 { "URL" } else { "URLs" };
            let message = format!("writing files: --output names {files}, for only {count} {urls}");
            return Err(Failure::new(Code::Usage, message).help("give --output once for each URL"));
        }
        let place = |(at, url): (usize, &String)| match options.output.get(at) {
            Some(path) if *path == Path::new("-") => Ok(Self::RawStdout),
            Some(path) => Ok(Self::File(path.clone())),
            None if options.remote_name > 0 => remote_name(url).map(Self::File),
            None => Ok(Self::Stdout),
        };
        urls.iter().enumerate().map(place).collect()
    }

    /// Looks before the call whether the response can be written: the server acts on a request only once, and the data are read
    /// while the response comes.
    pub(super) fn check(&self, data: &Data) -> Result<(), Failure> {
        let Self::File(path) = self else { return Ok(()) };
        let output = std::fs::metadata(path);
        if output.is_ok_and(|output| data.are_read_from(|data| output::is_one_file(data, &output))) {
            let message = format!("writing {}: the data are read from it", path.display());
            return Err(Failure::new(Code::Usage, message).help("give the answer a file of its own"));
        }
        output::check(path)
    }

    /// What it is called.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Stdout | Self::RawStdout => "stdout".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// The file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Stdout | Self::RawStdout => None,
        }
    }

    /// Opens it. A file goes on, or begins anew.
    pub(super) fn open(&self, goes_on: bool) -> Result<File, Failure> {
        let unwritten = |cause| output::unwritten(&self.name(), &cause);
        match self {
            // Past the buffer for lines: what has come is seen at once, and whatever ends the command.
            Self::Stdout | Self::RawStdout => {
                output::stdout()?.as_fd().try_clone_to_owned().map(File::from).map_err(unwritten)
            }
            Self::File(path) if goes_on => OpenOptions::new().append(true).open(path).map_err(unwritten),
            Self::File(path) => File::create(path).map_err(unwritten),
        }
    }
}

/// The last part of the path of a URL, in the folder where the command runs.
fn remote_name(url: &str) -> Result<PathBuf, Failure> {
    let parsed = Url::parse(url);
    let path = parsed.as_ref().map_or("", Url::path_and_query).split('?').next().unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "" | "." | ".." => {
            let message = format!(
                "naming a file after {}: its path ends without a name",
                anywire::http::url::redact(url)
            );
            Err(Failure::new(Code::Write, message).help("name the file by --output FILE"))
        }
        name => Ok(PathBuf::from(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_its_url_ends() {
        let name = |url: &str| remote_name(url).ok();
        assert_eq!(name("http://h/a/b.tar.gz?c=d/e#f/g"), Some("b.tar.gz".into()));
        assert_eq!(name("http://h/a%2fb"), Some("a%2fb".into()), "never a way to another folder");
        for url in ["http://h", "http://h/", "http://h/a/", "http://h/?a", "http://h/a/..", "http://h/%2e%2e"]
        {
            assert_eq!(name(url), None, "{url}");
        }
    }
}
