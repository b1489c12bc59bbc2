//! `TcpInfo` counts what the tests of "one response, one write" rely on.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use anywire_sys::tcp_info::TcpInfo;

fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, _) = listener.accept()?;
    ours.set_nodelay(true)?;
    Ok((ours, theirs))
}

#[test]
fn one_write_is_one_data_segment() -> io::Result<()> {
    let (mut ours, mut theirs) = pair()?;
    assert_eq!(TcpInfo::of(&ours)?.data_segments_out, 0);
    let mut arrived = [0; 16 << 10];
    for write in 1..=3 {
        ours.write_all(&[7; 16 << 10])?;
        theirs.read_exact(&mut arrived)?;
        assert_eq!(TcpInfo::of(&ours)?.data_segments_out, write);
        assert_eq!(TcpInfo::of(&theirs)?.data_segments_in, write);
    }
    assert_eq!(TcpInfo::of(&ours)?.retransmits, 0);
    Ok(())
}

#[test]
fn two_writes_are_two_data_segments() -> io::Result<()> {
    let (mut ours, mut theirs) = pair()?;
    ours.write_all(b"head")?;
    ours.write_all(b"body")?;
    theirs.read_exact(&mut [0; 8])?;
    assert_eq!(TcpInfo::of(&ours)?.data_segments_out, 2);
    Ok(())
}

#[test]
fn other_sockets_have_none() -> io::Result<()> {
    let (ours, _theirs) = UnixStream::pair()?;
    assert!(TcpInfo::of(&ours).is_err());
    Ok(())
}
