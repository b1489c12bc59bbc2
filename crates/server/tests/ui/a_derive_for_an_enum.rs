use anywire_server::FromRequestParts;

#[derive(FromRequestParts)]
#[from_request(crate = "anywire_server")]
enum Asked {
    Nothing,
}

fn main() {}

//~ error: `FromRequestParts` is derived for structs, whose fields are extractors; implement it by hand for other types
