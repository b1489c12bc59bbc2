//! The codecs of a route.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use anywire_http::Response;

use crate::codec::{Codec, CodecAdvice, CodecSet, CodecSettings};
use crate::layer::LayerFault;
use crate::request::Request;
use crate::run::sync_layer::{SyncLayer, sync_layer};

/// In which formats the bodies of these routes come and go: [`Decoded`](crate::codec::Decoded) takes the codec of the request's
/// `Content-Type`, [`Negotiated`](crate::codec::Negotiated) the one that the peer likes best by its `Accept`. Of those that it likes
/// equally well, the first one.
///
/// A layer within another one replaces its codecs, unless it has none of its own. Its [advice](Self::advice) is added within that of
/// the outer one.
///
/// [`Codec`] shows one of your own.
#[derive(Clone)]
#[must_use]
pub struct Codecs {
    settings: CodecSettings,
    place: &'static Location<'static>,
    /// The set of a request that comes through no other layer of this kind, once there is a loop.
    alone: Option<Arc<CodecSet>>,
}

impl Codecs {
    /// None, and so those of the layer around this one, or JSON.
    #[track_caller]
    pub fn new() -> Self {
        Self { settings: CodecSettings::default(), place: Location::caller(), alone: None }
    }

    /// JSON: `application/json`, read as `application/*+json` as well.
    pub fn json(mut self) -> Self {
        self.settings.json();
        self
    }

    /// A codec of your own.
    pub fn with(mut self, codec: impl Codec) -> Self {
        self.settings.codec(codec);
        self
    }

    /// Code around all codecs of these routes, within that which was added before.
    pub fn advice(mut self, advice: impl CodecAdvice) -> Self {
        self.settings.advice(advice);
        self
    }
}

#[cfg(feature = "openapi")]
impl Codecs {
    /// These, if it has any: else those of the layer around it hold.
    pub(crate) fn own(&self) -> Option<Arc<CodecSet>> {
        let set = self.settings.within(CodecSet::of_json()).ok()?;
        self.settings.has_codecs().then(|| Arc::new(set))
    }
}

impl Default for Codecs {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codecs").field("place", &self.place).finish_non_exhaustive()
    }
}

impl SyncLayer for Codecs {
    type Local = Self;
    type Kept = ();

    fn local(&self) -> Self {
        // What is wrong with them is an error at start.
        let alone = self.settings.within(CodecSet::of_json()).ok().map(Arc::new);
        Self { alone, ..self.clone() }
    }

    fn before(local: &Rc<Self>, request: &mut Request) -> Result<(), Response> {
        let set = match request.extensions().get::<Arc<CodecSet>>() {
            None => local.alone.clone(),
            Some(outer) => local.settings.within(outer).ok().map(Arc::new),
        };
        if let Some(set) = set {
            request.extensions_mut().insert(set);
        }
        Ok(())
    }

    fn after(_: &Rc<Self>, (): (), _: &mut Response) {}

    fn fault(&self) -> Option<LayerFault> {
        let invalid = self.settings.within(CodecSet::of_json()).err()?;
        let fault =
            LayerFault::new(format!("a codec names no media type: {invalid}"), "name it type/subtype");
        Some(fault.at(self.place))
    }
}

sync_layer!(Codecs, Self);
