//! The pools of a server by their names, and which route runs on which.

use std::panic::Location;

use anywire_loops::{Pool, PoolLimits, PoolStartError};

use crate::router::RouteError;
use crate::server::ServerError;

/// Pools as they were given to a server.
#[derive(Default)]
pub(crate) struct PoolRegistry {
    given: Vec<RegisteredPool>,
}

struct RegisteredPool {
    name: String,
    source: Source,
    place: &'static Location<'static>,
}

enum Source {
    /// Of the server alone.
    Limits(PoolLimits),
    Running(Pool),
}

impl PoolRegistry {
    pub(crate) fn add(&mut self, name: &str, limits: PoolLimits, place: &'static Location<'static>) {
        let (name, source) = (name.to_owned(), Source::Limits(limits));
        self.given.push(RegisteredPool { name, source, place });
    }

    pub(crate) fn add_running(&mut self, pool: Pool, place: &'static Location<'static>) {
        let (name, source) = (pool.name().to_owned(), Source::Running(pool));
        self.given.push(RegisteredPool { name, source, place });
    }

    /// Their names. Two pools of one name are a mistake.
    pub(crate) fn names(&self) -> Result<Vec<&str>, RouteError> {
        for (index, second) in self.given.iter().enumerate() {
            if let Some(first) = self.given[..index].iter().find(|first| first.name == second.name) {
                let (first, second) = (first.place, second.place);
                return Err(RouteError::PoolTwice { name: self.given[index].name.clone(), first, second });
            }
        }
        Ok(self.given.iter().map(|given| given.name.as_str()).collect())
    }

    /// Starts those that do not run.
    pub(crate) fn start(self) -> Result<Vec<Pool>, ServerError> {
        let start = |RegisteredPool { name, source, .. }| match source {
            Source::Running(pool) => Ok(pool),
            Source::Limits(limits) => {
                let failed = |source: PoolStartError| ServerError::Pool { name: name.clone(), source };
                Pool::start(&name, limits).map_err(failed)
            }
        };
        self.given.into_iter().map(start).collect()
    }
}
