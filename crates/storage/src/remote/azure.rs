//! Block uploads to Azure.
//!
//! The client of the store sends the last request of a block upload without metadata and without a
//! condition. Both are added before it is sent, and the request is signed again. The invariant: an
//! upload that must not replace an object is rejected by the store itself if the object exists.

use super::conditional::ConditionalUploads;
use super::retry::{Cause, cause_of};
use async_trait::async_trait;
use object_store::azure::{
    AzureAuthorizer, AzureCredential, AzureCredentialProvider, MicrosoftAzure,
};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, MultipartId, PutMultipartOptions, PutPayload, PutResult, Result,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

const METADATA: &str = "x-ms-meta-";

tokio::task_local! {
    /// The headers to add to the requests of the current task.
    static ADDED: Added;
}

#[derive(Debug, Clone)]
struct Added {
    headers: HeaderMap,
    credentials: AzureCredentialProvider,
}

/// The blocks of objects that are not committed yet.
#[derive(Debug)]
pub(super) struct Blocks {
    store: Arc<MicrosoftAzure>,
    conditional: Arc<ConditionalUploads>,
    /// Azure has no upload ids, only blocks, so the ids are generated here.
    begun: Mutex<HashMap<MultipartId, HeaderMap>>,
}

impl Blocks {
    pub(super) fn new(store: Arc<MicrosoftAzure>, conditional: Arc<ConditionalUploads>) -> Self {
        Self { store, conditional, begun: Mutex::default() }
    }

    fn begin(&self, headers: HeaderMap) -> MultipartId {
        let id = uuid::Uuid::new_v4().simple().to_string();
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), headers);
        id
    }

    fn end(&self, id: &MultipartId) {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    fn headers(&self, id: &MultipartId) -> HeaderMap {
        let mut headers = self
            .begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(id)
            .cloned()
            .unwrap_or_default();
        if self.conditional.holds(id) {
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        headers
    }
}

#[async_trait]
impl MultipartStore for Blocks {
    async fn create_multipart(&self, _path: &Path) -> Result<MultipartId> {
        Ok(self.begin(HeaderMap::new()))
    }

    async fn create_multipart_opts(
        &self,
        _path: &Path,
        options: PutMultipartOptions,
    ) -> Result<MultipartId> {
        Ok(self.begin(metadata(&options.attributes)?))
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        self.store.put_part(path, id, part, data).await
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let added =
            Added { headers: self.headers(id), credentials: Arc::clone(self.store.credentials()) };
        let put = ADDED.scope(added, self.store.complete_multipart(path, id, parts)).await;
        self.end(id);
        // After an earlier attempt committed the blocks they no longer exist; the token tells whose
        // object it is.
        put.map_err(|error| if is_block_list_gone(&error) { gone(path, error) } else { error })
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.end(id);
        self.store.abort_multipart(path, id).await
    }
}

fn is_block_list_gone(error: &Error) -> bool {
    matches!(
        cause_of(error),
        Some(Cause::Status { code: Some(code), .. }) if code == "InvalidBlockList"
    )
}

fn gone(path: &Path, error: Error) -> Error {
    Error::NotFound { path: path.to_string(), source: Box::new(error) }
}

fn metadata(attributes: &Attributes) -> Result<HeaderMap> {
    let unusable = || Error::NotSupported { source: "only metadata goes with blocks".into() };
    let header = |(attribute, value): (&Attribute, &object_store::AttributeValue)| match attribute {
        Attribute::Metadata(name) => {
            let name = HeaderName::try_from(format!("{METADATA}{name}")).map_err(|_| unusable())?;
            Ok((name, HeaderValue::from_str(value).map_err(|_| unusable())?))
        }
        _ => Err(unusable()),
    };
    attributes.iter().map(header).collect()
}

/// Adds the headers of the current task to a request.
pub(super) async fn add_to(request: &mut HttpRequest) -> std::result::Result<(), HttpError> {
    // Requests for credentials made on the way stay unchanged.
    let is_last = request.method() == "PUT"
        && request.uri().query().is_some_and(|query| query.contains("comp=blocklist"));
    let Ok(added) = ADDED.try_with(Clone::clone) else { return Ok(()) };
    if !is_last {
        return Ok(());
    }
    added.to(request).await.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))
}

impl Added {
    async fn to(self, request: &mut HttpRequest) -> Result<()> {
        request.headers_mut().extend(self.headers);
        let signed = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(account) = signed
            .and_then(|text| text.strip_prefix("SharedKey ")?.split_once(':'))
            .map(|(account, _)| account.to_owned())
        else {
            // Token credentials authenticate the caller and do not sign the request.
            return Ok(());
        };
        let credential = self.credentials.get_credential().await?;
        if matches!(*credential, AzureCredential::AccessKey(_)) {
            request.headers_mut().remove(AUTHORIZATION);
            AzureAuthorizer::new(&credential, &account).try_authorize(request)?;
        }
        Ok(())
    }
}
