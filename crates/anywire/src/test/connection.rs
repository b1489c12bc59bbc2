//! A connection for bytes that a test writes itself.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anywire_loops::Loops;
use anywire_wire::{Address, DialOptions, Dialer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};

use super::wait::wait_for;

/// One connection to a [`TestServer`](super::TestServer), for raw bytes: HTTP that is wrong, cut or late. Reading and writing
/// wait for the server, up to [`TestServer::patience`](super::TestServer::patience); dropping it closes the connection.
///
/// A connection that the server keeps alive does not end: send `connection: close` with the last request, or let the server's
/// idle timeout pass by [`advance`](super::TestServer::advance). One that the server resets ends for readers, too;
/// [`is_reset`](Self::is_reset) tells it from one that the server closes.
#[derive(Debug)]
pub struct TestConnection {
    bytes: DuplexStream,
    is_reset: Arc<AtomicBool>,
    patience: Duration,
}

impl TestConnection {
    pub(super) fn dial(loops: &Loops, address: &Address, patience: Duration) -> Self {
        let (here, mut there) = duplex(16 * 1024);
        let address = address.clone();
        let is_reset = Arc::<AtomicBool>::default();
        let noted = Arc::clone(&is_reset);
        let dialled = loops.get(0).spawn(move || async move {
            let mut connection = Dialer::new(DialOptions::default()).dial(&address).await?;
            drop(anywire_loops::spawn(async move {
                // Either end may go first.
                if let Err(error) = copy_bidirectional(&mut connection, &mut there).await {
                    // Noted before `there` is dropped, which is the end that a reader sees.
                    noted.store(error.kind() == io::ErrorKind::ConnectionReset, Ordering::Release);
                }
            }));
            Ok::<_, anywire_wire::DialError>(())
        });
        dialled
            .wait()
            .expect("the loop of a server that serves runs")
            .unwrap_or_else(|error| panic!("{error}"));
        Self { bytes: here, is_reset, patience }
    }

    /// Writes all of this.
    ///
    /// # Panics
    /// If the server has closed the connection, or reads nothing more within the patience of the test.
    #[track_caller]
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        if let Err(error) = self.write_all(bytes.as_ref()) {
            panic!("sending to the server: {error}");
        }
    }

    /// Ends this direction: the server reads to its end, and may still answer.
    pub fn finish(&mut self) {
        // An end that has gone needs no telling.
        let _ = wait_for(self.bytes.shutdown(), self.patience);
    }

    /// Reads up to and with the first `end`, such as `b"\r\n\r\n"`.
    ///
    /// # Panics
    /// If the server closes before, or sends nothing more within the patience of the test.
    #[track_caller]
    pub fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(end) {
            match self.read(&mut byte) {
                Ok(1..) => bytes.push(byte[0]),
                Ok(0) => panic!("the server closed after {:?}", String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("after {:?}: {error}", String::from_utf8_lossy(&bytes)),
            }
        }
        bytes
    }

    /// Reads until the server closes or resets the connection; [`is_reset`](Self::is_reset) says which.
    ///
    /// # Panics
    /// If it sends nothing more and does not close within the patience of the test, such as on a connection that is kept alive.
    #[track_caller]
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Err(error) = Read::read_to_end(self, &mut bytes) {
            panic!("after {:?}: {error}", String::from_utf8_lossy(&bytes));
        }
        bytes
    }

    /// Whether the server has reset the connection, once reading has come to the end. A peer of HTTP/1.0 learns by nothing else that
    /// a body without a length is not whole (RFC 9112 section 8).
    pub fn is_reset(&self) -> bool {
        self.is_reset.load(Ordering::Acquire)
    }
}

/// An error of the kind [`TimedOut`](io::ErrorKind::TimedOut) says that nothing came within the patience of the test.
impl Read for TestConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let patience = self.patience;
        wait_for(self.bytes.read(buffer), patience).unwrap_or_else(|| {
            Err(timed_out(format!(
                "the server sent nothing for {patience:?} and keeps the connection open; send `connection: close`, \
                 or let its deadlines pass by `TestServer::advance`"
            )))
        })
    }
}

/// An error of the kind [`TimedOut`](io::ErrorKind::TimedOut) says that nothing was read within the patience of the test.
impl Write for TestConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let patience = self.patience;
        wait_for(self.bytes.write(bytes), patience).unwrap_or_else(|| {
            Err(timed_out(format!(
                "the server read nothing for {patience:?}; does its handler read the body, or wait for time, \
                 see `TestServer::advance`?"
            )))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn timed_out(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, text)
}
