//! The files of a directory as a service: read by blocks while the connection takes them, and never one from outside.
//!
//! The kernel confines requests: each file is opened with `openat2(2)` and `RESOLVE_BENEATH`, relative to the directory's
//! own descriptor. So neither `..` nor a link leads out, and there is no race between a check and the opening. Names that
//! begin with a dot are not found: `.git` and `.env` were not meant to be served. `/.well-known/` was (RFC 8615).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anywire::http::{Headers, Response, StatusCode};
use anywire::server::{Error, IntoResponse, Request, Router, State};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::blocks::{BLOCK_BYTES, Blocks};
use crate::conditions::{self, Verdict};
use crate::failure::{Code, Failure};

/// Routes that answer `GET` and `HEAD` with the files of `dir`; a directory is its `index.html`.
pub(crate) fn router(dir: &Path) -> Result<Router, Failure> {
    let root = Root::open(dir).map_err(|cause| unopened(dir, &cause))?;
    Ok(Router::new().state(root).get("/", serve).get("/{*path}", serve))
}

async fn serve(root: State<Root>, request: Request) -> Result<Response, Error> {
    let Some(wanted) = Wanted::parse(request.path(), request.query()) else { return Ok(not_found()) };
    let root = Root::clone(&root);
    // Opening may wait for a disk; the loop does not.
    let found = tokio::task::spawn_blocking(move || root.find(&wanted)).await?;
    match found {
        Ok(Found::File(file)) => Ok(file.answer(request.headers(), SystemTime::now())),
        Ok(Found::Elsewhere(location)) => {
            // Not a permanent one: a browser would keep that for good, for whatever is there later, or on this port.
            Ok(Response::new(StatusCode::TEMPORARY_REDIRECT).header("location", location))
        }
        Err(cause) => refused(&cause),
    }
}

/// The directory, held open, so that renaming it later changes nothing.
#[derive(Clone)]
struct Root {
    dir: Arc<OwnedFd>,
}

impl Root {
    fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(dir, flags, Mode::empty())?;
        let root = Self { dir: Arc::new(dir) };
        // A kernel without openat2 says so at start, not at the first request.
        root.open_beneath(Path::new("."))?;
        Ok(root)
    }

    fn open_beneath(&self, path: &Path) -> io::Result<File> {
        // NONBLOCK: opening a FIFO must not wait for its writer. It changes nothing for files.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = OPEN_TRIES_MAX;
        loop {
            match openat2(&*self.dir, path, flags, Mode::empty(), resolve) {
                // Something was renamed meanwhile, anywhere, so the kernel could not vouch for a `..` in a link.
                Err(Errno::AGAIN) if tries > 1 => tries -= 1,
                opened => return Ok(opened?.into()),
            }
        }
    }

    /// Blocks.
    fn find(&self, wanted: &Wanted) -> io::Result<Found> {
        let opened = self.open_beneath(&wanted.path)?;
        let metadata = opened.metadata()?;
        match (metadata.is_dir(), wanted.names_directory) {
            (true, true) => {
                let path = wanted.path.join("index.html");
                OpenFile::new(self.open_beneath(&path)?, &path).map(Found::File)
            }
            // Relative links in its index would be wrong without the slash.
            (true, false) => Ok(Found::Elsewhere(wanted.with_slash())),
            (false, true) => Err(io::ErrorKind::NotFound.into()),
            (false, false) => OpenFile::new(opened, &wanted.path).map(Found::File),
        }
    }
}

/// What a request asks for: a path below the root, each part checked.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    path: PathBuf,
    /// The path of the request with one slash between its parts, still percent-encoded; never begins with `//`, which
    /// a browser would take for another host.
    target: String,
    query: Option<String>,
    names_directory: bool,
}

impl Wanted {
    /// `None` for a path that can name nothing here.
    fn parse(encoded: &str, query: Option<&str>) -> Option<Self> {
        let mut path = PathBuf::from(".");
        let mut target = String::new();
        for part in encoded.split('/').filter(|part| !part.is_empty()) {
            // Decoded after splitting, so that %2F never makes a part of its own.
            let name: Vec<u8> = percent_decode_str(part).collect();
            let is_hidden = name.first() == Some(&b'.') && !(target.is_empty() && name == b".well-known");
            if name.is_empty() || is_hidden || name.contains(&b'/') || name.contains(&0) {
                return None;
            }
            path.push(OsStr::from_bytes(&name));
            target.push('/');
            target.push_str(part);
        }
        let query = query.map(str::to_owned);
        Some(Self { path, target, query, names_directory: encoded.ends_with('/') })
    }

    /// The same with a slash at the end of its path.
    fn with_slash(&self) -> String {
        match &self.query {
            Some(query) => format!("{}/?{query}", self.target),
            None => format!("{}/", self.target),
        }
    }
}

enum Found {
    File(OpenFile),
    /// The same with a slash at the end.
    Elsewhere(String),
}

/// A regular file, open, with what its head needs.
struct OpenFile {
    file: File,
    /// `None` if it has more than a block and the system does not say how much, as files of the kernel.
    length: Option<u64>,
    modified: Option<SystemTime>,
    content_type: String,
    /// Below the directory, for the log.
    name: String,
    /// The whole of a small file, read together with the opening.
    contents: Option<Bytes>,
}

