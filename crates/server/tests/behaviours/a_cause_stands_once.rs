//! What this crate says of an error does not repeat its cause, so that a printed chain shows each cause once.

use std::error::Error;
use std::io;

use anywire_advice::{Chain, Message};
use anywire_server::{HeaderFault, Rejection, Router, Server, ServerError};

fn assert_each_cause_once(error: &(dyn Error + 'static)) {
    let chain = Chain(error).to_string();
    let mut next = Some(error);
    while let Some(error) = next {
        next = error.source();
        let found = Message::read(error).found;
        assert_eq!(chain.matches(&found).count(), 1, "{found:?} in {chain:?}");
        if let Some(cause) = next {
            assert!(!found.contains(&cause.to_string()), "{found:?} repeats {cause}");
        }
    }
}

#[test]
fn rejections() {
    let json = serde_json::from_str::<u8>("{").expect_err("no number");
    assert_each_cause_once(&Rejection::Json { path: "items[2]".to_owned(), cause: json });
    assert_each_cause_once(&Rejection::Query(serde::de::Error::custom("no number")));
    assert_each_cause_once(&Rejection::Header { name: "x-tenant", fault: HeaderFault::Missing });
}

#[test]
fn servers_that_do_not_start() {
    let clash = Router::new().get("/{a}", async || ()).get("/{b}", async || ());
    let Err(error) = Server::new(clash).listen("memory:clash").start() else { panic!("the paths clash") };
    assert_each_cause_once(&error);
    assert!(Chain(&error).to_string().contains("name their parameters alike"), "{error}");
    assert_each_cause_once(&ServerError::Signals(io::Error::other("no signals here")));
}
