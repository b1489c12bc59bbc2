//! Queries and forms as values, and what is wrong with them.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;

use super::*;

fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    from_urlencoded(text, 10).map_err(|error| error.to_string())
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    Up,
    Down,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Search {
    page: u32,
    #[serde(default)]
    tag: Vec<String>,
    order: Option<Order>,
}

#[test]
fn fields_by_name() {
    let search = Search { page: 2, tag: vec!["b c".into(), "a".into()], order: Some(Order::Down) };
    assert_eq!(read("tag=b+c&page=2&order=down&tag=%61"), Ok(search));
    let search = Search { page: 2, tag: Vec::new(), order: None };
    assert_eq!(read("&page=2&&other=1&other=2&order="), Ok(search));
    let _: Order = read::<HashMap<String, Order>>("o=up").expect("a map").remove("o").expect("a value");
    assert_eq!(read::<()>("a=1"), Ok(()));
    let first: HashMap<String, String> = read("a=b=c").expect("text");
    assert_eq!(first["a"], "b=c", "the first sign parts name and value");
}

#[test]
fn lists_and_pairs() {
    let lists = read::<HashMap<String, BTreeSet<u8>>>("a=2&b=1&a=1").expect("a map of sets");
    assert_eq!((lists["a"].len(), lists["b"].len()), (2, 1));
    let pairs = read::<Vec<(String, u8)>>("b=1&a=2&b=3");
    assert_eq!(pairs, Ok(vec![("b".into(), 1), ("a".into(), 2), ("b".into(), 3)]));
    let maybe = read::<HashMap<String, Option<Vec<String>>>>("a=&a=1&b=").expect("lists that may be absent");
    assert_eq!(maybe["a"], Some(vec![String::new(), "1".into()]));
    assert_eq!(maybe["b"], None);
    let any = read::<HashMap<String, serde_json::Value>>("a=1&a=2&b=3").expect("a map of anything");
    assert_eq!(any["a"], serde_json::json!(["1", "2"]));
    assert_eq!(any["b"], serde_json::json!("3"));
}

#[test]
fn what_is_wrong_names_its_field() {
    let wrong = |text: &str| read::<Search>(text).expect_err("wrong");
    assert_eq!(wrong(""), "page: it is missing");
    assert_eq!(wrong("page=two"), "page: \"two\" is no u32");
    assert_eq!(wrong("page="), "page: \"\" is no u32");
    assert_eq!(wrong("page=1&page=1"), "page: it stands more than once");
    assert_eq!(wrong("page=1&tag=%FF"), "tag: it is not UTF-8 after percent-decoding");
    assert_eq!(wrong("%FF=1"), "it is not UTF-8 after percent-decoding");
    assert_eq!(wrong("page=1&order=left"), "order: unknown variant `left`, expected `up` or `down`");
    assert_eq!(wrong(&"a&".repeat(11)), "there are more than 10 fields");
    assert_eq!(read::<HashMap<String, String>>("a=1&a=2"), Err("a: it stands more than once".into()));
}

#[test]
fn tuples_take_as_many_as_they_have() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Area {
        at: (i8, i8),
    }
    assert_eq!(read("at=1&at=-1"), Ok(Area { at: (1, -1) }));
    assert!(read::<Area>("at=1").is_err());
    assert!(read::<Area>("at=1&at=2&at=3").is_err());
}

#[test]
fn a_percent_sign_may_stand_for_itself() {
    let read = read::<HashMap<String, String>>("off=20%25&of=100%&by=%zz").expect("text");
    assert_eq!((&*read["off"], &*read["of"], &*read["by"]), ("20%", "100%", "%zz"));
}
