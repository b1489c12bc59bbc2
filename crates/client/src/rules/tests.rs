//! Conditions against what they say, changes against what they promise, and faults against their places.

use std::collections::BTreeMap;

use anywire_http::{Headers, Method, Url};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use url::form_urlencoded;

use super::check::{Checked, check};
use super::link::parse;
use super::matching::Subject;
use super::{Destination, Limits, PathRewrite, Pattern, Rule, RuleFault, Rules, RulesError, When};
use crate::Client;
use crate::call::request::CallRequest;

/// What conditions look at, as it was made.
#[derive(Debug, Clone)]
struct Made {
    method: &'static str,
    host: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    query: Vec<(&'static str, String)>,
}

impl Made {
    fn url(&self) -> Url {
        let mut url = Url::parse(&format!("http://{}{}", self.host, self.path)).expect("a URL");
        url.push_query(&form_urlencoded::Serializer::new(String::new()).extend_pairs(&self.query).finish());
        url
    }

    fn headers(&self) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in &self.headers {
            headers.append(name, value).expect("a field");
        }
        headers
    }

    fn is_for(&self, when: &When) -> bool {
        let rule = Rule { when: when.clone(), to: vec![Destination::default()], ..Rule::default() };
        let checked = check(&[rule], &Limits::default()).map_err(|error| error.to_string());
        let Checked { rules } = checked.expect("rules");
        let method = Method::from_bytes(self.method.as_bytes()).expect("a method");
        rules[0].test.holds(&Subject { method: &method, url: &self.url(), headers: &self.headers() })
    }

    /// The same by the words of the documentation, on what was made.
    fn should_be_for(&self, when: &When) -> bool {
        let fits = |pattern: &Pattern, text: &str| match pattern {
            Pattern::Exact(exact) => exact == text,
            Pattern::Prefix(prefix) => text.get(..prefix.len()) == Some(prefix),
            // These tests write all expressions as texts with wildcards.
            Pattern::Regex(regex) => wildcards(regex, text),
            Pattern::Present(wanted) => *wanted,
        };
        let of = |all: &[(&'static str, String)], wanted: &BTreeMap<String, Pattern>| {
            wanted.iter().all(|(name, pattern)| {
                let mut values = all.iter().filter(|(known, _)| known == name);
                match pattern {
                    Pattern::Present(false) => values.next().is_none(),
                    _ => values.any(|(_, value)| fits(pattern, value)),
                }
            })
        };
        (when.methods.is_empty() || when.methods.iter().any(|one| one == self.method))
            && when.authority.iter().all(|pattern| fits(pattern, self.host))
            && when.path.iter().all(|pattern| fits(pattern, &self.path))
            && of(&self.headers, &when.headers)
            && of(&self.query, &when.query)
            && when.all.iter().all(|one| self.should_be_for(one))
            && (when.any.is_empty() || when.any.iter().any(|one| self.should_be_for(one)))
            && !when.not.as_ref().is_some_and(|not| self.should_be_for(not))
    }
}

/// Whether a text fits letters and `.*`.
fn wildcards(regex: &str, text: &str) -> bool {
    match regex.split_once(".*") {
        None => regex == text,
        Some((begin, rest)) => text.strip_prefix(begin).is_some_and(|behind| {
            (0..=behind.len()).any(|at| behind.is_char_boundary(at) && wildcards(rest, &behind[at..]))
        }),
    }
}

const TEXT: &str = "[ab&=+ é]{0,3}";

fn pattern(of: &'static str) -> impl Strategy<Value = Pattern> {
    prop_oneof![
        of.prop_map(Pattern::Exact),
        of.prop_map(Pattern::Prefix),
        // Letters alone mean themselves.
        "/?(a|b|\\.\\*){0,3}".prop_map(Pattern::Regex),
    ]
}

fn optional(of: &'static str) -> impl Strategy<Value = Pattern> {
    prop_oneof![3 => pattern(of), 1 => any::<bool>().prop_map(Pattern::Present)]
}

fn names() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b")]
}

