//! Endpoint and credentials of the Hub.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;

const ENDPOINT: &str = "https://huggingface.co";

/// The invariant: the token is never shown.
#[derive(Clone)]
pub(super) struct Site {
    /// Without a trailing slash.
    pub(super) endpoint: String,
    pub(super) token: Option<String>,
    /// The commit of the data set if it is already resolved.
    pub(super) commit: Option<String>,
}

impl fmt::Debug for Site {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Site").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Site {
    /// # Errors
    /// For an option that the Hub does not support.
    pub(super) fn new(root: &str, named: &[(&str, &str)]) -> Result<Self, String> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let mut site = Self {
            endpoint: set("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned()),
            token: None,
            commit: None,
        };
        let mut is_anonymous = false;
        for (name, value) in named {
            match *name {
                "endpoint" | "endpoint_url" => site.endpoint = (*value).to_owned(),
                "token" => site.token = Some((*value).to_owned()),
                "skip_signature" => is_anonymous = *value == "true",
                "revisions" => {
                    site.commit = value.split_whitespace().find_map(|pair| {
                        pair.strip_prefix(root)?.strip_prefix('=').map(str::to_owned)
                    });
                }
                "allow_http" => {}
                other => {
                    return Err(format!(
                        "the Hub has no storage option `{other}`; it has token and endpoint"
                    ));
                }
            }
        }
        site.endpoint.truncate(site.endpoint.trim_end_matches('/').len());
        site.token = match (site.token, is_anonymous) {
            (_, true) => None,
            (Some(token), _) => Some(token),
            (None, _) => set("HF_TOKEN").or_else(kept_token),
        };
        Ok(site)
    }
}

/// The token stored by `hf auth login`.
fn kept_token() -> Option<String> {
    let directory =
        |name: &str| env::var_os(name).filter(|directory| !directory.is_empty()).map(PathBuf::from);
    let home = || {
        directory("HF_HOME").or_else(|| {
            Some(
                directory("XDG_CACHE_HOME")
                    .or_else(|| Some(directory("HOME")?.join(".cache")))?
                    .join("huggingface"),
            )
        })
    };
    let file = directory("HF_TOKEN_PATH").or_else(|| Some(home()?.join("token")))?;
    Some(fs::read_to_string(file).ok()?.trim().to_owned()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_the_environment_and_secrets_are_not_shown() {
        let site = Site::new(
            "hf://datasets/o/n",
            &[
                ("endpoint", "http://host:1/"),
                ("token", "hunter2"),
                ("revisions", "hf://datasets/o/nn=b hf://datasets/o/n=a"),
            ],
        );
        let site = site.unwrap();
        assert_eq!(
            (site.endpoint.as_str(), site.token.as_deref(), site.commit.as_deref()),
            ("http://host:1", Some("hunter2"), Some("a"))
        );
        assert!(!format!("{site:?}").contains("hunter2"));
        assert!(
            Site::new("", &[("token", "hunter2"), ("skip_signature", "true")])
                .unwrap()
                .token
                .is_none()
        );
        assert!(Site::new("", &[("colour", "red")]).unwrap_err().contains("colour"));
    }
}
