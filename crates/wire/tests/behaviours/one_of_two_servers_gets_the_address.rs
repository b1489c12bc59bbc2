//! Of servers that start at the same moment at one address, in one process or in several, exactly one gets it; the
//! others are told that it is in use. This holds where a dead server has left its file, too.

use std::io::{BufRead, BufReader, Lines, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};

use anywire_loops::Loops;
use anywire_wire::{Address, ListenError, Listener};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

/// Addresses that no other test uses. A port that was free a moment ago would not be safe.
struct Places {
    folder: tempfile::TempDir,
    /// An address of this machine that is this test's.
    host: String,
}

impl Places {
    fn new(test: u8) -> Self {
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, host: format!("127.{high}.{low}.{test}") }
    }

    fn of(&self, kind: &str, round: usize) -> String {
        let folder = self.folder.path().display();
        match kind {
            // Below the ports that the system gives to who dials.
            "tcp" => format!("tcp:{}:{}", self.host, 20_000 + round),
            "stale file" => {
                let path = self.folder.path().join(format!("stale-{round}"));
                leave_a_stale_file(&path);
                format!("unix:{}", path.display())
            }
            "no file" => format!("unix:{folder}/new-{round}"),
            "name" => format!("unix:@one-of-two-{}-{round}", self.host),
            "memory" => format!("memory:one-of-two-{round}"),
            "stack" => format!("stack:switch/10.77.0.1:{}", 1000 + round),
            kind => panic!("no such kind: {kind}"),
        }
    }
}

const KINDS: &[&str] = &[
    "tcp",
    "stale file",
    "no file",
    "name",
    "memory",
    #[cfg(feature = "stack")]
    "stack",
];

/// As of a server that was killed.
fn leave_a_stale_file(path: &Path) {
    drop(UnixListener::bind(path).expect("a free path"));
}

fn bind(address: &Address, loops: &Loops) -> Result<Listener, ListenError> {
    Listener::bind(address, &crate::support::listening(), loops)
}

fn is_in_use(error: &ListenError) -> bool {
    matches!(error, ListenError::InUse { .. })
}

/// Whether a server answers.
fn answers(dialling: &Loops, address: &Address) -> bool {
    let address = address.clone();
    let dialled = dialling
        .get(0)
        .spawn(move || async move { crate::support::dialer().dial(&address).await.map(drop).is_ok() });
    dialled.wait().expect("no panic")
}

#[test]
fn within_a_process() {
    const ROUNDS: usize = 200;
    const SERVERS: usize = 3;
    let places = Places::new(1);
    let (loops, dialling) = (crate::support::loops(2), crate::support::loops(1));
    for kind in KINDS {
        let addresses: Arc<[Address]> =
            (0..ROUNDS).map(|round| places.of(kind, round).parse().expect("an address")).collect();
        let start = Arc::new(Barrier::new(SERVERS));
        let (told, tell) = std::sync::mpsc::channel();
        let go_on = Arc::new(Barrier::new(SERVERS + 1));
        let servers: Vec<_> = (0..SERVERS)
            .map(|_| {
                let (addresses, start, go_on) =
                    (Arc::clone(&addresses), Arc::clone(&start), Arc::clone(&go_on));
                let (told, loops) = (told.clone(), loops.clone());
                std::thread::spawn(move || {
                    for address in addresses.iter() {
                        start.wait();
                        let bound = bind(address, &loops);
                        told.send(bound.as_ref().err().map(is_in_use)).expect("the test waits");
                        go_on.wait();
                        drop(bound);
                    }
                })
            })
            .collect();
        for address in addresses.iter() {
            let outcomes: Vec<_> = (0..SERVERS)
                .map(|_| tell.recv_timeout(crate::support::HANG).expect("each is told"))
                .collect();
            let winners = outcomes.iter().filter(|outcome| outcome.is_none()).count();
            assert_eq!(winners, 1, "{kind}: {outcomes:?}");
            assert!(outcomes.iter().all(|outcome| outcome.unwrap_or(true)), "{kind}: {outcomes:?}");
            assert!(answers(&dialling, address), "{kind}: nobody answers at {address}");
            go_on.wait();
        }
        servers.into_iter().for_each(|server| server.join().expect("no panic"));
    }
}

