//! One call of a plan: its request, and its response on the way to its place.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anywire::client::proxy::Proxies;
use anywire::client::{Client, Response};
use anywire::http::{Body, Headers, Method};
use anywire::loops::Loops;

use super::arguments::Call;
use super::cookies::Kept;
use super::data::Data;
use super::deadline::{SoFar, Stage};
use super::place::Place;
use super::request;
use super::resume::{Resume, Verdict};
use super::shown;
use super::watch::Watch;
use super::writer::Writer;
use crate::explain;
use crate::failure::{Code, Failure};
use crate::output;
use crate::values;

/// One of the URLs.
struct Target {
    url: String,
    place: Place,
    /// What the user in the URL said to the server, if there was one.
    authorization: Option<String>,
}

/// What all calls of a command line share, checked before the first of them.
pub(super) struct Plan {
    call: Call,
    method: Method,
    verbose: bool,
    headers: Headers,
    targets: Vec<Target>,
    /// The data of the call, kept for the next URL.
    data: Mutex<Data>,
    cookies: Option<Kept>,
    proxies: Arc<Proxies>,
    client: Client,
    /// They carry the calls for as long as there are any.
    _loops: Loops,
}

impl Plan {
    /// Checks all that can be known before a call.
    pub(super) fn of(call: Call, method: Method, verbose: bool) -> Result<Self, Failure> {
        let url = |text: &String| call.data.url(values::url(text, call.connection.via.as_ref())?);
        let urls = call.urls.iter().map(url).collect::<Result<Vec<_>, _>>()?;
        let (urls, users): (Vec<_>, Vec<_>) = urls.into_iter().map(request::without_user).unzip();
        let places = Place::all(&call.response, &urls)?;
        places.iter().try_for_each(|place| place.check(&call.data))?;
        let headers = call.request.headers(call.data.fields())?;
        let loops = Loops::start(1).map_err(|error| Failure::of(Code::Failed, &error))?;
        let cookies = call.request.cookies.kept()?;
        let proxies = call.connection.proxies()?;
        let client = call.client(&loops, verbose, &proxies)?;
        let client = cookies.iter().fold(client, |client, cookies| cookies.apply(client)).build();
        let targets = urls.into_iter().zip(places).zip(users);
        let targets =
            targets.map(|((url, place), authorization)| Target { url, place, authorization }).collect();
        let data = Mutex::new(call.data.clone());
        let proxies = Arc::new(proxies);
        Ok(Self { call, method, verbose, headers, targets, data, cookies, proxies, client, _loops: loops })
    }

    /// How many calls there are.
    pub(super) fn count(&self) -> usize {
        self.targets.len()
    }

