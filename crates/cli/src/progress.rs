//! Progress on stderr: a bar on a terminal, plain lines elsewhere and without the feature `progress`, and never anything on
//! stdout.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use self::bar::Bar;
use crate::output;

/// What a person sees while something runs.
pub(crate) struct Progress {
    bar: Option<Bar>,
}

impl Progress {
    /// A bar of so many steps.
    pub(crate) fn start(steps: u64) -> Self {
        let bar = Bar::start(steps);
        Self { bar }
    }

    /// A bar of so many bytes of a file, or of as many as come.
    pub(crate) fn of_bytes(bytes: Option<u64>, name: &str) -> Self {
        let bar = Bar::of_bytes(bytes, name);
        Self { bar }
    }

    /// Announces a step: as the bar's text on a terminal, else as a line.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.say(text.to_owned()),
            None => output::say(text),
        }
    }

    /// Says how it goes; off a terminal nothing.
    pub(crate) fn show(&self, done: u64, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.show(done, text());
        }
    }

    /// Whether there is a bar; else there are lines.
    pub(crate) fn is_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Takes the bar away: the result stands for itself.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
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

#[cfg(feature = "progress")]
mod bar {
    use std::io::{self, IsTerminal};
    use std::time::Duration;

    use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

    use crate::output;

    pub(super) struct Bar(ProgressBar);

    impl Bar {
        /// `None` off a terminal.
        pub(super) fn start(steps: u64) -> Option<Self> {
            io::stderr().is_terminal().then(|| {
                let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
                // A template of ours is right, or the first run of any test shows it.
                let style = ProgressStyle::with_template(if output::is_coloured(&io::stderr()) {
                    "{bar:24.green/dim} {elapsed}/{duration} {wide_msg}"
                } else {
                    "{bar:24} {elapsed}/{duration} {wide_msg}"
                });
                bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─"));
                // The time goes on where the steps are long.
                bar.enable_steady_tick(Duration::from_millis(200));
                Self(bar)
            })
        }

        pub(super) fn of_bytes(bytes: Option<u64>, name: &str) -> Option<Self> {
            io::stderr().is_terminal().then(|| {
                let target = ProgressDrawTarget::stderr_with_hz(10);
                let bar = ProgressBar::with_draw_target(bytes, target);
                let shown = match (bytes, output::is_coloured(&io::stderr())) {
                    (Some(_), true) => {
                        "{bar:24.green/dim} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left {prefix}"
                    }
                    (Some(_), false) => "{bar:24} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left {prefix}",
                    (None, _) => "{bytes} {bytes_per_sec} {elapsed} {prefix}",
                };
                let style =
                    ProgressStyle::with_template(shown).unwrap_or_else(|_| ProgressStyle::default_bar());
                bar.set_style(style.progress_chars("━╸─"));
                bar.set_prefix(name.to_owned());
                Self(bar)
            })
        }

        pub(super) fn say(&self, text: String) {
            self.0.set_message(text);
        }

        pub(super) fn show(&self, done: u64, text: String) {
            self.0.set_position(done);
            self.0.set_message(text);
        }

        pub(super) fn finish(&self) {
            self.0.finish_and_clear();
        }
    }
}

#[cfg(not(feature = "progress"))]
mod bar {
    /// There is none.
    pub(super) enum Bar {}

    impl Bar {
        pub(super) fn start(_steps: u64) -> Option<Self> {
            None
        }

        pub(super) fn of_bytes(_bytes: Option<u64>, _name: &str) -> Option<Self> {
            None
        }

        pub(super) fn say(&self, _text: String) {
            match *self {}
        }

        pub(super) fn show(&self, _done: u64, _text: String) {
            match *self {}
        }

        pub(super) fn finish(&self) {
            match *self {}
        }
    }
}
