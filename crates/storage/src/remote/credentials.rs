//! Credentials that are renewed before they expire.

use super::providers::{CredentialSource, Credentials};
use super::retry::{Cause, RequestError};
use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::azure::{AzureAccessKey, AzureCredential, split_sas};
use object_store::gcp::GcpCredential;
use object_store::{CredentialProvider, Error, Result};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// New credentials are fetched this long before the old ones expire, because the store rejects
/// requests that are in flight at that moment.
const EARLY: Duration = Duration::from_mins(5);

/// The last result of a source, converted for one kind of store.
#[derive(Debug)]
pub(super) struct Renewed<T> {
    source: Arc<dyn CredentialSource>,
    made_of: fn(&Credentials) -> Result<T, String>,
    known: Mutex<Option<Known<T>>>,
}

#[derive(Debug)]
struct Known<T> {
    credential: Arc<T>,
    until: Option<SystemTime>,
}

impl<T> Known<T> {
    fn holds(&self) -> bool {
        self.until.is_none_or(|until| SystemTime::now() < until)
    }
}

impl<T> Renewed<T> {
    pub(super) fn new(
        source: &Arc<dyn CredentialSource>,
        made_of: fn(&Credentials) -> Result<T, String>,
    ) -> Arc<Self> {
        Arc::new(Self { source: Arc::clone(source), made_of, known: Mutex::new(None) })
    }
}

/// Renewed early, but not immediately again if they live only for minutes.
fn until(expires: Option<SystemTime>) -> Option<SystemTime> {
    let left = expires?.duration_since(SystemTime::now()).unwrap_or_default();
    expires?.checked_sub(EARLY.min(left / 4))
}

fn failed(why: &str) -> Error {
    Error::Unauthenticated {
        path: String::new(),
        source: Box::new(RequestError::new(
            Cause::CredentialSource,
            format!("the credential provider failed: {why}"),
        )),
    }
}

#[async_trait]
impl<T: Debug + Send + Sync + 'static> CredentialProvider for Renewed<T> {
    type Credential = T;

    async fn get_credential(&self) -> Result<Arc<T>> {
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.holds()) {
            return Ok(Arc::clone(&known.credential));
        }
        let source = Arc::clone(&self.source);
        let fetched = tokio::task::spawn_blocking(move || source.fetch())
            .await?
            .map_err(|error| failed(&error.to_string()))?;
        let credential = Arc::new((self.made_of)(&fetched).map_err(|why| failed(&why))?);
        *known = Some(Known { credential: Arc::clone(&credential), until: until(fetched.expires) });
        Ok(credential)
    }
}

fn key(credentials: &Credentials, name: &str) -> Result<String, String> {
    credentials.keys.get(name).cloned().ok_or_else(|| format!("it returned no `{name}`"))
}

pub(super) fn aws(credentials: &Credentials) -> Result<AwsCredential, String> {
    Ok(AwsCredential {
        key_id: key(credentials, "access_key_id")?,
        secret_key: key(credentials, "secret_access_key")?,
        token: credentials.keys.get("token").cloned(),
    })
}

pub(super) fn gcp(credentials: &Credentials) -> Result<GcpCredential, String> {
    Ok(GcpCredential { bearer: key(credentials, "token")? })
}

pub(super) fn azure(credentials: &Credentials) -> Result<AzureCredential, String> {
    if let Some(key) = credentials.keys.get("access_key") {
        return AzureAccessKey::try_new(key)
            .map(AzureCredential::AccessKey)
            .map_err(|_| "its `access_key` is not Base64".to_owned());
    }
    if let Some(signature) = credentials.keys.get("sas_token") {
        return split_sas(signature)
            .map(AzureCredential::SASToken)
            .map_err(|_| "its `sas_token` is not a query".to_owned());
    }
    key(credentials, "token")
        .map(AzureCredential::BearerToken)
        .map_err(|_| "it returned no `access_key`, `sas_token` or `token`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Debug)]
    struct Counted {
        asked: AtomicU64,
        lives: Option<Duration>,
    }

    impl CredentialSource for Counted {
        fn id(&self) -> usize {
            0
        }

        fn fetch(&self) -> io::Result<Credentials> {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let keys = [("token".to_owned(), number.to_string())].into_iter().collect();
            Ok(Credentials { keys, expires: self.lives.map(|lives| SystemTime::now() + lives) })
        }
    }

    async fn tokens(lives: Option<Duration>) -> [String; 2] {
        let source: Arc<dyn CredentialSource> =
            Arc::new(Counted { asked: AtomicU64::new(0), lives });
        let renewed = Renewed::new(&source, gcp);
        let first = renewed.get_credential().await.unwrap().bearer.clone();
        tokio::time::sleep(Duration::from_millis(120)).await;
        [first, renewed.get_credential().await.unwrap().bearer.clone()]
    }

    #[tokio::test]
    async fn source_is_asked_again_when_its_answer_nears_its_end_and_not_before() {
        assert_eq!(tokens(None).await, ["0", "0"]);
        assert_eq!(tokens(Some(Duration::from_secs(3600))).await, ["0", "0"]);
        assert_eq!(tokens(Some(Duration::from_millis(150))).await, ["0", "1"]);
    }

    #[test]
    fn what_is_missing_is_named_and_nothing_given_is_shown() {
        let given = |name: &str, value: &str| Credentials {
            keys: [(name.to_owned(), value.to_owned())].into(),
            expires: None,
        };
        assert!(aws(&given("access_key_id", "hunter2")).unwrap_err().contains("secret_access_key"));
        assert!(azure(&given("other", "hunter2")).unwrap_err().contains("sas_token"));
        assert!(!azure(&given("access_key", "hunter2!")).unwrap_err().contains("hunter2"));
        assert!(!format!("{:?}", given("token", "hunter2")).contains("hunter2"));
        assert_eq!(
            azure(&given("sas_token", "sv=1&sig=a%2Fb")).unwrap(),
            AzureCredential::SASToken(vec![
                ("sv".to_owned(), "1".to_owned()),
                ("sig".to_owned(), "a/b".to_owned())
            ])
        );
    }
}
