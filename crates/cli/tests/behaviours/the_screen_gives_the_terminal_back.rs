//! A load at a terminal has a screen, which is gone before the result is printed, whatever ended the load; elsewhere there are
//! lines.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::common::{Served, anywire, has, stderr};

/// The command at a terminal of its own.
struct AtTerminal {
    script: Child,
    keys: ChildStdin,
    shows: ChildStdout,
    seen: String,
}

impl AtTerminal {
    /// Runs it there with these settings of the shell before it; `None` without the tool that makes terminals.
    fn run(settings: &str, arguments: &str) -> Option<Self> {
        if !has("script") {
            return None;
        }
        let command = env!("CARGO_BIN_EXE_anywire");
        let line = format!("tty; echo pid $$ ; {settings} exec {command} {arguments}");
        let mut script = Command::new("script");
        let script = script.args(["-qec", &format!("sh -c '{line}'"), "/dev/null"]);
        // On a busy machine there are warnings, of a loop that is held up.
        script.env("TERM", "xterm").env("RUST_LOG", "error").env_remove("NO_COLOR");
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let keys = script.stdin.take().expect("it was asked for");
        let shows = script.stdout.take().expect("it was asked for");
        Some(Self { script, keys, shows, seen: String::new() })
    }

    /// Reads what the terminal shows until this is in it.
    fn until(&mut self, text: &str) -> &str {
        while !self.seen.contains(text) {
            assert!(self.read(), "{text:?} was never shown: {:?}", self.seen);
        }
        &self.seen
    }

    fn read(&mut self) -> bool {
        let mut some = [0; 4096];
        // A pseudo terminal whose other end has gone gives an error in place of an end.
        let length = self.shows.read(&mut some).unwrap_or_default();
        self.seen.push_str(&String::from_utf8_lossy(&some[..length]));
        length > 0
    }

    /// What stands behind this word in a line of its own.
    fn told(&mut self, word: &str) -> String {
        self.until("pid ");
        let line = loop {
            match self.seen.lines().find(|line| line.starts_with(word)) {
                Some(line) => break line.to_owned(),
                None => assert!(self.read(), "{word:?} was never shown: {:?}", self.seen),
            }
        };
        line.trim().to_owned()
    }

    /// Waits for the end: the exit code, and all that was shown.
    fn end(mut self) -> (i32, String) {
        while self.read() {}
        let status = self.script.wait().expect("it ends");
        (status.code().expect("it exits"), self.seen)
    }
}

/// That the screen was shown and taken away, and the result stands behind it alone.
#[track_caller]
fn assert_given_back(seen: &str) {
    let (_, rest) = seen.split_once(ENTER).unwrap_or_else(|| panic!("no screen in {seen:?}"));
    let (screen, result) = rest.split_once(LEAVE).unwrap_or_else(|| panic!("still the screen: {seen:?}"));
    assert!(screen.contains(HIDE) && result.contains(SHOW), "the cursor: {seen:?}");
    assert!(screen.contains("answers/s"), "{screen:?}");
    let result = result.replace(SHOW, "");
    assert!(!result.contains('\u{1b}') && result.contains("requests/s"), "{result:?}");
}

#[test]
fn the_result_follows_the_screen() {
    let served = Served::demo();
    let arguments = format!("load {} -n 5000 -c 4", served.url("/"));
    let Some(terminal) = AtTerminal::run("", &arguments) else { return };
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen:?}");
    assert_given_back(&seen);
}

#[test]
fn ctrl_c_and_sigterm_give_the_result_so_far() {
    let served = Served::demo();
    let arguments = format!("load {} -d 1h -c 4 --rate 100", served.url("/"));
    let Some(mut terminal) = AtTerminal::run("", &arguments) else { return };
    terminal.until(" left");
    terminal.keys.write_all(b"typed, and for nobody\x1a\x1c\x13\x03").expect("it is a terminal");
    let (code, seen) = terminal.end();
    assert_eq!(code, 130, "{seen:?}");
    assert_given_back(&seen);
    assert!(seen.contains("interrupted after") && !seen.contains("for nobody"), "{seen:?}");

    let mut terminal = AtTerminal::run("", &arguments).expect("the tool was there");
    let pid = terminal.told("pid ").replace("pid ", "");
    terminal.until(" left");
    let pid = Pid::from_raw(pid.parse().expect("a number")).expect("not 0");
    kill_process(pid, Signal::TERM).expect("it runs");
    let (code, seen) = terminal.end();
    assert_eq!(code, 143, "{seen:?}");
    assert_given_back(&seen);
}

