//! Ending the own direction tells the peer, and what the peer says afterwards still arrives.

#[test]
fn half_close_leaves_the_other_direction_open() {
    crate::support::on_each_wire(
        async |mut accepted| {
            let heard = crate::support::read_to_end(&mut accepted).await.expect("an orderly end");
            assert_eq!(heard, b"question");
            // The end stays the end, and is no obstacle to the answer.
            assert_eq!(accepted.read(&mut [0; 8]).await.expect("still the end"), 0);
            accepted.write_all(b"ans").await.expect("the other direction is open");
            accepted.write_all(b"wer").await.expect("the other direction is open");
        },
        async |mut dialled| {
            dialled.write_all(b"question").await.expect("the peer reads");
            dialled.half_close().await.expect("an open connection");
            let error = dialled.write_all(b"more").await.expect_err("this direction has ended");
            assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
            let heard =
                crate::support::read_to_end(&mut dialled).await.expect("the answer, and an orderly end");
            assert_eq!(heard, b"answer");
        },
    );
}
