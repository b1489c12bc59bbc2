//! Signatures of messages are those of RFC 9421 appendix B, and one counts only if it is of this message, this key and this time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anywire_http::signatures::{
    DigestError, Message, SignatureError, Signer, SigningKey, Verifier, VerifyingKey, check_content_digest,
    content_digest,
};
use anywire_http::{Headers, Method, RequestHead, StatusCode, Url};

/// The key `test-shared-secret` (B.1.5).
const SECRET: &str =
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";

/// The key `test-key-ed25519` (B.1.4), private and public, in PKCS#8 and in the form of a certificate.
const PRIVATE: &str = "MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF";
const PUBLIC: &str = "MCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=";

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<_> = text.trim_end_matches('=').bytes().map(digit).collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

fn public() -> [u8; 32] {
    base64(PUBLIC).last_chunk().copied().expect("32 bytes at its end")
}

fn at(second: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(second)
}

fn fields(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(name, value).expect("a field");
    }
    headers
}

/// The request of the appendix (B.2), without what `url` says.
fn request() -> (Url, Headers) {
    let headers = fields(&[
        ("host", "example.com"),
        ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
        ("content-type", "application/json"),
        (
            "content-digest",
            "sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNyealdVLvRwEmTHWXvJwew==:",
        ),
        ("content-length", "18"),
    ]);
    (Url::parse("https://example.com/foo?param=Value&Pet=dog").expect("a URL"), headers)
}

fn keys(input: &anywire_http::signatures::SignatureInput) -> Option<VerifyingKey> {
    match input.key_id()? {
        "test-shared-secret" => Some(VerifyingKey::hmac_sha256(&base64(SECRET))),
        "test-key-ed25519" => Some(VerifyingKey::ed25519(&public())),
        _ => None,
    }
}

#[test]
fn a_request_signed_by_a_shared_secret() {
    let (url, mut headers) = request();
    let signer = Signer::new("test-shared-secret", SigningKey::hmac_sha256(&base64(SECRET)))
        .label("sig-b25")
        .covers(["date", "@authority", "content-type"]);
    let now = at(1_618_884_473);
    let signature = signer.sign(&Message::request(&Method::POST, &url, &headers), now, None).expect("signed");
    assert_eq!(
        signature.input,
        "sig-b25=(\"date\" \"@authority\" \"content-type\");created=1618884473;keyid=\"test-shared-secret\""
    );
    assert_eq!(signature.signature, "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:");
    signature.append_to(&mut headers).expect("fields");
    let verified = Verifier::new(keys).verify(&Message::request(&Method::POST, &url, &headers), now);
    assert_eq!(verified.expect("right").created(), Some(now));
}

#[test]
fn a_request_signed_by_ed25519() {
    let (url, mut headers) = request();
    let covered = ["date", "@method", "@path", "@authority", "content-type", "content-length"];
    let signer = Signer::new("test-key-ed25519", SigningKey::ed25519(&base64(PRIVATE)).expect("a key"))
        .label("sig-b26")
        .covers(covered);
    let now = at(1_618_884_473);
    let signature = signer.sign(&Message::request(&Method::POST, &url, &headers), now, None).expect("signed");
    let expected =
        "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:";
    assert_eq!(signature.signature, expected);
    signature.append_to(&mut headers).expect("fields");
    // As its server has it.
    let mut head = RequestHead::new(Method::POST, url.path_and_query()).expect("a target");
    *head.headers_mut() = headers;
    let verified = Verifier::new(keys).requires(covered).verify(&Message::of_head(&head, "https"), now);
    assert_eq!(verified.expect("right").label(), "sig-b26");
    // The seed of that key.
    let seed: [u8; 32] = base64(PRIVATE).last_chunk().copied().expect("32 bytes at its end");
    assert!(SigningKey::ed25519(&seed).is_ok() && SigningKey::ed25519(&seed[1..]).is_err());
}

