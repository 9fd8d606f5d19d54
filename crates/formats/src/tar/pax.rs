//! The records of PAX extended headers that determine position and name of a file.
//!
//! Called by the walk with a header's body. Records are split by their length prefix, never at a
//! newline, because values may contain any byte.

/// Relevant records of extended headers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link_path: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) is_sparse: bool,
    pub(super) sparse_name: Option<Vec<u8>>,
}

impl Records {
    /// Reads the records of one header body; the error is the offset of the malformed record in it.
    pub(super) fn parse(body: &[u8]) -> Result<Self, usize> {
        let mut records = Self::default();
        let mut rest = body;
        // Some writers pad the body with NULs inside its size.
        while rest.first().is_some_and(|&byte| byte != 0) {
            let offset = body.len() - rest.len();
            let (keyword, value, behind) = split_record(rest).ok_or(offset)?;
            records.set(keyword, value).ok_or(offset)?;
            rest = behind;
        }
        // If there is no record, or more bytes follow the NULs, part of the body was overwritten.
        if rest.len() == body.len() && !body.is_empty() || rest.iter().any(|&byte| byte != 0) {
            return Err(body.len() - rest.len());
        }
        Ok(records)
    }

    /// Overrides these records with those of a later header.
    pub(super) fn update(&mut self, later: Self) {
        self.path = later.path.or(self.path.take());
        self.link_path = later.link_path.or(self.link_path.take());
        self.size = later.size.or(self.size);
        self.is_sparse |= later.is_sparse;
        self.sparse_name = later.sparse_name.or(self.sparse_name.take());
    }

    // An empty value removes the value of the header block. A file without name or size is not
    // valid, and readers differ on how to handle it.
    fn set(&mut self, keyword: &[u8], value: &[u8]) -> Option<()> {
        match keyword {
            b"path" if value.is_empty() => return None,
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link_path = Some(value.to_vec()),
            b"size" => self.size = Some(decimal(value)?),
            _ if keyword.starts_with(b"GNU.sparse.") => {
                self.is_sparse = true;
                if keyword == b"GNU.sparse.name" {
                    self.sparse_name = Some(value.to_vec());
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// Splits `"<length> <keyword>=<value>\n"` off the front; the length counts itself.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|&byte| byte == b' ')?;
    let len = usize::try_from(decimal(bytes.get(..space)?)?).ok()?;
    let (record, behind) = bytes.split_at_checked(len)?;
    let (newline, pair) = record.get(space + 1..)?.split_last()?;
    if *newline != b'\n' {
        return None;
    }
    let equals = pair.iter().position(|&byte| byte == b'=')?;
    let (keyword, value) = pair.split_at_checked(equals)?;
    Some((keyword, value.get(1..)?, behind))
}

fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn value_with_newline_and_equals_is_kept_whole() {
        let records = Records::parse(b"13 path=a\nb=\n").unwrap();
        assert_eq!(records.path.as_deref(), Some(&b"a\nb="[..]));
    }

    #[test]
    fn later_record_wins() {
        let records = Records::parse(b"9 size=1\n9 size=2\n").unwrap();
        assert_eq!(records.size, Some(2));
    }

    #[test]
    fn body_that_was_overwritten_with_zeros_is_malformed() {
        assert!(Records::parse(b"6 a=b\n\0\0\0").is_ok());
        assert!(Records::parse(b"").is_ok());
        assert_eq!(Records::parse(&[0; 20]), Err(0));
        assert_eq!(Records::parse(b"6 a=b\n\0\0\x006 a=b\n"), Err(6));
    }

    #[test]
    fn malformed_record_reports_its_offset() {
        for bad in [
            "x size=1\n",
            "0 size=1\n",
            "2 size=1\n",
            "99 size=1\n",
            "9 size=1 ",
            "99999999999999999999999999 size=1\n",
            "18446744073709551615 a=b\n",
            "8 size1\n",
            "9 size=x\n",
            "8 size=\n",
            "8 path=\n",
            "10 size=-1\n",
            "29 size=18446744073709551616\n",
        ] {
            let body = format!("6 a=b\n{bad}");
            assert_eq!(Records::parse(body.as_bytes()), Err(6), "{bad:?}");
        }
    }
}
