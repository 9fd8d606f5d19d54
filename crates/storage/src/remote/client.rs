//! Creates the client of a store from its options and the environment.

use super::azure::Blocks;
use super::conditional::ConditionalUploads;
use super::connector::{Connector, Counts};
use super::credentials::{self, Renewed};
use super::fsspec::FsspecStore;
use super::google;
use super::hub::HubStore;
use super::limiter::ConcurrencyLimiter;
use super::location::Location;
use super::options::{Limits, StorageOptions, is_endpoint};
use super::profile::Profile;
use super::read_only::ReadOnly;
use super::service::Service;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::client::HttpClient;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, RetryConfig};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The clients with which one process accesses a store.
pub(super) struct Client {
    pub(super) objects: Arc<dyn ObjectStore>,
    /// For stores with multipart uploads.
    pub(super) parts: Option<Arc<dyn MultipartStore>>,
    /// For stores that can be listed page by page.
    pub(super) pages: Option<Arc<dyn PaginatedListStore>>,
    pub(super) limiter: Arc<ConcurrencyLimiter>,
    pub(super) counts: Arc<Counts>,
    pub(super) conditional: Arc<ConditionalUploads>,
    /// Whether the store serves suffix ranges.
    pub(super) knows_ends: bool,
}

type Made =
    (Arc<dyn ObjectStore>, Option<Arc<dyn MultipartStore>>, Option<Arc<dyn PaginatedListStore>>);

impl Client {
    /// `commit` belongs to the store and is shared by its processes.
    pub(super) fn new(
        location: &Location,
        options: &StorageOptions,
        commit: &Arc<OnceLock<String>>,
    ) -> Result<Self, String> {
        static PROVIDER: Once = Once::new();
        // Another library in this process may have installed a provider; any provider works.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let (limits, named) = options.split()?;
        let limiter = Arc::new(ConcurrencyLimiter::new(limits.max_requests));
        let counts = Arc::new(Counts::default());
        let conditional = Arc::new(ConditionalUploads::default());
        let connector = Connector {
            limiter: Arc::clone(&limiter),
            counts: Arc::clone(&counts),
            conditional: Arc::clone(&conditional),
            patience: limits.request_timeout,
            is_web: location.service == Service::Http,
            asks_by_json: false,
            allows_imdsv1: named.iter().any(|(name, _)| name.contains("imdsv1"))
                || std::env::var_os("AWS_IMDSV1_FALLBACK").is_some(),
        };
        let parts = Parts { location, limits: &limits, named: &named, options, connector };
        let made = match location.service {
            Service::S3 => parts.s3(),
            Service::Gcs => parts.gcs(),
            Service::Azure => parts.azure(),
            Service::Http => parts.http(),
            Service::Hub => parts.hub(commit),
            Service::Fsspec => parts.fsspec(),
        };
        let (objects, parts, pages) = made.map_err(|error| options.scrubbed(&error.to_string()))?;
        Ok(Self {
            objects,
            parts,
            pages,
            limiter,
            counts,
            conditional,
            knows_ends: location.service != Service::Azure,
        })
    }
}

fn unusable(what: String) -> object_store::Error {
    object_store::Error::NotSupported { source: what.into() }
}

/// Parsed as in object_store.
fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y")
}

struct Parts<'a> {
    location: &'a Location,
    limits: &'a Limits,
    named: &'a [(&'a str, &'a str)],
    options: &'a StorageOptions,
    connector: Connector,
}

