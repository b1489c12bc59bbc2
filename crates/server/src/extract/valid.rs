//! Values that have passed the rules of their type.

mod invalid;
#[cfg(feature = "garde")]
mod of_garde;
mod rules;

use std::any::Any;
use std::ops::Deref;
use std::rc::Rc;

use super::{
    Form, FromRequest, FromRequestParts, Header, Json, Languages, Matrix, Needs, OptionalFromRequest,
    OptionalFromRequestParts, Path, Query, Rejection,
};
use crate::codec::Decoded;
use crate::request::{Parts, Request};

pub use self::invalid::{InvalidValue, ValidRejection};
pub use self::rules::{Validate, ValidationMessages, Violation, Violations};

/// An extractor whose value has passed the rules of its type: [`Validate`]. `Valid<Json<T>>`, and so on with [`Decoded`], [`Query`],
/// [`Form`], [`Path`], [`Matrix`], [`Header`], and `Protobuf`.
///
/// What the extractor refuses has the response of the extractor. A value that breaks rules is a 422, whose problem document lists
/// each violation with its field, its rule and a message: `{"errors": [{"field": "count", "rule": "range_min", ..}], ..}`. It
/// lists 100 of them at most ([`Violations::MAX`]). The messages may be others, or in another language: [`ValidationMessages`].
///
/// ```
/// use anywire_server::{Json, Router, Valid, Validate, Violations};
///
/// #[derive(serde::Deserialize)]
/// struct Order { item: String, count: u32 }
///
/// impl Validate for Order {
///     type Context = ();
///
///     fn validate(&self, _: &(), violations: &mut Violations) {
///         if self.count == 0 {
///             violations.add("count", "range_min", "order at least one");
///         }
///     }
/// }
///
/// let order = async |Valid(Json(order)): Valid<Json<Order>>| order.item;
/// let router = Router::new().post("/orders", order);
/// # anywire_loops::block_on(async {
/// let order = anywire_http::Request::post("/orders").header("content-type", "application/json");
/// let mut response = router.call(order.body(r#"{"item": "tea", "count": 0}"#)).await;
/// assert_eq!(response.status.as_u16(), 422);
/// let expected = r#""errors":[{"field":"count","message":"order at least one","rule":"range_min"}]"#;
/// assert!(response.body.text(1000).await?.contains(expected));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Valid<E>(pub E);

impl<E> Deref for Valid<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.0
    }
}

/// An extractor around one value, such as [`Json`]. Implement it for an extractor of your own to use it within [`Valid`].
#[diagnostic::on_unimplemented(
    message = "`Valid` cannot look into `{Self}`",
    note = "it looks into `Json`, `Decoded`, `Query`, `Form`, `Path`, `Matrix`, `Header` and `Protobuf`; implement `InnerValue` for an extractor of your own"
)]
pub trait InnerValue {
    /// The type that has rules.
    type Value;

    /// The value.
    fn inner(&self) -> &Self::Value;
}

macro_rules! inner {
    ($($extractor:ident)*) => {$(
        impl<T> InnerValue for $extractor<T> {
            type Value = T;

            fn inner(&self) -> &T {
                &self.0
            }
        }
    )*};
}

inner! { Decoded Form Header Json Matrix Path Query }

#[cfg(feature = "protobuf")]
use super::Protobuf;
#[cfg(feature = "protobuf")]
inner! { Protobuf }

impl<E> FromRequestParts for Valid<E>
where
    E: FromRequestParts + InnerValue<Value: Validate>,
{
    type Rejection = ValidRejection<E::Rejection>;

    async fn from_request_parts(parts: &mut Parts) -> Result<Self, Self::Rejection> {
        let value = E::from_request_parts(parts).await.map_err(ValidRejection::Extractor)?;
        Check::of(parts)?.passed(value)
    }

    fn needs(needs: &mut Needs) {
        E::needs(needs);
        needs_context::<E>(needs);
    }
}

impl<E> OptionalFromRequestParts for Valid<E>
where
    E: OptionalFromRequestParts + InnerValue<Value: Validate>,
{
    fn is_absent(parts: &Parts) -> bool {
        E::is_absent(parts)
    }
}

impl<E> FromRequest for Valid<E>
where
    E: FromRequest + InnerValue<Value: Validate>,
{
    type Rejection = ValidRejection<E::Rejection>;

    async fn from_request(request: Request) -> Result<Self, Self::Rejection> {
        let check = Check::of(&request)?;
        let value = E::from_request(request).await.map_err(ValidRejection::Extractor)?;
        check.passed(value)
    }

    fn needs(needs: &mut Needs) {
        E::needs(needs);
        needs_context::<E>(needs);
    }
}

impl<E> OptionalFromRequest for Valid<E>
where
    E: OptionalFromRequest + InnerValue<Value: Validate>,
{
    fn is_absent(request: &Request) -> bool {
        E::is_absent(request)
    }
}

fn needs_context<E: InnerValue<Value: Validate>>(needs: &mut Needs) {
    if nothing::<Context<E>>().is_none() {
        needs.state::<Context<E>>();
    }
}

/// What the rules of an extractor's value look at.
type Context<E> = <<E as InnerValue>::Value as Validate>::Context;

/// `()`, if that is the context.
fn nothing<C: 'static>() -> Option<&'static C> {
    (&() as &dyn Any).downcast_ref()
}

/// What is taken from a request before its body is read.
struct Check<C> {
    /// `None` if it is `()`.
    context: Option<Rc<C>>,
    /// Other messages, for a peer that reads these languages.
    messages: Option<(Rc<ValidationMessages>, Languages)>,
}

impl<C: 'static> Check<C> {
    fn of<R>(parts: &Parts) -> Result<Self, ValidRejection<R>> {
        let context = match nothing::<C>() {
            Some(_) => None,
            None => {
                let type_name = std::any::type_name::<C>();
                let missing = || ValidRejection::NoContext(Rejection::NoState { type_name });
                Some(parts.state().ok_or_else(missing)?)
            }
        };
        let messages = parts.state().map(|messages| (messages, Languages::of(parts)));
        Ok(Self { context, messages })
    }

    fn passed<E, R>(&self, extracted: E) -> Result<Valid<E>, ValidRejection<R>>
    where
        E: InnerValue<Value: Validate<Context = C>>,
    {
        let mut violations = Violations::default();
        if let Some(context) = self.context.as_deref().or(nothing()) {
            extracted.inner().validate(context, &mut violations);
        }
        if violations.is_empty() {
            return Ok(Valid(extracted));
        }
        if let Some((messages, languages)) = &self.messages {
            violations.reword(messages, languages);
        }
        Err(ValidRejection::Invalid(InvalidValue::from(violations)))
    }
}
