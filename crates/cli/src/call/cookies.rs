//! Cookies: as text, from a file of Netscape's form, and in a jar that is written at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anywire::client::ClientBuilder;
use clap::Args;

use self::jar::Jar;
use crate::failure::{Code, Failure};
use crate::output;
use crate::values::whole;

/// Which cookies are sent, and where those that come are kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Request")]
pub(super) struct CookieOptions {
    /// Cookies to send, 'a=1; b=2', or a file that has them
    #[arg(short = 'b', long, value_name = "DATA|FILE")]
    cookie: Vec<String>,
    /// Keep cookies, and write them to this file at the end
    #[arg(short = 'c', long, value_name = "FILE")]
    cookie_jar: Option<PathBuf>,
}

impl CookieOptions {
    /// The field of each request.
    pub(super) fn field(&self) -> Option<String> {
        let pairs: Vec<_> = self.cookie.iter().filter(|cookie| is_text(cookie)).map(String::as_str).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    /// Where cookies are kept, if they are, with those of files.
    pub(super) fn kept(&self) -> Result<Option<Kept>, Failure> {
        let files: Vec<_> = self.cookie.iter().filter(|cookie| !is_text(cookie)).collect();
        if files.is_empty() && self.cookie_jar.is_none() {
            return Ok(None);
        }
        let jar = Jar::new()?;
        for name in files {
            let text = match File::open(name).and_then(|file| whole(file, FILE_BYTES_MAX)) {
                Ok(text) => text,
                // A jar is not there before it was written once.
                Err(cause) if cause.kind() == io::ErrorKind::NotFound || name.is_empty() => continue,
                Err(cause) => return Err(unread(name, &cause.to_string())),
            };
            jar.read(&String::from_utf8_lossy(&text)).map_err(|found| unread(name, &found))?;
        }
        if let Some(path) = &self.cookie_jar {
            output::check(path)?;
        }
        Ok(Some(Kept { jar, path: self.cookie_jar.clone() }))
    }
}

/// Of a file of cookies: far more than a jar keeps.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// What is no file, as with curl.
fn is_text(cookie: &str) -> bool {
    cookie.contains('=')
}

fn unread(name: &str, found: &str) -> Failure {
    Failure::new(Code::Read, format_args!("reading the cookies of {name:?} failed: {found}")).help(
        "name a file of cookies as curl and wget write it, or write the cookies: 'NAME=VALUE; NAME=VALUE'",
    )
}

/// Cookies, and the file that they are written to.
pub(super) struct Kept {
    jar: Jar,
    path: Option<PathBuf>,
}

impl Kept {
    /// A client that keeps them.
    pub(super) fn apply(&self, client: ClientBuilder) -> ClientBuilder {
        self.jar.apply(client)
    }

    /// Writes them, for this user alone if the file is new: who has them is logged in.
    pub(super) fn save(&self) -> Result<(), Failure> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = self.jar.text();
        if path == Path::new("-") {
            return output::print(text.as_bytes());
        }
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|cause| output::unwritten(&path.display().to_string(), &cause))
    }
}

#[cfg(feature = "cookies")]
mod jar {
    use std::time::SystemTime;

    use anywire::Chain;
    use anywire::client::ClientBuilder;
    use anywire::client::cookies::CookieJar;

    use crate::failure::Failure;

    pub(super) struct Jar(CookieJar);

    impl Jar {
        pub(super) fn new() -> Result<Self, Failure> {
            Ok(Self(CookieJar::new()))
        }

        pub(super) fn read(&self, text: &str) -> Result<(), String> {
            let read = self.0.read_netscape(text, SystemTime::now());
            read.map(drop).map_err(|error| Chain(&error).message().found)
        }

        pub(super) fn apply(&self, client: ClientBuilder) -> ClientBuilder {
            client.cookies(self.0.clone())
        }

        pub(super) fn text(&self) -> String {
            self.0.to_netscape(SystemTime::now())
        }
    }
}

#[cfg(not(feature = "cookies"))]
mod jar {
    use anywire::client::ClientBuilder;

    use crate::failure::{Code, Failure};

    /// There is none.
    pub(super) enum Jar {}

    impl Jar {
        pub(super) fn new() -> Result<Self, Failure> {
            let message = "keeping cookies: this program was built without the feature 'cookies'";
            Err(Failure::new(Code::Usage, message)
                .help("build it with '--features full', or send cookies as text: --cookie 'NAME=VALUE'"))
        }

        pub(super) fn read(&self, _text: &str) -> Result<(), String> {
            match *self {}
        }

        pub(super) fn apply(&self, _client: ClientBuilder) -> ClientBuilder {
            match *self {}
        }

        pub(super) fn text(&self) -> String {
            match *self {}
        }
    }
}
