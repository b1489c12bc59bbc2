//! The page of a document is one file: it loads nothing, and nothing of a document becomes markup.

use std::path::{Path, PathBuf};
use std::process::Command;

use anywire_http::{IntoResponse, Request, Response, StatusCode};
use anywire_loops::block_on;
use anywire_server::openapi::Info;
use anywire_server::{Handler, Json, Next, Parts, Router, guards};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;

use crate::shop;
use crate::skipped;

fn get(router: &Router, path: &str, fields: &[(&str, &str)]) -> Response {
    let request =
        fields.iter().fold(Request::get(path), |request, (name, value)| request.header(name, *value));
    block_on(router.call(request))
}

fn text(router: &Router, path: &str) -> String {
    let mut response = get(router, path, &[]);
    assert_eq!(response.status, StatusCode::OK, "{path}");
    block_on(response.body.text(10_000_000)).expect("text")
}

fn served() -> Router {
    shop::router().openapi("/openapi", shop::info())
}

#[test]
fn both_are_served_and_known_again() {
    let router = served();
    for (path, media_type) in
        [("/openapi", "text/html; charset=utf-8"), ("/openapi.json", "application/json")]
    {
        let response = get(&router, path, &[]);
        assert_eq!(response.headers.get("content-type"), Some(media_type));
        assert_eq!(response.headers.get("x-content-type-options"), Some("nosniff"));
        let tag = response.headers.get("etag").expect("a tag").to_owned();
        let again = get(&router, path, &[("if-none-match", &format!("\"other\", W/{tag}"))]);
        assert_eq!((again.status, again.headers.get("etag")), (StatusCode::NOT_MODIFIED, Some(&*tag)));
        assert_eq!(again.body.length(), Some(0));
        assert_eq!(get(&router, path, &[("if-none-match", "*")]).status, StatusCode::NOT_MODIFIED);
        assert_eq!(get(&router, path, &[("if-none-match", "\"other\"")]).status, StatusCode::OK);
    }
    assert!(serde_json::from_str::<serde_json::Value>(&text(&router, "/openapi.json")).is_ok());
}

#[test]
fn a_nested_router_describes_its_own_routes() {
    let inner = Router::new().get("/users", async || "all users").openapi("/", Info::new("Users", "1.0.0"));
    let router = Router::new().get("/", async || "").nest("/api", inner.produces("application/json"));
    let document: serde_json::Value =
        serde_json::from_str(&text(&router, "/api/openapi.json")).expect("JSON");
    let paths: Vec<&String> = document["paths"].as_object().expect("paths").keys().collect();
    assert_eq!(paths, ["/api/users"]);
    let page = text(&router, "/api");
    assert!(page.contains("href=\"api/openapi.json\""), "as seen from /api");
}

#[test]
fn the_policy_allows_the_page_its_own_style_and_script_alone() {
    let response = get(&served(), "/openapi", &[]);
    let policy = response.headers.get("content-security-policy").expect("a policy").to_owned();
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let page = text(&served(), "/openapi");
    for (element, directive) in [("style", "style-src"), ("script", "script-src")] {
        let within = page.split_once(&format!("<{element}>")).expect("an element").1;
        let within = within.split_once(&format!("</{element}>")).expect("its end").0;
        let digest = STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, within.as_bytes()));
        assert!(
            policy.contains(&format!("{directive} 'sha256-{digest}';")),
            "{element}: '{digest}' in page.rs"
        );
    }
    for loads in [" src=", "<link", "@import", "url(", "<iframe", "fetch(", "import("] {
        assert!(!page.contains(loads), "{loads}");
    }
}

#[test]
fn nothing_of_a_document_becomes_markup() {
    const EVIL: &str = "</script></style></code>\"'><img src=x onerror=alert(1)><script>alert(1)</script>";
    #[derive(Serialize, JsonSchema)]
    #[schemars(description = EVIL, extend("default" = EVIL))]
    struct Evil {
        #[serde(rename = "<img src=x>")]
        #[schemars(description = EVIL, extend("examples" = [EVIL], "pattern" = EVIL))]
        field: u8,
    }
    let handler = async |_: Json<serde_json::Value>| Json(Evil { field: 1 });
    let handler = handler.documented().summary(EVIL).description(EVIL).tag(EVIL).operation_id(EVIL);
    let handler = handler.response(StatusCode::CREATED, EVIL).security(EVIL);
    let info = Info::new(EVIL, EVIL).description(EVIL).tag(EVIL, EVIL).server(EVIL).api_key(EVIL, EVIL);
    let router = Router::new().post("/<i>'\"{<img src=x>}", handler).openapi("/openapi", info);
    let page = text(&router, "/openapi");
    assert_eq!((page.matches("<script").count(), page.matches("</script").count()), (1, 1));
    assert_eq!((page.matches("<style").count(), page.matches("</style").count()), (1, 1));
    assert_eq!((page.matches("<img").count(), page.matches("<i>").count()), (0, 0));
    assert_eq!(page.matches("onerror=alert(1)&gt;").count(), page.matches("onerror").count());
}

/// The browser, if it is installed. Where tests must be complete (`CI` is set) its absence is a failure.
fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join("chromium")).find(|path| path.is_file());
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "install the package `chromium`");
    if found.is_none() {
        skipped::say("no chromium is installed");
    }
    found
}

/// The DOM after the script has run, and what went to the console.
fn load(browser: &Path, html: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    std::fs::write(&page, html).expect("it is written");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("it starts");
    let log = String::from_utf8_lossy(&output.stderr);
    let console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console)
}

#[test]
fn a_browser_shows_it_as_its_policy_says() {
    let Some(browser) = browser() else { return };
    let document = shop::router().openapi_document(&shop::info()).expect("the routes are right");
    let (dom, console) = load(&browser, &document.to_html());
    // The script has run, so its digest is right.
    assert!(dom.contains("<html lang=\"en\" class=\"scripted\">"), "{console:?}");
    assert!(console.is_empty(), "{console:?}");
}

#[test]
fn a_page_may_be_for_some_alone() {
    fn known(parts: &Parts) -> bool {
        parts.headers().contains("x-staff")
    }
    let refuses = async |request: anywire_server::Request, next: Next| match known(&request) {
        true => next.run(request).await,
        false => StatusCode::UNAUTHORIZED.into_response(),
    };
    let api = || Router::new().get("/orders", async || "all orders");
    let by_layer = api().openapi_within("/openapi", shop::info(), |pages| pages.layer(refuses));
    let by_guard = api().openapi_within("/openapi", shop::info(), |pages| pages.when(guards::of(known)));
    for (router, refused) in [(by_layer, StatusCode::UNAUTHORIZED), (by_guard, StatusCode::NOT_FOUND)] {
        let router = Router::new().get("/", async || "root").nest("/shop", router);
        for path in ["/shop/openapi", "/shop/openapi.json"] {
            assert_eq!(get(&router, path, &[]).status, refused, "{path}");
            let mut shown = get(&router, path, &[("x-staff", "1")]);
            let shown = block_on(shown.body.text(10_000_000)).expect("text");
            assert!(shown.contains("/shop/orders") && !shown.contains("/shop/openapi\""), "{path}: {shown}");
        }
        assert_eq!(text(&router, "/shop/orders"), "all orders");
        assert_eq!(get(&router, "/shop/none", &[]).status, StatusCode::NOT_FOUND);
    }
}
