//! From rules as they are written to rules that run: what is wrong with them shows here, and never in a call.

use std::collections::{BTreeMap, HashSet};

use anywire_http::h1::Framing;
use anywire_http::h1::encode;
use anywire_http::{Headers, Method, Url};
use anywire_wire::ToAddress;
use url::form_urlencoded;

use super::counters::Count;
use super::matching::{Matcher, Test};
use super::rewrite::{PathChange, Rewrite};
use super::{Destination, Limits, PathRewrite, Pattern, Rule, RuleFault, RulesError, When};
use crate::call::request::RESERVED;

/// A set of rules that was checked.
#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) rules: Vec<CheckedRule>,
}

#[derive(Debug)]
pub(super) struct CheckedRule {
    pub(super) name: String,
    pub(super) test: Test,
    /// The weights of all of `to`.
    pub(super) weight: u64,
    pub(super) to: Vec<Weighted>,
}

#[derive(Debug)]
pub(super) struct Weighted {
    pub(super) weight: u32,
    pub(super) rewrite: Rewrite,
    pub(super) count: Count,
}

impl CheckedRule {
    /// The destination of a number from 0 to below 1.
    pub(super) fn choose(&self, random: f64) -> &Weighted {
        let mut at = (random * self.weight as f64) as u64;
        for one in &self.to {
            match at.checked_sub(u64::from(one.weight)) {
                Some(rest) => at = rest,
                None => return one,
            }
        }
        // A sum of floating point may round up to its end.
        self.to.iter().rfind(|one| one.weight > 0).unwrap_or(&self.to[0])
    }
}

/// Checks rules, in their order.
pub(super) fn check(rules: &[Rule], limits: &Limits) -> Result<Checked, RulesError> {
    if rules.len() > limits.rules {
        return Err(RulesError::TooMuch { what: "rules", limit: limits.rules });
    }
    let mut parts = 0;
    let mut names = HashSet::new();
    let mut checked = Vec::with_capacity(rules.len());
    for (at, rule) in rules.iter().enumerate() {
        let mut checker = Checker { limits, parts: &mut parts, field: String::new() };
        let found = match names.insert(&rule.name) || rule.name.is_empty() {
            true => checker.rule(rule),
            false => Err(checker.fault("name", RuleFault::NameTaken)),
        };
        let name = rule.name.clone();
        checked.push(found.map_err(|At { field, fault }| RulesError::Rule {
            number: at + 1,
            name,
            field,
            fault,
        })?);
        if parts > limits.parts {
            return Err(RulesError::TooMuch { what: "parts", limit: limits.parts });
        }
    }
    Ok(Checked { rules: checked })
}

/// A fault, and the field that has it.
struct At {
    field: String,
    fault: Box<RuleFault>,
}

/// Walks through one rule.
struct Checker<'a> {
    limits: &'a Limits,
    /// How many there are so far, of all rules.
    parts: &'a mut usize,
    /// Where it is.
    field: String,
}

