//! Data sets of the Hugging Face Hub: files are listed with its API,
//! and read as from any HTTP server.
//!
//! A branch may move while it is read. Its commit is therefore resolved once, and everything that
//! this process and its forked children list and read afterwards belongs to that commit.

mod address;
mod service;
mod site;

pub(super) use address::Address;

use super::connector::Connector;
use super::keys;
use super::read_only::Readable;
use super::retry::{Cause, cause_of, is_transient};
use async_trait::async_trait;
use object_store::client::{HttpClient, HttpConnector, HttpError, HttpRequest, HttpRequestBody};
use object_store::http::{HttpBuilder, HttpStore};
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, GetResult, ObjectMeta, ObjectStore, Result, RetryConfig,
};
use serde_json::Value;
use service::HubService;
use site::Site;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::OnceCell;
use url::Url;

const STORE: &str = "Hugging Face Hub";
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Maximal number of pages of a listing, more than any data set has.
const MAX_PAGES: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct HubStore {
    address: Address,
    site: Site,
    commit: Arc<OnceLock<String>>,
    client: HttpClient,
    retry: RetryConfig,
    files: OnceCell<HttpStore>,
}

/// Hands out an existing client.
#[derive(Debug)]
struct Made(HttpClient);

impl HttpConnector for Made {
    fn connect(&self, _options: &ClientOptions) -> Result<HttpClient> {
        Ok(self.0.clone())
    }
}

/// A response of the API, and the address of the next page.
struct Page {
    content: Value,
    next: Option<Url>,
}

impl HubStore {
    /// `commit` stores the commit of the revision once it is resolved.
    /// `client` follows no redirects.
    ///
    /// # Errors
    /// For an option that the Hub does not support.
    pub(super) fn new(
        (root, address): (&str, &Address),
        named: &[(&str, &str)],
        commit: &Arc<OnceLock<String>>,
        (connector, client): (&Connector, HttpClient),
        retry: RetryConfig,
    ) -> Result<Self, String> {
        let site = Site::new(root, named)?;
        if let Some(found) = site.commit.clone() {
            commit.get_or_init(|| found);
        }
        let client = connector.judged(HttpClient::new(HubService::new(client, &site)));
        Ok(Self {
            address: address.clone(),
            site,
            commit: Arc::clone(commit),
            client,
            retry,
            files: OnceCell::new(),
        })
    }

    fn url(&self, parts: &[&str]) -> Result<Url> {
        let mut url = Url::parse(&self.site.endpoint).map_err(|error| {
            generic(format!("the endpoint of the Hub is not a valid address: {error}"))
        })?;
        url.path_segments_mut()
            .map_err(|()| generic("the endpoint of the Hub is not a valid address".to_owned()))?
            .pop_if_empty()
            .extend(parts);
        Ok(url)
    }

    fn dataset(&self) -> (&str, &str) {
        self.address.dataset.split_once('/').unwrap_or_default()
    }

    /// The commit that is read.
    async fn commit(&self) -> Result<&str> {
        if let Some(known) = self.commit.get() {
            return Ok(known);
        }
        if self.address.is_commit() {
            return Ok(self.commit.get_or_init(|| self.address.revision.clone()));
        }
        let (owner, name) = self.dataset();
        let page = self
            .page(&self.url(&[
                "api",
                "datasets",
                owner,
                name,
                "revision",
                &self.address.revision,
            ])?)
            .await?;
        let found = page
            .content
            .get("sha")
            .and_then(Value::as_str)
            .ok_or_else(|| generic("the Hub returned no commit for the revision".to_owned()))?;
        Ok(self.commit.get_or_init(|| found.to_owned()))
    }

    async fn files(&self) -> Result<&HttpStore> {
        let make = || async {
            let (owner, name) = self.dataset();
            let url = self.url(&["datasets", owner, name, "resolve", self.commit().await?])?;
            HttpBuilder::new()
                .with_url(url)
                .with_retry(self.retry.clone())
                .with_http_connector(Made(self.client.clone()))
                .build()
        };
        self.files.get_or_try_init(make).await
    }

