//! Stages implemented outside of this crate, such as the user's own Python.
//!
//! They receive whole documents, one chunk per call; how documents are grouped
//! into calls is not guaranteed.

use crate::report::SplitReport;
use crate::results::Results;
use crate::stage::StageContext;
use crate::stage::images::{fetch, is_decodable, own_page};
use crate::{Error, Result, StageFailure};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{FieldRef, Schema};
use bytes::Bytes;
use shardmill_documents::materialize::Bodies;
use shardmill_documents::payload::Payload;
use shardmill_documents::schema::{RESCUED, RESERVED, with_reserved};
use shardmill_documents::settle::apply_verdict;
use shardmill_documents::source::located_rows::locate_missing;
use shardmill_documents::table::{batch_of, from_table, to_table};
use shardmill_documents::{Chunk, Error as DocumentError, Modality};
use std::sync::Arc;

/// One image and the texts of its sample.
#[derive(Debug)]
pub struct JudgedImage {
    pub bytes: Bytes,
    /// Index into the texts of the call.
    pub document: usize,
}

/// A filter that judges decoded images.
pub trait ImageJudge: Send + Sync {
    fn name(&self) -> &str;

    fn drops_invalid_rows(&self) -> bool;

    /// One verdict per image; `texts[image.document]` are the text rows of its sample.
    ///
    /// # Errors
    /// Errors raised by the filter. An image that it cannot decode gets a verdict
    /// and is not an error.
    fn judge(
        &self,
        images: &[JudgedImage],
        texts: &[Vec<String>],
    ) -> std::result::Result<Vec<Verdict>, StageFailure>;
}

/// What a filter says about an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    Drop,
    /// Kept, and counted in the report: the filter does not decode this format.
    Unjudged(&'static str),
}

impl From<bool> for Verdict {
    fn from(is_kept: bool) -> Self {
        if is_kept { Self::Keep } else { Self::Drop }
    }
}

/// A function from table to table.
pub trait TableMap: Send + Sync {
    fn name(&self) -> &str;

    /// Whether the function needs the bytes of every image, including those that would be fetched
    /// only when they are written.
    fn needs_bytes(&self) -> bool;

    /// Whether the function decodes every image: those above the memory limit get an error before
    /// it is called.
    fn decodes_images(&self) -> bool {
        false
    }

    /// # Errors
    /// Errors raised by the function.
    fn map_table(&self, table: RecordBatch) -> std::result::Result<RecordBatch, StageFailure>;

    /// Maximal number of rows in a call of a table job; unlimited if `None`.
    fn batch_rows(&self) -> Option<usize> {
        None
    }

    /// Calls the function with consecutive parts of `rows`, each with [`TableMap::batch_rows`] rows
    /// except the last. Results keep their order; those with the same schema may be combined.
    ///
    /// # Errors
    /// As [`TableMap::map`].
    fn map_rows(&self, rows: RecordBatch) -> std::result::Result<Vec<RecordBatch>, StageFailure> {
        let size = self.batch_rows().unwrap_or(rows.num_rows()).max(1);
        let parts = (0..rows.num_rows())
            .step_by(size)
            .map(|start| rows.slice(start, size.min(rows.num_rows() - start)));
        parts.map(|part| self.map_table(part)).collect()
    }
}

pub(crate) fn judge_images(
    judge: &dyn ImageJudge,
    chunk: &mut Chunk,
    context: &StageContext,
    report: &mut SplitReport,
) -> Result<()> {
    let mut images = Vec::new();
    let mut judged = Vec::new();
    for (index, row) in chunk.rows.iter_mut().enumerate() {
        if row.modality != Modality::Image || row.error.is_some() {
            continue;
        }
        let image = fetch(row)?.and_then(|bytes| own_page(row, bytes));
        if let Some(bytes) = image
            && is_decodable(row, &bytes, context.locator.limit)
        {
            images.push(JudgedImage { bytes, document: row.document });
            judged.push(index);
        }
    }
    let mut texts = vec![Vec::new(); chunk.documents.len()];
    for row in chunk.rows.iter().filter(|row| row.modality == Modality::Text) {
        if let (Some(texts), Some(text)) = (texts.get_mut(row.document), &row.text) {
            texts.push(text.clone());
        }
    }
    let failed = |source| Error::Stage {
        stage: judge.name().to_owned(),
        path: context.path.clone(),
        source,
    };
    let verdicts = judge.judge(&images, &texts).map_err(failed)?;
    if verdicts.len() != images.len() {
        let problem = format!("{} verdicts for {} images", verdicts.len(), images.len());
        return Err(Error::StageResult { stage: judge.name().to_owned(), problem });
    }
    let mut keep = vec![true; chunk.rows.len()];
    for (index, verdict) in judged.into_iter().zip(&verdicts) {
        if let Some(keep) = keep.get_mut(index) {
            *keep = *verdict != Verdict::Drop;
        }
        if let Verdict::Unjudged(format) = verdict {
            report.ledger.warn(format!(
                "{}: images are kept without a verdict, because {format} is not decoded",
                judge.name()
            ));
        }
    }
    report.ledger.drop_rows(
        judge.name(),
        verdicts.iter().filter(|verdict| **verdict == Verdict::Drop).count() as u64,
    );
    apply_verdict(chunk, keep, judge.drops_invalid_rows(), &mut report.ledger);
    Ok(())
}

