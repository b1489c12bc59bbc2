//! A proxy on user-space TCP. The task of each connection that comes in opens one of its own to the server, and passes on what
//! comes either way. What passes are messages with their length in front; they come in pieces here, and are read whole.
//!
//! Two hosts are joined back to back, and one thread runs both. The proxy is one of them, client and server are on the other.

use std::cell::RefCell;
use std::time::{Duration, Instant as Clock};

use anywire::stack::pair::{self, Endpoint};
use anywire::stack::swarm::{Conn, FrameError, Incoming, LengthPrefix, Swarm, connect, sleep, splice};
use anywire::tcp::{ConnectOptions, Engine, Instant, Limits, Mac, Route, Settings, Via};

type Error = Box<dyn std::error::Error>;

/// Messages have four bytes in front that say how long they are: at most this.
const MESSAGES: LengthPrefix = LengthPrefix::u32(64 << 10);
const OPTIONS: ConnectOptions = ConnectOptions { no_nagle: true, keep_alive: false, class: 0, dscp: 0 };
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7);
const PROXY: ([u8; 4], u16) = ([10, 0, 0, 2], 80);

/// The server says everything louder.
async fn serve(mut conn: Conn) -> Result<(), FrameError> {
    while let Some(text) = MESSAGES.recv(&mut conn, |message| message.to_ascii_uppercase()).await? {
        MESSAGES.send(&mut conn, &text).await?;
    }
    Ok(())
}

/// The proxy passes on bytes until both sides have ended, whatever they mean.
async fn pass_on(mut incoming: Incoming) {
    match connect(SERVER.into(), OPTIONS).await {
        Ok(mut server) => splice(&mut incoming.conn, &mut server).await,
        Err(error) => {
            eprintln!("the server cannot be reached: {error}");
            incoming.conn.abort();
        }
    }
}

/// The client sends two messages, cut where no message begins or ends.
async fn ask(mut conn: Conn, answers: &RefCell<Vec<String>>) -> Result<(), FrameError> {
    for piece in [&b"\0\0"[..], b"\0\x05he", b"llo\0\0\0\x05w", b"orld"] {
        conn.send(piece).await;
        sleep(Duration::from_millis(2)).await;
    }
    conn.shutdown();
    let read = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    while let Some(text) = MESSAGES.recv(&mut conn, read).await? {
        answers.borrow_mut().push(text);
    }
    Ok(())
}

/// The engine of host 10.0.0.`own`, which reaches the other one by its address on the pair.
fn engine(own: u8) -> Result<Engine, Error> {
    // A real service takes numbers here that nobody can guess.
    let mut engine = Engine::new(Settings::new([1, 2, 3, own.into()]), Limits::default())?;
    engine.add_address([10, 0, 0, own].into())?;
    engine.set_mac(mac(own));
    engine.add_route(Route { network: "10.0.0.0/24".parse()?, via: Via::OnLink, mtu: 1500, source: None })?;
    for other in [1, 2] {
        engine.add_neighbour([10, 0, 0, other].into(), mac(other))?;
    }
    Ok(engine)
}

const fn mac(host: u8) -> Mac {
    Mac::new([2, 0, 0, 0, 0, host])
}

fn told(ended: Result<(), FrameError>) {
    if let Err(error) = ended {
        eprintln!("a peer broke the protocol: {error}");
    }
}

fn main() -> Result<(), Error> {
    let [one, two] = Endpoint::pair(pair::Settings::default());
    let answers = &RefCell::default();
    let mut ends = Swarm::new(engine(1)?, one, 100, |incoming| async move {
        told(match incoming.listener {
            Some(_) => serve(incoming.conn).await,
            None => ask(incoming.conn, answers).await,
        });
    })?;
    ends.engine().listen(SERVER.into(), OPTIONS)?;
    ends.open(([10, 0, 0, 1], 1000).into(), PROXY.into(), OPTIONS)?;
    let mut proxy = Swarm::new(engine(2)?, two, 100, pass_on)?;
    proxy.engine().listen(PROXY.into(), OPTIONS)?;

    let begun = Clock::now();
    while ends.counters().tasks.finished < 2 {
        let now = Instant::from_micros(begun.elapsed().as_micros() as u64);
        if ends.round(now) + proxy.round(now) == 0 {
            // Nothing is on its way; timers have a millisecond's time.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    println!("{}", answers.borrow().join(" "));
    assert_eq!(*answers.borrow(), ["HELLO", "WORLD"]);
    Ok(())
}
