//! Writes a WebDataset tar: for each sample its images in position order, then its JSON
//! (interleaved specification §6.3).
//!
//! The invariants: two runs produce the same bytes; every name in a JSON is a member of the same
//! tar; no two samples share a stem.

use super::extension::image_extension;
use arrow_array::Array;
use arrow_schema::{FieldRef, Schema, SchemaRef};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use shardmill_documents::json::{JsonCells, json_text};
use shardmill_documents::materialize::Bodies;
use shardmill_documents::schema::{RESCUED, is_json_field, is_reserved};
use shardmill_documents::table::cast_checked;
use shardmill_documents::{Chunk, Error, Ledger, Modality, Quarantined, Result, Row};
use shardmill_formats::json::json_loads_finite;
use shardmill_formats::tar::{end_of_archive, member_header, padding};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

/// Keys of the JSON that are made of the rows of a sample, besides its id.
const PAYLOAD_KEYS: [&str; 2] = ["texts", "images"];

/// A list has a gap for each unused position, and must stay in proportion to its rows.
const MAX_LIST_LEN: usize = 1 << 20;

pub struct TarDocuments<W> {
    file: W,
    path: String,
    written: u64,
    stems: HashMap<String, u32>,
}

impl<W: Write> TarDocuments<W> {
    /// # Errors
    /// For a column with the name of a key that the rows of a sample make.
    pub fn new(path: &str, file: W, schema: &SchemaRef) -> Result<Self> {
        match schema.fields().iter().find(|field| PAYLOAD_KEYS.contains(&field.name().as_str())) {
            Some(field) => Err(Error::PayloadKey { column: field.name().clone() }),
            None => Ok(Self { file, path: path.to_owned(), written: 0, stems: HashMap::new() }),
        }
    }

    /// Writes the documents of a chunk with the passthrough columns of `schema`; returns those that
    /// lists cannot represent.
    ///
    /// # Errors
    /// For values that `schema` cannot hold, rows of other modalities, and a full disk.
    pub fn write(
        &mut self,
        chunk: &Chunk,
        schema: &Schema,
        bodies: &Bodies,
        ledger: &mut Ledger,
    ) -> Result<HashSet<usize>> {
        let foreign = chunk.rows.iter().find_map(|row| match &row.modality {
            Modality::Other(name) => Some(name.to_string()),
            _ => None,
        });
        if let Some(modality) = foreign {
            return Err(Error::UnknownModality { modality });
        }
        let columns = columns_of(chunk, schema)?;
        let mut refused = HashSet::new();
        for range in chunk.document_ranges() {
            let rows = chunk.rows.get(range.clone()).unwrap_or_default();
            let id = rows.first().map_or("", |row| chunk.id_of(row));
            match list_len(rows) {
                Ok(len) => {
                    let sample = Sample { id, rows, first_row: range.start, len };
                    self.write_sample(&sample, &columns, bodies, ledger)?;
                }
                Err(reason) => {
                    refused.extend(rows.first().map(|row| row.document));
                    ledger.drop_rows("sample that a tar cannot hold", rows.len() as u64);
                    ledger
                        .quarantined
                        .push(Quarantined::part(&self.path, format!("sample `{id}`: {reason}")));
                }
            }
        }
        Ok(refused)
    }

    fn write_sample(
        &mut self,
        sample: &Sample<'_>,
        columns: &Columns,
        bodies: &Bodies,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let stem = self.stem(sample.id, ledger);
        let mut texts = vec![Value::Null; sample.len];
        let mut images = vec![Value::Null; sample.len];
        // Rows with a list entry, in reading order: a reader assigns values to these.
        let mut entries: Vec<&Row> = Vec::new();
        for (index, row) in sample.in_reading_order() {
            let Ok(position) = usize::try_from(row.position) else { continue };
            match row.modality {
                Modality::Text => match &row.text {
                    Some(text) => {
                        set(&mut texts, position, Value::from(text.as_str()));
                        entries.push(row);
                    }
                    None => ledger.warn("text without content: null in its sample"),
                },
                Modality::Image => match bodies.get(index) {
                    Some(body) => {
                        let name = format!(
                            "{stem}.{position}.{}",
                            image_extension(row.content_type.as_deref(), body)
                        );
                        self.member(&name, body)?;
                        set(&mut images, position, Value::from(name));
                        entries.push(row);
                    }
                    None => ledger.warn("image without bytes: null in its sample"),
                },
                _ => {}
            }
        }
        let mut object = Map::new();
        object.insert("sample_id".to_owned(), Value::from(sample.id));
        object.insert("texts".to_owned(), Value::Array(texts));
        object.insert("images".to_owned(), Value::Array(images));
        add_passthrough(&mut object, sample, &entries, columns, ledger)?;
        self.member(&format!("{stem}.json"), json_text(&Value::Object(object)).as_bytes())
    }

