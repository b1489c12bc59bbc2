//! Progress on stderr: a bar on a terminal, plain lines elsewhere, and never anything on stdout.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What a person sees while something runs.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar of so many steps.
    pub(crate) fn start(steps: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
            // A template of ours is right, or the first run of any test shows it.
            let style = ProgressStyle::with_template("{bar:24.green/dim} {elapsed}/{duration} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
            // The time goes on where the steps are long.
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar }
    }

    /// Says what has begun; off a terminal this is a line.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => eprintln!("{text}"),
        }
    }

    /// Says how it goes; off a terminal nothing.
    pub(crate) fn show(&self, done: u64, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(text());
        }
    }

    /// Whether there is a bar; else there are lines.
    pub(crate) fn is_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Takes the bar away: the result stands for itself.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Does the work, and calls `show` now and then meanwhile.
pub(crate) fn during<T>(mut show: impl FnMut() + Send, work: impl FnOnce() -> T) -> T {
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(SHOW_EVERY) == Err(RecvTimeoutError::Timeout) {
                show();
            }
        });
        let done = work();
        drop(end);
        done
    })
}

/// How often the progress is drawn anew: as often as the figures of a load change.
const SHOW_EVERY: Duration = Duration::from_millis(100);
