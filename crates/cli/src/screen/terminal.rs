//! The terminal while the screen has it: the other screen of it, without a cursor, without what is typed. It is given back
//! whatever ends the command: the end of the run, SIGINT and SIGTERM, the second of them, a panic.
//!
//! It stays in the mode in which Ctrl-C is a signal to all that runs in the foreground, as without a screen. Ctrl-Z, Ctrl-\ and
//! Ctrl-S do nothing meanwhile: each would leave the shell with half a screen. What is logged while the screen is shown is kept
//! and follows it.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::queue;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::Rect;
use ratatui::{Frame, Terminal, TerminalOptions, Viewport};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use crate::output;

/// The terminal, taken.
pub(super) struct Own {
    terminal: Terminal<CrosstermBackend<Frames>>,
    is_coloured: bool,
}

impl Own {
    /// Takes the terminal of stderr; `None` if there is none to be had.
    pub(super) fn take() -> Option<Self> {
        let stderr = io::stderr();
        let knows_more = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        if !stderr.is_terminal() || !knows_more || !is_in_foreground() {
            return None;
        }
        let before = tcgetattr(&stderr).ok()?;
        let options = TerminalOptions { viewport: Viewport::Fixed(size()) };
        let terminal = Terminal::with_options(CrosstermBackend::new(Frames::default()), options).ok()?;
        LEAVE_AT_PANIC.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                usual(panic);
            }));
        });
        let mut shown = shown();
        let mut begin = Vec::new();
        queue!(begin, EnterAlternateScreen, Hide).ok()?;
        tcsetattr(&stderr, OptionalActions::Now, &quiet(before.clone())).ok()?;
        *shown = Some(Shown { before, log: Vec::new(), left_out: 0 });
        io::stderr().write_all(&begin).ok()?;
        drop(shown);
        Some(Self { terminal, is_coloured: output::is_coloured(&stderr) })
    }

    pub(super) fn is_coloured(&self) -> bool {
        self.is_coloured
    }

    /// Draws a frame, in the size that the terminal has now. On a terminal that has gone nothing is drawn.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) {
        let size = size();
        if self.terminal.get_frame().area() != size && self.terminal.resize(size).is_err() {
            return;
        }
        let _ = self.terminal.draw(picture);
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, if the screen has it. May be called at any time, from any thread.
pub(crate) fn leave() {
    // The lock is held for a write only. If that hangs, the terminal is beyond help, and this must not hang with it.
    for _ in 0..LOOKS {
        let mut shown = match SHOWN.try_lock() {
            Ok(shown) => shown,
            Err(TryLockError::Poisoned(shown)) => shown.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        if let Some(shown) = shown.take() {
            shown.end();
        }
        return;
    }
}

/// Where the log goes: to stderr, behind the screen if that is shown.
pub(crate) fn log() -> Log {
    Log
}

/// Writes lines of the log.
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut shown = shown();
        let Some(shown) = &mut *shown else { return io::stderr().write(line) };
        if shown.log.len() + line.len() > LOG_BYTES_MAX {
            shown.left_out += 1;
        } else {
            shown.log.extend_from_slice(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The screen is shown.
struct Shown {
    /// How the terminal was.
    before: Termios,
    /// What was logged since.
    log: Vec<u8>,
    /// Lines of the log for which there was no room.
    left_out: u64,
}

impl Shown {
    /// Each step is tried, whether the one before it went well or not.
    fn end(self) {
        let mut end = Vec::new();
        let _ = queue!(end, LeaveAlternateScreen, Show);
        let mut stderr = io::stderr();
        let _ = stderr.write_all(&end);
        // Also discards keys that were typed meanwhile, which the shell would take for a command.
        let _ = tcsetattr(&stderr, OptionalActions::Flush, &self.before);
        let _ = stderr.write_all(&self.log);
        if self.left_out > 0 {
            output::say(format_args!("{} more lines of the log were left out", self.left_out));
        }
    }
}

fn shown() -> MutexGuard<'static, Option<Shown>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Collects the bytes of a frame, and writes them at once, if the screen is still shown.
#[derive(Default)]
struct Frames(Vec<u8>);

impl Write for Frames {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = std::mem::take(&mut self.0);
        let shown = shown();
        if shown.is_none() { Ok(()) } else { io::stderr().write_all(&frame) }
    }
}

/// A command in the background would be stopped for changing the mode of the terminal.
fn is_in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(io::stderr());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The size of the terminal; the usual one if it does not know.
fn size() -> Rect {
    match tcgetwinsize(io::stderr()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => Rect::new(0, 0, size.ws_col, size.ws_row),
        _ => Rect::new(0, 0, 80, 24),
    }
}

/// The mode in which nothing that is typed shows, and only Ctrl-C does something.
fn quiet(mut mode: Termios) -> Termios {
    mode.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
    mode.input_modes.remove(InputModes::IXON);
    for index in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
        mode.special_codes[index] = DISABLED;
    }
    mode
}

/// Holds what the screen has changed; `None` while it is not shown.
static SHOWN: Mutex<Option<Shown>> = Mutex::new(None);
static LEAVE_AT_PANIC: Once = Once::new();
/// `_POSIX_VDISABLE` of Linux.
const DISABLED: u8 = 0;
const LOG_BYTES_MAX: usize = 64 * 1024;
/// Together 0.2 s.
const LOOKS: u32 = 40;
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Runs itself at a terminal of its own, where the screen is taken and a panic follows.
    #[test]
    fn a_panic_gives_the_terminal_back_before_it_speaks() {
        if std::env::var_os(AT_A_TERMINAL).is_some() {
            let screen = Own::take().expect("there is a terminal");
            writeln!(log(), "logged meanwhile").expect("it is kept");
            panic!("{} and the screen is shown", screen.is_coloured());
        }
        let this = std::env::current_exe().expect("it runs");
        let name = "screen::terminal::tests::a_panic_gives_the_terminal_back_before_it_speaks";
        let line = format!("TERM=xterm {AT_A_TERMINAL}=1 {} --exact {name} --nocapture", this.display());
        let mut script = Command::new("script");
        // Without the tool there is nothing to be seen here: the tests of the command say that it is missing.
        let Ok(output) = script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).output() else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text:?} in {said:?}"));
        let (begin, end) = (at("\u{1b}[?1049h"), at("\u{1b}[?1049l"));
        assert!(
            begin < end && end < at("logged meanwhile") && end < at("and the screen is shown"),
            "{said:?}"
        );
        assert!(!output.status.success());
    }

    const AT_A_TERMINAL: &str = "ANYWIRE_TEST_SCREEN";
}