/// B.4: a proxy may change what is not covered, and how fields are written.
#[test]
fn a_signature_survives_what_proxies_do_and_nothing_else() {
    let url = |text: &str| Url::parse(text).expect("a URL");
    let signed = [
        (
            "signature-input",
            "transform=(\"@method\" \"@path\" \"@authority\" \"accept\");created=1618884473;keyid=\"test-key-ed25519\"",
        ),
        (
            "signature",
            "transform=:ZT1kooQsEHpZ0I1IjCqtQppOmIqlJPeo7DHR3SoMn0s5JZ1eRGS0A+vyYP9t/LXlh5QMFFQ6cpLt2m0pmj3NDA==:",
        ),
    ];
    let ours = url("http://example.org/demo?name1=Value1&Name2=value2");
    let accept = |values: &[&str], host: &str| {
        let rest = values.iter().map(|value| ("accept", *value)).chain(signed).chain([("host", host)]);
        fields(&rest.collect::<Vec<_>>())
    };
    let verify = |url: &Url, method: &Method, headers: &Headers| {
        let verifier = Verifier::new(keys).max_age(Duration::MAX);
        verifier.verify(&Message::request(method, url, headers), at(1_657_895_095)).map(drop)
    };
    let get = Method::GET;
    for (url, values, host) in [
        (&ours, &["application/json", "*/*"][..], "example.org"),
        (&ours, &["application/json, */*"], "example.org"),
        (&url("http://example.org/demo?other=query"), &["application/json", "*/*"], "EXAMPLE.org:80"),
    ] {
        assert_eq!(verify(url, &get, &accept(values, host)), Ok(()), "{values:?} {host}");
    }
    for (url, method, values, host) in [
        (&ours, &Method::POST, &["application/json", "*/*"][..], "example.org"),
        (&ours, &get, &["*/*", "application/json"], "example.org"),
        (&url("http://example.org/other"), &get, &["application/json", "*/*"], "example.org"),
        (&ours, &get, &["application/json", "*/*"], "example.com"),
    ] {
        let error = verify(url, method, &accept(values, host)).expect_err("changed");
        assert_eq!(error, SignatureError::Wrong, "{method} {values:?} {host}");
    }
}

fn secret() -> SigningKey {
    SigningKey::hmac_sha256(&base64(SECRET))
}

/// Signs a small request, changes its fields, and checks it.
fn verify(
    signer: &Signer,
    verifier: &Verifier,
    age: i64,
    change: impl FnOnce(&mut Headers),
) -> Result<(), SignatureError> {
    let (url, now) = (Url::parse("http://h.example/a").expect("a URL"), at(1_700_000_000));
    let mut headers = fields(&[("x-a", "1")]);
    let signature = signer.sign(&Message::request(&Method::GET, &url, &headers), now, Some("n-1"))?;
    signature.append_to(&mut headers).expect("fields");
    change(&mut headers);
    let checked_at = if age < 0 {
        now - Duration::from_secs(age.unsigned_abs())
    } else {
        now + Duration::from_secs(age.unsigned_abs())
    };
    let verified = verifier.verify(&Message::request(&Method::GET, &url, &headers), checked_at)?;
    assert_eq!((verified.nonce(), verified.covers("@METHOD")), (Some("n-1"), true));
    Ok(())
}

#[test]
fn a_signature_counts_for_its_time() {
    let signer = Signer::new("test-shared-secret", secret()).covers(["@method"]);
    let verifier = Verifier::new(keys);
    let check = |signer: &Signer, verifier: &Verifier, age| verify(signer, verifier, age, |_| {});
    for age in [-60, -1, 0, 299, 300] {
        assert_eq!(check(&signer, &verifier, age), Ok(()), "{age}");
    }
    for age in [-61, 301, i64::from(i32::MAX)] {
        assert_eq!(check(&signer, &verifier, age), Err(SignatureError::Time), "{age}");
    }
    assert_eq!(check(&signer, &verifier.clone().max_age(Duration::MAX), 1 << 30), Ok(()));
    assert_eq!(check(&signer, &verifier.clone().skew(Duration::ZERO), -1), Err(SignatureError::Time));
    let short = signer.lifetime(Duration::from_secs(10));
    assert_eq!(check(&short, &verifier, 9), Ok(()));
    assert_eq!(check(&short, &verifier, 10), Err(SignatureError::Time));
}

