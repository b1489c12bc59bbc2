//! A handler takes the parts of a form with files as they come, none of which is held. What is wrong with them has its status, in each version
//! of HTTP.

use std::sync::Mutex;
use std::sync::mpsc::Sender;

use anywire_http::multipart::Limits as FormLimits;
use anywire_server::openapi::Info;
use anywire_server::{Error, Handler, Limits, Multipart, Router, State};

use crate::support::{Scene, Served, channel};

/// Says what each part is. A file is read as a stream, `skipped` not at all.
async fn tell(form: Multipart) -> Result<String, Error> {
    let limits = FormLimits { parts: 3, part_bytes: 2000, ..FormLimits::default() };
    let mut form = form.limits(limits);
    let mut told = String::new();
    while let Some(mut part) = form.next_part().await? {
        let (name, file) = (part.name().to_owned(), part.file_name().map(str::to_owned));
        let content = match file {
            _ if name == "skipped" => continue,
            None => part.text(10).await?,
            Some(_) => {
                let mut bytes = 0;
                while let Some(piece) = part.chunk().await? {
                    bytes += piece.len();
                }
                assert!(part.chunk().await?.is_none(), "the end stays the end");
                bytes.to_string()
            }
        };
        told.push_str(&format!("{name} {file:?} {}: {content}\n", part.content_type()));
    }
    assert!(form.next_part().await?.is_none(), "the end stays the end");
    Ok(told)
}

fn served() -> Served {
    let is_there = async |form: Option<Multipart>| form.is_some().to_string();
    let router = Router::new().post("/", tell).post("/maybe", is_there);
    Scene::tcp().serve_with(router, Limits { body_bytes: 10, ..Limits::default() })
}

fn post(served: &Served, kind: &str, body: &[u8]) -> (u16, String) {
    let reply = served.alike("POST /", &[("content-type", kind)], body);
    (reply.status, reply.text)
}

const FORM: &str = "multipart/form-data; boundary=x";

fn field(disposition: &str, content: &str) -> String {
    format!("--x\r\ncontent-disposition: form-data; {disposition}\r\n\r\n{content}\r\n")
}

#[test]
fn fields_and_files_are_told_apart() {
    let served = served();
    let photo = "--x\r\ncontent-disposition: form-data; name=\"photo\"; filename=\"tea.png\"\r\ncontent-type: image/png\r\n\r\n";
    let body = format!(
        "{}{photo}{}\r\n{}--x--\r\n",
        field("name=\"item\"", "gr\u{fc}n"),
        "\r\n".repeat(1000),
        field("name=\"skipped\"", &"x".repeat(500)),
    );
    let expected = "item None text/plain: gr\u{fc}n\nphoto Some(\"tea.png\") image/png: 2000\n";
    for kind in [FORM, "Multipart/Form-Data; charset=utf-8; Boundary=\"x\""] {
        assert_eq!(post(&served, kind, body.as_bytes()), (200, expected.to_owned()), "{kind}");
    }
    assert_eq!(post(&served, FORM, b"--x--"), (200, String::new()));
    let maybe = |body: &str| served.alike("POST /maybe", &[("content-type", FORM)], body).text;
    assert_eq!((maybe(""), maybe("--x--")), ("false".to_owned(), "true".to_owned()));
}

#[test]
fn each_fault_has_its_status() {
    let served = served();
    let form = |body: &str| post(&served, FORM, body.as_bytes());
    let one = field("name=\"item\"", "tea");
    for (status, text, body) in [
        (400, "the form ends before its last delimiter", one.clone()),
        (400, "part 2 has no name; send a field", format!("{one}{}--x--", field("filename=\"a\"", ""))),
        (400, "the body is not UTF-8", String::new()),
        (413, "the form has more than 3 parts; send fewer", format!("{}--x--", one.repeat(4))),
        (413, "a part of the form is larger than 10 bytes", field("name=\"item\"", &"x".repeat(11))),
        (413, "a part of the form is larger than 2000 bytes", field("name=\"skipped\"", &"x".repeat(2001))),
    ] {
        let mut body = body.into_bytes();
        if body.is_empty() {
            body = [one.replace("tea", "").trim_end().as_bytes(), b"\r\n\r\n\xff\r\n--x--"].concat();
        }
        let told = post(&served, FORM, &body);
        assert!(told.0 == status && told.1.starts_with(text), "{told:?} for {text:?}");
    }
    assert_eq!(form("no form").0, 400);
    let told = post(&served, "application/x-www-form-urlencoded", b"item=tea");
    assert!(told.0 == 415 && told.1.ends_with("expected multipart/form-data"), "{told:?}");
    for kind in [
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=x; boundary=y",
    ] {
        let told = post(&served, kind, one.as_bytes());
        assert!(
            told.0 == 400 && told.1.starts_with("the content type has no boundary"),
            "{told:?} for {kind}"
        );
    }
    let fields = [("content-type", FORM), ("content-encoding", "gzip")];
    assert_eq!(served.alike("POST /", &fields, one.as_bytes()).status, 415);
    served.assert_alive();
}

/// The handler has the first bytes of a file before its peer has sent the others.
#[test]
fn a_part_is_not_held() {
    let (sender, told) = channel::<usize>();
    let upload = async |State(sender): State<std::sync::Arc<Mutex<Sender<usize>>>>, mut form: Multipart| {
        while let Some(mut part) = form.next_part().await? {
            while let Some(piece) = part.chunk().await? {
                let _ = sender.lock().expect("no panic").send(piece.len());
            }
        }
        Ok::<_, Error>("")
    };
    let router = Router::new().post("/", upload).state(std::sync::Arc::new(Mutex::new(sender)));
    let served = Scene::tcp().serve(router);
    let mut peer = served.connect();
    let (first, rest) =
        (field("name=\"film\"; filename=\"a\"", "12345").trim_end().to_owned(), "678\r\n--x--");
    let length = first.len() + rest.len();
    peer.send(format!(
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: {FORM}\r\ncontent-length: {length}\r\n\r\n{first}"
    ));
    assert_eq!(told.next(), 5);
    peer.send(rest);
    assert_eq!(told.next(), 3);
    assert_eq!(peer.answer(false).status, 200);
}

#[test]
fn a_description_has_them() {
    let router = Router::new().post("/photos", tell.documented());
    let document = router.openapi_document(&Info::new("Photos", "1")).expect("the routes are right");
    let post = &document.as_value()["paths"]["/photos"]["post"];
    assert_eq!(post["requestBody"]["content"]["multipart/form-data"]["schema"]["type"], "object");
    for status in ["400", "413", "415"] {
        assert!(post["responses"][status].is_object(), "{status}: {post}");
    }
}
