use super::addresses::HARMLESS_PARAMETERS;
use super::*;

#[test]
fn lists_are_sorted() {
    assert!(HARMLESS.is_sorted() && HARMLESS_PARAMETERS.is_sorted());
    assert!(
        is_harmless("region")
            && !is_harmless("service_account")
            && !is_harmless("secret_access_key")
            && !is_harmless("proxy_url")
    );
}

#[test]
fn registered_secret_is_hidden_in_every_form() {
    let secret = "hüsh/of+a test=&\"x\\'";
    hide(secret);
    for form in forms_of(secret) {
        let text = redacted(&format!("before {form} after"));
        assert_eq!(text, "before … after", "{form}");
    }
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("name:{secret}"));
    let left = redacted(&basic);
    assert!(left.contains('…') && left.len() < basic.len() / 2, "{left}");
    assert_eq!(redacted("plain words stay"), "plain words stay");
}

#[test]
fn parts_of_json_are_hidden_and_addresses_in_it_are_not() {
    hide(concat!(
        r#"{"type": "service_account", "#,
        r#""private_key": "-----BEGIN-----\nMIIabcdefgh\nIJKLMNOPQR\n", "#,
        r#""token_uri": "https://token.example/x"}"#,
    ));
    let text = redacted("MIIabcdefgh and IJKLMNOPQR at https://token.example/x of service_account");
    assert_eq!(text, "… and … at https://token.example/x of service_account");
}

#[test]
fn address_keeps_its_place_alone() {
    for (url, left) in [
        ("s3://bucket/a/b.parquet", "s3://bucket/a/b.parquet"),
        ("s3://bucket/a-?.parquet", "s3://bucket/a-?.parquet"),
        ("s3://bucket/year=202?/month=1/a", "s3://bucket/year=202?/month=1/a"),
        ("s3://bucket/user@example.com/a", "s3://bucket/user@example.com/a"),
        ("hf://datasets/o/n@main/a", "hf://datasets/o/n@main/a"),
        ("abfss://container@account.host/a", "abfss://container@account.host/a"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("s3://user:0000000189/=@host/x", "s3://…@host/x"),
        ("http://user:0000000189/=@host/x", "http://…@host/x"),
        ("s3://b/?list-type=2&prefix=a", "s3://b/?list-type=2&prefix=a"),
        ("C:/a@b", "C:/…@b"),
        ("https://name:word@host/a", "https://…@host/a"),
        ("https://token@host/a", "https://…@host/a"),
        ("ftp://name:wo/rd@host/a", "ftp://…@host/a"),
        ("abfss://container:key@account/a", "abfss://…@account/a"),
        ("https:/name:word@host/a", "https:/…@host/a"),
        (
            "https://host/a?X-Amz-Signature=abc&prefix=x&bare",
            "https://host/a?X-Amz-Signature=…&prefix=x&…",
        ),
        ("az://c/a?sv=1&sig=abc", "az://c/a?sv=…&sig=…"),
        ("https://host/a#access_token=x", "https://host/a#…"),
        ("https://host/a;token=x/b?alt=1;jwt=y", "https://host/a;token=…?alt=1;jwt=…"),
        ("https:name:word@host/a", "https:…@host/a"),
    ] {
        assert_eq!(
            redacted(&format!("Failed to open `{url}`: no")),
            format!("Failed to open `{left}`: no")
        );
    }
}

#[test]
fn address_with_keys_is_distinguished_from_a_plain_one() {
    for path in [
        "s3://name:word@bucket/a",
        "az://c/a?sv=1&sig=abc",
        "https://host/a#access_token=x",
        "hf://a:b@datasets/o/n",
    ] {
        assert!(has_keys(path), "{path}");
    }
    for path in [
        "s3://bucket/a@b",
        "hf://datasets/o/n@main/a",
        "abfss://c@account/a",
        "s3://b/year=202?/month=1/",
        "/local/key?x",
        "s3://b/a#b",
    ] {
        assert!(!has_keys(path), "{path}");
    }
}

#[test]
fn secret_of_an_address_is_hidden_wherever_it_stands() {
    hide_in_url("https://name:pass%20word9@host/a?sig=signature9");
    assert_eq!(redacted("pass word9, pass%20word9 and signature9"), "…, … and …");
}
