//! Renders the images of assembled packs.

use super::Work;
use crate::images::{Canvas, Fault};
use crate::packing::{ImagesOfPacks, PackedImages};
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use shardmill_engine::has_idle_thread;
use std::ops::Range;

/// Images that a thread renders before another one may take over. Those of documents are large.
const IMAGES_OF_A_JOB: usize = 8;

impl Work {
    /// The columns of the images of packs, with pixels in place of encoded images.
    pub(super) fn rendered_packs(
        &self,
        images: &PackedImages,
        of_packs: ImagesOfPacks,
    ) -> Result<Vec<ArrayRef>> {
        let ImagesOfPacks { mut columns, origins, .. } = of_packs;
        let Some(encoded) = columns.pop() else { return Ok(columns) };
        let Some(lists) = encoded.as_list_opt::<i32>() else { return Ok(columns) };
        let mut canvas = Canvas::new(&images.images, lists.values().len(), None)?;
        if let Some(cells) = lists.values().as_struct_opt().cloned() {
            let (work, own, count) = (self.clone(), images.clone(), cells.len());
            let part = move |numbers: Range<usize>| -> Result<Canvas> {
                let mut canvas = Canvas::new(&own.images, numbers.len(), None)?;
                for number in numbers {
                    work.cancel.check()?;
                    canvas.add_item(&own.images, &cells, number).map_err(|fault| {
                        work.bad_image(fault, &own, origins.get(number).copied())
                    })?;
                }
                Ok(canvas)
            };
            if count > IMAGES_OF_A_JOB && has_idle_thread() {
                let job = move |number: usize| {
                    let first = number * IMAGES_OF_A_JOB;
                    part(first..count.min(first + IMAGES_OF_A_JOB))
                };
                let jobs = count.div_ceil(IMAGES_OF_A_JOB);
                self.render_in_jobs(jobs, job, |made| canvas.append(made))?;
            } else {
                canvas.append(part(0..count)?);
            }
        }
        let ends = lists.offsets().iter().skip(1);
        canvas.end_lists(ends.map(|end| usize::try_from(*end).unwrap_or_default()));
        columns.extend(canvas.finish()?.into_iter().map(|(_, array)| array));
        Ok(columns)
    }

    /// The error of an image, given the plan position of its row and its number in the row.
    fn bad_image(
        &self,
        fault: Fault,
        images: &PackedImages,
        origin: Option<(u64, usize)>,
    ) -> Error {
        let (position, number) = origin.unwrap_or_default();
        let place = self.order.at(position);
        let place =
            place.and_then(|(block, row)| self.rows.path_and_row(&self.dataset, block, row));
        let (path, row) = place.unwrap_or_default();
        let column = images.images.column().to_owned();
        match fault {
            Fault::Bad(reason) => {
                let reason = format!("image {number} of the document: {reason}").into();
                Error::BadImage { path, row, column, reason }
            }
            Fault::Store(error) => Error::Storage(error),
        }
    }
}
