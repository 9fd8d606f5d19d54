//! What a condition tests: a column, or a value that is computed from columns.
//!
//! In JSON a column is its name, and a computed value is an object with one key:
//! `{"lower": "language"}`, `{"arithmetic": ["+", "width", {"literal": 1}]}`.

use crate::Literal;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Operand {
    Column(String),
    Computed(Box<Computed>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Computed {
    /// The same for each row.
    Literal(Literal),
    /// A string in lower case, by Unicode's rules.
    Lower(Operand),
    /// Characters of a string, bytes of a binary value, elements of a list.
    Length(Operand),
    Arithmetic(Arithmetic, Operand, Operand),
}

/// Integers stay integers and are never wrapped; `/` gives a float. Dividing by zero gives null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arithmetic {
    #[serde(rename = "+")]
    Add,
    #[serde(rename = "-")]
    Subtract,
    #[serde(rename = "*")]
    Multiply,
    #[serde(rename = "/")]
    Divide,
    /// With the sign of the dividend, as in SQL.
    #[serde(rename = "%")]
    Remainder,
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}

impl Operand {
    /// The columns that are read.
    #[must_use]
    pub fn columns(&self) -> BTreeSet<&str> {
        match self {
            Self::Column(name) => BTreeSet::from([name.as_str()]),
            Self::Computed(computed) => match computed.as_ref() {
                Computed::Literal(_) => BTreeSet::new(),
                Computed::Lower(of) | Computed::Length(of) => of.columns(),
                Computed::Arithmetic(_, left, right) => &left.columns() | &right.columns(),
            },
        }
    }

    /// As the subject of a sentence.
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Column(name) => format!("Column `{name}`"),
            Self::Computed(_) => format!("`{self}`"),
        }
    }

    /// The same inside of a sentence.
    pub(crate) fn object(&self) -> String {
        match self {
            Self::Column(name) => format!("column `{name}`"),
            Self::Computed(_) => self.subject(),
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => formatter.write_str(name),
            Self::Computed(computed) => match computed.as_ref() {
                Computed::Literal(literal) => write!(formatter, "{}", Value::from(literal.clone())),
                Computed::Lower(of) => write!(formatter, "lower({of})"),
                Computed::Length(of) => write!(formatter, "length({of})"),
                Computed::Arithmetic(op, left, right) => {
                    write!(formatter, "({left} {} {right})", op.symbol())
                }
            },
        }
    }
}

impl From<Computed> for Operand {
    fn from(computed: Computed) -> Self {
        Self::Computed(Box::new(computed))
    }
}

impl From<String> for Operand {
    fn from(name: String) -> Self {
        Self::Column(name)
    }
}

impl From<&str> for Operand {
    fn from(name: &str) -> Self {
        Self::Column(name.to_owned())
    }
}
