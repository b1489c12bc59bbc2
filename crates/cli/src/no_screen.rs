//! In place of the screen, in a build without it.

use anywire::load::Snapshot;

use crate::watch::Facts;

/// There is none.
pub(crate) enum Screen {}

impl Screen {
    pub(crate) fn enter(_facts: &Facts) -> Option<Self> {
        None
    }

    pub(crate) fn show(&mut self, _snapshot: &Snapshot) {
        match *self {}
    }
}

/// Where the log goes.
pub(crate) use std::io::stderr as log;

pub(crate) fn leave() {}