impl Checker<'_> {
    fn rule(&mut self, rule: &Rule) -> Result<CheckedRule, At> {
        let test = self.within("when", |it| it.when(&rule.when, 0))?;
        let weight = rule.to.iter().map(|one| u64::from(one.weight)).sum();
        match (rule.to.is_empty(), weight) {
            (true, _) => return Err(self.fault("to", RuleFault::NoDestination)),
            (false, 0) => return Err(self.fault("to", RuleFault::NoWeight)),
            _ => {}
        }
        let to = rule.to.iter().enumerate().map(|(at, one)| {
            let rewrite = self.within(&format!("to[{at}]"), |it| it.destination(one))?;
            Ok(Weighted { weight: one.weight, rewrite, count: Count::default() })
        });
        Ok(CheckedRule { to: to.collect::<Result<_, _>>()?, name: rule.name.clone(), test, weight })
    }

    fn when(&mut self, when: &When, depth: usize) -> Result<Test, At> {
        if depth > self.limits.depth {
            return Err(self.here(RuleFault::Depth(self.limits.depth)));
        }
        *self.parts += 1 + when.methods.len();
        let mut tests = Vec::new();
        if !when.methods.is_empty() {
            let method = |text: &String| Method::from_bytes(text.as_bytes()).map_err(|_| text.clone());
            let methods = when.methods.iter().map(method).collect::<Result<_, _>>();
            tests
                .push(Test::Methods(methods.map_err(|text| self.fault("methods", RuleFault::Method(text)))?));
        }
        if let Some(pattern) = &when.authority {
            // Hosts in URLs are in lower case.
            let pattern = match pattern {
                Pattern::Exact(text) => &Pattern::Exact(text.to_ascii_lowercase()),
                Pattern::Prefix(text) => &Pattern::Prefix(text.to_ascii_lowercase()),
                other => other,
            };
            tests.push(Test::Authority(self.within("authority", |it| it.pattern_of_one(pattern))?));
        }
        if let Some(pattern) = &when.path {
            tests.push(Test::Path(self.within("path", |it| it.pattern_of_one(pattern))?));
        }
        for (name, pattern) in &when.headers {
            let field = format!("headers.{name}");
            self.header(&field, name, "")?;
            tests.push(Test::Header(name.clone(), self.within(&field, |it| it.pattern(pattern))?));
        }
        for (name, pattern) in &when.query {
            let matcher = self.within(&format!("query.{name}"), |it| it.pattern(pattern))?;
            tests.push(Test::Query(name.clone(), matcher));
        }
        for (at, one) in when.all.iter().enumerate() {
            tests.push(self.within(&format!("all[{at}]"), |it| it.when(one, depth + 1))?);
        }
        if !when.any.is_empty() {
            let any = when.any.iter().enumerate();
            let any = any.map(|(at, one)| self.within(&format!("any[{at}]"), |it| it.when(one, depth + 1)));
            tests.push(Test::Any(any.collect::<Result<_, _>>()?));
        }
        if let Some(not) = &when.not {
            tests.push(Test::Not(Box::new(self.within("not", |it| it.when(not, depth + 1))?)));
        }
        Ok(Test::All(tests))
    }

    /// Of a text that is always there.
    fn pattern_of_one(&mut self, pattern: &Pattern) -> Result<Matcher, At> {
        match pattern {
            Pattern::Present(_) => Err(self.fault("present", RuleFault::AlwaysPresent)),
            pattern => self.pattern(pattern),
        }
    }

    fn pattern(&mut self, pattern: &Pattern) -> Result<Matcher, At> {
        *self.parts += 1;
        Ok(match pattern {
            Pattern::Exact(text) => Matcher::Exact(text.as_bytes().into()),
            Pattern::Prefix(text) => Matcher::Prefix(text.as_bytes().into()),
            Pattern::Regex(text) => {
                let limit = self.limits.regex_bytes;
                let build = |text: &str| regex::bytes::RegexBuilder::new(text).size_limit(limit).build();
                Matcher::Regex(self.anchored(text, build)?)
            }
            Pattern::Present(wanted) => Matcher::Present(*wanted),
        })
    }

    /// An expression that has to fit a whole text.
    fn anchored<R>(&self, text: &str, build: impl Fn(&str) -> Result<R, regex::Error>) -> Result<R, At> {
        // Alone it must be right, too: `a)|(?:b` would leave its group.
        let built = build(text).and_then(|_| build(&format!("^(?:{text})$")));
        built.map_err(|cause| {
            // Its text is several lines, of which the last says what is wrong.
            let cause = cause.to_string();
            let last = cause.lines().last().unwrap_or_default();
            let last = last.trim_start_matches("error: ").to_owned();
            self.fault("regex", RuleFault::Regex(last))
        })
    }

    fn destination(&mut self, to: &Destination) -> Result<Rewrite, At> {
        *self.parts += 1;
        if let Some(authority) = &to.authority {
            self.authority(authority)?;
        } else if to.keep_host {
            return Err(self.fault("keep_host", RuleFault::NeedsAuthority));
        } else if to.keep_credentials {
            return Err(self.fault("keep_credentials", RuleFault::NeedsAuthority));
        }
        let via = to.via.as_ref().map(|text| text.to_address()).transpose();
        let via = via.map_err(|fault| self.fault("via", RuleFault::Via(fault)))?;
        let path = to.path.as_ref().map(|path| self.within("path", |it| it.path(path))).transpose()?;
        for (at, name) in to.remove_headers.iter().enumerate() {
            self.header(&format!("remove_headers[{at}]"), name, "")?;
        }
        if to.keep_host && to.set_headers.keys().any(|name| name.eq_ignore_ascii_case("host")) {
            return Err(self.fault("keep_host", RuleFault::Both("set_headers.host")));
        }
        let set_headers = self.headers("set_headers", &to.set_headers)?;
        let add_headers = self.headers("add_headers", &to.add_headers)?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(to.set_query.iter().chain(&to.add_query));
        *self.parts += to.remove_query.len() + to.set_query.len() + to.add_query.len();
        Ok(Rewrite {
            authority: to.authority.clone(),
            keep_host: to.keep_host,
            keep_credentials: to.keep_credentials,
            via,
            path,
            remove_headers: to.remove_headers.clone(),
            set_headers,
            add_headers,
            remove_query: to.remove_query.iter().chain(to.set_query.keys()).cloned().collect(),
            add_query: query.finish(),
        })
    }

    fn authority(&self, authority: &str) -> Result<(), At> {
        let wrong = |source| RuleFault::Authority { authority: authority.to_owned(), source };
        let fault = |source| self.fault("authority", wrong(source));
        if authority.contains(['/', '\\', '?', '#']) || authority.is_empty() {
            return Err(fault(None));
        }
        let url = Url::parse(&format!("http://{authority}")).map_err(|source| fault(Some(source)))?;
        // What the parser has left out, such as a line feed, is not meant.
        match url.path_and_query() == "/" && authority.is_ascii() && !authority.bytes().any(is_blank) {
            true => Ok(()),
            false => Err(fault(None)),
        }
    }

    fn path(&mut self, rewrite: &PathRewrite) -> Result<PathChange, At> {
        *self.parts += 1;
        let PathRewrite { prefix, regex, with } = rewrite;
        if !is_path(with) {
            return Err(self.fault("with", RuleFault::Path(with.clone())));
        }
        match (prefix, regex) {
            (None, None) => Ok(PathChange::Whole(with.clone())),
            (Some(_), Some(_)) => Err(self.fault("prefix", RuleFault::Both("regex"))),
            (Some(prefix), None) if !is_path(prefix) => {
                Err(self.fault("prefix", RuleFault::Path(prefix.clone())))
            }
            (Some(prefix), None) => Ok(PathChange::Prefix(prefix.clone(), with.clone())),
            (None, Some(text)) => {
                let limit = self.limits.regex_bytes;
                let build = |text: &str| regex::RegexBuilder::new(text).size_limit(limit).build();
                let regex = self.anchored(text, build)?;
                match missing_group(&regex, with) {
                    Some(group) => Err(self.fault("with", RuleFault::Group(group.to_owned()))),
                    None => Ok(PathChange::Regex(regex, with.clone())),
                }
            }
        }
    }

    /// Fields that can be sent.
    fn headers(
        &mut self,
        field: &str,
        fields: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, String)>, At> {
        for (name, value) in fields {
            self.header(&format!("{field}.{name}"), name, value)?;
        }
        Ok(fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn header(&mut self, field: &str, name: &str, value: &str) -> Result<(), At> {
        *self.parts += 1;
        if let Some(name) = RESERVED.into_iter().find(|reserved| reserved.eq_ignore_ascii_case(name)) {
            return Err(self.fault(field, RuleFault::Reserved(name)));
        }
        let mut headers = Headers::new();
        headers.append(name, value).map_err(|fault| self.fault(field, RuleFault::Header(fault)))?;
        if name.eq_ignore_ascii_case("host") && !value.is_empty() {
            let encoded =
                encode::request_head(&mut Vec::new(), &Method::GET, "/", "", &headers, Framing::None);
            encoded.map_err(|fault| self.fault(field, RuleFault::Host(fault)))?;
        }
        Ok(())
    }

    /// Goes into a field, and out again if nothing is wrong there.
    fn within<T>(&mut self, field: &str, check: impl FnOnce(&mut Self) -> Result<T, At>) -> Result<T, At> {
        let before = self.field.len();
        self.field = self.name_of(field);
        let checked = check(self);
        self.field.truncate(before);
        checked
    }

    fn name_of(&self, field: &str) -> String {
        let dot = if self.field.is_empty() { "" } else { "." };
        format!("{}{dot}{field}", self.field)
    }

    fn fault(&self, field: &str, fault: RuleFault) -> At {
        At { field: self.name_of(field), fault: Box::new(fault) }
    }

    fn here(&self, fault: RuleFault) -> At {
        At { field: self.field.clone(), fault: Box::new(fault) }
    }
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control()
}

/// Whether a text can be a path, or the beginning of one.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\\".contains(&byte))
}

/// A group that a text names, such as `$1` or `${name}`, and an expression does not have.
fn missing_group<'a>(regex: &regex::Regex, with: &'a str) -> Option<&'a str> {
    let has = |group: &str| match group.parse::<usize>() {
        Ok(number) => number < regex.captures_len(),
        Err(_) => regex.capture_names().flatten().any(|name| name == group),
    };
    let mut rest = with;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('$') {
            // It stands for itself.
            rest = behind;
            continue;
        }
        let group = match rest.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((group, _)) => group,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                &rest[..rest.find(|c| !is_name(c)).unwrap_or(rest.len())]
            }
        };
        if !group.is_empty() && !has(group) {
            return Some(group);
        }
    }
    None
}