pub(crate) fn map_table(
    map: &dyn TableMap,
    chunk: &mut Chunk,
    context: &mut StageContext,
    results: &Results<'_>,
    report: &mut SplitReport,
) -> Result<()> {
    let rows_in = chunk.rows.len();
    if context.is_eager || map.needs_bytes() {
        for row in &mut chunk.rows {
            let bytes = fetch(row)?;
            if map.decodes_images()
                && row.modality == Modality::Image
                && let Some(image) = bytes.and_then(|bytes| own_page(row, bytes))
                && is_decodable(row, &image, context.locator.limit)
            {
                row.payload = Payload::Memory(image);
            }
        }
    }
    // Bytes in memory are passed; bytes with only a copy plan are null for the function and are
    // located again afterwards. A row that comes back without bytes needs its `source_ref`, which
    // the columns of the source may leave out.
    let mut visible = Chunk { schema: with_reserved(&chunk.schema), ..chunk.clone() };
    let bodies = Bodies::in_memory(&mut visible, Vec::new())?;
    let table = to_table(&visible, &bodies.into_column())?;
    let failed =
        |source| Error::Stage { stage: map.name().to_owned(), path: context.path.clone(), source };
    let given = table.schema();
    let mapped = map.map_table(table).map_err(failed)?;
    if let Some(missing) = ["sample_id", "position", "modality"]
        .into_iter()
        .find(|name| mapped.column_by_name(name).is_none())
    {
        return Err(Error::StageResult {
            stage: map.name().to_owned(),
            problem: format!("column `{missing}` is missing"),
        });
    }
    let mapped = with_columns_of_job(mapped, &given, results, &context.path, report)?;
    let problem = |error: DocumentError| Error::StageResult {
        stage: map.name().to_owned(),
        problem: error.to_string(),
    };
    let (mut result, left_out) =
        from_table(&mapped, &context.path, chunk.lineage.clone()).map_err(problem)?;
    if !left_out.rows.is_empty() {
        let problem = format!(
            "row {} has no sample_id, position or modality",
            left_out.rows.first().copied().unwrap_or_default()
        );
        return Err(Error::StageResult { stage: map.name().to_owned(), problem });
    }
    if context.is_located {
        locate_missing(&mut result.rows, &mut context.locator)?;
    }
    report.ledger.drop_rows(map.name(), rows_in.saturating_sub(result.rows.len()) as u64);
    report.add_rows(map.name(), result.rows.len().saturating_sub(rows_in) as u64);
    *chunk = result;
    Ok(())
}

/// Passthrough columns as the first result of the job has them, after the reserved ones, which have
/// fixed types, and before the rescued values.
fn with_columns_of_job(
    rows: RecordBatch,
    given: &Schema,
    results: &Results<'_>,
    path: &str,
    report: &mut SplitReport,
) -> Result<RecordBatch> {
    if rows.num_rows() == 0 || results.choice.is_some_and(|choice| choice.schema.is_some()) {
        return Ok(rows);
    }
    let place = |name: &str| RESERVED.iter().chain([&RESCUED]).position(|fixed| *fixed == name);
    let names = rows.schema_ref().fields().iter().map(|field| place(field.name())).enumerate();
    let (mut fixed, free): (Vec<_>, Vec<_>) = names.partition(|(_, place)| place.is_some());
    fixed.sort_by_key(|(_, place)| *place);
    let part = |columns: &[(usize, Option<usize>)]| {
        rows.project(&columns.iter().map(|(column, _)| *column).collect::<Vec<_>>())
            .map_err(Error::unfit("table", "its schema"))
    };
    let (fixed, free) = (part(&fixed)?, part(&free)?);
    let decided = results.decided(free.schema_ref(), given, path, report)?;
    let extras: Vec<FieldRef> =
        decided.fields().iter().filter(|field| place(field.name()).is_none()).cloned().collect();
    let free = results.converted(&free, &Arc::new(Schema::new(extras)), path)?;
    let all = || fixed.schema_ref().fields().iter().zip(fixed.columns());
    let (rescued, reserved): (Vec<_>, Vec<_>) =
        all().partition(|(field, _)| field.name() == RESCUED);
    let columns = reserved
        .into_iter()
        .chain(free.schema_ref().fields().iter().zip(free.columns()))
        .chain(rescued);
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) =
        columns.map(|(field, column)| (Arc::clone(field), Arc::clone(column))).unzip();
    batch_of(Arc::new(Schema::new(fields)), columns, rows.num_rows())
        .map_err(Error::unfit("table", "its schema"))
}
