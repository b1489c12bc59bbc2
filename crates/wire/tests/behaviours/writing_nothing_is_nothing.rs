//! A write of nothing gives zero, sends nothing and ends nothing; a write of many slices takes as many of them as the wire
//! does, in their order.

use std::future::poll_fn;
use std::io::IoSlice;

use anywire_wire::Connection;

#[test]
fn writing_nothing_is_nothing() {
    crate::support::on_each_wire(
        async |mut accepted| {
            assert_eq!(crate::support::read_to_end(&mut accepted).await.expect("an end"), b"!")
        },
        async |mut dialled: Connection| {
            let nothing = [IoSlice::new(&[]), IoSlice::new(&[])];
            assert_eq!(poll_fn(|cx| dialled.poll_write(cx, &[])).await.expect("an open connection"), 0);
            for slices in [&nothing[..], &[]] {
                let written = poll_fn(|cx| dialled.poll_write_vectored(cx, slices)).await;
                assert_eq!(written.expect("an open connection"), 0);
            }
            dialled.write_all(b"!").await.expect("the peer reads");
        },
    );
}

#[test]
fn reading_into_nothing_takes_nothing() {
    crate::support::on_each_wire(
        async |mut accepted: Connection| accepted.write_all(b"!").await.expect("the peer reads"),
        async |mut dialled| {
            dialled.readable().await.expect("a byte comes");
            assert_eq!(dialled.read(&mut []).await.expect("an open connection"), 0);
            assert_eq!(crate::support::read_to_end(&mut dialled).await.expect("an orderly end"), b"!");
        },
    );
}

#[test]
fn more_slices_than_a_system_call_takes_leave_in_order() {
    let bytes: Vec<u8> = (0..3000_u32).map(|at| (at % 251) as u8).collect();
    let expected = bytes.clone();
    crate::support::on_each_wire(
        move |mut accepted| {
            let expected = expected.clone();
            async move {
                assert!(
                    crate::support::read_to_end(&mut accepted).await.expect("an orderly end") == expected
                );
            }
        },
        move |mut dialled| {
            let bytes = bytes.clone();
            async move {
                let mut sent = 0;
                while sent < bytes.len() {
                    let slices: Vec<_> = bytes[sent..].chunks(1).map(IoSlice::new).collect();
                    let written = poll_fn(|cx| dialled.poll_write_vectored(cx, &slices)).await;
                    sent += written.expect("the peer reads");
                }
            }
        },
    );
}
