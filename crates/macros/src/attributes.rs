//! What `#[from_request(..)]` says of a struct or of a field.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, LitStr, Path, parenthesized, parse_quote};

/// Where the traits are: `crate = ".."`.
pub(crate) fn server(attributes: &[Attribute]) -> syn::Result<Path> {
    let mut server = parse_quote!(::anywire::server);
    each(attributes, |meta| {
        if !meta.path.is_ident("crate") {
            let known =
                "a struct has `#[from_request(crate = \"anywire_server\")]`; `via(..)` belongs to a field";
            return Err(meta.error(known));
        }
        let path: LitStr = meta.value()?.parse()?;
        server = path.parse()?;
        Ok(())
    })?;
    Ok(server)
}

/// The extractor that a field is taken from: `via(..)`.
pub(crate) fn via(attributes: &[Attribute]) -> syn::Result<Option<Path>> {
    let mut via = None;
    each(attributes, |meta| {
        if !meta.path.is_ident("via") {
            return Err(meta
                .error("a field has `#[from_request(via(Path))]`, with the extractor that holds its value"));
        }
        let within;
        parenthesized!(within in meta.input);
        match via.replace(within.parse()?) {
            None => Ok(()),
            Some(_) => Err(meta.error("a field comes by one extractor")),
        }
    })?;
    Ok(via)
}

fn each(
    attributes: &[Attribute],
    mut take: impl FnMut(ParseNestedMeta<'_>) -> syn::Result<()>,
) -> syn::Result<()> {
    let own = attributes.iter().filter(|attribute| attribute.path().is_ident("from_request"));
    own.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(&mut take))
}
