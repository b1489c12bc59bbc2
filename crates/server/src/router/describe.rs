//! The routes as text.

use crate::router::table::Table;
use crate::router::{RouteError, Router};

impl Router {
    /// All routes, one a line: method and path, where the handler was given, its [guards](crate::guards) and media types, its limits where
    /// they are others than those of the server, the pool that it runs on if it has one, and the layers around it, the outermost first. A
    /// line `* (the router)` stands for what the router answers itself within the same layers: 404, 405 and `OPTIONS`. For the start of
    /// a program, and for a test that no route lacks a layer.
    ///
    /// ```
    /// use anywire_server::{Handler, Next, Request, Response, Router};
    ///
    /// async fn log(request: Request, next: Next) -> Response {
    ///     next.run(request).await
    /// }
    ///
    /// let order = (async || "an order").produces("text/plain");
    /// let router = Router::new().get("/orders/{id}", order).layer(log);
    /// let text = router.describe()?;
    /// let first = text.lines().next().unwrap_or_default();
    /// assert!(first.starts_with("GET /orders/{id} at "));
    /// assert!(first.contains(" produces text/plain within log ("));
    /// # Ok::<(), anywire_server::RouteError>(())
    /// ```
    ///
    /// # Errors
    /// The mistakes that [`Server::start`](crate::Server::start) would report.
    pub fn describe(&self) -> Result<String, RouteError> {
        Ok(self.build()?.describe())
    }
}

impl Table {
    /// All endpoints, one a line.
    pub(crate) fn describe(&self) -> String {
        let mut lines = Vec::new();
        for record in self.records() {
            if !record.is_listed {
                continue;
            }
            let mut line = record.name.to_string();
            if let Some(place) = record.place {
                line.push_str(&format!(" at {place}"));
            }
            for part in [record.note.clone(), record.limits.to_string()] {
                if !part.is_empty() {
                    line.push_str(&format!(" {part}"));
                }
            }
            if let Some(pool) = &record.pool {
                line.push_str(&format!(" on the pool {pool}"));
            }
            let layers = record.layers.iter().map(|used| format!("{:?}", self.layers()[used.layer]));
            let layers: Vec<String> = layers.collect();
            if !layers.is_empty() {
                line.push_str(&format!(" within {}", layers.join(", ")));
            }
            line.push('\n');
            // What the router answers itself would stand there once more for each path.
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines.concat()
    }
}