    fn stem(&mut self, id: &str, ledger: &mut Ledger) -> String {
        // An empty stem would create a hidden file without a key; `+` occurs in no encoded id.
        let stem = if id.is_empty() {
            "+".to_owned()
        } else {
            utf8_percent_encode(id, ENCODED).to_string()
        };
        let uses = self.stems.entry(stem.clone()).or_default();
        *uses += 1;
        if *uses == 1 {
            return stem;
        }
        ledger.warn("sample id occurs more than once in a tar; later ones got a stem of their own");
        format!("{stem}+{uses}")
    }

    fn member(&mut self, name: &str, body: &[u8]) -> Result<()> {
        const ZEROS: [u8; 512] = [0; 512];
        let size = body.len() as u64;
        let padding = ZEROS.get(..padding(size)).unwrap_or_default();
        [&member_header(name, size), body, padding].into_iter().try_for_each(|part| self.put(part))
    }

    fn put(&mut self, part: &[u8]) -> Result<()> {
        self.written += part.len() as u64;
        self.file.write_all(part).map_err(|source| {
            let path = self.path.clone();
            shardmill_storage::Error::Write { path, source }.into()
        })
    }

    /// # Errors
    /// For a full disk.
    pub fn finish(mut self) -> Result<W> {
        self.put(&end_of_archive(self.written))?;
        Ok(self.file)
    }
}

fn set(list: &mut [Value], position: usize, value: Value) {
    if let Some(slot) = list.get_mut(position) {
        *slot = value;
    }
}

/// The last position plus one, if positions can be list indices.
fn list_len(rows: &[Row]) -> std::result::Result<usize, String> {
    let mut seen = HashSet::new();
    let mut len = 0;
    for row in rows.iter().filter(|row| row.modality.is_content()) {
        let position = usize::try_from(row.position)
            .map_err(|_| format!("content at position {}", row.position))?;
        if position >= MAX_LIST_LEN + rows.len() {
            return Err(format!("position {position} would need a list of that length"));
        }
        if !seen.insert((row.modality.name(), row.position)) {
            return Err(format!("two {} rows at position {position}", row.modality.name()));
        }
        len = len.max(position + 1);
    }
    Ok(len)
}

/// Percent-encoded, including dots: for every reader of WebDataset the key of the sample ends at
/// the first dot.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'~');

/// A document that is being written to the tar.
struct Sample<'a> {
    id: &'a str,
    rows: &'a [Row],
    /// Index of its first row in the chunk.
    first_row: usize,
    /// Length of both lists.
    len: usize,
}

impl Sample<'_> {
    fn in_reading_order(&self) -> Vec<(usize, &Row)> {
        let mut rows: Vec<(usize, &Row)> = (self.first_row..).zip(self.rows).collect();
        rows.sort_by_key(|(_, row)| (row.position, row.modality == Modality::Image));
        rows
    }
}

/// A passthrough column of a chunk, with the type in the sink's schema.
struct Column {
    field: FieldRef,
    cells: JsonCells,
}

/// The passthrough columns of a chunk.
struct Columns {
    columns: Vec<Column>,
    /// Values by key that are in none of them.
    rescued: Option<Column>,
}

fn columns_of(chunk: &Chunk, schema: &Schema) -> Result<Columns> {
    let fields = schema.fields().iter().filter(|field| !is_reserved(field.name()));
    let column = |field: &FieldRef| {
        let values = chunk.extras.column_by_name(field.name())?;
        let cells = cast_checked(field.name(), values, field.data_type())
            .and_then(|values| JsonCells::new(field.name(), &values));
        Some(cells.map(|cells| Column { field: Arc::clone(field), cells }))
    };
    let (rescued, columns): (Vec<Column>, Vec<Column>) = fields
        .filter_map(column)
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .partition(|column| column.field.name() == RESCUED);
    let has_rescued = chunk
        .extras
        .column_by_name(RESCUED)
        .is_some_and(|values| values.null_count() < values.len());
    Ok(Columns { columns, rescued: rescued.into_iter().next().filter(|_| has_rescued) })
}

