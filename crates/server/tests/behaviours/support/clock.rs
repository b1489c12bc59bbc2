//! A loop whose clock moves only as a test says.

use std::sync::mpsc;
use std::time::Duration;

use anywire_loops::Loops;
use anywire_server::Server;

use super::{Scene, Served};

/// One loop with a clock that stands still.
pub(crate) struct StillLoop {
    pub(crate) loops: Loops,
    /// Dropping it ends the blocking task.
    _hold: mpsc::Sender<()>,
}

impl StillLoop {
    pub(crate) fn start() -> Self {
        let loops = Loops::start(1).expect("the system has a thread left");
        let (hold, held) = mpsc::channel::<()>();
        let stops = loops.get(0).spawn(|| async {
            tokio::time::pause();
            // It would move by itself, unless such a task is under way.
            drop(tokio::task::spawn_blocking(move || held.recv()));
        });
        stops.wait().expect("the clock stops");
        Self { loops, _hold: hold }
    }

    /// A server on this loop.
    pub(crate) fn serve(&self, scene: &Scene, server: Server) -> Served {
        scene.start(scene.certified(server.on(&self.loops)))
    }

    /// Runs a scene there, which may itself [move the clock](pass).
    pub(crate) fn run<F>(&self, scene: impl FnOnce() -> F + Send + 'static) -> F::Output
    where
        F: Future<Output: Send> + 'static,
    {
        self.loops.get(0).spawn(scene).wait().expect("the scene runs to its end")
    }
}

/// Lets so much time pass at once, on a loop whose clock stands still. All tasks run before and behind it, as far as they can.
pub(crate) async fn pass(time: Duration) {
    settle().await;
    tokio::time::advance(time).await;
    settle().await;
}

/// Lets all other tasks run as far as they can.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
