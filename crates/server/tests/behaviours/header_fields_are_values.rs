//! `Header<T>` reads one field: missing, repeated and malformed ones are refused, and the field is named.

use std::net::Ipv4Addr;
use std::num::ParseIntError;

use anywire_server::{FromHeader, Header, HeaderFault, Rejection, Router};

struct Tenant(u32);

impl FromHeader for Tenant {
    type Error = ParseIntError;

    fn name() -> &'static str {
        "X-Tenant"
    }

    fn from_header(value: &str) -> Result<Self, ParseIntError> {
        value.parse().map(Self)
    }
}

struct Hops(Vec<Ipv4Addr>);

impl FromHeader for Hops {
    const IS_LIST: bool = true;
    type Error = std::net::AddrParseError;

    fn name() -> &'static str {
        "x-hops"
    }

    fn from_header(value: &str) -> Result<Self, Self::Error> {
        value.split(',').map(|hop| hop.trim().parse()).collect::<Result<_, _>>().map(Self)
    }
}

fn served() -> crate::support::Served {
    let tenant = async |Header(tenant): Header<Tenant>| tenant.0.to_string();
    let maybe = async |tenant: Option<Header<Tenant>>| tenant.map_or(0, |tenant| tenant.0.0).to_string();
    let kind = async |tenant: Result<Header<Tenant>, Rejection>| match tenant {
        Ok(_) => "fine",
        Err(Rejection::Header { name: "X-Tenant", fault: HeaderFault::Repeated }) => "repeated",
        Err(Rejection::Header { fault: HeaderFault::NotText, .. }) => "no text",
        Err(_) => "wrong",
    };
    let hops = async |hops: Header<Hops>| format!("{:?}", hops.0.0);
    let agent = async |agent: Header<headers::UserAgent>| agent.to_string();
    let range = async |range: Option<Header<headers::ContentLength>>| format!("{range:?}");
    crate::support::serve(
        Router::new()
            .get("/tenant", tenant)
            .get("/maybe", maybe)
            .get("/kind", kind)
            .get("/hops", hops)
            .get("/agent", agent)
            .get("/range", range),
    )
}

fn get(served: &crate::support::Served, path: &str, fields: &str) -> (u16, String) {
    let answer = served.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n{fields}\r\n"));
    (answer.status, answer.text().to_owned())
}

#[test]
fn a_field_is_named_if_it_is_wrong() {
    let served = served();
    assert_eq!(get(&served, "/tenant", "x-tenant: 7\r\n"), (200, "7".into()));
    for (fields, reason) in [
        ("", "it is missing"),
        ("x-tenant: seven\r\n", "invalid digit found in string"),
        ("x-tenant:\r\n", "cannot parse integer from empty string"),
        ("x-tenant: 7\r\nX-TENANT: 7\r\n", "it stands more than once"),
    ] {
        let expected = (400, format!("the field X-Tenant does not fit: {reason}"));
        assert_eq!(get(&served, "/tenant", fields), expected);
    }
}

#[test]
fn an_option_is_none_only_without_the_field() {
    let served = served();
    assert_eq!(get(&served, "/maybe", ""), (200, "0".into()));
    assert_eq!(get(&served, "/maybe", "x-tenant: 7\r\n"), (200, "7".into()));
    assert_eq!(get(&served, "/maybe", "x-tenant: seven\r\n").0, 400);
}

#[test]
fn the_fault_has_a_type() {
    let served = served();
    assert_eq!(get(&served, "/kind", "x-tenant: 7\r\n").1, "fine");
    assert_eq!(get(&served, "/kind", "x-tenant: 7\r\nx-tenant: 8\r\n").1, "repeated");
    let mut peer = served.connect();
    peer.send(b"GET /kind HTTP/1.1\r\nhost: x\r\nx-tenant: \xff\r\n\r\n");
    assert_eq!(peer.answer(false).text(), "no text");
}

#[test]
fn a_list_may_come_in_several_fields() {
    let served = served();
    let expected = (200, "[10.0.0.1, 10.0.0.2, 10.0.0.3]".to_owned());
    assert_eq!(get(&served, "/hops", "x-hops: 10.0.0.1, 10.0.0.2\r\nx-hops: 10.0.0.3\r\n"), expected);
    assert_eq!(get(&served, "/hops", "x-hops: 10.0.0.1\r\nx-hops: here\r\n").0, 400);
}

#[test]
fn types_of_the_crate_headers() {
    let served = served();
    assert_eq!(get(&served, "/agent", "user-agent: wire/1\r\n"), (200, "wire/1".into()));
    let missing = (400, "the field user-agent does not fit: it is missing".into());
    assert_eq!(get(&served, "/agent", ""), missing);
    assert_eq!(get(&served, "/range", ""), (200, "None".into()));
}
