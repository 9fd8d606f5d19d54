//! Credentials from the files of the AWS command line, which object_store does not read.

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use std::{env, fmt, fs};

/// A profile in those files. Another process may write new keys into them while this process runs,
/// before the old ones expire.
pub(super) struct Profile {
    name: String,
    files: [PathBuf; 2],
    known: Mutex<Option<(Seen, Arc<AwsCredential>)>>,
}

/// Identifies a version of the files.
type Seen = [Option<(SystemTime, u64)>; 2];

impl Profile {
    pub(super) fn new(name: Option<&str>) -> Self {
        let name = name
            .map(str::to_owned)
            .or_else(|| env::var("AWS_PROFILE").ok())
            .unwrap_or_else(|| "default".to_owned());
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(".aws");
        let file = |variable: &str, name: &str| {
            env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from)
        };
        let files =
            [file("AWS_CONFIG_FILE", "config"), file("AWS_SHARED_CREDENTIALS_FILE", "credentials")];
        Self { name, files, known: Mutex::default() }
    }

    /// The options of the profile, with the names of object_store.
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        let mut settings = self.settings();
        let known = [("region", "aws_region"), ("endpoint_url", "aws_endpoint")];
        known
            .into_iter()
            .filter_map(|(name, option)| Some((option, settings.remove(name)?)))
            .collect()
    }

    /// `None` if the profile has no keys.
    pub(super) fn keys(&self) -> Option<Arc<AwsCredential>> {
        let seen = self.files.each_ref().map(|file| {
            fs::metadata(file).and_then(|file| Ok((file.modified()?, file.len()))).ok()
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, keys)) = known.as_ref().filter(|(before, _)| *before == seen) {
            return Some(Arc::clone(keys));
        }
        let mut settings = self.settings();
        let mut setting = |name: &str| settings.remove(name);
        match (setting("aws_access_key_id"), setting("aws_secret_access_key")) {
            (Some(key_id), Some(secret_key)) => {
                let keys = Arc::new(AwsCredential {
                    key_id,
                    secret_key,
                    token: setting("aws_session_token"),
                });
                *known = Some((seen, Arc::clone(&keys)));
                Some(keys)
            }
            // Another process is writing them right now.
            _ => known.as_ref().map(|(_, keys)| Arc::clone(keys)),
        }
    }

    fn settings(&self) -> HashMap<String, String> {
        let [config, credentials] =
            self.files.each_ref().map(|file| fs::read_to_string(file).unwrap_or_default());
        let in_config = if self.name == "default" {
            self.name.clone()
        } else {
            format!("profile {}", self.name)
        };
        let mut settings = section(&config, &in_config);
        settings.extend(section(&credentials, &self.name));
        settings
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Profile").field("name", &self.name).finish_non_exhaustive()
    }
}

#[async_trait]
impl CredentialProvider for Profile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.keys().ok_or_else(|| object_store::Error::Unauthenticated {
            path: self.name.clone(),
            source: "the profile no longer has keys".into(),
        })
    }
}

fn section(text: &str, wanted: &str) -> HashMap<String, String> {
    let mut is_wanted = false;
    let mut found = HashMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_wanted = name.trim() == wanted;
        } else if let Some((name, value)) =
            line.split_once('=').filter(|_| is_wanted && !line.starts_with(['#', ';']))
        {
            found.insert(name.trim().to_owned(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_ends_where_the_next_begins() {
        let text = "[default]\naws_access_key_id = A\n# aws_secret_access_key = no\n\n[profile \
            other]\naws_access_key_id=B\nregion = eu-1\n";
        assert_eq!(
            section(text, "default"),
            HashMap::from([("aws_access_key_id".to_owned(), "A".to_owned())])
        );
        assert_eq!(section(text, "profile other").get("region").map(String::as_str), Some("eu-1"));
        assert!(section(text, "absent").is_empty());
    }

    #[test]
    fn keys_are_those_that_the_file_holds_now_and_never_half_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("credentials");
        let profile = Profile {
            name: "default".to_owned(),
            files: [directory.path().join("config"), file.clone()],
            known: Mutex::default(),
        };
        assert!(profile.keys().is_none());
        let write = |text: &str| fs::write(&file, text).unwrap();
        write("[default]\naws_access_key_id = A\naws_secret_access_key = secret\n");
        assert_eq!(profile.keys().unwrap().key_id, "A");
        write("[default]\naws_access_key_id = B\n");
        assert_eq!(profile.keys().unwrap().key_id, "A");
        write(
            "[default]\naws_access_key_id = B\naws_secret_access_key = secret \
             2\naws_session_token = T\n",
        );
        let keys = profile.keys().unwrap();
        assert_eq!((keys.key_id.as_str(), keys.token.as_deref()), ("B", Some("T")));
        assert!(!format!("{profile:?}").contains("secret"));
    }
}
