//! Passwords and tokens: what is not right is a 401 that says how to ask.

use anywire_server::layers::{BasicAuth, BearerAuth, same_secret};
use anywire_server::{Request, Router};

use crate::support::serve;

#[derive(Clone)]
struct User(String);

async fn who(request: Request) -> String {
    request.extensions().get::<User>().map_or("nobody".to_owned(), |user| user.0.clone())
}

#[test]
fn by_name_and_password() {
    let auth = BasicAuth::new("the shop", |request, name, password| {
        let is_right = name == "ada" && same_secret(password, "a:b \u{e4}");
        if is_right {
            request.extensions_mut().insert(User(name.to_owned()));
        }
        is_right
    });
    let served = serve(Router::new().get("/", who).layer(auth));
    let reply = |value: &str| served.alike("GET /", &[("authorization", value)], "");
    for right in ["Basic YWRhOmE6YiDDpA==", "basic YWRhOmE6YiDDpA", "BASIC   YWRhOmE6YiDDpA=="] {
        let reply = reply(right);
        assert_eq!((reply.status, &*reply.text), (200, "ada"), "{right}");
    }
    // Wrong, without a colon, not base64, not UTF-8, another scheme, nothing.
    for wrong in
        ["Basic YWRhOng=", "Basic YWRh", "Basic !", "Basic YWRhOv8=", "Bearer YWRhOmE6YiDDpA==", "Basic", ""]
    {
        let reply = reply(wrong);
        assert_eq!(reply.status, 401, "{wrong}");
        assert_eq!(reply.field("www-authenticate"), Some("Basic realm=\"the shop\", charset=\"UTF-8\""));
    }
    assert_eq!(served.get("/").status, 401);
    assert_eq!(served.get("/nowhere").status, 401, "not even that is told");
    let twice = [("authorization", "Basic YWRhOmE6YiDDpA=="), ("authorization", "Basic YWRhOmE6YiDDpA==")];
    assert_eq!(served.alike("GET /", &twice, "").status, 401);
}

#[test]
fn by_token() {
    let auth = BearerAuth::new("the shop", |_, token| same_secret(token, "mF_9.B5f-4.1JqM"));
    let served = serve(Router::new().get("/", who).layer(auth));
    let reply = |value: &str| served.alike("GET /", &[("authorization", value)], "");
    assert_eq!(reply("Bearer mF_9.B5f-4.1JqM").status, 200);
    assert_eq!(reply("bearer mF_9.B5f-4.1JqM").status, 200);
    // What begins alike is not the same.
    for wrong in ["Bearer mF_9.B5f-4.1Jq", "Bearer mF_9.B5f-4.1JqMM", "Bearer m", "Bearer "] {
        assert_eq!(reply(wrong).status, 401, "{wrong}");
    }
    assert!(!same_secret("", "a") && !same_secret("a", "") && same_secret("", ""));
    let wrong = reply("Bearer mF_9.B5f-4.1JqN");
    assert_eq!(wrong.status, 401);
    assert_eq!(wrong.field("www-authenticate"), Some("Bearer realm=\"the shop\", error=\"invalid_token\""));
    // Nothing is said of what is wrong where nothing was tried (RFC 6750 section 3.1).
    assert_eq!(served.get("/").field("www-authenticate"), Some("Bearer realm=\"the shop\""));
    assert_eq!(reply("Basic YQ==").field("www-authenticate"), Some("Bearer realm=\"the shop\""));
}

#[test]
fn a_predicate_that_panics_costs_its_own_request() {
    let auth =
        BearerAuth::new("", |_, token| token.strip_prefix("ok").map(str::is_empty).expect("on purpose"));
    let served = serve(Router::new().get("/", who).layer(auth));
    let mut peer = served.connect();
    for (token, status) in [("other", 500), ("ok", 200), ("other", 500), ("ok", 200)] {
        peer.send(format!("GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"));
        assert_eq!(peer.answer(false).status, status);
    }
}

#[test]
fn a_realm_that_cannot_be_quoted_is_an_error_at_start() {
    for realm in ["a\"b", "a\\b", "a\nb", "\u{e4}"] {
        Router::new().layer(BasicAuth::new(realm, |_, _, _| true)).describe().expect_err(realm);
        Router::new().layer(BearerAuth::new(realm, |_, _| true)).describe().expect_err(realm);
    }
}
