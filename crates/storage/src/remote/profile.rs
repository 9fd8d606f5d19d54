//! Credentials of the files that the AWS command line keeps, which object_store does not read.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::PathBuf;

/// Options of a profile, as object_store calls them.
pub(super) fn options(profile: Option<&str>) -> Vec<(&'static str, String)> {
    let named = profile.map(str::to_owned).or_else(|| env::var("AWS_PROFILE").ok()).unwrap_or_else(|| "default".to_owned());
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default().join(".aws");
    let file = |variable: &str, name: &str| {
        let path = env::var_os(variable).map_or_else(|| home.join(name), PathBuf::from);
        fs::read_to_string(path).unwrap_or_default()
    };
    let credentials = section(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), &named);
    let config = file("AWS_CONFIG_FILE", "config");
    let mut settings = section(&config, &if named == "default" { named.clone() } else { format!("profile {named}") });
    settings.extend(credentials);
    let known = [
        ("aws_access_key_id", "aws_access_key_id"),
        ("aws_secret_access_key", "aws_secret_access_key"),
        ("aws_session_token", "aws_session_token"),
        ("region", "aws_region"),
        ("endpoint_url", "aws_endpoint"),
    ];
    known.into_iter().filter_map(|(name, option)| Some((option, settings.remove(name)?))).collect()
}

fn section(text: &str, wanted: &str) -> HashMap<String, String> {
    let mut is_wanted = false;
    let mut found = HashMap::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_wanted = name.trim() == wanted;
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_wanted && !line.starts_with(['#', ';'])) {
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
        let text = "[default]\naws_access_key_id = A\n# aws_secret_access_key = no\n\n[profile other]\naws_access_key_id=B\nregion = eu-1\n";
        assert_eq!(section(text, "default"), HashMap::from([("aws_access_key_id".to_owned(), "A".to_owned())]));
        assert_eq!(section(text, "profile other").get("region").map(String::as_str), Some("eu-1"));
        assert!(section(text, "absent").is_empty());
    }
}