impl Columns {
    /// The rescued values of each row of a sample, by key.
    fn rescued(&self, rows: &[Row], ledger: &mut Ledger) -> Result<Vec<Map<String, Value>>> {
        let object = |row: &Row| {
            Ok(match self.rescued.as_ref().map(|column| column.cell(row)).transpose()? {
                Some(Value::Object(mut values)) => {
                    for key in PAYLOAD_KEYS.into_iter().chain(["sample_id"]) {
                        if values.shift_remove(key).is_some() {
                            ledger.drop_key(format!(
                                "rescued value of `{key}`, a key of the sample's JSON"
                            ));
                        }
                    }
                    values
                }
                None | Some(Value::Null) => Map::new(),
                // Not what a job writes.
                Some(other) => Map::from_iter([(RESCUED.to_owned(), other)]),
            })
        };
        rows.iter().map(object).collect()
    }
}

impl Column {
    fn cell(&self, row: &Row) -> Result<Value> {
        let Some(extra) = row.extra else { return Ok(Value::Null) };
        Ok(match self.cells.value(extra as usize)? {
            Value::String(text) if is_json_field(&self.field) => {
                json_loads_finite(text.as_bytes()).unwrap_or(Value::String(text))
            }
            other => other,
        })
    }
}

/// Values of the metadata row become keys; columns with values on content rows become lists.
/// Rescued values are put back under their keys. `entries` are the rows with a position in the
/// sample's lists: a value for any other row would shift its neighbours when it is read again.
fn add_passthrough(
    object: &mut Map<String, Value>,
    sample: &Sample<'_>,
    entries: &[&Row],
    columns: &Columns,
    ledger: &mut Ledger,
) -> Result<()> {
    let rescued = columns.rescued(sample.rows, ledger)?;
    let rescued: Vec<(&Row, Map<String, Value>)> =
        sample.rows.iter().zip(rescued).filter(|(_, values)| !values.is_empty()).collect();
    let mut seen: HashSet<&str> =
        columns.columns.iter().map(|column| column.field.name().as_str()).collect();
    let other_keys = rescued
        .iter()
        .flat_map(|(_, values)| values.keys())
        .filter(|key| seen.insert(key.as_str()))
        .collect::<Vec<_>>();
    let keys = columns
        .columns
        .iter()
        .map(|column| (column.field.name(), Some(column)))
        .chain(other_keys.into_iter().map(|key| (key, None)));
    let metadata = sample.rows.iter().find(|row| row.modality == Modality::Metadata);
    let is_complete =
        entries.len() == sample.rows.iter().filter(|row| row.modality.is_content()).count();
    for (name, column) in keys {
        let cell = |row: &Row| {
            let own = column.map(|column| column.cell(row)).transpose()?.unwrap_or_default();
            let of_row = || {
                rescued
                    .iter()
                    .find(|(known, _)| std::ptr::eq(*known, row))
                    .and_then(|(_, values)| values.get(name))
                    .cloned()
            };
            Ok(if own.is_null() { of_row().unwrap_or_default() } else { own })
        };
        let cells = entries.iter().map(|row| Ok((*row, cell(row)?))).collect::<Result<Vec<_>>>()?;
        let has_values = |modality: &Modality| {
            cells.iter().any(|(row, value)| row.modality == *modality && !value.is_null())
        };
        let (on_images, on_texts) = (has_values(&Modality::Image), has_values(&Modality::Text));
        if !is_complete {
            let kept = cells.iter().filter(|(_, value)| !value.is_null()).count();
            let content = sample.rows.iter().filter(|row| row.modality.is_content());
            let all = content.map(cell).collect::<Result<Vec<_>>>()?;
            if all.iter().filter(|value| !value.is_null()).count() > kept {
                ledger.drop_key(format!("values of column `{name}` on rows without content"));
            }
        }
        let top = metadata.map(cell).transpose()?.unwrap_or(Value::Null);
        if !top.is_null() {
            if on_images || on_texts {
                ledger.drop_key(format!(
                    "values of column `{name}` on content rows, beside one for the sample"
                ));
            }
            object.insert(name.clone(), top);
            continue;
        }
        if on_images || on_texts {
            let is_listed = |row: &Row| {
                (on_images && row.modality == Modality::Image)
                    || (on_texts && row.modality == Modality::Text)
            };
            let list = cells
                .into_iter()
                .filter(|(row, _)| is_listed(row))
                .map(|(_, value)| value)
                .collect();
            object.insert(name.clone(), Value::Array(list));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_percent_encoded_dots_included() {
        for (id, stem) in [("a/b:c.d", "a%2Fb%3Ac%2Ed"), ("Ü-1_~", "%C3%9C-1_~")] {
            assert_eq!(utf8_percent_encode(id, ENCODED).to_string(), stem);
        }
    }
}