#[test]
fn a_signature_counts_for_what_it_is_asked_for() {
    let signer = Signer::new("test-shared-secret", secret()).covers(["@method", "x-a"]).tag("shop");
    let check = |signer: &Signer, verifier: Verifier| verify(signer, &verifier, 0, |_| {});
    let verifier = || Verifier::new(keys);
    assert_eq!(check(&signer, verifier().tag("shop").label("sig1").requires(["x-a", "@method"])), Ok(()));
    assert_eq!(check(&signer, verifier().tag("other")), Err(SignatureError::Unsigned));
    assert_eq!(check(&signer, verifier().label("other")), Err(SignatureError::Unsigned));
    let not_covered = SignatureError::NotCovered { component: "\"@path\"".into() };
    assert_eq!(check(&signer, verifier().requires(["@method", "@path"])), Err(not_covered));
    let unknown = SignatureError::UnknownKey { key_id: Some("test-shared-secret".into()) };
    assert_eq!(check(&signer, Verifier::new(|_| None)), Err(unknown));
    let other = Verifier::new(|_| Some(VerifyingKey::hmac_sha256(b"another")));
    assert_eq!(check(&signer, other), Err(SignatureError::Wrong));
    let other_algorithm = Verifier::new(|_| Some(VerifyingKey::ed25519(&public())));
    assert_eq!(check(&signer, other_algorithm.clone()), Err(SignatureError::Wrong));
    let says = signer.clone().says_algorithm();
    assert_eq!(check(&says, verifier()), Ok(()));
    assert!(matches!(check(&says, other_algorithm), Err(SignatureError::Algorithm { .. })));
    // What cannot be signed.
    let missing = SignatureError::Missing { component: "\"x-b\"".into() };
    assert_eq!(check(&signer.clone().covers(["x-b"]), verifier()), Err(missing));
    assert!(matches!(check(&signer.covers(["@odd"]), verifier()), Err(SignatureError::Component { .. })));
}

#[test]
fn fields_that_are_wrong_are_no_signature() {
    let signer = Signer::new("test-shared-secret", secret()).covers(["@method", "x-a"]);
    let check = |name: &str, value: &str| {
        verify(&signer, &Verifier::new(keys), 0, |headers| headers.insert(name, value).expect("a field"))
    };
    let malformed = |field| Err(SignatureError::Malformed { field });
    assert_eq!(check("x-a", "2"), Err(SignatureError::Wrong));
    assert_eq!(check("signature", "sig1=:AAAA:"), Err(SignatureError::Wrong));
    assert_eq!(check("signature", "sig1=AAAA"), Err(SignatureError::Unsigned));
    assert_eq!(check("signature", "other=:AAAA:"), Err(SignatureError::Unsigned));
    assert_eq!(check("signature", "sig1=:"), malformed("signature"));
    assert_eq!(check("signature-input", "sig1=(\"@method\""), malformed("signature-input"));
    assert_eq!(check("signature-input", "sig1=1"), malformed("signature-input"));
    assert_eq!(
        check("signature-input", "sig1=(\"@method\" \"@method\");created=1700000000"),
        malformed("signature-input")
    );
    assert!(matches!(check("signature-input", "sig1=(\"a\";sf)"), Err(SignatureError::Component { .. })));
    assert_eq!(check("signature-input", "sig1=();created=\"now\""), Err(SignatureError::Time));
    assert_eq!(check("signature-input", "sig1=()"), Err(SignatureError::Time));
    // One that is right is enough, if it is among the first.
    let several = |count: usize| {
        verify(&signer, &Verifier::new(keys), 0, |headers| {
            let (input, signature) = ["signature-input", "signature"]
                .map(|name| headers.get(name).expect("it has it").to_owned())
                .into();
            let labels: Vec<_> = (0..count).map(|number| format!("x{number}")).collect();
            let inputs: Vec<_> =
                labels.iter().map(|label| format!("{label}=(\"@method\");created=1700000000")).collect();
            let signatures: Vec<_> = labels.iter().map(|label| format!("{label}=:AAAA:")).collect();
            headers.insert("signature-input", format!("{}, {input}", inputs.join(", "))).expect("a field");
            headers.insert("signature", format!("{}, {signature}", signatures.join(", "))).expect("a field");
        })
    };
    assert_eq!(several(7), Ok(()));
    assert_eq!(several(8), Err(SignatureError::TooMany { max: 8 }));
    // So many components are looked at, and no more.
    let covers = |count: usize| {
        let names: Vec<_> = (0..count).map(|number| format!("\"x{number}\"")).collect();
        check("signature-input", &format!("sig1=({});created=1700000000", names.join(" ")))
    };
    assert_eq!(covers(64), Err(SignatureError::UnknownKey { key_id: None }));
    assert_eq!(covers(65), Err(SignatureError::TooManyComponents { max: 64 }));
}

