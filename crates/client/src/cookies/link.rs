//! A jar in the chain of a call: it adds cookies to each attempt, and takes those of its response.

use std::time::SystemTime;

use super::CookieJar;
use crate::ClientBuilder;
use crate::call::Call;
use crate::call::request::CallRequest;
use crate::chain::{Calling, Interceptor, Next};

impl ClientBuilder {
    /// Keeps cookies in this jar, and sends them. At each redirect, and at each retry, the jar decides anew what goes out. Without this no cookie is
    /// kept.
    ///
    /// A request that is [forwarded](crate::Client::forward) leaves the jar alone: its cookies are of whoever sent it.
    ///
    /// The field `cookie` of a call goes with those of the jar, and before them: a cookie of the same name is left out.
    ///
    /// ```
    /// use anywire_client::Client;
    /// use anywire_client::cookies::CookieJar;
    ///
    /// let jar = CookieJar::new();
    /// let client = Client::builder().cookies(jar.clone()).build();
    /// ```
    pub fn cookies(mut self, jar: CookieJar) -> Self {
        self.cookies = Some(jar);
        self
    }
}

impl Call {
    /// Leaves the jar of the client alone: this call sends none of its cookies, and keeps none.
    pub fn without_cookies(self) -> Self {
        self.edit(|request| {
            request.options.without_cookies = true;
            Ok(())
        })
    }
}

impl CookieJar {
    /// As a link of the chain.
    pub(crate) fn into_link(self) -> impl Interceptor {
        Link(self)
    }
}

struct Link(CookieJar);

impl Interceptor for Link {
    fn intercept(&self, mut request: CallRequest, next: Next) -> Calling {
        // What is forwarded has the cookies of another.
        if request.options.without_cookies || request.options.is_forwarded {
            return next.call(request);
        }
        let (jar, url) = (self.0.clone(), request.url.clone());
        Box::pin(async move {
            let own: Vec<_> = request.headers.get_all("cookie").map(String::from_utf8_lossy).collect();
            if let Some(field) = jar.header_beside(&url, &own.join("; "), SystemTime::now()) {
                request.headers.remove("cookie");
                request.headers.append_sensitive("cookie", field)?;
            }
            let response = next.call(request).await?;
            let now = SystemTime::now();
            for line in response.headers().get_all("set-cookie") {
                // What the jar refuses it counts. Nothing is wrong with the response.
                let _ = jar.receive(&url, line, now);
            }
            Ok(response)
        })
    }
}
