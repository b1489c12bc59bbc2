use anywire_server::{FromRequest, Path};

#[derive(FromRequest)]
#[from_request(crate = "anywire_server")]
struct Asked {
    id: Path<u32>,
    count: u32,
}

fn main() {}

//~ error[E0277]: `u32` cannot be taken from a request
//~    count: u32,
