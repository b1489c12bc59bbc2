use anywire_server::{FromRequestParts, Json, Path};

#[derive(FromRequestParts)]
#[from_request(crate = "anywire_server")]
struct Order {
    id: Path<u32>,
    order: Json<u32>,
}

fn main() {}

//~ error[E0277]: `Json<u32>` cannot be taken from the head of a request
//~    order: Json<u32>,
//~ a struct that derives `FromRequest` may have it as its last field
