//! Two of our HTTP/2 engines: each hears exactly what the other said, however the bytes are cut on their way.

#![no_main]

#[path = "support/frames.rs"]
#[allow(dead_code, reason = "each target uses its part")]
mod frames;
#[path = "support/said.rs"]
mod said;

use frames::Choices;
use libfuzzer_sys::fuzz_target;
use said::{End, Message, Ours, Said, converse};

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let said: Vec<Said> = (0..=choices.below(6)).map(|_| Said::draw(&mut choices)).collect();
    let (mut client, mut server) = (Ours::new(false, &said), Ours::new(true, &said));
    converse(&mut client, &mut server, &mut choices);
    let requests: Vec<Message> = said.iter().map(|said| said.request.clone()).collect();
    let responses: Vec<Message> = said.iter().map(|said| said.response.clone()).collect();
    assert_eq!(server.heard(), requests);
    assert_eq!(client.heard(), responses);
});
