//! A peer that connects and is gone before it is accepted, in an orderly way or by a reset, disturbs no other
//! connection.

#[test]
fn peers_that_leave_early_disturb_nobody() {
    for address in crate::support::addresses_without_handshake() {
        let loops = crate::support::loops(1);
        let listener = crate::support::bind(&loops, &address, &crate::support::listening());
        let address = listener.local().clone();
        let left = address.clone();
        crate::support::on_a_loop(move || async move {
            for number in 0..60 {
                let mut connection = crate::support::dial(&left).await;
                match number % 3 {
                    0 => drop(connection),
                    1 => connection.abort(),
                    _ => connection.half_close().await.expect("an open connection"),
                }
            }
        });
        let listening =
            listener.serve(|connection| drop(anywire_loops::spawn(crate::support::echo(connection))));
        crate::support::on_a_loop(move || async move {
            crate::support::ask_echo(&mut crate::support::dial(&address).await).await
        });
        crate::support::eventually("nothing of them is left", || listening.limit().open() == 0);
    }
}
