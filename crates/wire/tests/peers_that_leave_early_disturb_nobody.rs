//! A peer that connects and is gone before it is accepted, in an orderly way or by a reset, disturbs no other
//! connection.

mod support;

#[test]
fn peers_that_leave_early_disturb_nobody() {
    for address in support::addresses_without_handshake() {
        let loops = support::loops(1);
        let listener = support::bind(&loops, &address, &support::listening());
        let address = listener.local().clone();
        let left = address.clone();
        support::on_a_loop(move || async move {
            for number in 0..60 {
                let mut connection = support::dial(&left).await;
                match number % 3 {
                    0 => drop(connection),
                    1 => connection.abort(),
                    _ => connection.half_close().await.expect("an open connection"),
                }
            }
        });
        let listening = listener.serve(|connection| drop(anywire_loops::spawn(support::echo(connection))));
        support::on_a_loop(
            move || async move { support::ask_echo(&mut support::dial(&address).await).await },
        );
        support::eventually("nothing of them is left", || listening.limit().open() == 0);
    }
}
