//! Sends requests to the Hub with the user's token, and follows its redirects without it.
//!
//! The invariant: the token is sent only to the Hub's own address, and a response has the tag that
//! the Hub gave the file, no matter which server sent the bytes.

use super::site::Site;
use async_trait::async_trait;
use object_store::HeaderValue;
use object_store::client::{
    HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use url::Url;

/// Addresses signed by the Hub are valid for an hour.
const TARGET_LIVES: Duration = Duration::from_mins(15);
const MAX_TARGETS: usize = 1 << 16;
const MAX_HOPS: usize = 8;

const LINKED_TAG: &str = "x-linked-etag";
const LINKED_SIZE: &str = "x-linked-size";
const ERROR_CODE: &str = "x-error-code";

#[derive(Debug)]
pub(super) struct HubService {
    client: HttpClient,
    site: Site,
    /// The locations of files as the Hub last reported them: this saves half of the requests, whose
    /// number the Hub limits.
    targets: Mutex<HashMap<String, Target>>,
}

#[derive(Debug, Clone)]
struct Target {
    address: Url,
    tag: Option<HeaderValue>,
    since: Instant,
}

impl HubService {
    pub(super) fn new(client: HttpClient, site: &Site) -> Self {
        Self { client, site: site.clone(), targets: Mutex::default() }
    }

    fn is_own(&self, address: &Url) -> bool {
        Url::parse(&self.site.endpoint).is_ok_and(|endpoint| endpoint.origin() == address.origin())
    }

    fn target(&self, asked: &str) -> Option<Target> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.get(asked).filter(|target| target.since.elapsed() < TARGET_LIVES).cloned()
    }

    fn remember(&self, asked: &str, target: Option<Target>) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if targets.len() >= MAX_TARGETS {
            targets.clear();
        }
        match target {
            Some(target) => drop(targets.insert(asked.to_owned(), target)),
            None => drop(targets.remove(asked)),
        }
    }

    async fn ask(&self, request: &HttpRequest, address: &Url) -> Result<HttpResponse, HttpError> {
        let mut asked = request.clone();
        *asked.uri_mut() = address
            .as_str()
            .parse()
            .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let headers = asked.headers_mut();
        headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        // A commit never changes; the tags of other servers are not the Hub's.
        headers.remove("if-match");
        headers.remove("authorization");
        if let Some(token) = self.site.token.as_ref().filter(|_| self.is_own(address)) {
            let value = HeaderValue::from_str(&format!("Bearer {token}"));
            let mut value =
                value.map_err(|_| unusable("the token of the Hub contains invalid characters"))?;
            value.set_sensitive(true);
            headers.insert("authorization", value);
        }
        self.client.execute(asked).await
    }

    async fn followed(
        &self,
        request: &HttpRequest,
        asked: &str,
    ) -> Result<HttpResponse, HttpError> {
        let mut address =
            Url::parse(asked).map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let is_secure = address.scheme() == "https";
        let mut tag = None;
        for _ in 0..MAX_HOPS {
            let answer = self.ask(request, &address).await?;
            tag = tag.or_else(|| answer.headers().get(LINKED_TAG).cloned());
            let next = answer
                .headers()
                .get("location")
                .filter(|_| matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308));
            let Some(next) = next.and_then(|next| next.to_str().ok()) else {
                let is_elsewhere = answer.status().is_success() && !self.is_own(&address);
                self.remember(
                    asked,
                    is_elsewhere.then(|| Target {
                        address,
                        tag: tag.clone(),
                        since: Instant::now(),
                    }),
                );
                return Ok(coded(tagged(answer, tag)));
            };
            let next = next.to_owned();
            if let Some(size) =
                answer.headers().get(LINKED_SIZE).filter(|_| request.method() == "HEAD").cloned()
            {
                // An address signed for GET is not valid for HEAD.
                return Ok(tagged(whole(answer, size), tag));
            }
            address = address
                .join(&next)
                .map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
            if is_secure && address.scheme() != "https" {
                return Err(unusable("the Hub sent the request to an address without TLS"));
            }
        }
        Err(unusable("the Hub redirects the request too often"))
    }
}

fn unusable(why: &'static str) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, io::Error::new(io::ErrorKind::InvalidData, why))
}

fn tagged(mut answer: HttpResponse, tag: Option<HeaderValue>) -> HttpResponse {
    if let Some(tag) = tag.filter(|_| answer.status().is_success()) {
        answer.headers_mut().insert("etag", tag);
    }
    answer
}

/// The response head of a file stored elsewhere.
fn whole(mut answer: HttpResponse, size: HeaderValue) -> HttpResponse {
    answer.headers_mut().insert("content-length", size);
    if let Ok(fine) = 200.try_into() {
        *answer.status_mut() = fine;
    }
    answer
}

/// A response to a rejected token has no error code of the Hub.
fn coded(mut answer: HttpResponse) -> HttpResponse {
    if answer.status().as_u16() == 401 && !answer.headers().contains_key(ERROR_CODE) {
        answer.headers_mut().insert(ERROR_CODE, HeaderValue::from_static("InvalidHubToken"));
    }
    answer
}

#[async_trait]
impl HttpService for HubService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let asked = request.uri().to_string();
        if let Some(target) = self.target(&asked) {
            let answer = self.ask(&request, &target.address).await?;
            // A signature expires early when keys are rotated.
            if !answer.status().is_client_error() || answer.status().as_u16() == 429 {
                return Ok(tagged(answer, target.tag));
            }
            self.remember(&asked, None);
        }
        self.followed(&request, &asked).await
    }
}
