//! Keep-alive asks whether the peer lives. Only what the peer itself can have sent tells so: not a segment that is dropped for its
//! numbers, its timestamp or its flags (RFC 9293 3.8.4, 3.10.7.4; RFC 5961; RFC 7323 3.2 and 5.3 R1).

use std::time::Duration;

use anywire_tcp::{ConnectOptions, Settings, Status};

use crate::common::host::{Host, Peer, settings, small_limits};
use crate::common::wire::{ACK, Bits, FIN, PSH, RST, SYN, Segment};

const KEEP: ConnectOptions = ConnectOptions { no_nagle: false, keep_alive: true, class: 0, dscp: 0 };

fn patient() -> Settings {
    let mut settings = settings();
    settings.keep_alive_idle = Duration::from_secs(10);
    settings.keep_alive_interval = Duration::from_secs(1);
    settings.keep_alive_probes = 3;
    settings
}

/// Whether a connection is open after a minute in which nothing comes but this, each second.
fn is_kept_by(host: &mut Host, peer: Peer, is_called: bool, sends: impl Fn(&Peer, u32) -> Segment) -> bool {
    let (id, peer) = if is_called { host.call_with(peer, KEEP) } else { host.accept_with(peer, KEEP) };
    for second in 0..60_u32 {
        let mut now = peer.clone();
        now.later(second * 1000);
        host.give(&[sends(&now, second)]);
        host.wait_millis(1000);
    }
    !matches!(host.engine.status(id), Status::Ended(_))
}

/// What comes in this second; none if it cannot come from such a peer.
type Sends = fn(&Peer, u32) -> Option<Segment>;

/// Of all kinds of peers, in both roles.
fn kept_by(sends: Sends) -> Vec<bool> {
    let peers = [Peer::new(), Peer::plain(), Peer::v6(), Peer { timestamps: None, ..Peer::v6() }];
    let mut all = Vec::new();
    for peer in peers {
        for is_called in [false, true] {
            for predicts in [true, false] {
                let mut settings = patient();
                settings.predicts = predicts;
                let mut host = Host::with(settings, small_limits());
                if sends(&peer, 0).is_some() {
                    all.push(is_kept_by(&mut host, peer.clone(), is_called, |peer, second| {
                        sends(peer, second).expect("as before")
                    }));
                }
            }
        }
    }
    all
}

/// What others can send: who knows the addresses and ports, and nothing more.
const OF_OTHERS: [(&str, Sends); 14] = [
    ("numbers outside the window", |peer, second| {
        Some(Segment { seq: outside(peer, second), ack: second, ..peer.segment(ACK) })
    }),
    ("data outside the window", |peer, second| {
        Some(Segment { payload: vec![1], seq: outside(peer, second), ..peer.segment(ACK | PSH) })
    }),
    ("a reset outside the window", |peer, second| at(peer, RST, outside(peer, second))),
    ("a SYN outside the window", |peer, second| at(peer, SYN, outside(peer, second))),
    ("a FIN outside the window", |peer, second| at(peer, FIN | ACK, outside(peer, second))),
    ("a reset within the window", |peer, second| at(peer, RST, peer.seq.wrapping_add(1 + second))),
    ("a SYN within the window", |peer, second| at(peer, SYN, peer.seq.wrapping_add(1 + second))),
    ("no ACK", |peer, _| at(peer, PSH, peer.seq)),
    ("no flags", |peer, _| at(peer, Bits(0), peer.seq)),
    ("an ACK of what was never sent", |peer, second| {
        Some(Segment { ack: peer.ack.wrapping_add(0x4000_0000 + second), ..peer.segment(ACK) })
    }),
    ("an ACK of long ago", |peer, second| {
        Some(Segment { ack: peer.ack.wrapping_sub(0x4000_0000 + second), ..peer.segment(ACK) })
    }),
    ("no timestamps", |peer, _| peer.timestamps.map(|_| Segment { timestamps: None, ..peer.segment(ACK) })),
    ("a probe without timestamps", |peer, _| {
        let probe = Segment { seq: peer.seq.wrapping_sub(1), ..peer.segment(ACK) };
        peer.timestamps.map(|_| Segment { timestamps: None, ..probe })
    }),
    ("old timestamps", |peer, _| {
        peer.timestamps.map(|_| Segment { timestamps: Some((1, 1)), ..peer.segment(ACK) })
    }),
];

fn outside(peer: &Peer, second: u32) -> u32 {
    peer.seq.wrapping_add(0x4000_0000).wrapping_add(second.wrapping_mul(0x9e37_79b1) & 0x3fff_ffff)
}

fn at(peer: &Peer, bits: Bits, seq: u32) -> Option<Segment> {
    Some(Segment { seq, ..peer.segment(bits) })
}

#[test]
fn nothing_that_others_can_send_keeps_a_dead_peer_alive() {
    for (name, sends) in OF_OTHERS {
        let kept = kept_by(sends);
        assert!(!kept.is_empty() && kept.iter().all(|kept| !kept), "{name}: {kept:?}");
    }
}

#[test]
fn what_the_peer_sends_keeps_it_alive() {
    let of_the_peer: [(&str, Sends); 2] = [
        ("an ACK", |peer, _| Some(peer.segment(ACK))),
        ("data", |peer, second| {
            let seq = peer.seq.wrapping_add(second);
            Some(Segment { payload: vec![second as u8], seq, ..peer.segment(ACK | PSH) })
        }),
    ];
    for (name, sends) in of_the_peer {
        let kept = kept_by(sends);
        assert!(kept.iter().all(|kept| *kept), "{name}: {kept:?}");
    }
}
