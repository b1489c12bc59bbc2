//! Chromium without a window: the page as it is after loading, and what went to its console.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::skipped;

/// The browser, if it is installed. Where tests must be complete (`CI` is set) its absence is a failure.
pub(crate) fn installed() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    assert!(
        found.is_some() || std::env::var_os("CI").is_none(),
        "no chromium is installed, and CI is set: install the package `chromium`"
    );
    if found.is_none() {
        skipped::say("no chromium is installed");
    }
    found
}

/// A page as the browser saw it.
pub(crate) struct Seen {
    /// The DOM after loading.
    pub(crate) dom: String,
    /// Lines that the page's console got.
    pub(crate) console: Vec<String>,
}

/// What the reader's system asks for.
#[derive(Clone, Copy)]
pub(crate) enum Scheme {
    Light,
    Dark,
}

impl Scheme {
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Self::Light => "--blink-settings=preferredColorScheme=1",
            Self::Dark => "--blink-settings=preferredColorScheme=0",
        }
    }
}

/// Loads a page from a file.
pub(crate) fn load(browser: &Path, html: &str, scheme: Scheme) -> Seen {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    std::fs::write(&page, html).unwrap();
    let page = format!("file://{}", page.display());
    let output = run(browser, folder.path(), &[scheme.flag(), "--dump-dom", &page]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = String::from_utf8_lossy(&output.stderr);
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
    }
}

/// Runs the browser without a window.
pub(crate) fn run(browser: &Path, folder: &Path, arguments: &[&str]) -> Output {
    Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(arguments)
        .output()
        .unwrap()
}
