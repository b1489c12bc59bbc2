//! A handler that says what it takes and answers.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use anywire_http::{IntoResponse, Response, StatusCode};

use super::{DescribeRequest, DescribeResponse, RequestDoc, ResponseDoc, Schemas};
use crate::extract::Needs;
use crate::handler::{Arguments, Function, Handler, HandlerParts};
use crate::layer::name_of;
use crate::pool::{BlockingFunction, OnPool, PoolArguments, PoolResult, Pooled};
use crate::request::Request;
use crate::with::{Added, With};

/// A handler whose route is described: what [`Handler::documented`] and [`Handler::hidden`] return.
///
/// It serves as the handler itself does.
pub struct Documented<H, Args> {
    handler: H,
    doc: HandlerDoc,
    args: PhantomData<fn() -> Args>,
}

/// Tells the handlers that are described from functions.
#[derive(Debug)]
pub struct Described<Args>(PhantomData<Args>);

/// What a handler says of itself.
#[derive(Clone, Default)]
pub(crate) struct HandlerDoc {
    pub(super) types: Option<HandlerTypes>,
    pub(crate) is_hidden: bool,
    pub(super) summary: Option<String>,
    pub(super) description: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) id: Option<String>,
    pub(super) is_deprecated: bool,
    pub(super) security: Vec<String>,
    /// Responses of a status that the types do not tell.
    pub(super) responses: Vec<StatedResponse>,
    /// Where it says so.
    pub(super) place: Option<&'static Location<'static>>,
}

/// A response that a handler states.
#[derive(Clone)]
pub(super) struct StatedResponse {
    pub(super) status: StatusCode,
    pub(super) description: String,
    /// Of the body, if that is of another type than the result of the handler.
    pub(super) body: Option<fn(&mut Schemas) -> ResponseDoc>,
}

/// What the types of a handler say.
#[derive(Debug, Clone, Copy)]
pub struct HandlerTypes {
    pub(super) request: fn(&mut Schemas) -> RequestDoc,
    pub(super) response: fn(&mut Schemas) -> ResponseDoc,
    /// Of the function.
    pub(super) name: &'static str,
}

/// A handler whose arguments and whose result say what they are.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be documented",
    label = "its arguments implement `DescribeRequest`, its result `DescribeResponse`",
    note = "for types of JSON, forms, paths and queries, add `#[derive(schemars::JsonSchema)]`"
)]
pub trait Describe<Args>: Handler<Args> {
    /// What its types say.
    #[doc(hidden)]
    fn types() -> HandlerTypes;
}

impl<F, Args, Via: 'static> Describe<(Via, Args)> for F
where
    F: Function<Args> + Clone + Send + Sync + 'static,
    Args: Arguments<Via> + DescribeRequest + 'static,
    F::Output: IntoResponse + DescribeResponse,
{
    fn types() -> HandlerTypes {
        of::<F, Args, F::Output>()
    }
}

impl<F, Via, Args> Describe<Pooled<(Via, Args)>> for OnPool<F, (Via, Args)>
where
    Via: 'static,
    F: BlockingFunction<Args> + Clone + Send + Sync + 'static,
    F::Output: PoolResult + DescribeResponse,
    Args: Arguments<Via> + PoolArguments + DescribeRequest + 'static,
{
    fn types() -> HandlerTypes {
        of::<F, Args, F::Output>()
    }
}

impl<H: Describe<Args>, Args: 'static> Describe<Added<Args>> for With<H, Args> {
    fn types() -> HandlerTypes {
        H::types()
    }
}

fn of<F, Args: DescribeRequest, Output: DescribeResponse>() -> HandlerTypes {
    HandlerTypes { request: Args::describe, response: Output::describe, name: name_of::<F>() }
}

impl<H, Args> Documented<H, Args> {
    pub(crate) fn new(handler: H, types: HandlerTypes, place: &'static Location<'static>) -> Self {
        let doc = HandlerDoc { types: Some(types), place: Some(place), ..HandlerDoc::default() };
        Self { handler, doc, args: PhantomData }
    }