    /// How long each may take.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.call.connection.timeout
    }

    pub(super) fn url(&self, at: usize) -> &str {
        &self.targets[at].url
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Calls, and writes the response.
    pub(super) async fn exchange(&self, at: usize, so_far: &Arc<SoFar>) -> Result<(), Failure> {
        let Target { url, place, authorization } = &self.targets[at];
        let body = self.body(so_far)?;
        let file = place.file();
        if let Some(file) = file {
            so_far.facts().written_to(file.display().to_string());
        }
        let resume = file.filter(|_| self.call.response.continue_at.is_some()).and_then(Resume::of);
        let mut headers = Cow::Borrowed(&self.headers);
        let user = authorization.iter().filter(|_| !self.headers.contains("authorization"));
        let user = user.map(|said| ("authorization", said.clone()));
        for (name, value) in resume.iter().flat_map(Resume::fields).chain(user) {
            headers.to_mut().insert(name, value).map_err(|invalid| Failure::of(Code::Usage, &invalid))?;
        }
        so_far.reaches(Stage::Call);
        let connection = &self.call.connection;
        let mut call = self.client.request(self.method.clone(), url);
        for (name, value) in headers.iter() {
            // Whoever writes it means that the body waits, and a body that goes at once would say nothing by it.
            let waits = name.eq_ignore_ascii_case("expect") && value.eq_ignore_ascii_case(b"100-continue");
            call = if waits { call.expect_continue(0) } else { call.header(name, value) };
        }
        call = call.body(body);
        if let Some(via) = &connection.via {
            call = call.via(via);
        }
        let watch = Watch::new(so_far, self.verbose, connection.versions.name(), &self.proxies);
        call = call.redirects(connection.redirects()).retries(connection.retries()).extension(watch);
        let (trace, facts) = (so_far.facts().calls(), Arc::clone(so_far));
        call = call.trace(&trace).on_interim(move |head| facts.facts().informed(&shown::head(head)));
        let response = call.send().await.map_err(|error| explain::call(url, &error))?;
        so_far.reaches(Stage::Answer);
        so_far.facts().answered(&response);
        let options = &self.call.response;
        let status = response.status();
        // Before `--fail` is asked: the status of this response is 416, and nothing has failed.
        if resume.as_ref().is_some_and(|resume| resume.is_whole(status, response.headers())) {
            return Ok(());
        }
        let is_failure = (options.fail || options.fail_with_body) && status.as_u16() >= 400;
        let wants_body = !is_failure || options.fail_with_body;
        let from = match resume {
            Some(resume) if wants_body => {
                match resume.judge(status, response.headers(), response.length())? {
                    Verdict::Append => Some(resume.from()),
                    Verdict::Anew => {
                        self.say(format_args!("it has changed there: {} is written anew", place.name()));
                        None
                    }
                }
            }
            _ => None,
        };
        if wants_body || options.include {
            so_far.reaches(Stage::Output);
            let writer = Writer::open(place, from, &response, options)?;
            self.write(url, writer, response, wants_body, so_far).await?;
        }
        if is_failure {
            let found = format!("calling {url}: the status of the answer is {status}");
            let failure = Failure::new(Code::Status, found);
            return Err(match wants_body {
                true => failure.help("its body says more"),
                false => failure.help("leave out --fail to see what the server says"),
            });
        }
        Ok(())
    }

    /// The body of the request. Reading it may block, so the call's time is running.
    fn body(&self, so_far: &SoFar) -> Result<Body, Failure> {
        let mut data = self.data.lock().unwrap_or_else(PoisonError::into_inner);
        let may_repeat = self.call.connection.may_repeat();
        if self.targets.len() > 1 || may_repeat {
            data.keep(may_repeat)?;
        }
        data.body(so_far)
    }

    /// Writes the response while it comes, its body only if that is wanted.
    async fn write(
        &self,
        url: &str,
        mut writer: Writer,
        mut response: Response,
        wants_body: bool,
        so_far: &SoFar,
    ) -> Result<(), Failure> {
        if self.call.response.include {
            // A write may block, so the lock is not held.
            let redirects = so_far.facts().heads();
            writer.head(&redirects)?;
            writer.head(&shown::head(response.head()))?;
        }
        so_far.reaches(Stage::Answer);
        while wants_body
            && let Some(chunk) = response.chunk().await.map_err(|error| explain::call(url, &error))?
        {
            so_far.facts().received(chunk.len());
            so_far.reaches(Stage::Output);
            writer.body(&chunk)?;
            so_far.reaches(Stage::Answer);
        }
        writer.end()
    }

    /// Shows what `--trace` asks for.
    pub(super) fn trace(&self, so_far: &SoFar) {
        if self.call.response.trace {
            output::say(so_far.facts().chart(output::is_coloured(&io::stderr())).trim_end());
        }
    }

    /// Prints what `--write-out` asks for.
    pub(super) fn write_out(
        &self,
        at: usize,
        so_far: &SoFar,
        failure: Option<&Failure>,
    ) -> Result<(), Failure> {
        let Some(format) = &self.call.response.write_out else { return Ok(()) };
        let place = (at, self.url(at), self.method.as_str());
        format.print(so_far, place, failure, self.call.is_insecure())
    }

    /// Writes cookies to their file.
    pub(super) fn save_cookies(&self) -> Result<(), Failure> {
        self.cookies.as_ref().map_or(Ok(()), Kept::save)
    }

    /// Says something beside the result.
    fn say(&self, text: impl Display) {
        if !self.call.response.silent {
            output::say(text);
        }
    }
}
