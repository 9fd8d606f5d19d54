//! Reads the header of an image: its format, and the size of each page.
//!
//! The invariant: no pixel is read, and every page of a TIFF is checked, not only the first.

use shardmill_documents::image_bytes::{ImageBytes, page_copy, tiff_index};
use shardmill_images::{Error, FactsProbe, ImageFormat, ImageSize, TiffPage};

#[derive(Debug)]
pub(crate) struct ImageHeader {
    pub format: ImageFormat,
    /// The size of each page as displayed, or why the page cannot be used.
    pub pages: Vec<Result<ImageSize, String>>,
    /// Why there may be more pages than were found.
    pub broken_chain: Option<String>,
}

/// Or why the payload is not an image with a known size.
pub(crate) type Header = Result<ImageHeader, String>;

/// What is wrong with an image or its pages.
pub(crate) fn faults(header: &Header) -> impl Iterator<Item = &String> {
    let pages = header.iter().flat_map(|header| {
        header.pages.iter().filter_map(|page| page.as_ref().err()).chain(&header.broken_chain)
    });
    pages.chain(header.as_ref().err())
}

impl ImageHeader {
    /// `is_thorough` also checks that each page of a TIFF can be copied: all of its tags and the
    /// positions of its strips or tiles.
    pub(crate) fn read(bytes: ImageBytes<'_>, is_thorough: bool) -> Header {
        let mut window = Vec::new();
        match bytes.format(&mut window).map_err(|error| error.to_string())? {
            None => Err(Error::UnknownFormat { payload_len: bytes.size() }.to_string()),
            Some(ImageFormat::Tiff) => read_tiff(bytes, is_thorough, &mut window),
            Some(format) => {
                let mut probe = FactsProbe::new(bytes.size());
                while let Some(range) = probe.needs() {
                    bytes.read(&range, &mut window).map_err(|error| error.to_string())?;
                    probe.push(&window);
                }
                let size = probe.finish().map_err(|error| error.to_string())?;
                Ok(Self { format, pages: vec![Ok(size.oriented)], broken_chain: None })
            }
        }
    }
}

fn read_tiff(bytes: ImageBytes<'_>, is_thorough: bool, window: &mut Vec<u8>) -> Header {
    let index = tiff_index(bytes, window).map_err(|error| error.to_string())?;
    let pages = (0..index.len()).map(|page| {
        let size = index.page(page).and_then(TiffPage::size).map_err(|error| error.to_string())?;
        if is_thorough {
            page_copy(bytes, &index, page, window).map_err(|error| error.to_string())?;
        }
        Ok(size)
    });
    let pages = pages.collect();
    // Reading the page after the last one distinguishes the end of a chain from a broken one.
    let broken_chain = match index.page(index.len()) {
        Err(Error::PageBeyondEnd { .. }) | Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    Ok(ImageHeader { format: ImageFormat::Tiff, pages, broken_chain })
}
