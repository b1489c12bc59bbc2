//! A server of the Model Context Protocol by rmcp below a prefix: sessions, and answers as events.

mod common;

use std::sync::Arc;

use anywire::{Router, StatusCode};
use http_body_util::BodyExt;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use self::common::{Caller, serve};

/// A server without tools.
struct Nothing;

impl ServerHandler for Nothing {}

/// Sends a message, and returns the session and what came until the answer.
async fn send(caller: &Caller, session: Option<&str>, message: &str) -> (StatusCode, Option<String>, String) {
    let kinds = "application/json, text/event-stream";
    let mut fields = vec![("content-type", "application/json"), ("accept", kinds)];
    fields.extend(session.map(|session| ("mcp-session-id", session)));
    let response = caller.begin(caller.request("POST", "/mcp", &fields, message)).await;
    let status = response.status();
    let session = response.headers().get("mcp-session-id").map(|id| id.to_str().expect("text").to_owned());
    let (mut body, mut text) = (response.into_body(), String::new());
    while !text.contains("\"result\"")
        && let Some(frame) = body.frame().await
    {
        let data = frame.expect("no error").into_data().expect("no trailers");
        text.push_str(std::str::from_utf8(&data).expect("text"));
    }
    (status, session, text)
}

#[tokio::test]
async fn below_a_prefix() {
    let mcp = StreamableHttpService::new(
        || Ok(Nothing),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let (_running, callers) = serve(Router::new().nest_service("/mcp", mcp));
    for caller in &callers {
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",
            "capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
        let (status, session, text) = send(caller, None, hello).await;
        assert_eq!(status, StatusCode::OK, "{text}");
        assert!(text.contains("serverInfo"), "{text}");
        let session = session.as_deref().expect("a session");
        let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(send(caller, Some(session), ready).await.0, StatusCode::ACCEPTED);
        let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
        let (status, _, text) = send(caller, Some(session), ping).await;
        assert!(status == StatusCode::OK && text.contains(r#""id":2"#), "{status} {text}");
        let odd = caller.post("/mcp", "what?").await;
        assert!(odd.status.is_client_error(), "{odd:?}");
    }
}