#[test]
fn the_screen_follows_the_size_of_the_terminal_and_leaves_its_mode_as_it_was() {
    let served = Served::demo();
    let arguments = format!("load {} -d 1h -c 4 --rate 100", served.url("/"));
    let Some(mut terminal) = AtTerminal::run("stty cols 40 rows 12;", &arguments) else { return };
    let path = terminal.told("/dev/");
    let tty = File::options().read(true).write(true).open(path).expect("it is a terminal of ours");
    let before = terminal.told("pid ");
    assert!(before.starts_with("pid "));
    terminal.until(" left");
    assert!(!terminal.seen.contains("\u{1b}[13;"), "it draws beyond 12 lines: {:?}", terminal.seen);
    let quiet = tcgetattr(&tty).expect("it is a terminal");
    assert!(!quiet.local_modes.contains(rustix::termios::LocalModes::ECHO));
    let size = Winsize { ws_col: 120, ws_row: 50, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&tty, size).expect("it is a terminal");
    terminal.until("\u{1b}[50;");
    terminal.keys.write_all(b"\x03").expect("it is a terminal");
    terminal.until("interrupted after");
    let after = tcgetattr(&tty).expect("it is a terminal");
    assert!(after.local_modes.contains(rustix::termios::LocalModes::ECHO));
    assert_eq!(terminal.end().0, 130);
}

#[test]
fn there_is_no_screen_where_none_can_be_or_is_wanted() {
    let served = Served::demo();
    let url = served.url("/");
    for (settings, options) in [("TERM=dumb", ""), ("TERM=", ""), ("", "--no-screen"), ("", "-v")] {
        let arguments = format!("load {url} -n 100 -c 1 {options}");
        let Some(terminal) = AtTerminal::run(settings, &arguments) else { return };
        let (code, seen) = terminal.end();
        assert_eq!(code, 0, "{seen:?}");
        assert!(!seen.contains(ENTER), "{settings} {options}: {seen:?}");
    }
    let Some(terminal) = AtTerminal::run("NO_COLOR=1", &format!("load {url} -n 5000 -c 4")) else { return };
    let (_, seen) = terminal.end();
    assert_given_back(&seen);
    for colour in ["\u{1b}[3", "\u{1b}[4", "\u{1b}[38"] {
        let of_colour = seen.match_indices(colour).any(|(at, _)| {
            let code: String = seen[at + 2..].chars().take_while(|letter| *letter != 'm').take(8).collect();
            code.chars().all(|letter| letter.is_ascii_digit() || letter == ';')
                && !["39", "49"].contains(&&*code)
                && code.len() < 8
                && seen[at + 2 + code.len()..].starts_with('m')
        });
        assert!(!of_colour, "{colour:?} in {seen:?}");
    }
}

#[test]
fn a_pipe_gets_lines() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let served = std::thread::spawn(move || {
        let (mut peer, _) = listener.accept().expect("the command connects");
        while peer.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
            if peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err() {
                return;
            }
        }
    });
    let arguments = ["load", &url, "-c", "1", "-d", "2500ms", "--warm-up", "0", "--loops", "1"];
    let output = anywire(&[&arguments[..], &["-v"]].concat());
    served.join().expect("it ends with the command");
    let said = stderr(&output);
    let lines: Vec<_> = said.lines().filter(|line| line.contains("answers/s, p50 ")).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(" s, measuring: ")), "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";
const HIDE: &str = "\u{1b}[?25l";
const SHOW: &str = "\u{1b}[?25h";
