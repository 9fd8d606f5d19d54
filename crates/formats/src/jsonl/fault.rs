//! Why a line is bad.

use arrow_schema::DataType;

/// Without its place in the file, which only the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// `position` counts bytes in the line.
    Syntax {
        position: usize,
        expected: &'static str,
    },
    NotAnObject,
    Value {
        field: String,
        value: String,
        data_type: DataType,
    },
    InvalidUtf8 {
        field: String,
    },
    Duplicate {
        field: String,
    },
}

impl Fault {
    /// Fields are named from the inside out: `inner` becomes `outer.inner`.
    pub(super) fn inside(mut self, outer: &str) -> Self {
        if let Self::Value { field, .. } | Self::InvalidUtf8 { field } | Self::Duplicate { field } = &mut self {
            *field = match field.as_str() {
                "" => outer.to_owned(),
                inner if inner.starts_with('[') => format!("{outer}{inner}"),
                inner => format!("{outer}.{inner}"),
            };
        }
        self
    }

    pub(super) fn value(text: &[u8], data_type: &DataType) -> Self {
        const SHOWN_CHARS: usize = 60;
        let start = text.get(..text.len().min(4 * SHOWN_CHARS)).unwrap_or_default();
        let mut value: String = String::from_utf8_lossy(start).chars().take(SHOWN_CHARS).collect();
        if value.len() < text.len() {
            value.push('…');
        }
        Self::Value { field: String::new(), value, data_type: data_type.clone() }
    }
}
