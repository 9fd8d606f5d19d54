//! Encodings of column values, by name.

use super::Number;

/// The encoding of one column.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Encoding {
    Bytes,
    Str,
    /// A Python integer, as a signed number of 64 bits.
    Int,
    Number(Number),
    StrInt,
    StrFloat,
    StrDecimal,
    Json,
    /// Passed through, never decoded.
    Pickle,
    /// An array of numbers. Parts missing from the name precede the values of each sample.
    NdArray {
        number: Option<Number>,
        shape: Option<Vec<u32>>,
    },
    Pil,
    Jpeg,
    Png,
    JpegArray,
    /// A list of images of one kind, after a placeholder of four bytes.
    ListPil,
    ListJpeg,
    ListPng,
}

/// Limited by the byte that stores the number of dimensions.
pub(super) const MAX_DIMENSIONS: usize = 63;

impl Encoding {
    /// # Errors
    /// Describes what is wrong with the name.
    pub fn parse(name: &str) -> Result<Self, &'static str> {
        Ok(match name {
            "bytes" => Self::Bytes,
            "str" => Self::Str,
            "int" => Self::Int,
            "str_int" => Self::StrInt,
            "str_float" => Self::StrFloat,
            "str_decimal" => Self::StrDecimal,
            "json" => Self::Json,
            "pkl" => Self::Pickle,
            "pil" => Self::Pil,
            "jpeg" => Self::Jpeg,
            "png" => Self::Png,
            "jpeg_array" | "jpegarray" => Self::JpegArray,
            "list[pil]" => Self::ListPil,
            "list[jpeg]" => Self::ListJpeg,
            "list[png]" => Self::ListPng,
            "ndarray" => Self::NdArray { number: None, shape: None },
            _ => match (Number::parse(name), name.strip_prefix("ndarray:")) {
                (Some(number), _) => Self::Number(number),
                (None, Some("")) => Self::NdArray { number: None, shape: None },
                (None, Some(of)) => Self::parse_array(of)?,
                (None, None) => return Err("the encoding does not exist"),
            },
        })
    }

    fn parse_array(of: &str) -> Result<Self, &'static str> {
        let (number, shape) =
            of.split_once(':').map_or((of, None), |(number, shape)| (number, Some(shape)));
        let number = Number::parse(number).ok_or("the number type does not exist")?;
        let dimension = |text: &str| {
            text.trim()
                .parse::<u32>()
                .ok()
                .filter(|dimension| *dimension > 0 && i32::try_from(*dimension).is_ok())
        };
        let shape = shape.map(|shape| {
            shape
                .split(',')
                .map(dimension)
                .collect::<Option<Vec<u32>>>()
                .ok_or("a dimension is a number above 0")
        });
        let shape = shape.transpose()?;
        if let Some(shape) = &shape {
            if shape.len() > MAX_DIMENSIONS {
                return Err("an array has at most 63 dimensions");
            }
            let bytes = shape.iter().try_fold(number.width() as u64, |bytes, dimension| {
                bytes.checked_mul(u64::from(*dimension))
            });
            if bytes.is_none_or(|bytes| u32::try_from(bytes).is_err()) {
                return Err("its arrays are too large for a shard");
            }
        }
        Ok(Self::NdArray { number: Some(number), shape })
    }

    /// Bytes of each value, if all have the same size.
    #[must_use]
    pub fn size(&self) -> Option<usize> {
        match self {
            Self::Int => Some(8),
            Self::Number(number) => Some(number.width()),
            Self::NdArray { number: Some(number), shape: Some(shape) } => {
                Some(elements(shape).saturating_mul(number.width()))
            }
            _ => None,
        }
    }
}

/// Number of elements in an array of this shape.
pub(super) fn elements(shape: &[u32]) -> usize {
    shape.iter().fold(1, |elements: usize, dimension| {
        elements.saturating_mul(usize::try_from(*dimension).unwrap_or(usize::MAX))
    })
}
