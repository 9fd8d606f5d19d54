use super::*;
use object_store::client::HttpRequestBody;

#[test]
fn emulator_is_named_with_or_without_its_scheme() {
    for (text, address) in [
        ("http://127.0.0.1:9000/", "http://127.0.0.1:9000"),
        ("localhost:4443", "http://localhost:4443"),
        ("https://host", "https://host"),
    ] {
        assert_eq!(address_of(text).as_deref(), Some(address));
    }
}

#[test]
fn object_is_asked_for_by_json_and_everything_else_as_it_was() {
    let asked = |method: &str, address: &str| {
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = address.parse().unwrap();
        request.headers_mut().insert(IF_MATCH, HeaderValue::from_static("1"));
        let is_json = ask_by_json(&mut request).unwrap();
        assert_eq!(is_json, !request.headers().contains_key(IF_MATCH));
        is_json.then(|| request.uri().to_string())
    };
    let object = "http://h:1/bucket/a%2Fb%20c%3Fd";
    assert_eq!(
        asked("GET", object).as_deref(),
        Some("http://h:1/storage/v1/b/bucket/o/a%2Fb%20c%3Fd?alt=media")
    );
    assert!(
        asked("HEAD", object).is_some()
            && asked("PUT", object).is_none()
            && asked("DELETE", object).is_none()
    );
    assert!(
        asked("GET", "http://h:1/bucket?list-type=2").is_none()
            && asked("GET", "http://h:1/bucket").is_none()
    );
}

#[test]
fn version_is_told_by_its_number_before_its_size() {
    let tag = |pairs: &[(&'static str, &'static str)]| {
        let mut headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
            .collect();
        complete(&mut headers);
        assert!(headers.contains_key(LAST_MODIFIED));
        headers[ETAG].to_str().unwrap().to_owned()
    };
    let (size, number) = (("content-range", "bytes 0-9/123"), ("x-goog-generation", "7"));
    assert_eq!(
        [tag(&[size]), tag(&[size, number]), tag(&[size, number, ("etag", "x")]), tag(&[])],
        ["123", "7", "x", ""]
    );
}

#[test]
fn what_is_no_plain_address_is_no_emulator() {
    for text in [
        "ftp://host",
        "http://",
        "http://name:secret@host",
        "http://host/path",
        "http://host?x",
        "a b",
    ] {
        assert_eq!(address_of(text), None, "{text}");
    }
}
