//! The code of an extractor that is made of extractors.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Generics, Ident, Member, Path, WherePredicate, parse_quote};

use crate::attributes;

/// What the struct is made of.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// The head alone.
    Head,
    /// The head, and for the last field the body.
    Request,
}

/// A field, and how it is extracted.
struct Part {
    member: Member,
    /// The variable that holds it.
    variable: Ident,
    /// The type of the extractor.
    extractor: TokenStream,
    /// The pattern that takes the value out of the extractor.
    pattern: TokenStream,
    /// That of the type, where errors are reported.
    span: Span,
}

pub(crate) fn expand(input: DeriveInput, source: Source) -> syn::Result<TokenStream> {
    let derived = match source {
        Source::Head => "FromRequestParts",
        Source::Request => "FromRequest",
    };
    let Data::Struct(data) = input.data else {
        let advice =
            "is derived for structs, whose fields are extractors; implement it by hand for other types";
        return Err(Error::new_spanned(&input.ident, format!("`{derived}` {advice}")));
    };
    let server = attributes::server(&input.attrs)?;
    let members = data.fields.members();
    let parts: Vec<Part> = data.fields.iter().zip(members).map(part).collect::<syn::Result<_>>()?;
    let (body, head) = match (source, parts.split_last()) {
        (Source::Request, Some((last, head))) => (Some(last), head),
        _ => (None, &parts[..]),
    };

    let described = described(&input.ident, &input.generics, &parts, &server);
    let mut generics = input.generics;
    if !generics.params.is_empty() {
        let bounds: Vec<WherePredicate> = head
            .iter()
            .map(|Part { extractor, .. }| parse_quote!(#extractor: #server::FromRequestParts))
            .chain(body.iter().map(|Part { extractor, .. }| parse_quote!(#extractor: #server::FromRequest)))
            .collect();
        generics.make_where_clause().predicates.extend(bounds);
    }
    let (for_all, arguments, bounds) = generics.split_for_impl();
    let name = &input.ident;
    let fields = parts.iter().map(|Part { member, variable, .. }| quote!(#member: #variable));

    let takes_head = head.iter().map(|part| takes_head(part, &server));
    let needs_head = head.iter().map(|Part { extractor, span, .. }| {
        quote_spanned!(*span=> <#extractor as #server::FromRequestParts>::needs(needs);)
    });
    let extracted = match source {
        Source::Head => quote! {
            #[automatically_derived]
            #[allow(non_snake_case, unused_mut, unused_qualifications, unused_variables)]
            impl #for_all #server::FromRequestParts for #name #arguments #bounds {
                type Rejection = #server::Response;

                async fn from_request_parts(
                    request: &mut #server::Parts,
                ) -> ::core::result::Result<Self, #server::Response> {
                    #(#takes_head)*
                    ::core::result::Result::Ok(Self { #(#fields),* })
                }

                fn needs(needs: &mut #server::Needs) {
                    #(#needs_head)*
                }
            }
        },
        Source::Request => {
            let takes_body = body.map(|part| takes_body(part, &server));
            let needs_body = body.map(|Part { extractor, span, .. }| {
                quote_spanned!(*span=> <#extractor as #server::FromRequest<_>>::needs(needs);)
            });
            quote! {
                #[automatically_derived]
                #[allow(non_snake_case, unused_mut, unused_qualifications, unused_variables)]
                impl #for_all #server::FromRequest for #name #arguments #bounds {
                    type Rejection = #server::Response;

                    async fn from_request(
                        mut request: #server::Request,
                    ) -> ::core::result::Result<Self, #server::Response> {
                        #(#takes_head)*
                        #takes_body
                        ::core::result::Result::Ok(Self { #(#fields),* })
                    }

                    fn needs(needs: &mut #server::Needs) {
                        #(#needs_head)*
                        #needs_body
                    }
                }
            }
        }
    };
    Ok(quote!(#extracted #described))
}

/// What the extractors of all fields say for OpenAPI, if that is a feature of the server, and if all of them say something.
fn described(name: &Ident, generics: &Generics, parts: &[Part], server: &Path) -> TokenStream {
    if cfg!(not(feature = "openapi")) {
        return TokenStream::new();
    }
    let mut generics = generics.clone();
    // A bound on types that are known is an error where it does not hold, unless it is for all lifetimes.
    let bounds: Vec<WherePredicate> = parts
        .iter()
        .map(|Part { extractor, .. }| {
            parse_quote!(for<'described> #extractor: #server::openapi::DescribeRequest)
        })
        .collect();
    generics.make_where_clause().predicates.extend(bounds);
    let (for_all, arguments, bounds) = generics.split_for_impl();
    let extractors = parts.iter().map(|Part { extractor, .. }| extractor);
    quote! {
        #[automatically_derived]
        #[allow(unused_qualifications, unused_variables)]
        impl #for_all #server::openapi::DescribeRequest for #name #arguments #bounds {
            fn describe(schemas: &mut #server::openapi::Schemas) -> #server::openapi::RequestDoc {
                #server::openapi::RequestDoc::new()
                #(.and(<#extractors as #server::openapi::DescribeRequest>::describe(schemas)))*
            }
        }
    }
}

fn part((field, member): (&Field, Member)) -> syn::Result<Part> {
    let variable = match &member {
        Member::Named(name) => format_ident!("field_{}", name),
        Member::Unnamed(index) => format_ident!("field_{}", index.index),
    };
    let held = &field.ty;
    let (extractor, pattern) = match attributes::via(&field.attrs)? {
        Some(via) => (quote!(#via<#held>), quote!(#via(#variable))),
        None => (quote!(#held), quote!(#variable)),
    };
    Ok(Part { member, variable, extractor, pattern, span: held.span() })
}

fn takes_head(part: &Part, server: &Path) -> TokenStream {
    let Part { extractor, span, .. } = part;
    let call = quote_spanned!(*span=>
        <#extractor as #server::FromRequestParts>::from_request_parts(&mut *request).await
    );
    takes(part, &call, server)
}

fn takes_body(part: &Part, server: &Path) -> TokenStream {
    let Part { extractor, span, .. } = part;
    let call = quote_spanned!(*span=> <#extractor as #server::FromRequest<_>>::from_request(request).await);
    takes(part, &call, server)
}

/// Takes the value out of what the call gives, or answers.
fn takes(Part { variable, pattern, .. }: &Part, call: &TokenStream, server: &Path) -> TokenStream {
    quote! {
        let #variable = match #call {
            ::core::result::Result::Ok(#pattern) => #variable,
            ::core::result::Result::Err(rejection) => {
                return ::core::result::Result::Err(#server::IntoResponse::into_response(rejection));
            }
        };
    }
}
