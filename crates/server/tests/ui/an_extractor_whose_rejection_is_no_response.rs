use anywire_server::{FromRequestParts, Parts};

struct Token;

struct Missing;

impl FromRequestParts for Token {
    type Rejection = Missing;

    async fn from_request_parts(_: &mut Parts) -> Result<Self, Missing> {
        Err(Missing)
    }
}

fn main() {}

//~ error[E0277]: `Missing` cannot become a response
