//! The screen of a load at a terminal: rate and latencies over time, errors, connections, loops, how far it is.
//!
//! It reads snapshots of the run ten times a second, and the load does nothing for it. `history` makes points of the snapshots,
//! `draw` makes a picture of the points, for a terminal of any size, and `terminal` puts it there and takes it away again,
//! however the command ends.

mod draw;
mod history;
mod terminal;

use std::time::Instant;

use anywire::load::Snapshot;

use self::history::History;
pub(crate) use self::terminal::{leave, log};
use crate::watch::Facts;

/// The screen of one run. Dropping it gives the terminal back.
pub(crate) struct Screen {
    facts: Facts,
    history: History,
    terminal: terminal::Own,
}

impl Screen {
    /// Takes the terminal; `None` if there is none, or one on which nothing can be drawn.
    pub(crate) fn enter(facts: &Facts) -> Option<Self> {
        let terminal = terminal::Own::take()?;
        Some(Self { facts: facts.clone(), history: History::new(Instant::now()), terminal })
    }

    /// Draws how the run goes.
    pub(crate) fn show(&mut self, snapshot: &Snapshot) {
        self.history.take(snapshot, Instant::now());
        let Self { facts, history, terminal } = self;
        let is_coloured = terminal.is_coloured();
        terminal.draw(|frame| draw::run(frame, facts, history, snapshot, is_coloured));
    }
}
