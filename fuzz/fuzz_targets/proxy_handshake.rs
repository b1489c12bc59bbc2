//! No bytes of a proxy make the handshake with it panic, or take more than its limits allow. How they are cut on their way changes
//! nothing, except that SOCKS5 takes turns. The tunnel begins within the bytes that were given last, right behind the response.

#![no_main]

use anywire_client::proxy::{Handshake, HandshakeLimits, Proxy, ProxyReason};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [choice, piece, said @ ..] = data else { return };
    let urls = ["http://p", "http://a:b@p", "socks5h://p", "socks5h://a:b@p"];
    let proxy: Proxy = urls[usize::from(*choice) % urls.len()].parse().expect("a proxy");
    let bytewise = play(&proxy, said, 1);
    let pieces = play(&proxy, said, usize::from(*piece) + 1);
    match (&bytewise, &pieces) {
        (Ok(Some(one)), Ok(Some(other))) => assert_eq!(one, other),
        (Ok(Some(_)), Err(early)) if early == "Early" && proxy.is_socks() => {}
        // What is wrong with half a head may be seen before or after the rest has come.
        (Ok(Some(_)), _) | (_, Ok(Some(_))) => panic!("{bytewise:?} and {pieces:?}"),
        _ => {}
    }
    if let Ok(Some(begins)) = bytewise {
        assert!(begins <= said.len());
        assert_eq!(play(&proxy, &said[..begins], 1), Ok(Some(begins)));
        assert_eq!(play(&proxy, &said[..begins - 1], 1), Ok(None));
    }
});

/// Where the tunnel begins.
fn play(proxy: &Proxy, said: &[u8], piece: usize) -> Result<Option<usize>, String> {
    let limits = HandshakeLimits::default();
    let mut handshake = Handshake::new(proxy, "example.com", 443, &limits).expect("a host");
    handshake.sent(handshake.output().len());
    let most = (limits.interim_responses + 1) * limits.head.bytes * 2;
    let mut at = 0;
    for bytes in said.chunks(piece) {
        match handshake.receive(bytes) {
            Ok(None) => at += bytes.len(),
            Ok(Some(taken)) => {
                assert!(taken > 0 && taken <= bytes.len());
                return Ok(Some(at + taken));
            }
            Err(reason) => {
                assert!(!matches!(reason, ProxyReason::Closed | ProxyReason::TimedOut { .. }));
                return Err(format!("{reason:?}"));
            }
        }
        assert!(at <= most, "more than the limits allow");
        handshake.sent(handshake.output().len());
    }
    Ok(None)
}
