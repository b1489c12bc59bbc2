use anywire_server::{FromRequestParts, Path};

#[derive(FromRequestParts)]
#[from_request(crate = "anywire_server")]
struct Asked {
    #[from_request(from(Path))]
    id: u32,
}

fn main() {}

//~ error: a field has `#[from_request(via(Path))]`, with the extractor that holds its value
