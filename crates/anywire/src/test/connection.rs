//! A connection for bytes that a test writes itself.

use std::io::{self, Read, Write};

use anywire_loops::{Loops, block_on};
use anywire_wire::{Address, DialOptions, Dialer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};

/// One connection to a [`TestServer`](super::TestServer), for raw bytes: HTTP that is wrong, cut or late. Reading and writing
/// wait for the server; dropping it closes the connection.
///
/// A connection that the server resets ends like one that it closes.
#[derive(Debug)]
pub struct TestConnection(DuplexStream);

impl TestConnection {
    pub(super) fn dial(loops: &Loops, address: &Address) -> Self {
        let (here, mut there) = duplex(16 * 1024);
        let address = address.clone();
        let dialled = loops.get(0).spawn(move || async move {
            let mut connection = Dialer::new(DialOptions::default()).dial(&address).await?;
            drop(anywire_loops::spawn(async move {
                // Either end may go first.
                let _ = copy_bidirectional(&mut connection, &mut there).await;
            }));
            Ok::<_, anywire_wire::DialError>(())
        });
        dialled
            .wait()
            .expect("the loop of a server that serves runs")
            .unwrap_or_else(|error| panic!("{error}"));
        Self(here)
    }

    /// Writes all of this.
    ///
    /// # Panics
    /// If the server has closed the connection.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.write_all(bytes.as_ref()).expect("the server reads");
    }

    /// Ends this direction: the server reads to its end, and may still answer.
    pub fn finish(&mut self) {
        // An end that has gone needs no telling.
        let _ = block_on(self.0.shutdown());
    }

    /// Reads up to and with the first `end`, such as `b"\r\n\r\n"`.
    ///
    /// # Panics
    /// If the server closes before.
    pub fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut byte = [0];
        while !bytes.ends_with(end) {
            let count = self.read(&mut byte).expect("memory can be read");
            assert!(count == 1, "the server closed after {:?}", String::from_utf8_lossy(&bytes));
            bytes.push(byte[0]);
        }
        bytes
    }

    /// Reads until the server closes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        Read::read_to_end(self, &mut bytes).expect("memory can be read");
        bytes
    }
}

impl Read for TestConnection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        block_on(self.0.read(buffer))
    }
}

impl Write for TestConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        block_on(self.0.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
