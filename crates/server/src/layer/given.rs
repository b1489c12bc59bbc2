//! A layer as a router keeps it: without its type, with its place in the program.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use super::{Layer, LayerFault};
use crate::extract::Needs;
use crate::run::chain::OnLoop;

/// A layer that was given to a route, a router or a server.
#[derive(Clone)]
pub(crate) struct GivenLayer {
    layer: Arc<dyn AnyLayer>,
    place: &'static Location<'static>,
}

impl GivenLayer {
    pub(crate) fn new<L: Layer<Args>, Args: 'static>(layer: L, place: &'static Location<'static>) -> Self {
        Self { layer: Arc::new(TypedLayer { layer, args: PhantomData::<fn() -> Args> }), place }
    }

    /// Whether both are one layer, and not two of one type.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.layer), Arc::as_ptr(&other.layer))
    }

    /// The layer itself, if it is of this type.
    pub(crate) fn of_type<L: 'static>(&self) -> Option<&L> {
        self.layer.as_any().downcast_ref()
    }

    /// Where it was given.
    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.place
    }

    pub(crate) fn name(&self) -> &'static str {
        self.layer.name()
    }

    pub(crate) fn needs(&self) -> Needs {
        self.layer.needs()
    }

    pub(crate) fn fault(&self) -> Option<LayerFault> {
        self.layer.fault()
    }

    #[cfg(feature = "openapi")]
    pub(crate) fn describe(&self, method: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        self.layer.describe(method)
    }

    /// What the current loop has of it.
    pub(crate) fn on_loop(&self) -> Rc<dyn OnLoop> {
        self.layer.on_loop()
    }
}

impl fmt::Debug for GivenLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.place)
    }
}

/// A [`Layer`] without its types.
trait AnyLayer: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> &'static str;
    fn needs(&self) -> Needs;
    fn fault(&self) -> Option<LayerFault>;
    #[cfg(feature = "openapi")]
    fn describe(&self, method: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc;
    fn on_loop(&self) -> Rc<dyn OnLoop>;
}

struct TypedLayer<L, Args> {
    layer: L,
    args: PhantomData<fn() -> Args>,
}

impl<L: Layer<Args>, Args: 'static> AnyLayer for TypedLayer<L, Args> {
    fn as_any(&self) -> &dyn Any {
        &self.layer
    }

    fn name(&self) -> &'static str {
        self.layer.name()
    }

    fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        L::needs(&mut needs);
        needs
    }

    fn fault(&self) -> Option<LayerFault> {
        self.layer.fault()
    }

    #[cfg(feature = "openapi")]
    fn describe(&self, method: Option<&anywire_http::Method>) -> crate::openapi::LayerDoc {
        self.layer.describe(method)
    }

    fn on_loop(&self) -> Rc<dyn OnLoop> {
        self.layer.on_loop().0
    }
}
