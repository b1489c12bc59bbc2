//! A loop whose time stands still while anybody on it has something to do.

use std::time::Duration;

use anywire::http::h2;
use anywire::loops::Loops;
use anywire::server::{Limits, ServerHandle};
use anywire::wire::ListenOptions;
use anywire::{Router, Server};
use tokio::task::yield_now;

/// Plays a scene on a loop of its own, beside a server that has no timeouts. Its address is `memory:`, and at most so many
/// connections are open at a time.
pub fn beside_a_server<F>(
    connections: usize,
    router: Router,
    scene: impl FnOnce(Loops, String) -> F + Send + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    let loops = Loops::start(1).expect("one loop can be had");
    let limits = Limits { connections: Some(connections), ..without_timeouts() };
    let options = ListenOptions { backlog: 1, ..ListenOptions::default() };
    let server = Server::new(router).limits(limits).on(&loops).listen("memory:").listen_options(options);
    let running: ServerHandle = server.start().expect("a free name");
    let address = running.addresses().next().expect("one address").to_string();
    let here = loops.clone();
    let played = loops.get(0).spawn(move || async move {
        tokio::time::pause();
        scene(here, address).await;
    });
    played.wait().unwrap_or_else(|error| panic!("{error}"));
}

/// Lets everybody else do what there is to do, without time passing.
pub async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

/// No timeout of this length comes.
pub const NO_TIMEOUT: Duration = Duration::from_secs(1000 * 24 * 60 * 60);

fn without_timeouts() -> Limits {
    Limits {
        head_timeout: NO_TIMEOUT,
        idle_timeout: NO_TIMEOUT,
        body_timeout: NO_TIMEOUT,
        handler_timeout: NO_TIMEOUT,
        write_timeout: NO_TIMEOUT,
        min_bytes_per_second: 0,
        half_close_timeout: NO_TIMEOUT,
        linger_timeout: NO_TIMEOUT,
        http2: h2::Limits { settings_deadline: NO_TIMEOUT, ..h2::Limits::default() },
        ..Limits::default()
    }
}