impl OpenFile {
    fn new(file: File, path: &Path) -> io::Result<Self> {
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut open = Self {
            file,
            length: Some(metadata.len()).filter(|&length| length > 0),
            modified: metadata.modified().ok(),
            content_type: content_type(path),
            name: path.display().to_string(),
            contents: None,
        };
        let block = BLOCK_BYTES as u64;
        if open.length.is_none_or(|length| length <= block) {
            let mut contents = Vec::with_capacity(open.length.unwrap_or_default() as usize);
            (&open.file).take(open.length.unwrap_or(block + 1)).read_to_end(&mut contents)?;
            if contents.len() <= BLOCK_BYTES {
                open.length = Some(contents.len() as u64);
                open.contents = Some(contents.into());
            } else {
                open.file.rewind()?;
            }
        }
        Ok(open)
    }

    fn answer(self, conditions: &Headers, now: SystemTime) -> Response {
        let modified = self.modified.and_then(|modified| conditions::last_modified(modified, now));
        let mut response = match conditions::judge(conditions, modified, now) {
            Verdict::Send => Response::new(StatusCode::OK),
            Verdict::NotModified => Response::new(StatusCode::NOT_MODIFIED),
            Verdict::Failed => {
                return (StatusCode::PRECONDITION_FAILED, "a condition of this request does not hold")
                    .into_response();
            }
        };
        if let Some(modified) = modified {
            response = response.header("last-modified", httpdate::fmt_http_date(modified));
            if now < modified + Duration::from_secs(1) {
                // The server's own date lags by up to a tick, and the file must not be newer than its answer.
                response = response.header("date", httpdate::fmt_http_date(now));
            }
        }
        if response.status == StatusCode::NOT_MODIFIED {
            return response;
        }
        let body = match self.contents {
            Some(contents) => contents.into(),
            None => Blocks::of(self.file, self.length, self.name).into_body(),
        };
        response.header("content-type", self.content_type).body(body)
    }
}

/// The type by the extension; text is taken for UTF-8.
fn content_type(path: &Path) -> String {
    let guess = mime_guess::from_path(path).first_or_octet_stream();
    match guess.type_() == mime_guess::mime::TEXT {
        true => format!("{guess}; charset=utf-8"),
        false => guess.to_string(),
    }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "no such file").into_response()
}

/// The answer to what could not be opened.
fn refused(cause: &io::Error) -> Result<Response, Error> {
    match Errno::from_io_error(cause) {
        Some(Errno::ACCESS | Errno::PERM) => {
            Ok((StatusCode::FORBIDDEN, "this file may not be read").into_response())
        }
        // XDEV: it leads out of the directory. NXIO and NODEV: a socket, or a device that is not there.
        Some(
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::XDEV
            | Errno::NXIO
            | Errno::NODEV,
        )
        | None => Ok(not_found()),
        Some(Errno::MFILE | Errno::NFILE) => {
            Err(Error::new(StatusCode::SERVICE_UNAVAILABLE, "too many files are open; try again later"))
        }
        Some(errno) => Err(io::Error::from(errno).into()),
    }
}

fn unopened(dir: &Path, cause: &io::Error) -> Failure {
    let help = match cause.kind() {
        io::ErrorKind::NotFound => "make it first, or check the spelling",
        io::ErrorKind::NotADirectory => "name the directory that the file is in",
        io::ErrorKind::PermissionDenied => "let this user read it, or serve as another one",
        io::ErrorKind::Unsupported => "a kernel with openat2 (Linux 5.6) is needed",
        _ => "choose another directory",
    };
    Failure::new(Code::Failed, format_args!("serving the files of {} failed: {cause}", dir.display()))
        .help(help)
}

/// A link with `..` that cannot be followed so often is on a file system where files are renamed all the time.
const OPEN_TRIES_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_checked_part_by_part() {
        let path = |encoded| Wanted::parse(encoded, None).map(|wanted| wanted.path);
        assert_eq!(path("/"), Some("./".into()));
        assert_eq!(path("/a%20b//c.txt"), Some("./a b/c.txt".into()));
        assert_eq!(path("/.well-known/a"), Some("./.well-known/a".into()));
        assert_eq!(path("//%2Ewell-known/"), Some("./.well-known".into()));
        for elsewhere in ["/a/.well-known/b", "/.well-known/.git", "/.well-known2/a", "/.WELL-KNOWN/a"] {
            assert_eq!(path(elsewhere), None, "{elsewhere}");
        }
        for outside in
            ["/..", "/a/../b", "/%2e%2e/x", "/.git/config", "/a%2Fb", "/..%2f..", "/a%00.txt", "/."]
        {
            assert_eq!(path(outside), None, "{outside}");
        }
    }

    #[test]
    fn a_redirect_stays_on_this_host() {
        let wanted = |query| Wanted::parse("//elsewhere.example/%61", query).expect("an ordinary path");
        assert_eq!(wanted(None).with_slash(), "/elsewhere.example/%61/");
        assert_eq!(wanted(Some("a=%20&b")).with_slash(), "/elsewhere.example/%61/?a=%20&b");
    }

    #[test]
    fn types_follow_the_extension() {
        assert_eq!(content_type(Path::new("a.html")), "text/html; charset=utf-8");
        assert_eq!(content_type(Path::new("a.png")), "image/png");
        assert_eq!(content_type(Path::new("a")), "application/octet-stream");
    }
}
