//! Routes that take the place of others while requests of those are under way.
//!
//! A request that runs has its own dispatch until its handler has answered. What its connection asks about it from then on, such as the
//! limits for its body, is kept here without handlers and states.

use std::cell::OnceCell;
use std::hint::cold_path;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use anywire_loops::Label;

use super::Dispatch;
use crate::layer::GivenLayer;
use crate::limits::Limits;
use crate::router::{EndpointId, Generation, RouteName, Table};
use crate::run::chain::OnLoop;

/// What is left of replaced routes.
pub(super) struct Replaced {
    generation: Generation,
    /// Gone once its last handler has answered. Bodies of requests and responses may go on.
    dispatch: Weak<Dispatch>,
    /// The rest by endpoint.
    limits: Vec<Option<Limits>>,
    names: Vec<RouteName>,
    labels: Vec<Label>,
    pub(super) paths: Vec<Option<Rc<str>>>,
}

impl Replaced {
    fn of(dispatch: &Rc<Dispatch>) -> Self {
        Self {
            generation: dispatch.table.generation(),
            dispatch: Rc::downgrade(dispatch),
            limits: dispatch.own_limits.clone(),
            names: dispatch.table.names().cloned().collect(),
            labels: dispatch.slots.iter().map(|slots| slots.label()).collect(),
            paths: dispatch.loop_context.paths.clone(),
        }
    }
}

impl Dispatch {
    /// Other routes in the place of these.
    pub(crate) fn replaced_by(self: &Rc<Self>, table: Arc<Table>, limits: &Limits) -> Self {
        let (counters, refusals) = (Arc::clone(&self.counters), self.refusals.clone());
        Self::with_hooks(table, limits, counters, Rc::clone(&self.observers), refusals, Some(self))
    }

    /// What this loop has of the layers of a table: that of layers that were there before, such as those of the server, and of no other.
    pub(super) fn kept_layers(table: &Table, before: Option<&Rc<Self>>) -> Vec<OnceCell<Rc<dyn OnLoop>>> {
        let kept = |given: &GivenLayer| {
            let before = before?;
            let mut old = before.table.layers().iter().zip(&before.layers);
            old.find(|(old, _)| old.is_same(given)).and_then(|(_, local)| local.get().cloned())
        };
        table.layers().iter().map(|given| kept(given).map_or_else(OnceCell::new, OnceCell::from)).collect()
    }

    /// What is left of the routes before: of those whose handlers run, and of the last ones, whose bodies may.
    pub(super) fn all_replaced(before: Option<&Rc<Self>>) -> Vec<Rc<Replaced>> {
        let Some(before) = before else { return Vec::new() };
        let last = before.replaced.len().saturating_sub(REPLACED_KEPT - 1);
        let (early, late) = before.replaced.split_at(last);
        let running = early.iter().filter(|replaced| replaced.dispatch.strong_count() > 0);
        running.chain(late).cloned().chain([Rc::new(Replaced::of(before))]).collect()
    }

    #[cold]
    pub(super) fn replaced(&self, endpoint: EndpointId) -> Option<&Replaced> {
        let replaced = self.replaced.iter().find(|replaced| endpoint.is_of(replaced.generation));
        replaced.map(|replaced| &**replaced)
    }

    #[cold]
    pub(super) fn replaced_limits(&self, endpoint: EndpointId) -> Option<&Limits> {
        self.replaced(endpoint)?.limits.get(endpoint.index())?.as_ref()
    }

    #[cold]
    pub(super) fn begins_replaced(&self, endpoint: EndpointId) {
        if let Some(label) =
            self.replaced(endpoint).and_then(|replaced| replaced.labels.get(endpoint.index()))
        {
            self.work.begins(*label);
        }
    }

    /// The name of a handler in the log.
    pub(super) fn name_of(&self, endpoint: EndpointId) -> Option<&RouteName> {
        if self.is_own(endpoint) {
            return Some(self.table.name(endpoint));
        }
        cold_path();
        self.replaced(endpoint)?.names.get(endpoint.index())
    }
}

/// How many replaced routes are known at least. A body that outlives more of them has the limits of the server, and no name in the log.
const REPLACED_KEPT: usize = 16;