    /// Retries until the Hub responds or fails permanently.
    async fn page(&self, url: &Url) -> Result<Page> {
        let until = Instant::now() + self.retry.retry_timeout;
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.one_page(url).await {
                Err(failure) if is_transient(&failure) => failure,
                answer => return answer,
            };
            // A server that limits requests states how long to wait.
            let wait = match cause_of(&failure) {
                Some(Cause::Status { retry_after: Some(wished), .. }) => *wished,
                _ => pause,
            };
            if wait > until.saturating_duration_since(Instant::now()) {
                return Err(failure);
            }
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn one_page(&self, url: &Url) -> Result<Page> {
        let failed = |error: HttpError| Error::Generic { store: STORE, source: error.into() };
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = url
            .as_str()
            .parse()
            .map_err(|error| Error::NotSupported { source: Box::new(error) })?;
        let answer = self.client.execute(request).await.map_err(failed)?;
        let (status, next) = (
            answer.status(),
            answer.headers().get("link").and_then(|value| value.to_str().ok()).and_then(next_of),
        );
        let next = next.and_then(|next| url.join(next).ok());
        let is_entry =
            answer.headers().get("x-error-code").is_some_and(|code| code == "EntryNotFound");
        let body = answer.into_body().bytes().await.map_err(failed)?;
        if !status.is_success() {
            let source = format!("status {status}: {}", String::from_utf8_lossy(&body)).into();
            return Err(if is_entry {
                Error::NotFound { path: url.path().to_owned(), source }
            } else {
                Error::NotSupported { source }
            });
        }
        let content = serde_json::from_slice(&body)
            .map_err(|error| Error::NotSupported { source: Box::new(error) })?;
        Ok(Page { content, next })
    }
}

/// The address of the next page from a `Link` header.
fn next_of(link: &str) -> Option<&str> {
    let next = link.split(',').find(|part| {
        part.split(';')
            .skip(1)
            .any(|parameter| matches!(parameter.trim(), "rel=\"next\"" | "rel=next"))
    })?;
    next.split_once('<')?.1.split_once('>').map(|(address, _)| address)
}

fn generic(what: String) -> Error {
    Error::NotSupported { source: what.into() }
}

/// A file of a listing; `None` for a directory.
fn meta(entry: &Value) -> Option<ObjectMeta> {
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    if text(entry, "type")? != "file" {
        return None;
    }
    // Large files are stored elsewhere by hash; the repository contains only a pointer.
    let large = entry.get("lfs").filter(|large| large.is_object());
    let tag = large.and_then(|large| text(large, "oid")).or_else(|| text(entry, "oid"));
    let size = large.and_then(|large| large.get("size")).or_else(|| entry.get("size"))?.as_u64()?;
    let location = keys::listed(&text(entry, "path")?);
    Some(ObjectMeta {
        location,
        last_modified: SystemTime::UNIX_EPOCH.into(),
        size,
        e_tag: tag.map(|tag| format!("\"{tag}\"")),
        version: None,
    })
}

#[async_trait]
impl Readable for HubStore {
    const NAME: &'static str = "the Hugging Face Hub";

    async fn get(&self, key: &Path, options: GetOptions) -> Result<GetResult> {
        self.files().await?.get_opts(key, options).await
    }

    async fn list(&self, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let (owner, name) = self.dataset();
        let mut parts = vec!["api", "datasets", owner, name, "tree", self.commit().await?];
        parts.extend(
            prefix
                .iter()
                .flat_map(|prefix| prefix.as_ref().split('/'))
                .filter(|part| !part.is_empty()),
        );
        let mut url = self.url(&parts)?;
        url.query_pairs_mut().append_pair("recursive", "true");
        let mut found = Vec::new();
        let mut next = Some(url);
        for _ in 0..MAX_PAGES {
            let Some(url) = next.take() else { return Ok(found) };
            match self.page(&url).await {
                Ok(page) => {
                    found.extend(page.content.as_array().into_iter().flatten().filter_map(meta));
                    next = page.next;
                }
                // The data set exists, but not the directory.
                Err(Error::NotFound { .. }) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
        Err(generic("the listing of the Hub has too many pages".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::retry::RequestError;
    use super::*;
    use object_store::client::{HttpErrorKind, HttpResponse, HttpService};

    /// Asks for a pause that no clock can count.
    #[derive(Debug)]
    struct Busy;

    #[async_trait]
    impl HttpService for Busy {
        async fn call(
            &self,
            _request: HttpRequest,
        ) -> std::result::Result<HttpResponse, HttpError> {
            let cause = Cause::Status { status: 429, code: None, retry_after: Some(Duration::MAX) };
            Err(RequestError::new(cause, "busy").of_kind(HttpErrorKind::Request))
        }
    }

    #[tokio::test]
    async fn pause_beyond_the_time_that_is_left_is_an_error_however_long_it_is() {
        let (_, address) = Address::parse("datasets/o/n").unwrap();
        let site =
            Site::new("", &[("endpoint", "http://host:1"), ("skip_signature", "true")]).unwrap();
        let (client, retry) = (HttpClient::new(Busy), RetryConfig::default());
        let store = HubStore {
            address,
            site,
            commit: Arc::default(),
            client,
            retry,
            files: OnceCell::new(),
        };
        assert!(store.commit().await.is_err());
    }

    #[test]
    fn next_page_is_that_of_the_link_header() {
        assert_eq!(next_of("<http://h/x?cursor=a>; rel=\"next\""), Some("http://h/x?cursor=a"));
        assert_eq!(
            next_of("<http://h/1>; rel=\"prev\", <http://h/2>; title=\"x\"; rel=\"next\""),
            Some("http://h/2")
        );
        assert_eq!(next_of("<http://h/1>; rel=\"prev\""), None);
        assert_eq!(next_of(""), None);
    }

    #[test]
    fn large_file_has_the_size_and_the_hash_of_its_content_and_a_directory_is_none() {
        let entry = serde_json::json!({
            "type": "file",
            "path": "a/b.bin",
            "oid": "note",
            "size": 130,
            "lfs": {"oid": "content", "size": 7},
        });
        let found = meta(&entry).unwrap();
        assert_eq!(
            (found.location.as_ref(), found.size, found.e_tag.as_deref()),
            ("a/b.bin", 7, Some("\"content\""))
        );
        let small = serde_json::json!({"type": "file", "path": "a", "oid": "blob", "size": 3});
        assert_eq!(meta(&small).unwrap().e_tag.as_deref(), Some("\"blob\""));
        assert!(
            meta(&serde_json::json!({"type": "directory", "path": "a", "oid": "x", "size": 0}))
                .is_none()
        );
    }
}
