//! Layers that set, append and remove fields.

use std::panic::Location;
use std::rc::Rc;

use anywire_http::{Headers, InvalidHeader, Response};

use crate::layer::LayerFault;
use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// Changes the fields of requests, in the order in which the changes were added, before they reach the handler.
///
/// ```
/// use anywire_server::layers::RequestHeaders;
/// use anywire_server::{Request, Router};
///
/// let shown = async |request: Request| request.headers().get("x-tenant").unwrap_or("none").to_owned();
/// let router = Router::new().get("/", shown).layer(RequestHeaders::new().set("x-tenant", "one").remove("x-debug"));
/// # anywire_loops::block_on(async {
/// let mut response = router.call(anywire_http::Request::get("/")).await;
/// assert_eq!(response.body.text(100).await?, "one");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct RequestHeaders {
    edits: Edits,
}

/// Changes the fields of responses, in the order in which the changes were added, those of errors as well.
///
/// A field that frames the message, such as `content-length`, is the server's own, whatever is set here.
///
/// ```
/// use anywire_server::Router;
/// use anywire_server::layers::ResponseHeaders;
///
/// let headers = ResponseHeaders::new().set("server", "shop").set_if_absent("x-robots-tag", "noindex");
/// let router = Router::new().get("/", async || "Hello, World!").layer(headers);
/// # anywire_loops::block_on(async {
/// let response = router.call(anywire_http::Request::get("/nowhere")).await;
/// assert_eq!(response.headers.get("server"), Some("shop"));
/// # });
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct ResponseHeaders {
    edits: Edits,
}

/// The builder methods of both.
macro_rules! builder {
    ($layer:ident) => {
        impl $layer {
            /// Changes nothing so far.
            pub fn new() -> Self {
                Self::default()
            }

            /// Replaces all fields of this name by one. A name or value that no field may have is an error at start.
            #[track_caller]
            pub fn set(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
                self.edits.add(How::Set, name, value.as_ref());
                self
            }

            /// Sets the field, unless there is one of this name.
            #[track_caller]
            pub fn set_if_absent(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
                self.edits.add(How::SetIfAbsent, name, value.as_ref());
                self
            }

            /// Adds a field. Those of the same name stay.
            #[track_caller]
            pub fn append(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
                self.edits.add(How::Append, name, value.as_ref());
                self
            }

            /// Removes all fields of this name.
            #[track_caller]
            pub fn remove(mut self, name: &str) -> Self {
                self.edits.add(How::Remove, name, b"");
                self
            }
        }
    };
}

builder!(RequestHeaders);
builder!(ResponseHeaders);

impl SyncLayer for RequestHeaders {
    type Local = Self;
    type Kept = ();

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<(), Response> {
        local.edits.apply(request.headers_mut());
        Ok(())
    }

    fn after(_: &Rc<Self::Local>, (): (), _: &mut Response) {}

    fn fault(&self) -> Option<LayerFault> {
        self.edits.fault()
    }
}

sync_layer!(RequestHeaders, Self);

impl SyncLayer for ResponseHeaders {
    type Local = Self;
    type Kept = ();

    fn local(&self) -> Self::Local {
        self.clone()
    }

    fn before(_: &Rc<Self::Local>, _: &mut Request) -> Result<(), Response> {
        Ok(())
    }

    fn after(local: &Rc<Self>, (): (), response: &mut Response) {
        local.edits.apply(&mut response.headers);
    }

    fn fault(&self) -> Option<LayerFault> {
        self.edits.fault()
    }
}

sync_layer!(ResponseHeaders, Self);

/// Changes, and the first of them that cannot be made.
#[derive(Debug, Clone, Default)]
struct Edits {
    list: Vec<Edit>,
    wrong: Option<(String, &'static Location<'static>)>,
}

/// A change of one field.
#[derive(Debug, Clone)]
struct Edit {
    how: How,
    name: Box<str>,
    /// The field, checked once; nothing if it is removed.
    field: Headers,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Set,
    SetIfAbsent,
    Append,
    Remove,
}

impl Edits {
    #[track_caller]
    fn add(&mut self, how: How, name: &str, value: &[u8]) {
        let mut field = Headers::new();
        if let Err(fault) = field.append(name, value) {
            self.wrong.get_or_insert((fault.to_string(), Location::caller()));
        }
        self.list.push(Edit { how, name: name.into(), field });
    }

    fn apply(&self, headers: &mut Headers) {
        for Edit { how, name, field } in &self.list {
            match how {
                How::SetIfAbsent if headers.contains(name) => continue,
                How::Remove | How::Set => drop(headers.remove(name)),
                How::SetIfAbsent | How::Append => {}
            }
            if !matches!(how, How::Remove) {
                headers.append_all(field);
            }
        }
    }

    fn fault(&self) -> Option<LayerFault> {
        let (what, place) = self.wrong.as_ref()?;
        Some(
            LayerFault::new(format!("sets a field that cannot be sent: {what}"), "write it otherwise")
                .at(place),
        )
    }
}

/// Whether a field may be sent.
pub(super) fn check(name: &str, value: impl AsRef<[u8]>) -> Result<(), InvalidHeader> {
    Headers::new().append(name, value)
}
