//! The columns of a data set: names in byte order, each with its encoding.

use super::encoding::Encoding;
use super::write::can_encode;
use super::{Error, Number};
use arrow_schema::{DataType, Field, Schema};

/// Metadata key of a field for the name of its encoding.
pub const ENCODING_KEY: &str = "mds.encoding";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub encoding: Encoding,
    /// The encoding as named by the user, which is written to files.
    pub encoding_name: String,
}

/// Sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// From names and encodings such as `ndarray:float32:2`.
    ///
    /// # Errors
    /// [`Error::Encoding`] for an encoding that does not exist, and for a repeated name.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut parsed = Vec::new();
        for (name, encoding_name) in columns {
            let refused = |reason| Error::Encoding {
                column: name.to_owned(),
                encoding: encoding_name.to_owned(),
                reason,
            };
            let encoding = Encoding::parse(encoding_name).map_err(refused)?;
            parsed.push(Column {
                name: name.to_owned(),
                encoding,
                encoding_name: encoding_name.to_owned(),
            });
        }
        parsed.sort_by(|first, second| first.name.cmp(&second.name));
        if let Some(column) = parsed.windows(2).find_map(|pair| {
            pair.first().filter(|first| pair.last().is_some_and(|last| last.name == first.name))
        }) {
            let (name, encoding) = (column.name.clone(), column.encoding_name.clone());
            return Err(Error::Encoding {
                column: name,
                encoding,
                reason: "the column is named twice",
            });
        }
        Ok(Self(parsed))
    }

    /// The lossless encodings for the values of a schema.
    ///
    /// A field that was read from MDS keeps its encoding if its type still fits. Otherwise: binary
    /// is `bytes`, text `str`, int64 `int`, boolean `uint8`, every other number its own name, a
    /// decimal `str_decimal`; lists of numbers are `ndarray`, with a shape if the sizes are fixed;
    /// other lists, structs and maps are `json`.
    ///
    /// # Errors
    /// [`Error::NoEncoding`] for a type without an encoding, such as a date.
    pub fn of_schema(schema: &Schema) -> Result<Self, Error> {
        let encoding_of = |field: &Field| {
            let known =
                field.metadata().get(ENCODING_KEY).filter(|known| fits(known, field.data_type()));
            let derived = || encoding_of_type(field.data_type());
            known.cloned().or_else(derived).ok_or_else(|| Error::NoEncoding {
                column: field.name().clone(),
                data_type: field.data_type().clone(),
            })
        };
        let encodings = schema
            .fields()
            .iter()
            .map(|field| encoding_of(field))
            .collect::<Result<Vec<_>, _>>()?;
        Self::new(
            schema
                .fields()
                .iter()
                .zip(&encodings)
                .map(|(field, encoding)| (field.name().as_str(), encoding.as_str())),
        )
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Column> {
        self.0.iter()
    }

    #[must_use]
    pub fn get(&self, number: usize) -> Option<&Column> {
        self.0.get(number)
    }
}

fn fits(encoding: &str, data_type: &DataType) -> bool {
    Encoding::parse(encoding).is_ok_and(|encoding| can_encode(&encoding, data_type))
}

fn encoding_of_type(data_type: &DataType) -> Option<String> {
    use DataType::{
        Binary, BinaryView, Boolean, Decimal32, Decimal64, Decimal128, Decimal256, Dictionary,
        FixedSizeBinary, FixedSizeList, Int64, LargeBinary, LargeList, LargeUtf8, List, Map,
        Struct, Utf8, Utf8View,
    };
    let named = match data_type {
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "bytes".to_owned(),
        Utf8 | LargeUtf8 | Utf8View => "str".to_owned(),
        Int64 => "int".to_owned(),
        Boolean => "uint8".to_owned(),
        Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => "str_decimal".to_owned(),
        Dictionary(_, values) => return encoding_of_type(values),
        List(item) | LargeList(item) if Number::of_type(item.data_type()).is_some() => {
            format!("ndarray:{}", Number::of_type(item.data_type())?.name())
        }
        FixedSizeList(..) => match fixed_shape(data_type) {
            Some((number, shape)) => format!("ndarray:{}:{}", number.name(), shape.join(",")),
            None => "json".to_owned(),
        },
        List(_) | LargeList(_) | Struct(_) | Map(..) => "json".to_owned(),
        number => Number::of_type(number)?.name().to_owned(),
    };
    fits(&named, data_type).then_some(named)
}

fn fixed_shape(data_type: &DataType) -> Option<(Number, Vec<String>)> {
    let mut shape = Vec::new();
    let mut inner = data_type;
    while let DataType::FixedSizeList(item, size) = inner {
        if *size < 1 {
            return None;
        }
        shape.push(size.to_string());
        inner = item.data_type();
    }
    Some((Number::of_type(inner)?, shape))
}
