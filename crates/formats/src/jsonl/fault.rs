//! Reasons for bad lines.

use crate::records::shown;
use arrow_schema::DataType;

/// Without the position in the file, which only the caller knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
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
    /// A field that the schema lacks.
    Unknown {
        field: String,
    },
}

impl Fault {
    /// Adds the enclosing field: `inner` becomes `outer.inner`.
    pub(super) fn inside(mut self, outer: &str) -> Self {
        if let Self::Value { field, .. }
        | Self::InvalidUtf8 { field }
        | Self::Duplicate { field }
        | Self::Unknown { field } = &mut self
        {
            *field = match field.as_str() {
                "" => outer.to_owned(),
                inner if inner.starts_with('[') => format!("{outer}{inner}"),
                inner => format!("{outer}.{inner}"),
            };
        }
        self
    }

    pub(super) fn value(text: &[u8], data_type: &DataType) -> Self {
        Self::Value { field: String::new(), value: shown(text), data_type: data_type.clone() }
    }
}
