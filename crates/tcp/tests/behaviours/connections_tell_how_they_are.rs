//! What an engine tells of its connections is what `ss -ti` would: states, queues, windows, the round trip, what was sent again.

use std::time::Duration;

use anywire_tcp::{Info, TcpState};

use crate::common::host::{Host, Peer};

fn all(host: &Host, places: u32) -> Vec<Info> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        next = host.engine.survey(from, places, &mut all);
    }
    all
}

fn states(host: &Host) -> Vec<String> {
    all(host, 1).iter().map(|info| info.state.to_string()).collect()
}

#[test]
fn an_open_one_tells_its_queues_and_its_round_trip() {
    let mut host = Host::new();
    host.round_trip = 40;
    let (id, mut peer) = host.accept(Peer::new());
    let data = peer.data(&[7; 1000]);
    host.give(&[data]);
    assert_eq!(host.engine.send(id, &[1; 30_000]), 30_000);
    let sent = host.sent();
    let in_flight: usize = sent.iter().map(|segment| segment.payload.len()).sum();
    let info = host.engine.info(id).expect("it is open");
    assert_eq!((info.state, info.local, info.peer), (TcpState::Established, peer.there, peer.here));
    assert_eq!((info.recv_q, info.send_q, info.notsent), (1000, 30_000, 30_000 - in_flight as u32));
    assert_eq!((info.mss, info.cwnd, info.unacked, info.ssthresh), (1448, 10, 10, None));
    assert!(info.rtt.abs_diff(Duration::from_millis(40)) < Duration::from_millis(1), "{info:?}");
    assert!(info.rto > info.rtt && info.rttvar > Duration::ZERO, "{info:?}");
    assert_eq!((info.snd_wnd, info.ts, info.sack, info.ecn), (65_535, true, true, false));
    assert_eq!((info.retrans, info.backoff, info.is_orphan), (0, 0, false));
    assert!(info.rcv_wnd > 0);
}

#[test]
fn what_was_sent_again_is_counted_for_each_and_forgotten_with_it() {
    let mut host = Host::new();
    let (id, _) = host.accept(Peer::new());
    host.engine.send(id, b"lost");
    let sent = host.wait_millis(10_000);
    let info = host.engine.info(id).expect("it is open");
    assert_eq!(info.retrans as usize, sent.len() - 1, "each but the first was sent again");
    assert_eq!(u64::from(info.retrans), host.engine.counters().retransmits);
    assert_eq!(info.bytes_retrans, 4 * u64::from(info.retrans));
    assert!(info.backoff > 2 && info.cwnd == 1 && info.ssthresh.is_some(), "{info:?}");
    host.engine.abort(id);
    host.sent();
    let (next, _) = host.accept(Peer::new().port(5001));
    assert_eq!((next.index(), host.engine.info(next).map(|info| info.retrans)), (id.index(), Some(0)));
    assert_eq!(host.engine.info(id), None, "an old id tells nothing");
}

#[test]
fn each_state_has_the_name_that_ss_gives_it() {
    let mut host = Host::new();
    let (id, mut peer) = host.accept(Peer::new());
    assert_eq!(states(&host), ["LISTEN", "ESTAB"]);
    host.give(&[Peer::new().port(5001).syn()]);
    host.sent();
    assert_eq!(states(&host), ["LISTEN", "ESTAB", "SYN-RECV"]);
    let _ = host.engine.connect(Peer::new().port(81).here, Default::default());
    host.sent();
    assert_eq!(states(&host), ["LISTEN", "ESTAB", "SYN-SENT", "SYN-RECV"]);
    host.engine.close(id);
    peer.heard_all(&host.sent());
    assert_eq!(states(&host)[1], "FIN-WAIT-1");
    assert!(all(&host, 100)[1].is_orphan);
    host.give(&[peer.acks()]);
    assert_eq!(states(&host)[1], "FIN-WAIT-2");
    host.give(&[peer.fin()]);
    host.sent();
    assert_eq!(states(&host), ["LISTEN", "SYN-SENT", "SYN-RECV", "TIME-WAIT"]);
    let (id, mut peer) = host.accept(Peer::v6().port(5002));
    let fin = peer.fin();
    host.give(&[fin]);
    host.sent();
    assert_eq!(
        host.engine.info(id).map(|info| (info.state, info.peer)),
        Some((TcpState::CloseWait, peer.here))
    );
    host.engine.close(id);
    host.sent();
    let last = all(&host, 3).into_iter().find(|info| info.peer == peer.here);
    assert_eq!(last.map(|info| info.state), Some(TcpState::LastAck));
}
