use anywire_server::{Error, FromRequestParts, Parts, Router};

struct Session;

impl FromRequestParts for Session {
    type Rejection = Error;

    async fn from_request_parts(_: &mut Parts) -> Result<Self, Error> {
        Ok(Self)
    }
}

async fn handler(_: Option<Session>) -> &'static str {
    ""
}

fn main() {
    let _ = Router::new().get("/", handler);
}

//~ Option<Session>` cannot be taken from a request
//~ for `Option<E>`, `E` implements `OptionalFromRequestParts`, or `OptionalFromRequest` if it reads the body; else take a `Result<E, E::Rejection>`
