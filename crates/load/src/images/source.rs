//! Where the bytes of an image come from: the cell itself, or a file that it names.
//!
//! The author of the file wrote the paths in its rows, so they are followed only
//! if the user asks for it, and only below a root. The invariant: no path leads out
//! of the root, not even through links.

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use shardmill_storage::{AnyStore, Error as StorageError, Roots, Store, is_remote};
use std::borrow::Cow;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

/// No image file that is decoded here comes near it.
const MAX_FILE_BYTES: usize = 1 << 30;

/// What the cells of an image column hold.
#[derive(Debug, Clone)]
pub enum ImageSource {
    Bytes,
    /// Paths below a directory; the root of the data set if `None`.
    Path {
        root: Option<String>,
    },
    Url,
}

/// Why there are no pixels.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The image or its path is bad, whenever it is read.
    Bad(Arc<str>),
    /// The store did not respond, which says nothing about the image.
    Store(Arc<StorageError>),
}

impl Fault {
    /// Names the image in the list of its row.
    pub(super) fn of_item(self, item: u64, is_document: bool) -> Self {
        match self {
            Self::Bad(cause) if is_document => Self::Bad(of_document(item, &cause).into()),
            Self::Bad(cause) => Self::Bad(format!("image {item} of the list: {cause}").into()),
            store @ Self::Store(_) => store,
        }
    }
}

/// Where the cause is.
pub(crate) fn of_document(part: u64, cause: &str) -> String {
    format!("part {part} of the document: {cause}")
}

impl From<String> for Fault {
    fn from(cause: String) -> Self {
        Self::Bad(cause.into())
    }
}

impl From<StorageError> for Fault {
    fn from(error: StorageError) -> Self {
        if error.is_outage() {
            Self::Store(Arc::new(error))
        } else {
            Self::Bad(error.to_string().into())
        }
    }
}

/// A cell of an image column.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Encoded<'a> {
    pub(crate) bytes: Option<&'a [u8]>,
    pub(crate) path: Option<&'a str>,
    /// Width and height, if columns state them.
    pub(crate) size: Option<(i32, i32)>,
}

/// The cell of a row, which is an image or a list of them.
#[derive(Debug, Clone)]
pub(crate) enum Cell<'a> {
    Image(Encoded<'a>),
    /// The images of all rows, and those of this one; `None` if its list is null.
    List(Option<(&'a StructArray, Range<usize>)>),
}

impl<'a> Cell<'a> {
    pub(crate) fn at(cells: Option<&'a ArrayRef>, row: usize) -> Self {
        let Some(lists) = cells.and_then(|cells| cells.as_list_opt::<i32>()) else {
            return Self::Image(
                cells
                    .and_then(|cells| cells.as_struct_opt())
                    .map(|cells| Encoded::at(cells, row))
                    .unwrap_or_default(),
            );
        };
        Self::List(lists.values().as_struct_opt().zip(list_items(lists, row)))
    }
}

/// The items of a list; `None` if it is null.
pub(crate) fn list_items(lists: &ListArray, row: usize) -> Option<Range<usize>> {
    let bound = |place: usize| {
        lists.value_offsets().get(place).and_then(|offset| usize::try_from(*offset).ok())
    };
    if lists.is_null(row) { None } else { Some(bound(row)?..bound(row + 1)?) }
}

impl<'a> Encoded<'a> {
    pub(crate) fn at(cells: &'a StructArray, row: usize) -> Self {
        let bytes = cells
            .columns()
            .first()
            .and_then(|array| array.as_binary_view_opt())
            .filter(|array| array.is_valid(row));
        let path = cells
            .columns()
            .get(1)
            .and_then(|array| array.as_string_view_opt())
            .filter(|array| array.is_valid(row));
        let side = |place: usize| {
            let sides = cells.columns().get(place)?.as_primitive_opt::<Int32Type>()?;
            sides.is_valid(row).then(|| sides.value(row))
        };
        Self {
            bytes: bytes.map(|array| array.value(row)),
            path: path.map(|array| array.value(row)),
            size: side(2).zip(side(3)),
        }
    }
}

impl ImageSource {
    /// The bytes of a cell; `None` if the cell is null. `root` is that of the data set.
    pub(super) fn payload<'a>(
        &self,
        cell: Encoded<'a>,
        root: &str,
    ) -> Result<Option<Cow<'a, [u8]>>, Fault> {
        let path = match (cell.bytes, cell.path) {
            (Some(bytes), _) => return Ok(Some(Cow::Borrowed(bytes))),
            (None, None) => return Ok(None),
            (None, Some(path)) => path,
        };
        let opened =
            match self {
                Self::Bytes => return Err(format!(
                    "its bytes are null, and it names the file {path:?}; source=\"path\" reads it"
                )
                .into()),
                Self::Path { root: named } => {
                    check_path(path)?;
                    if path.starts_with(['/', '\\'])
                        || path.contains("://")
                        || path.split(['/', '\\']).any(|part| part == "..")
                    {
                        return Err(format!("the path {path:?} leads out of the root").into());
                    }
                    let root = named.as_deref().unwrap_or(root);
                    let root = if root.is_empty() { "." } else { root };
                    // An object store takes a second slash for a part of the name.
                    let slash = if root.ends_with('/') { "" } else { "/" };
                    Roots::new(&[], &[root.to_owned()]).open(&format!("{root}{slash}{path}"))
                }
                Self::Url if is_remote(path) => AnyStore.open(path),
                Self::Url => return Err(format!("{path:?} is not a URL").into()),
            };
        let file = opened.map_err(|error| fault_of(error, path))?;
        let len = usize::try_from(file.size()).ok().filter(|len| *len <= MAX_FILE_BYTES);
        let mut payload = vec![
            0;
            len.ok_or_else(|| format!(
                "the file {path:?} has {} bytes, more than an image",
                file.size()
            ))?
        ];
        file.read_at(0, &mut payload)?;
        Ok(Some(Cow::Owned(payload)))
    }
}

/// Paths that no file can have.
fn check_path(path: &str) -> Result<(), Fault> {
    match path {
        "" => Err("its path is empty".to_owned().into()),
        _ if path.contains('\0') => {
            Err(format!("the path {path:?} contains the character NUL").into())
        }
        _ => Ok(()),
    }
}

fn fault_of(error: StorageError, path: &str) -> Fault {
    match &error {
        StorageError::Open { source, .. } if source.kind() == ErrorKind::IsADirectory => {
            format!("the path {path:?} is a directory").into()
        }
        StorageError::Open { source, .. } if !is_remote(path) && !error.is_outage() => {
            format!("{error}: {source}").into()
        }
        _ => error.into(),
    }
}
