//! The sets of scripts: what each one is written for.

use std::path::{Path, PathBuf};

use super::translate::{Dialect, Leniency};

/// A set of scripts.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) dialect: Dialect,
    /// Where its scripts are in a checkout of packetdrill, if they are.
    folder: Option<&'static str>,
    /// Beginnings of paths that are left out.
    leaves_out: &'static [&'static str],
    /// Flags of the shared object: choices of the system that it is written for.
    pub(crate) flags: &'static str,
    /// What is compared: everything at first.
    pub(crate) leniencies: &'static [Leniency],
    /// The text of its file of reasons.
    pub(crate) reasons: &'static str,
}

impl Set {
    /// The set of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SETS.iter().find(|set| set.name == name)
    }

    /// Where its scripts are, if packetdrill brings them.
    pub(crate) fn folder_in(&self, packetdrill: &Path) -> Option<PathBuf> {
        self.folder.map(|folder| packetdrill.join(folder))
    }

    pub(super) fn includes(&self, script: &str) -> bool {
        !self.leaves_out.iter().any(|start| script.starts_with(start))
    }
}

/// Where to set PSH is every stack's own choice (RFC 9293 MUST-60, MUST-61).
const PSH_APART: Leniency = Leniency { name: "PSH", push: true, windows: false };

/// The window is what the stack has room for: its buffers, and the steps in which it announces more.
const WINDOWS_APART: Leniency = Leniency { name: "windows", push: false, windows: true };

const BOTH_APART: Leniency = Leniency { name: "windows and PSH", push: true, windows: true };

/// Linux has a window that needs a shift of 8, and acknowledges the first segments of a connection at once.
const LINUX: &str = "window=15728640,delack=0";

const SETS: [Set; 3] = [
    Set {
        name: "google",
        dialect: Dialect::Linux,
        folder: Some("gtests/net/tcp"),
        leaves_out: &[],
        flags: LINUX,
        leniencies: &[Leniency::NONE, PSH_APART],
        reasons: include_str!("../../reasons/google.txt"),
    },
    Set {
        name: "linux",
        dialect: Dialect::Linux,
        folder: None,
        leaves_out: &[],
        flags: LINUX,
        leniencies: &[Leniency::NONE, PSH_APART],
        reasons: include_str!("../../reasons/linux.txt"),
    },
    Set {
        name: "freebsd",
        dialect: Dialect::FreeBsd,
        folder: None,
        // Fast open, and TCP over UDP.
        leaves_out: &["fast-open/", "tcp-over-udp/"],
        flags: "window=65536,delack=40",
        leniencies: &[Leniency::NONE, WINDOWS_APART, BOTH_APART],
        reasons: include_str!("../../reasons/freebsd.txt"),
    },
];
