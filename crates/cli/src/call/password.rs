//! A password that is typed at the terminal, and not shown there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::{Code, Failure};

/// Asks for the password of a user.
pub(super) fn ask(user: &str) -> Result<String, Failure> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let terminal = terminal.map_err(|_| {
        let message = format!("logging in as {user:?}: there is no password, and no terminal to ask for it");
        Failure::new(Code::Usage, message)
            .help("write it as --user USER:PASSWORD, or as --user USER: if it is empty")
    })?;
    read(&terminal, user).map_err(|cause| match cause.kind() {
        io::ErrorKind::Interrupted => Failure::silent(Code::Interrupted),
        _ => Failure::new(Code::Read, format_args!("reading the password of {user:?} failed: {cause}"))
            .help("write it as --user USER:PASSWORD"),
    })
}

fn read(terminal: &File, user: &str) -> io::Result<String> {
    let mut quiet = Quiet::begin(terminal)?;
    write!(quiet.terminal, "Password of {user}: ")?;
    let typed = line(&mut quiet.terminal);
    // The end of the line was not shown either.
    quiet.terminal.write_all(b"\n")?;
    String::from_utf8(typed?).map_err(io::Error::other)
}

/// What is typed up to the end of the line. Keys that edit and signals are read here, because the terminal hands on each key:
/// a signal in between would leave it quiet.
fn line(terminal: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut typed, mut key) = (Vec::new(), [0]);
    while terminal.read(&mut key)? > 0 {
        match key[0] {
            b'\n' | b'\r' | END => break,
            INTERRUPT => return Err(io::ErrorKind::Interrupted.into()),
            KILL => typed.clear(),
            ERASE | BACKSPACE => {
                // A whole character in UTF-8.
                while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            letter if typed.len() < PASSWORD_BYTES_MAX => typed.push(letter),
            _ => {}
        }
    }
    Ok(typed)
}

/// A terminal that shows nothing of what is typed.
struct Quiet<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> Quiet<'t> {
    fn begin(terminal: &'t File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(terminal, OptionalActions::Flush, &modes)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // A terminal that has gone needs nothing.
        let _ = tcsetattr(self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// Keys, by what they are on nearly every terminal.
const INTERRUPT: u8 = 3;
const END: u8 = 4;
const BACKSPACE: u8 = 8;
const KILL: u8 = 21;
const ERASE: u8 = 127;

/// Far beyond any password: a head has less room.
const PASSWORD_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_edited_as_at_a_terminal() {
        let typed = |keys: &[u8]| line(&mut &*keys).map_err(|cause| cause.kind());
        assert_eq!(typed(b"secret\nmore"), Ok(b"secret".to_vec()));
        assert_eq!(typed(b"wrong\x15sec\x08\x7fcret\r"), Ok(b"scret".to_vec()));
        assert_eq!(typed("a\u{e9}\u{7f}b\u{4}".as_bytes()), Ok(b"ab".to_vec()));
        assert_eq!(typed(b"\x7fa"), Ok(b"a".to_vec()));
        assert_eq!(typed(b"ab\x03"), Err(io::ErrorKind::Interrupted));
        assert_eq!(typed(&[b'a'; 5000]).map(|typed| typed.len()), Ok(PASSWORD_BYTES_MAX));
    }
}