    pub(crate) fn hidden(handler: H) -> Self {
        let doc = HandlerDoc { is_hidden: true, ..HandlerDoc::default() };
        Self { handler, doc, args: PhantomData }
    }

    /// What it does, in a few words.
    #[must_use]
    pub fn summary(mut self, text: &str) -> Self {
        self.doc.summary = Some(text.to_owned());
        self
    }

    /// What it does, at length.
    #[must_use]
    pub fn description(mut self, text: &str) -> Self {
        self.doc.description = Some(text.to_owned());
        self
    }

    /// Puts the operation into a group.
    #[must_use]
    pub fn tag(mut self, name: &str) -> Self {
        self.doc.tags.push(name.to_owned());
        self
    }

    /// The name of the operation, by which programs that are generated call it. Two of one name are an error at start.
    ///
    /// Without it the name is that of the function, unless several operations would have it.
    #[must_use]
    pub fn operation_id(mut self, id: &str) -> Self {
        self.doc.id = Some(id.to_owned());
        self
    }

    /// Callers are to use something else.
    #[must_use]
    pub fn deprecated(mut self) -> Self {
        self.doc.is_deprecated = true;
        self
    }

    /// Says that it answers with this status, and when. Its body is that of the result of the handler: of
    /// `Result<(StatusCode, Json<Order>), Error>`, a 201 has the `Order`, and a 409 has the text or the problem document of an error.
    #[must_use]
    pub fn response(self, status: StatusCode, description: &str) -> Self {
        self.stated(status, description, None)
    }

    /// As [`response`](Self::response), with a body of another type: `.response_of::<Json<Fault>>(StatusCode::CONFLICT, "it is sold out")`.
    #[must_use]
    pub fn response_of<R: DescribeResponse>(self, status: StatusCode, description: &str) -> Self {
        self.stated(status, description, Some(R::describe))
    }

    fn stated(
        mut self,
        status: StatusCode,
        description: &str,
        body: Option<fn(&mut Schemas) -> ResponseDoc>,
    ) -> Self {
        self.doc.responses.push(StatedResponse { status, description: description.to_owned(), body });
        self
    }

    /// Says that it asks for a security scheme of the [`Info`](super::Info). With several it asks for all of them. The layers
    /// [`BearerAuth`](crate::layers::BearerAuth) and [`BasicAuth`](crate::layers::BasicAuth) around it say so themselves.
    #[must_use]
    pub fn security(mut self, scheme: &str) -> Self {
        self.doc.security.push(scheme.to_owned());
        self
    }
}

impl<H: Handler<Args>, Args: 'static> Handler<Described<Args>> for Documented<H, Args> {
    fn call(self, request: Request) -> impl Future<Output = Response> + 'static {
        self.handler.call(request)
    }

    fn needs(needs: &mut Needs) {
        H::needs(needs);
    }

    fn into_parts(self) -> HandlerParts {
        let mut parts = self.handler.into_parts();
        parts.doc = Some(Arc::new(self.doc));
        parts
    }
}

impl<H: Clone, Args> Clone for Documented<H, Args> {
    fn clone(&self) -> Self {
        Self { handler: self.handler.clone(), doc: self.doc.clone(), args: PhantomData }
    }
}

impl<H, Args> fmt::Debug for Documented<H, Args> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Documented").field("summary", &self.doc.summary).finish_non_exhaustive()
    }
}

impl HandlerTypes {
    /// The name of its function; a closure has none.
    pub(super) fn function(&self) -> Option<&'static str> {
        let is_name = |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        Some(self.name).filter(|name| is_name(name))
    }
}

/// The schema of a message of Protocol Buffers: nothing but its name is known.
#[cfg(feature = "protobuf")]
pub(super) fn message<T>() -> schemars::Schema {
    let text = format!("A message of Protocol Buffers: {}.", name_of::<T>());
    schemars::json_schema!({ "description": text })
}
