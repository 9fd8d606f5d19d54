//! Finds lists with one value per image or per text that no option names.
//!
//! Such a list is stored as a whole, so it keeps the values of dropped images. The invariant: a
//! list whose length differs from the number of rows in even one sample is not reported.

use std::collections::BTreeMap;

/// The lengths of the lists seen so far, by key.
#[derive(Debug, Default)]
pub(crate) struct RowLists {
    of_images: BTreeMap<String, Fit>,
    of_texts: BTreeMap<String, Fit>,
}

/// Whether the lengths of a list are those of the rows.
#[derive(Debug, Clone, Copy)]
struct Fit {
    first: usize,
    is_equal: bool,
    /// A single length of 0 or 1 may be a coincidence.
    is_certain: bool,
}

impl RowLists {
    /// Notes the value of a sample with these numbers of images and texts. `len` is `None` for a
    /// value that is not a list.
    pub(crate) fn observe(&mut self, key: &str, len: Option<usize>, images: usize, texts: usize) {
        for (fits, rows) in [(&mut self.of_images, images), (&mut self.of_texts, texts)] {
            let fit = match fits.get_mut(key) {
                Some(fit) => fit,
                None => fits.entry(key.to_owned()).or_insert(Fit {
                    first: rows,
                    is_equal: true,
                    is_certain: rows > 1,
                }),
            };
            fit.is_equal &= len == Some(rows);
            fit.is_certain |= rows > 1 || rows != fit.first;
        }
    }

    /// One text for each list.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let certain = |fits: &BTreeMap<String, Fit>, key: &str| {
            fits.get(key).is_some_and(|fit| fit.is_equal && fit.is_certain)
        };
        self.of_images.keys().filter_map(move |key| {
            let (row, option) = if certain(&self.of_images, key) {
                ("image", "per_image_field")
            } else if certain(&self.of_texts, key) {
                ("text", "per_text_field")
            } else {
                return None;
            };
            let flag = option.replace('_', "-");
            Some(format!(
                "`{key}` has one value per {row} but is stored as a whole, so it keeps the values \
                 of dropped {row}s; set {option}s=(\"{key}\",) (--{flag} {key}) \
                 to store each value with its {row}"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(samples: &[(Option<usize>, usize, usize)]) -> Vec<String> {
        let mut lists = RowLists::default();
        samples.iter().for_each(|(len, images, texts)| lists.observe("k", *len, *images, *texts));
        lists.warnings().collect()
    }

    #[test]
    fn list_with_a_value_per_row_is_named_with_its_option() {
        for (samples, option) in [
            (&[(Some(3), 3, 1)][..], Some("per_image_fields=(\"k\",) (--per-image-field k)")),
            (&[(Some(1), 1, 1), (Some(0), 0, 2)], Some("per_image_fields")),
            (&[(Some(2), 2, 2)], Some("per_image_fields")),
            (&[(Some(3), 1, 3)], Some("per_text_fields=(\"k\",) (--per-text-field k)")),
            (&[(Some(1), 1, 1), (Some(1), 1, 1)], None),
            (&[(Some(3), 3, 1), (Some(3), 2, 1)], None),
            (&[(Some(3), 3, 1), (None, 3, 1)], None),
            (&[(None, 2, 1)], None),
            (&[], None),
        ] {
            let texts = warned(samples);
            assert_eq!(texts.len(), usize::from(option.is_some()), "{samples:?}");
            assert!(
                texts.iter().zip(option).all(|(text, option)| text.contains(option)),
                "{texts:?}"
            );
        }
    }
}
