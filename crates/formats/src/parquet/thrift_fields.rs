//! The fields and types of the Thrift structures that a reader of Parquet
//! decodes (parquet-format, `parquet.thrift`).
//!
//! The decoder skips fields that are not listed here, whatever they are; a missing entry costs
//! safety, a wrong one rejects valid files.

/// The fields of a structure: ids and kinds.
pub(super) type Fields = &'static [(u8, Kind)];

#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Any,
    Boolean,
    Byte,
    /// A 16, 32 or 64-bit number; their encodings look alike.
    Number,
    /// A number of values for which the decoder allocates before it reads any.
    Count,
    Double,
    Text,
    List(&'static Self),
    Structure(Fields),
}

impl Kind {
    pub(super) fn allows(self, wire: u8) -> bool {
        match self {
            Self::Any => true,
            Self::Boolean => matches!(wire, 1 | 2),
            Self::Byte => wire == 3,
            Self::Number | Self::Count => matches!(wire, 4..=6),
            Self::Double => wire == 7,
            Self::Text => wire == 8,
            Self::List(_) => matches!(wire, 9 | 10),
            Self::Structure(_) => wire == 12,
        }
    }

    /// No known writer puts more rows into a row group (pyarrow's limit), let alone into a page.
    const MAX_COUNT: u64 = 1 << 26;

    /// Whether the decoder may read this number, given as zigzag digits.
    pub(super) fn allows_number(self, zigzag: u64) -> bool {
        !matches!(self, Self::Count) || (zigzag & 1 == 0 && zigzag >> 1 <= Self::MAX_COUNT)
    }

    pub(super) fn fields(self) -> Fields {
        match self {
            Self::Structure(fields) => fields,
            _ => &[],
        }
    }

    pub(super) fn element(self) -> Self {
        match self {
            Self::List(element) => *element,
            _ => Self::Any,
        }
    }
}

use Kind::{Boolean, Byte, Count, Double, List, Number, Structure, Text};

const EMPTY: Kind = Structure(&[]);
const NUMBERS: Kind = List(&Number);
const TEXTS: Kind = List(&Text);
const KEY_VALUES: Kind = List(&Structure(&[(1, Text), (2, Text)]));

/// `FileMetaData`
pub(super) const FILE: Fields = &[
    (1, Number),
    (2, List(&Structure(SCHEMA_ELEMENT))),
    (3, Number),
    (4, List(&Structure(ROW_GROUP))),
    (5, KEY_VALUES),
    (6, Text),
    (7, List(&Structure(&[(1, EMPTY)]))),
    (8, Structure(&[(1, AES), (2, AES)])),
    (9, Text),
];

/// `ColumnIndex`
pub(super) const COLUMN_INDEX: Fields = &[
    (1, List(&Boolean)),
    (2, List(&Text)),
    (3, List(&Text)),
    (4, Number),
    (5, List(&Number)),
    (6, List(&Number)),
    (7, List(&Number)),
];

/// `OffsetIndex`
pub(super) const OFFSET_INDEX: Fields =
    &[(1, List(&Structure(&[(1, Number), (2, Number), (3, Number)]))), (2, List(&Number))];

/// `BloomFilterHeader`
pub(super) const BLOOM_FILTER: Fields = &[
    (1, Number),
    (2, Structure(&[(1, EMPTY)])),
    (3, Structure(&[(1, EMPTY)])),
    (4, Structure(&[(1, EMPTY)])),
];

/// `PageHeader`
pub(super) const PAGE: Fields = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Number),
    (5, Structure(&[(1, Count), (2, Number), (3, Number), (4, Number), (5, STATISTICS)])),
    (6, EMPTY),
    (7, Structure(&[(1, Count), (2, Number), (3, Boolean)])),
    (
        8,
        Structure(&[
            (1, Count),
            (2, Number),
            (3, Number),
            (4, Number),
            (5, Number),
            (6, Number),
            (7, Boolean),
            (8, STATISTICS),
        ]),
    ),
];

const SCHEMA_ELEMENT: Fields = &[
    (1, Number),
    (2, Number),
    (3, Number),
    (4, Text),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, Number),
    (9, Number),
    (10, Structure(LOGICAL_TYPE)),
];

const LOGICAL_TYPE: Fields = &[
    (1, EMPTY),
    (2, EMPTY),
    (3, EMPTY),
    (4, EMPTY),
    (5, Structure(&[(1, Number), (2, Number)])),
    (6, EMPTY),
    (7, TIME),
    (8, TIME),
    (10, Structure(&[(1, Byte), (2, Boolean)])),
    (11, EMPTY),
    (12, EMPTY),
    (13, EMPTY),
    (14, EMPTY),
    (15, EMPTY),
    (16, Structure(&[(1, Byte)])),
    (17, Structure(&[(1, Text)])),
    (18, Structure(&[(1, Text), (2, Number)])),
];

const TIME: Kind =
    Structure(&[(1, Boolean), (2, Structure(&[(1, EMPTY), (2, EMPTY), (3, EMPTY)]))]);

const ROW_GROUP: Fields = &[
    (1, List(&Structure(COLUMN_CHUNK))),
    (2, Number),
    (3, Number),
    (4, List(&Structure(&[(1, Number), (2, Boolean), (3, Boolean)]))),
    (5, Number),
    (6, Number),
    (7, Number),
];

const COLUMN_CHUNK: Fields = &[
    (1, Text),
    (2, Number),
    (3, Structure(COLUMN)),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, Structure(&[(1, EMPTY), (2, Structure(&[(1, TEXTS), (2, Text)]))])),
    (9, Text),
];

const COLUMN: Fields = &[
    (1, Number),
    (2, NUMBERS),
    (3, TEXTS),
    (4, Number),
    (5, Number),
    (6, Number),
    (7, Number),
    (8, KEY_VALUES),
    (9, Number),
    (10, Number),
    (11, Number),
    (12, STATISTICS),
    (13, List(&Structure(&[(1, Number), (2, Number), (3, Number)]))),
    (14, Number),
    (15, Number),
    (16, Structure(&[(1, Number), (2, NUMBERS), (3, NUMBERS)])),
    (17, Structure(&[(1, Structure(BOUNDING_BOX)), (2, NUMBERS)])),
];

const STATISTICS: Kind = Structure(&[
    (1, Text),
    (2, Text),
    (3, Number),
    (4, Number),
    (5, Text),
    (6, Text),
    (7, Boolean),
    (8, Boolean),
    (9, Number),
]);

const BOUNDING_BOX: Fields = &[
    (1, Double),
    (2, Double),
    (3, Double),
    (4, Double),
    (5, Double),
    (6, Double),
    (7, Double),
    (8, Double),
];

const AES: Kind = Structure(&[(1, Text), (2, Text), (3, Boolean)]);