#[test]
fn between_processes() {
    if let Ok(folder) = std::env::var(FOLDER) {
        return serve_on_demand(Path::new(&folder));
    }
    const ROUNDS: usize = 150;
    let places = Places::new(2);
    let dialling = crate::support::loops(1);
    let mut servers = [Process::start(places.folder.path()), Process::start(places.folder.path())];
    for kind in ["tcp", "stale file", "no file", "name"] {
        for round in 0..ROUNDS {
            let address = places.of(kind, round);
            servers.iter_mut().for_each(|server| server.say(&address));
            servers.iter_mut().for_each(|server| assert_eq!(server.hear(), "ready"));
            let signal = places.folder.path().join("go");
            std::fs::write(&signal, "").expect("a file");
            let outcomes = servers.each_mut().map(Process::hear);
            std::fs::remove_file(&signal).expect("it is ours");
            let count = |what: &str| outcomes.iter().filter(|outcome| *outcome == what).count();
            assert_eq!((count("listens"), count("in use")), (1, 1), "{kind}: {outcomes:?}");
            assert!(answers(&dialling, &address.parse().expect("an address")), "{kind}: nobody answers");
            servers.iter_mut().for_each(|server| server.say("drop"));
            servers.iter_mut().for_each(|server| assert_eq!(server.hear(), "dropped"));
        }
    }
    for mut server in servers {
        drop(server.asks);
        assert!(server.child.wait().expect("it ends").success());
    }
}

/// The part of another process: listens where it is told, as soon as the signal is there.
fn serve_on_demand(folder: &Path) {
    let loops = crate::support::loops(2);
    let signal = folder.join("go");
    let mut asked = std::io::stdin().lines().map(|line| line.expect("the outer one asks in UTF-8"));
    while let Some(address) = asked.next() {
        let address = address.parse().expect("an address");
        println!("{ANSWER}ready");
        // Not by a pipe: that would wake the two one after the other.
        crate::support::eventually("the signal comes", || signal.exists());
        let bound = bind(&address, &loops);
        match &bound {
            Ok(_) => println!("{ANSWER}listens"),
            Err(error) if is_in_use(error) => println!("{ANSWER}in use"),
            Err(error) => println!("{ANSWER}{error}"),
        }
        asked.next();
        drop(bound);
        println!("{ANSWER}dropped");
    }
}

/// A foreign process that has bound the name by which servers take turns, and accepts no connection. Dropping it frees the name.
enum Stranger {
    /// Of another kind than a claim.
    OtherKind,
    /// Which never comes to listen.
    Silent,
    /// Of another user, who listens. Only root can play that one.
    OtherUser,
}

impl Stranger {
    fn bind(&self, name: &str) -> OwnedFd {
        let kind = if matches!(self, Self::OtherKind) { SocketType::STREAM } else { SocketType::SEQPACKET };
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("it is short");
        let bind = || {
            // Another test's child would keep the name.
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)
                .expect("the system has sockets");
            rustix::net::bind(&socket, &name).expect("nobody has it");
            if !matches!(self, Self::Silent) {
                rustix::net::listen(&socket, 16).expect("it is bound");
            }
            socket
        };
        if !matches!(self, Self::OtherUser) {
            return bind();
        }
        // A thread can be another user.
        let as_other = || {
            let other = Uid::from_raw(54_321);
            set_thread_res_uid(other, other, other).expect("root may");
            bind()
        };
        std::thread::scope(|scope| scope.spawn(as_other).join().expect("no panic"))
    }
}

#[test]
fn a_name_that_a_stranger_holds_keeps_no_server_from_its_address() {
    let places = Places::new(3);
    let found = places.folder.path().metadata().expect("it is there");
    let of_folder = format!("anywire-claim:unix:{:x}:{:x}", found.dev(), found.ino());
    let loops = crate::support::loops(2);
    let mut strangers = vec![Stranger::OtherKind, Stranger::Silent];
    if rustix::process::geteuid().is_root() {
        strangers.push(Stranger::OtherUser);
    } else {
        crate::skipped::say("only root can be another user");
    }
    for (round, stranger) in strangers.iter().enumerate() {
        for kind in ["tcp", "stale file", "no file"] {
            let address: Address = places.of(kind, round).parse().expect("an address");
            let name =
                address.port().map_or_else(|| of_folder.clone(), |port| format!("anywire-claim:tcp:{port}"));
            let _held = stranger.bind(&name);
            let listening = bind(&address, &loops).expect("nobody listens there").serve(drop);
            assert!(answers(&crate::support::loops(1), &address), "{address}");
            listening.stop();
            let path = Path::new(address.location());
            assert!(
                kind == "tcp" || !path.exists(),
                "{address}: a server that has stopped leaves nothing behind"
            );
        }
    }
}

struct Process {
    child: Child,
    asks: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(folder: &Path) -> Self {
        let this = std::env::current_exe().expect("the test has a file");
        let mut child = Command::new(this)
            .args(["--exact", "one_of_two_servers_gets_the_address::between_processes", "--nocapture"])
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let asks = child.stdin.take().expect("it is piped");
        let answers = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        Self { child, asks, answers }
    }

    fn say(&mut self, what: &str) {
        writeln!(self.asks, "{what}").expect("it reads");
    }

    /// Its next answer; what the test's harness says is passed over.
    fn hear(&mut self) -> String {
        let mut lines = self.answers.by_ref().map_while(Result::ok);
        lines.find_map(|line| Some(line.split_once(ANSWER)?.1.to_owned())).expect("it answers")
    }
}

const FOLDER: &str = "ANYWIRE_TEST_FOLDER";
const ANSWER: &str = "answer: ";
