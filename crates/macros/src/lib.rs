//! Derives that join extractors into a struct, for `anywire-server` with the feature `macros`.
//!
//! The generated code names the server by the path `::anywire::server`. A program that depends on `anywire-server` alone says
//! so: `#[from_request(crate = "anywire_server")]`.

mod attributes;
mod expand;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

use self::expand::{Source, expand};

/// Makes an extractor of a struct whose fields are extractors of the head.
///
/// The fields are extracted in their order. The first one that fails answers, as it would as an argument of a handler. What
/// they need from the router is checked at start. `#[from_request(via(Path))]` on a field takes the value out of the
/// extractor: the field has the type within.
#[proc_macro_derive(FromRequestParts, attributes(from_request))]
pub fn derive_from_request_parts(input: TokenStream) -> TokenStream {
    derive(input, Source::Head)
}

/// Makes an extractor of a struct whose fields are extractors, of which the last one may take the body.
///
/// A handler takes it as its last argument. Everything else is as with `FromRequestParts`.
#[proc_macro_derive(FromRequest, attributes(from_request))]
pub fn derive_from_request(input: TokenStream) -> TokenStream {
    derive(input, Source::Request)
}

fn derive(input: TokenStream, source: Source) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand(input, source).unwrap_or_else(syn::Error::into_compile_error).into()
}