#[test]
fn a_response_is_bound_to_its_request() {
    let (url, request) = request();
    let asked = Message::request(&Method::POST, &url, &request);
    let mut headers = fields(&[("content-type", "text/plain")]);
    let signer = Signer::new("test-key-ed25519", SigningKey::ed25519(&base64(PRIVATE)).expect("a key"))
        .covers(["@status", "@method;req", "content-digest;req", "content-type"]);
    let now = at(1_700_000_000);
    let response = Message::response(StatusCode::OK, &headers);
    assert!(matches!(signer.sign(&response, now, None), Err(SignatureError::Missing { .. })));
    let signature = signer.sign(&response.to(&asked), now, None).expect("signed");
    signature.append_to(&mut headers).expect("fields");
    let verifier = Verifier::new(keys).requires(["@status", "@method;req"]);
    let verify = |status, request: &Message<'_>| {
        verifier.verify(&Message::response(status, &headers).to(request), now).map(drop)
    };
    assert_eq!(verify(StatusCode::OK, &asked), Ok(()));
    assert_eq!(verify(StatusCode::ACCEPTED, &asked), Err(SignatureError::Wrong));
    let other = Message::request(&Method::PUT, &url, &request);
    assert_eq!(verify(StatusCode::OK, &other), Err(SignatureError::Wrong));
}

#[test]
fn digests_are_of_the_body() {
    let body = b"{\"hello\": \"world\"}";
    // By SHA-512, as in the appendix.
    assert_eq!(check_content_digest(&request().1, body), Ok(()));
    assert_eq!(check_content_digest(&request().1, b"{}"), Err(DigestError::Wrong));
    let check = |value: &str| check_content_digest(&fields(&[("content-digest", value)]), body);
    let ours = content_digest(body);
    assert_eq!(check(&ours), Ok(()));
    assert_eq!(check(&format!("md5=:AAAA:, {ours}")), Ok(()));
    assert_eq!(check(&format!("{ours}, sha-512=:AAAA:")), Err(DigestError::Wrong));
    assert_eq!(check("md5=:AAAA:"), Err(DigestError::Absent));
    assert_eq!(check_content_digest(&Headers::new(), body), Err(DigestError::Absent));
    assert_eq!(check("sha-256"), Err(DigestError::Malformed));
    assert_eq!(check("sha-256=:"), Err(DigestError::Malformed));
}

#[test]
fn no_key_is_shown() {
    let signer = Signer::new("me", SigningKey::hmac_sha256(b"secret"));
    let shown = format!("{signer:?} {:?}", VerifyingKey::hmac_sha256(b"secret"));
    assert!(!shown.contains("secret") && shown.contains("hmac-sha256"), "{shown}");
}