impl Parts<'_> {
    fn retry(&self) -> RetryConfig {
        let backoff =
            BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 };
        // The deadline ends the retries, not their number.
        RetryConfig { backoff, max_retries: usize::MAX, retry_timeout: self.limits.retry_timeout }
    }

    fn client(&self) -> ClientOptions {
        let is_plain =
            |(name, value): &(&str, &str)| is_endpoint(name) && value.starts_with("http://");
        let allows_http =
            self.named.iter().any(is_plain) || self.location.root.starts_with("http://");
        let options = ClientOptions::new()
            .with_connect_timeout(CONNECT)
            .with_timeout_disabled()
            .with_read_timeout(self.limits.request_timeout);
        if allows_http { options.with_allow_http(true) } else { options }
    }

    fn s3(self) -> object_store::Result<Made> {
        let mut builder = AmazonS3Builder::from_env()
            .with_client_options(self.client())
            .with_retry(self.retry())
            .with_url(&self.location.root);
        let names = |wanted: &str| self.named.iter().any(|(name, _)| name.contains(wanted));
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let has_environment = is_set("AWS_ACCESS_KEY_ID")
            || is_set("AWS_WEB_IDENTITY_TOKEN_FILE")
            || is_set("AWS_SKIP_SIGNATURE");
        let has_source = self.options.credentials().is_some();
        let needs_profile = self.limits.profile.is_some()
            || !(has_source || has_environment || names("access_key") || names("skip_signature"));
        if needs_profile {
            let profile = Profile::new(self.limits.profile.as_deref());
            let is_said = |name: &str| match name {
                "aws_region" => is_set("AWS_REGION") || is_set("AWS_DEFAULT_REGION"),
                _ => is_set("AWS_ENDPOINT_URL") || is_set("AWS_ENDPOINT"),
            };
            for (name, value) in profile.options().into_iter().filter(|(name, _)| !is_said(name)) {
                builder = builder.with_config(name.parse::<AmazonS3ConfigKey>()?, value);
            }
            if !has_source
                && !names("access_key")
                && !names("skip_signature")
                && profile.keys().is_some()
            {
                builder = builder.with_credentials(Arc::new(profile));
            }
        }
        if std::env::var("AWS_ENDPOINT_URL")
            .or_else(|_| std::env::var("AWS_ENDPOINT"))
            .is_ok_and(|url| url.starts_with("http://"))
        {
            builder = builder.with_allow_http(true);
        }
        for (name, value) in self.named {
            builder = builder.with_config(name.parse::<AmazonS3ConfigKey>()?, *value);
        }
        if let Some(source) = self.options.credentials() {
            builder = builder.with_credentials(Renewed::new(source, credentials::aws));
        }
        let store = Arc::new(builder.with_http_connector(self.connector).build()?);
        Ok((Arc::clone(&store) as _, Some(Arc::clone(&store) as _), Some(store)))
    }

    fn gcs(mut self) -> object_store::Result<Made> {
        let mut builder = GoogleCloudStorageBuilder::from_env()
            .with_client_options(self.client())
            .with_retry(self.retry())
            .with_url(self.location.root.replacen("gcs://", "gs://", 1));
        let names = |wanted: &[&str]| {
            self.named.iter().any(|(name, _)| wanted.iter().any(|wanted| name.contains(wanted)))
        };
        let base = builder.get_config_value(&GoogleConfigKey::BaseUrl);
        if base.as_ref().is_some_and(|address| address.starts_with("http://")) {
            builder = builder.with_client_options(self.client().with_allow_http(true));
        }
        let has_address = base.is_some() || self.named.iter().any(|(name, _)| is_endpoint(name));
        let emulator = if has_address { None } else { google::emulator().map_err(unusable)? };
        if let Some(address) = &emulator {
            self.connector.asks_by_json = google::has_json_emulator();
            builder = builder
                .with_base_url(address)
                .with_skip_signature(true)
                .with_client_options(self.client().with_allow_http(true));
        }
        // A key file may also set another address.
        let has_keys = names(&["service_account", "credentials", "bearer"])
            || builder.get_config_value(&GoogleConfigKey::ServiceAccount).is_some();
        if let Some(token) =
            google::token().filter(|_| !has_address && emulator.is_none() && !has_keys)
        {
            builder = builder.with_bearer_token(token);
        }
        for (name, value) in self.named {
            builder = match is_endpoint(name) {
                true => builder.with_base_url(value.trim_end_matches('/')),
                false => builder.with_config(name.parse::<GoogleConfigKey>()?, *value),
            };
        }
        let is_anonymous = builder
            .get_config_value(&GoogleConfigKey::SkipSignature)
            .is_some_and(|is_skipped| is_true(&is_skipped));
        if is_anonymous {
            // Otherwise write requests would still look for credentials on the metadata
            // server of Google.
            builder = builder.with_bearer_token("");
        }
        if let Some(source) = self.options.credentials().filter(|_| !is_anonymous) {
            builder = builder.with_credentials(Renewed::new(source, credentials::gcp));
        }
        let store = Arc::new(builder.with_http_connector(self.connector).build()?);
        Ok((Arc::clone(&store) as _, Some(Arc::clone(&store) as _), Some(store)))
    }

    fn azure(self) -> object_store::Result<Made> {
        let mut builder = MicrosoftAzureBuilder::from_env()
            .with_client_options(self.client())
            .with_retry(self.retry())
            .with_url(&self.location.root);
        if builder
            .get_config_value(&AzureConfigKey::Endpoint)
            .is_some_and(|address| address.starts_with("http://"))
        {
            builder = builder.with_allow_http(true);
        }
        for (name, value) in self.named {
            builder = builder.with_config(name.parse::<AzureConfigKey>()?, *value);
        }
        if let Some(source) = self.options.credentials() {
            builder = builder.with_credentials(Renewed::new(source, credentials::azure));
        }
        let has_emulator = builder
            .get_config_value(&AzureConfigKey::UseEmulator)
            .is_some_and(|is_used| is_true(&is_used));
        let is_named = self.location.root.contains('@') || has_emulator;
        if !is_named && builder.get_config_value(&AzureConfigKey::AccountName).is_none() {
            let source = "no account is named: give account_name in storage_options, \
                or set AZURE_STORAGE_ACCOUNT_NAME"
                .into();
            return Err(object_store::Error::NotSupported { source });
        }
        let conditional = Arc::clone(&self.connector.conditional);
        let store = Arc::new(builder.with_http_connector(self.connector).build()?);
        Ok((
            Arc::clone(&store) as _,
            Some(Arc::new(Blocks::new(Arc::clone(&store), conditional))),
            Some(store),
        ))
    }

    fn http(self) -> object_store::Result<Made> {
        let mut builder = HttpBuilder::new()
            .with_client_options(self.client())
            .with_retry(self.retry())
            .with_url(&self.location.root);
        for (name, value) in self.named {
            builder = builder.with_config(name.parse::<ClientConfigKey>()?, *value);
        }
        Ok((Arc::new(builder.with_http_connector(self.connector).build()?), None, None))
    }

    fn hub(self, commit: &Arc<OnceLock<String>>) -> object_store::Result<Made> {
        // The headers of the Hub's redirects are needed too.
        let plain = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT);
        let plain = plain
            .read_timeout(self.limits.request_timeout)
            .user_agent(concat!("shardmill/", env!("CARGO_PKG_VERSION")))
            .build();
        let client = HttpClient::new(plain.map_err(|error| unusable(error.to_string()))?);
        let client = self.connector.watched(client.clone(), client);
        let address = self.location.hub().map_err(unusable)?;
        let store = HubStore::new(
            (&self.location.root, &address),
            self.named,
            commit,
            (&self.connector, client),
            self.retry(),
        )
        .map_err(unusable)?;
        Ok((Arc::new(ReadOnly(Arc::new(store))), None, None))
    }

    fn fsspec(self) -> object_store::Result<Made> {
        if let Some((name, _)) = self.named.first() {
            return Err(unusable(format!(
                "storage option `{name}` is not supported with a file system"
            )));
        }
        let files = self
            .options
            .files()
            .ok_or_else(|| unusable("no file system was passed for the scheme".to_owned()))?;
        Ok((Arc::new(ReadOnly(Arc::new(FsspecStore::new(&self.location.root, files)))), None, None))
    }
}
