//! An end of shared memory that sleeps is woken, however many wake-ups its peer has not taken out of the socket yet.

use std::time::Duration;

use anywire_wire::{Address, Dialer, ListenOptions, Listener};
use tokio::time::{sleep, timeout};

/// Each round one end sleeps for a byte, and then the other one for room. Each sleep leaves a wake-up in a socket, and where too
/// many lie there the kernel takes it for full and reports no room.
#[test]
fn for_bytes_and_for_room() {
    let address: Address =
        format!("shm:@anywire-wakes-{}?ring=4k", std::process::id()).parse().expect("an address");
    let (here, there) = (crate::support::loops(1), crate::support::loops(1));
    let listener = Listener::bind(address.clone(), &ListenOptions::default(), &there).expect("it is free");
    let listening = listener.serve(|mut connection| {
        drop(anywire_loops::spawn(async move {
            let mut buffer = vec![0; 2 * ROUND_BYTES];
            for _ in 0..ROUNDS {
                let mut at = 0;
                while at < 1 + ROUND_BYTES {
                    if at == 1 {
                        // The other end fills the ring meanwhile, and sleeps.
                        sleep(Duration::from_millis(2)).await;
                    }
                    at += connection
                        .read(&mut buffer[..if at == 0 { 1 } else { ROUND_BYTES }])
                        .await
                        .expect("bytes");
                }
                connection.write_all(b"!").await.expect("it is open");
            }
        }));
    });
    let playing = here.get(0).spawn(move || async move {
        let mut connection = Dialer::default().dial(&address).await.expect("a connection");
        for round in 0..ROUNDS {
            let one_round = async {
                connection.write_all(b"?").await?;
                connection.write_all(&[7; ROUND_BYTES]).await?;
                connection.read(&mut [0]).await
            };
            let done = timeout(Duration::from_secs(30), one_round).await;
            done.unwrap_or_else(|_| panic!("nobody woke an end in round {round}")).expect("it is open");
        }
    });
    playing.wait().expect("no panic");
    drop(listening);
}

const ROUNDS: usize = 150;
/// More than two rings.
const ROUND_BYTES: usize = 10_000;
