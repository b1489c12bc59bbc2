//! Neither end of a TCP connection holds small writes back (no Nagle), and one write is one segment.

use anywire_sys::tcp_info::TcpInfo;
use anywire_wire::{Connection, Output};
use socket2::SockRef;

fn is_undelayed(connection: &Connection) -> bool {
    let socket = connection.as_fd().expect("TCP has a descriptor");
    SockRef::from(&socket).tcp_nodelay().expect("a TCP socket")
}

#[test]
fn both_ends_are_undelayed() {
    crate::support::play(
        &"tcp:127.0.0.1:0".parse().expect("an address"),
        async |accepted| assert!(is_undelayed(&accepted)),
        async |dialled| assert!(is_undelayed(&dialled)),
    );
}

#[test]
fn an_output_of_copied_and_shared_parts_is_one_segment() {
    crate::support::play(
        &"tcp:127.0.0.1:0".parse().expect("an address"),
        async |mut accepted: Connection| {
            let mut output = Output::new();
            for _ in 0..10 {
                output.buffer().extend_from_slice(b"head");
                output.push_bytes(vec![0; 5000].into());
                output.push_bytes(b"tail".as_slice().into());
                std::future::poll_fn(|cx| output.poll_flush(cx, &mut accepted))
                    .await
                    .expect("the peer reads");
                // The peer says that it has all, so that nothing waits to be sent again.
                accepted.readable().await.expect("the peer answers");
                accepted.read(&mut [0; 1]).await.expect("the peer answers");
            }
            let info = TcpInfo::of(accepted.as_fd().expect("TCP has a descriptor")).expect("a TCP socket");
            assert_eq!(info.data_segments_out, 10 + info.retransmits);
        },
        async |mut dialled| {
            let mut buffer = [0; 8192];
            for _ in 0..10 {
                let mut read = 0;
                while read < 5008 {
                    read += dialled.read(&mut buffer).await.expect("the peer writes");
                }
                dialled.write_all(b"!").await.expect("the peer reads");
            }
        },
    );
}