fn when() -> impl Strategy<Value = When> {
    let of = || prop::option::weighted(0.3, pattern("/?[ab.]{0,2}"));
    let fields = || btree_map(names().prop_map(str::to_owned), optional("[ab]{0,2}"), 0..2);
    let query = btree_map(names().prop_map(str::to_owned), optional(TEXT), 0..2);
    let methods = vec(prop_oneof![Just("GET".to_owned()), Just("PUT".to_owned())], 0..2);
    let leaf =
        (methods, of(), of(), fields(), query).prop_map(|(methods, authority, path, headers, query)| When {
            methods,
            authority,
            path,
            headers,
            query,
            ..When::default()
        });
    leaf.prop_recursive(3, 12, 3, |inner| {
        let not = prop::option::of(inner.clone().prop_map(Box::new));
        (vec(inner.clone(), 0..3), vec(inner.clone(), 0..3), not, inner)
            .prop_map(|(all, any, not, leaf)| When { all, any, not, ..leaf })
    })
}

fn made() -> impl Strategy<Value = Made> {
    let method = prop_oneof![Just("GET"), Just("PUT"), Just("PURGE")];
    let host = prop_oneof![Just("a.b"), Just("ab"), Just("a:8080")];
    let headers = vec((names(), "[ab]{0,2}"), 0..3);
    let query = vec((names(), TEXT), 0..3);
    (method, host, "/[ab]{0,3}", headers, query).prop_map(|(method, host, path, headers, query)| Made {
        method,
        host,
        path,
        headers,
        query,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_condition_holds_as_it_says(made in made(), when in when()) {
        prop_assert_eq!(made.is_for(&when), made.should_be_for(&when), "{:?}", made.url());
    }

    #[test]
    fn neither_any_is_all_not(made in made(), one in when(), other in when()) {
        let not = |when: When| When { not: Some(Box::new(when)), ..When::default() };
        let any = When { any: vec![one.clone(), other.clone()], ..When::default() };
        let all = When { all: vec![not(one), not(other)], ..When::default() };
        prop_assert_eq!(made.is_for(&not(any)), made.is_for(&all));
    }

    #[test]
    fn a_text_is_its_own_expression(made in made(), text in TEXT) {
        let query = |pattern| When { query: [("a".to_owned(), pattern)].into(), ..When::default() };
        let escaped = regex::escape(&text);
        let begins = query(Pattern::Regex(format!("{escaped}(?s:.*)")));
        prop_assert_eq!(made.is_for(&query(Pattern::Prefix(text.clone()))), made.is_for(&begins));
        let is = query(Pattern::Regex(escaped));
        prop_assert_eq!(made.is_for(&query(Pattern::Exact(text))), made.is_for(&is));
    }

    #[test]
    fn a_file_says_the_same(when in when(), weight in 1..9_u32) {
        let to = vec![Destination { weight, set_query: [("a".to_owned(), "b".to_owned())].into(), ..Destination::default() }];
        let rule = Rule { name: "it".to_owned(), when, to };
        let text = toml::to_string(&BTreeMap::from([("rule", [&rule])])).expect("TOML");
        prop_assert_eq!(parse(&text).expect("rules").rule, [rule]);
    }

    /// Each part of the numbers is one destination's, as large as its weight.
    #[test]
    fn weights_are_parts(weights in vec(0..5_u32, 1..6)) {
        let sum: u32 = weights.iter().sum();
        prop_assume!(sum > 0);
        let to = weights.iter().map(|&weight| Destination { weight, ..Destination::default() }).collect();
        let checked = check(&[Rule { to, ..Rule::default() }], &Limits::default()).expect("rules");
        let rule = &checked.rules[0];
        let mut counts = vec![0; weights.len()];
        for part in 0..sum {
            let chosen = rule.choose((f64::from(part) + 0.5) / f64::from(sum));
            let at = rule.to.iter().position(|one| std::ptr::eq(one, chosen)).expect("one of them");
            counts[at] += 1;
        }
        prop_assert_eq!(counts, weights);
    }

    /// Parameters that nobody named keep their bytes and their order.
    #[test]
    fn parameters_change_by_their_names(
        pairs in vec(("[abc%]{0,2}", "[a%2+=]{0,3}"), 0..6),
        remove in names(),
        set in TEXT,
    ) {
        let query = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&");
        let to = Destination {
            remove_query: vec![remove.to_owned()],
            set_query: [("c".to_owned(), set.clone())].into(),
            ..Destination::default()
        };
        let url = Url::parse(&format!("http://h/p?{query}")).expect("a URL");
        let before: Vec<_> = url.as_str().split_once('?').expect("a query").1.split('&').collect();
        let mut request = request(url.as_str());
        apply(to, &mut request);
        let after = request.url().as_str().split_once('?').expect("one is set").1;
        let after: Vec<_> = after.split('&').collect();
        let name = |pair: &str| form_urlencoded::parse(pair.as_bytes()).next().map(|(name, _)| name.into_owned());
        let stays = |pair: &&&str| name(pair).is_none_or(|name| name != remove && name != "c");
        let kept: Vec<_> = before.iter().filter(stays).copied().collect();
        prop_assert_eq!(&after[..after.len() - 1], kept);
        let added = form_urlencoded::parse(after[after.len() - 1].as_bytes()).next().expect("a pair");
        prop_assert_eq!(added, ("c".into(), set.into()));
    }

    /// Whatever the authority is, credentials go to it only if they may.
    #[test]
    fn credentials_stay_with_their_origin(host in "[ab]{1,2}(:80|:8080)?", keep in any::<bool>()) {
        let to = Destination { authority: Some(host.clone()), keep_credentials: keep, ..Destination::default() };
        let mut request = request("http://a/");
        for name in CREDENTIALS {
            request.append_header(name, "secret").expect("a field");
        }
        apply(to, &mut request);
        let is_same = request.url().origin() == "http://a";
        prop_assert_eq!(is_same, host == "a" || host == "a:80");
        for name in CREDENTIALS {
            prop_assert_eq!(request.headers().contains(name), keep || is_same, "{}", name);
        }
    }
}

const CREDENTIALS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];

fn request(url: &str) -> CallRequest {
    let client = Client::new();
    CallRequest::new(Method::GET, Url::parse(url).expect("a URL"), client.handle.config())
}

fn apply(to: Destination, request: &mut CallRequest) {
    let checked = check(&[Rule { to: vec![to], ..Rule::default() }], &Limits::default()).expect("rules");
    checked.rules[0].choose(0.5).rewrite.apply(request, &["x-api-key".to_owned()]).expect("it can be done");
}

#[test]
fn paths_are_replaced_whole_or_in_part() {
    let rows = [
        (PathRewrite { with: "/all".to_owned(), ..PathRewrite::default() }, "/a?b=c", "/all?b=c"),
        (
            PathRewrite { prefix: Some("/v1".into()), with: "/old".into(), ..PathRewrite::default() },
            "/v1/a",
            "/old/a",
        ),
        (
            PathRewrite { prefix: Some("/v1".into()), with: "/old".into(), ..PathRewrite::default() },
            "/v2/v1",
            "/v2/v1",
        ),
        (
            PathRewrite {
                regex: Some("/shop/([0-9]+)/(?<what>.*)".into()),
                with: "/${what}/$1".into(),
                ..Default::default()
            },
            "/shop/7/tea?x",
            "/tea/7?x",
        ),
        (
            PathRewrite { regex: Some("/shop".into()), with: "/".into(), ..PathRewrite::default() },
            "/shop/7",
            "/shop/7",
        ),
    ];
    for (path, before, after) in rows {
        let mut request = request(&format!("http://h{before}"));
        apply(Destination { path: Some(path), ..Destination::default() }, &mut request);
        assert_eq!(request.url().path_and_query(), after);
    }
}

#[test]
fn the_host_field_is_the_new_one_or_the_old() {
    let to = |keep_host, own: Option<&str>, set: Option<&str>| {
        let mut request = request("http://old:8080/");
        own.into_iter().for_each(|own| request.append_header("host", own).expect("a host"));
        let set_headers = set.map(|set| ("host".to_owned(), set.to_owned())).into_iter().collect();
        let to =
            Destination { authority: Some("new".into()), keep_host, set_headers, ..Destination::default() };
        apply(to, &mut request);
        request.headers().get("host").map(str::to_owned)
    };
    // Without a field it is the URL's.
    assert_eq!(to(false, None, None), None);
    assert_eq!(to(false, Some("own"), None), None);
    assert_eq!(to(true, None, None).as_deref(), Some("old:8080"));
    assert_eq!(to(true, Some("own"), None).as_deref(), Some("own"));
    assert_eq!(to(false, None, Some("third")).as_deref(), Some("third"));
}

/// The error of a file.
fn error(text: &str) -> RulesError {
    Rules::from_toml(text).expect_err("it is faulty")
}

#[test]
fn a_faulty_file_says_where() {
    let rows = [
        ("[[rule]", "line 1, column 8:"),
        ("\n[[rule]]\nwhn = 1", "line 3, column 1, rule 1, whn: unknown field `whn`"),
        (
            "[[rule]]\nto = [{}]\n[[rule]]\nwhen.path.exat = \"/\"",
            "line 4, column 11, rule 2, when.path: unknown variant `exat`",
        ),
        ("[[rule]]\nto = [{ weight = -1 }]", "line 2, column 18, rule 1, to[0].weight: invalid value"),
        ("[[rule]]\nto = [{ set_headers = { a = 1 } }]", "rule 1, to[0].set_headers.a: invalid type"),
        ("[[rule]]\nwhen.any = [{ not = { methods = 1 } }]", "rule 1, when.any[0].not.methods: invalid type"),
    ];
    for (text, wanted) in rows {
        let error = error(text);
        assert!(matches!(error, RulesError::Toml { .. }) && error.to_string().contains(wanted), "{error}");
    }
}

#[test]
fn a_faulty_rule_is_named_with_its_field() {
    let rows = [
        ("", "to", "there is none"),
        ("to = [{ weight = 0 }]", "to", "all weights are 0"),
        ("when.methods = ['A B']\nto = [{}]", "when.methods", "no method"),
        ("when.path.present = true\nto = [{}]", "when.path.present", "there always is one"),
        ("when.any = [{ path.regex = '(' }]\nto = [{}]", "when.any[0].path.regex", "unclosed group"),
        ("when.path.regex = 'a)|(?:b'\nto = [{}]", "when.path.regex", "unopened group"),
        ("when.path.regex = '\\w{1000}'\nto = [{}]", "when.path.regex", "size limit"),
        ("when.headers.'a b' = { exact = '' }\nto = [{}]", "when.headers.a b", "name"),
        ("to = [{}, { authority = 'a/b' }]", "to[1].authority", "no `host` or `host:port`"),
        ("to = [{ authority = 'a:b' }]", "to[0].authority", "no `host` or `host:port`"),
        ("to = [{ authority = 'u@a' }]", "to[0].authority", "no `host` or `host:port`"),
        ("to = [{ authority = \"a\\nb\" }]", "to[0].authority", "no `host` or `host:port`"),
        ("to = [{ keep_host = true }]", "to[0].keep_host", "without an `authority`"),
        ("to = [{ keep_credentials = true }]", "to[0].keep_credentials", "without an `authority`"),
        ("to = [{ via = 'nowhere' }]", "to[0].via", "nowhere"),
        ("to = [{ path = { with = 'a' } }]", "to[0].path.with", "no path"),
        ("to = [{ path = { with = '/a?b' } }]", "to[0].path.with", "no path"),
        ("to = [{ path = { with = '/ä' } }]", "to[0].path.with", "no path"),
        ("to = [{ path = { prefix = 'a', with = '/' } }]", "to[0].path.prefix", "no path"),
        (
            "to = [{ path = { prefix = '/', regex = '/', with = '/' } }]",
            "to[0].path.prefix",
            "`regex` is set, too",
        ),
        ("to = [{ path = { regex = '/(.*)', with = '/$1a' } }]", "to[0].path.with", "no group \"1a\""),
        ("to = [{ path = { regex = '/.*', with = '/${2}' } }]", "to[0].path.with", "no group \"2\""),
        ("to = [{ set_headers = { a = \"b\\nc\" } }]", "to[0].set_headers.a", "value"),
        ("to = [{ remove_headers = ['', 'b'] }]", "to[0].remove_headers[0]", "name"),
        ("to = [{ add_headers = { Content-Length = '1' } }]", "to[0].add_headers.Content-Length", "itself"),
        ("to = [{ set_headers = { Host = 'a b' } }]", "to[0].set_headers.Host", "host"),
        (
            "to = [{ authority = 'a', keep_host = true, set_headers = { host = 'a' } }]",
            "to[0].keep_host",
            "set_headers.host",
        ),
    ];
    for (body, wanted, why) in rows {
        let error = error(&format!("[[rule]]\nto = [{{}}]\n[[rule]]\nname = 'second'\n{body}"));
        let said = anywire_advice::Chain(&error).to_string();
        let RulesError::Rule { number: 2, name, field, .. } = &error else { panic!("{body}: {said}") };
        assert_eq!((&**name, &**field), ("second", wanted), "{body}");
        assert!(said.contains("rule 2 (\"second\")") && said.contains(why), "{body}: {said}");
        // What to write instead can be copied.
        assert!(!format!("{:#}", anywire_advice::Chain(&error)).contains("{{"), "{body}");
    }
    let twice = error("[[rule]]\nname = 'a'\nto = [{}]\n[[rule]]\nname = 'a'\nto = [{}]");
    assert!(
        matches!(&twice, RulesError::Rule { number: 2, fault, .. } if **fault == RuleFault::NameTaken),
        "{twice}"
    );
}

#[test]
fn sets_have_limits() {
    let rules = Rules::with_limits(Limits { rules: 2, parts: 8, depth: 2, ..Limits::default() });
    let rule = || Rule { to: vec![Destination::default()], ..Rule::default() };
    rules.replace([rule(), rule()]).expect("as many as may be");
    let many = rules.replace(std::iter::repeat_with(rule)).expect_err("one more");
    assert!(matches!(many, RulesError::TooMuch { what: "rules", limit: 2 }), "{many}");
    let methods = When { methods: vec!["GET".to_owned(); 9], ..When::default() };
    let parts = rules.replace([Rule { when: methods, ..rule() }]).expect_err("many methods");
    assert!(matches!(parts, RulesError::TooMuch { what: "parts", limit: 8 }), "{parts}");
    let nest = |when| When { not: Some(Box::new(when)), ..When::default() };
    let deep = nest(nest(nest(When::default())));
    let deep = rules.replace([Rule { when: deep, ..rule() }]).expect_err("three within one another");
    assert!(
        matches!(&deep, RulesError::Rule { field, fault, .. } if field == "when.not.not.not" && **fault == RuleFault::Depth(2)),
        "{deep}"
    );
    let short = Rules::with_limits(Limits { file_bytes: 3, ..Limits::default() });
    let long = short.replace_toml("# ab").expect_err("one byte more");
    assert!(matches!(long, RulesError::TooMuch { what: "bytes", limit: 3 }), "{long}");
    // What was in force stays.
    assert_eq!(rules.counters().len(), 2);
}
