//! Our HTTP/2 engine and the `h2` crate, each as client and as server: each hears exactly what the other said.

#![no_main]

#[path = "support/frames.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod frames;
#[path = "support/peer.rs"]
mod peer;
#[path = "support/said.rs"]
mod said;

use frames::Choices;
use libfuzzer_sys::fuzz_target;
use peer::Theirs;
use said::{End, Message, Ours, Said, converse};

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let we_serve = choices.flag();
    let said: Vec<Said> = (0..=choices.below(6)).map(|_| Said::draw(&mut choices)).collect();
    let (mut ours, mut theirs) = (Ours::new(we_serve, &said), Theirs::new(!we_serve, &said));
    let (client, server): (&mut dyn End, &mut dyn End) =
        if we_serve { (&mut theirs, &mut ours) } else { (&mut ours, &mut theirs) };
    converse(client, server, &mut choices);
    let requests: Vec<Message> = said.iter().map(|said| said.request.clone()).collect();
    let responses: Vec<Message> = said.iter().map(|said| said.response.clone()).collect();
    assert_eq!(server.heard(), requests);
    assert_eq!(client.heard(), responses);
});
