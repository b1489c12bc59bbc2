//! If a connection that calls share breaks, one of them gets the error at most, and the others go out again.

use std::sync::mpsc;

use crate::calls_share_a_pipeline::{
    answer_of, answer_one, assert_own_answers, bodies, first_call, get, sharing, target, targets,
};
use crate::support::{Peer, Talk, block_on, client, wire};
use anywire_client::{Error, Phase};

/// A peer whose first connection ends behind some responses, in this way. The others answer all.
fn breaking(end: impl Fn(&mut Talk) + Send + Sync + 'static) -> Peer {
    Peer::start(wire("tcp"), move |mut talk| {
        if talk.number > 0 {
            while answer_one(&mut talk) {}
            return;
        }
        answer_one(&mut talk);
        let first: Vec<_> = targets(&mut talk, 10);
        first.iter().take(3).for_each(|target| talk.say(answer_of(target)));
        end(&mut talk);
    })
}

#[test]
fn at_a_close_the_unanswered_go_out_again() {
    let peer = breaking(|_| {});
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    assert_own_answers(&client, &peer, 10);
    let counters = client.counters().total();
    // The one that was due may be why: it is the first on a connection of its own.
    assert_eq!((counters.displaced, counters.resent, counters.dialed), (6, 7, 2));
}

#[test]
fn at_a_close_that_is_announced_all_behind_go_out_again() {
    let peer = breaking(|talk| {
        talk.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n/3");
        // Later bytes belong to no call.
        talk.say(answer_of("/lie"));
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    assert_own_answers(&client, &peer, 10);
    let counters = client.counters().total();
    assert_eq!((counters.displaced, counters.resent, counters.dialed), (6, 6, 2));
}

#[test]
fn a_fault_costs_the_call_whose_response_is_due() {
    type Kind = fn(&Error) -> bool;
    let faults: [(&str, Kind); 4] = [
        ("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n", |error| {
            matches!(error, Error::Switched { .. })
        }),
        ("nonsense\r\n\r\n", |error| matches!(error, Error::Response { .. })),
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", |error| {
            matches!(error, Error::Response { .. } | Error::Body(_))
        }),
        ("HTTP/1.1 102 Processing\r\n\r\n", |error| matches!(error, Error::ClosedByPeer { sent: true, .. })),
    ];
    for (fault, is_kind) in faults {
        let peer = breaking(move |talk| talk.say(fault));
        let (_loops, client) = client(1, sharing);
        first_call(&client, &peer);
        let calls: Vec<_> = (0..10).map(|number| get(&client, &peer, &format!("/{number}"))).collect();
        for (number, body) in bodies(calls).into_iter().enumerate() {
            match body {
                Ok(body) => assert_eq!(body, format!("/{number}"), "{fault:?}"),
                Err(error) => assert!(number == 3 && is_kind(&error), "{fault:?} {number}: {error:?}"),
            }
        }
        assert_eq!(client.counters().total().displaced, 6, "{fault:?}");
    }
}

#[test]
fn too_many_interim_responses_are_a_fault_of_one_call() {
    let peer = breaking(|talk| {
        talk.say("HTTP/1.1 102 Processing\r\n\r\n".repeat(17));
        talk.wait_for_end();
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let calls: Vec<_> = (0..10).map(|number| get(&client, &peer, &format!("/{number}"))).collect();
    let failed: Vec<_> = bodies(calls).into_iter().filter_map(Result::err).collect();
    assert!(matches!(failed[..], [Error::Interim { count: 17, .. }]), "{failed:?}");
    assert_eq!(client.counters().total().too_many_interim, 1);
}

#[test]
fn a_call_that_breaks_connections_is_not_sent_for_ever() {
    let (report, seen) = mpsc::channel();
    let peer = Peer::start(wire("tcp"), move |mut talk| {
        while let Some(target) = target(&mut talk) {
            let _ = report.send(target.clone());
            if target == "/poison" {
                return;
            }
            talk.say(answer_of(&target));
        }
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    let paths = ["/0", "/1", "/poison", "/3", "/4"];
    let answers = bodies(paths.map(|path| get(&client, &peer, path)));
    for (path, answer) in paths.iter().zip(answers) {
        match answer {
            Ok(body) => assert_eq!(body, *path),
            Err(error) => {
                assert_eq!(*path, "/poison");
                assert!(
                    matches!(error, Error::ClosedByPeer { phase: Phase::Read, sent: true, .. }),
                    "{error:?}"
                );
            }
        }
    }
    assert_eq!(seen.try_iter().filter(|target| target == "/poison").count(), 2);
}

#[test]
fn stray_bytes_are_nobodys() {
    let peer = Peer::start(wire("tcp"), |mut talk| {
        answer_one(&mut talk);
        if talk.number == 0 {
            let both = answer_of(&target(&mut talk).expect("a request")) + &answer_of("/lie");
            talk.say(both);
        }
        while answer_one(&mut talk) {}
    });
    let (_loops, client) = client(1, sharing);
    first_call(&client, &peer);
    for path in ["/a", "/b", "/c"] {
        let body = block_on(async { get(&client, &peer, path).send().await?.text().await });
        assert_eq!(body.expect("an answer"), path);
    }
    assert_eq!(peer.accepted(), 2);
}
