//! Renders the images of assembled packs.

use super::Work;
use super::bad_rows::{Assembled, BadRow};
use super::superbatches::SuperbatchPlan;
use crate::images::{Canvas, Fault, of_document};
use crate::packing::{ImageOrigin, ImagesOfPacks, PackColumns, PackedImages};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use shardmill_engine::{Error as EngineError, has_idle_thread};
use std::sync::{Arc, Mutex};

/// Images that a thread renders before another one may take over. Those of documents are large.
const IMAGES_OF_A_JOB: usize = 8;

/// Images with their number among those of a superbatch, and why they are filled.
type Filled = Vec<(usize, String)>;

impl Work {
    /// Packs with the columns of their images, whose pixels are in place of encoded images.
    pub(super) fn rendered_packs(
        &self,
        packs: RecordBatch,
        columns: &PackColumns,
        of_packs: ImagesOfPacks,
        plan: &SuperbatchPlan,
    ) -> Result<Assembled> {
        let Some(images) = columns.images() else { return Ok(packs.into()) };
        let ImagesOfPacks { columns: mut made, origins } = of_packs;
        let Some(encoded) = made.pop() else { return Ok(packs.into()) };
        let (rendered, filled) = self.rendered(images, &encoded, &origins)?;
        made.extend(rendered);
        let (schema, mut arrays, _) = packs.into_parts();
        let origins = || filled.iter().filter_map(|(number, _)| origins.get(*number));
        if !filled.is_empty() {
            let documents: Vec<_> = origins().map(|origin| origin.document.clone()).collect();
            columns.mask(&mut arrays, &documents)?;
        }
        arrays.extend(made);
        let fields: Vec<_> = schema.fields().iter().chain(&images.fields).cloned().collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        let bad = origins().zip(&filled).map(|(origin, (_, cause))| {
            let (file, row) = self.place_of(origin.position);
            let path = self.path_of(file);
            let cause = of_document(origin.part as u64, cause).into();
            (plan.batch_of(columns.pack_of(origin.document.start)), BadRow { path, row, cause })
        });
        Ok(Assembled { rows: rows.map_err(Error::assemble)?, filled: bad.collect() })
    }

    /// The columns of pixels, and the images that are filled.
    fn rendered(
        &self,
        images: &PackedImages,
        encoded: &ArrayRef,
        origins: &[ImageOrigin],
    ) -> Result<(Vec<ArrayRef>, Filled)> {
        let Some(lists) = encoded.as_list_opt::<i32>() else {
            return Ok((Vec::new(), Filled::new()));
        };
        let items = lists.values();
        let mut canvas = Canvas::new(&images.images, items, None)?;
        let mut filled = Filled::new();
        if let Some(cells) = items.as_struct_opt().cloned() {
            let (work, own, count) = (self.clone(), images.clone(), cells.len());
            let origins = origins.to_vec();
            let of_job = if has_idle_thread() { IMAGES_OF_A_JOB } else { count.max(1) };
            let canvases = (0..count).step_by(of_job).map(|first| {
                let cells = items.slice(first, of_job.min(count - first));
                Mutex::new(Some(canvas.split(&cells)))
            });
            let canvases: Vec<_> = canvases.collect();
            let jobs = canvases.len();
            let job = move |number: usize| -> Result<(Canvas, Filled)> {
                let canvas = canvases.get(number).and_then(|canvas| canvas.lock().ok()?.take());
                let mut canvas = canvas.ok_or_else(|| Error::from(EngineError::Cancelled))?;
                let mut filled = Filled::new();
                for number in number * of_job..count.min((number + 1) * of_job) {
                    work.cancel.check()?;
                    let added = canvas.add_item(&own.images, &cells, number);
                    let cause =
                        added.map_err(|fault| work.bad_image(fault, origins.get(number)))?;
                    filled.extend(cause.map(|cause| (number, cause)));
                }
                Ok((canvas, filled))
            };
            self.render_in_jobs(jobs, job, |(made, causes)| {
                canvas.append(made);
                filled.extend(causes);
            })?;
        }
        self.metrics.add_images(canvas.decoded());
        let ends = lists.offsets().iter().skip(1);
        canvas.end_lists(ends.map(|end| usize::try_from(*end).unwrap_or_default()));
        Ok((canvas.finish()?.into_iter().map(|(_, array)| array).collect(), filled))
    }

    /// The error of an image.
    fn bad_image(&self, fault: Fault, origin: Option<&ImageOrigin>) -> Error {
        let (position, part) =
            origin.map_or((0, 0), |origin| (origin.position, origin.part as u64));
        let (file, row) = self.place_of(position);
        let column = self.dataset.planned_images().map(|(column, _)| column);
        match fault {
            Fault::Bad(cause) => Error::BadImage {
                path: self.path_of(file),
                row,
                column: column
                    .map_or_else(String::new, |column| self.dataset.encoded_name(column, file)),
                reason: of_document(part, &cause).into(),
            },
            Fault::Store(error) => Error::Storage(error),
        }
    }

    /// The number of the file and the row at a plan position.
    fn place_of(&self, position: u64) -> (usize, u64) {
        let place = self.order.at(position);
        let place = place.and_then(|(block, row)| self.rows.row_of_file(&self.dataset, block, row));
        place.unwrap_or_default()
    }

    fn path_of(&self, file: usize) -> String {
        self.dataset.files().get(file).map_or_else(String::new, |file| file.path.clone())
    }
}
