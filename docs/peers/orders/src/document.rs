//! What the description of the routes says beside them.

use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, OpenApi as Document};
use utoipa::{Modify, OpenApi, ToSchema};

#[derive(OpenApi)]
#[openapi(info(title = "Orders", version = env!("CARGO_PKG_VERSION")), modifiers(&Bearer))]
pub struct Api;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, document: &mut Document) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = ComponentsBuilder::from(document.components.take().unwrap_or_default());
        document.components = Some(components.security_scheme("bearer", scheme).build());
    }
}

/// A problem document (RFC 9457).
#[derive(ToSchema)]
#[expect(dead_code, reason = "its schema is what counts")]
pub struct ProblemDocument {
    r#type: String,
    title: String,
    status: u16,
    detail: Option<String>,
    instance: String,
    request_id: String,
}

pub const PROBLEM: &str = "application/problem+json";
