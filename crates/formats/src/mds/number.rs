//! The eleven number types, shared by scalars and arrays.

use arrow_schema::DataType;

/// Type of a number in a sample, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    UInt8,
    Int8,
    UInt16,
    Int16,
    Float16,
    UInt32,
    Int32,
    Float32,
    UInt64,
    Int64,
    Float64,
}

/// Name, type code before an array, and Arrow type.
const NUMBERS: [(Number, &str, u8, DataType); 11] = [
    (Number::UInt8, "uint8", 8, DataType::UInt8),
    (Number::Int8, "int8", 9, DataType::Int8),
    (Number::UInt16, "uint16", 16, DataType::UInt16),
    (Number::Int16, "int16", 17, DataType::Int16),
    (Number::Float16, "float16", 18, DataType::Float16),
    (Number::UInt32, "uint32", 32, DataType::UInt32),
    (Number::Int32, "int32", 33, DataType::Int32),
    (Number::Float32, "float32", 34, DataType::Float32),
    (Number::UInt64, "uint64", 64, DataType::UInt64),
    (Number::Int64, "int64", 65, DataType::Int64),
    (Number::Float64, "float64", 66, DataType::Float64),
];

impl Number {
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        NUMBERS.iter().find(|(_, own, ..)| *own == name).map(|(number, ..)| *number)
    }

    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        NUMBERS.iter().find(|(_, _, own, _)| *own == code).map(|(number, ..)| *number)
    }

    #[must_use]
    pub fn of_type(data_type: &DataType) -> Option<Self> {
        NUMBERS.iter().find(|(.., own)| own == data_type).map(|(number, ..)| *number)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        NUMBERS.iter().find(|(number, ..)| *number == self).map_or("", |(_, name, ..)| name)
    }

    /// The type code before an array whose encoding does not name a type.
    #[must_use]
    pub fn code(self) -> u8 {
        NUMBERS.iter().find(|(number, ..)| *number == self).map_or(0, |(_, _, code, _)| *code)
    }

    #[must_use]
    pub fn data_type(self) -> DataType {
        NUMBERS
            .iter()
            .find(|(number, ..)| *number == self)
            .map_or(DataType::Null, |(.., data_type)| data_type.clone())
    }

    /// Size in bytes.
    #[must_use]
    pub fn width(self) -> usize {
        usize::from(self.code() >> 3)
    }

    #[must_use]
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }
}
