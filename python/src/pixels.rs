//! `shardmill._native.pixels`

use crate::error::{PyShardmillError, PyShardmillResult};
use crate::plain::Plain;
use numpy::{PyArray3, PyArrayMethods, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use shardmill_images::{ImageFormat, sniff};
use shardmill_load::images::{ImageOptions, ImageSource, Images, Planned};
use shardmill_pixels::decode::{Damaged, DecodeOptions, Decoder, Mode, Part};
use shardmill_pixels::{
    AUGMENT_VERSION, Channels, Dtype, Filter, Fit, Layout, Normalize, Patches, Raster, Resizer,
    Sides, Spec,
};
use shardmill_plan::images::Rule;
use std::sync::Arc;

/// The options of `shardmill.Images`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    column: String,
    size: Option<(usize, usize)>,
    fit: String,
    /// Of a random crop.
    scale: Option<(f64, f64)>,
    ratio: Option<(f64, f64)>,
    resample: String,
    mode: String,
    flip: f64,
    dtype: String,
    normalize: Option<(Vec<f64>, Vec<f64>)>,
    layout: String,
    channels: String,
    background: Option<[u8; 3]>,
    orientation: bool,
    max_pixels: u64,
    damaged: String,
    on_error: Option<String>,
    source: String,
    root: Option<String>,
    planned: Option<PlannedSettings>,
}

/// The images of documents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedSettings {
    rule: Rule,
    output: String,
    /// Side of a patch or a tile, merge size, frames, and whether the channels of a pixel are
    /// adjacent.
    patches: Option<(usize, usize, usize, bool)>,
    has_rope: bool,
    mean: [u8; 3],
    masked: Option<(String, i64)>,
    /// Lists of stated widths and heights.
    sizes: Option<[String; 2]>,
}

/// Top, left, height and width of a region; height and width of the result; whether it is flipped.
type PyGeometry = ((usize, usize, usize, usize), (usize, usize), bool);

/// How the images of a column become pixels.
#[pyclass(name = "Images", module = "shardmill._native.pixels", frozen)]
pub(crate) struct PyImages(pub(crate) Arc<Images>);

#[pymethods]
impl PyImages {
    #[new]
    fn new(settings: Plain<Settings>) -> PyResult<Self> {
        Ok(Self(Arc::new(Images::new(settings.0.options()?))))
    }

    /// Names of the columns.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.0.outputs().iter().map(|field| field.name().clone()).collect()
    }

    #[pyo3(signature = (height, width, *, seed, epoch, row, item))]
    fn geometry(
        &self,
        height: usize,
        width: usize,
        seed: i64,
        epoch: u64,
        row: u64,
        item: u64,
    ) -> PyResult<PyGeometry> {
        // Without a mixture, all rows are drawn once an epoch.
        let draw = self.0.draw_of(seed, 0, row, epoch, epoch).of_item(item);
        let geometry = self
            .0
            .transform()
            .geometry(Sides { height, width }, draw)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let region = geometry.region;
        Ok((
            (region.top, region.left, region.height, region.width),
            (geometry.canvas.height, geometry.canvas.width),
            geometry.flip,
        ))
    }
}

impl Settings {
    fn options(self) -> PyResult<ImageOptions> {
        let channels =
            named("channels", &self.channels, &[("RGB", Channels::Rgb), ("L", Channels::Gray)])?;
        let names = [
            ("crop", Fit::Crop),
            ("crop_end", Fit::CropEnd),
            ("stretch", Fit::Stretch),
            ("pad", Fit::Pad),
            ("longest", Fit::Longest),
            ("keep", Fit::Keep),
        ];
        let fit = match (self.scale, self.ratio) {
            (Some(scale), Some(ratio)) => Fit::RandomCrop { scale, ratio },
            _ => named("fit", &self.fit, &names)?,
        };
        let layouts = [("CHW", Layout::Chw), ("HWC", Layout::Hwc), ("bytes", Layout::Hwc)];
        let layout = match self.planned.as_ref().and_then(|planned| planned.patches) {
            Some((size, merge, frames, is_interleaved)) => {
                Layout::Patches(Patches { size, merge, frames, is_interleaved })
            }
            None => named("layout", &self.layout, &layouts)?,
        };
        let spec = Spec {
            size: self.size.map(|(height, width)| Sides { height, width }),
            fit,
            filter: filter(&self.resample)?,
            dtype: named(
                "dtype",
                &self.dtype,
                &[("uint8", Dtype::U8), ("float32", Dtype::F32), ("bfloat16", Dtype::Bf16)],
            )?,
            normalize: self
                .normalize
                .map(|(mean, std)| Normalize { mean: three(&mean), std: three(&std) }),
            layout,
            channels,
            background: self.background.unwrap_or([255; 3]),
            flip: self.flip,
        };
        let decode = DecodeOptions {
            channels,
            background: self.background,
            orientation: self.orientation,
            max_pixels: self.max_pixels,
            damaged: damaged(&self.damaged)?,
            page: 0,
        };
        let mode = named(
            "mode",
            &self.mode,
            &[("exact", Mode::Exact), ("fast", Mode::Fast), ("draft", Mode::Draft)],
        )?;
        let source = match self.source.as_str() {
            "path" => ImageSource::Path { root: self.root },
            "url" => ImageSource::Url,
            _ => ImageSource::Bytes,
        };
        let is_encoded = self.layout == "bytes";
        Ok(ImageOptions {
            column: self.column,
            source,
            is_encoded,
            decode,
            mode,
            spec,
            fills_bad: self.on_error.as_deref() == Some("null"),
            planned: self.planned.map(|settings| {
                let PlannedSettings { rule, output, has_rope, mean, masked, sizes, .. } = settings;
                Planned { rule, output, has_rope, mean, masked, sizes, limits: None }
            }),
        })
    }
}

/// One number stands for all channels.
fn three(values: &[f64]) -> [f64; 3] {
    let first = values.first().copied().unwrap_or_default();
    std::array::from_fn(|channel| values.get(channel).copied().unwrap_or(first))
}

fn named<T: Copy>(option: &str, name: &str, choices: &[(&str, T)]) -> PyResult<T> {
    let found = choices.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice);
    found.ok_or_else(|| PyValueError::new_err(format!("{option} has no value {name:?}")))
}

fn filter(name: &str) -> PyResult<Filter> {
    let filters = [
        ("nearest", Filter::Nearest),
        ("box", Filter::Box),
        ("bilinear", Filter::Bilinear),
        ("hamming", Filter::Hamming),
        ("bicubic", Filter::Bicubic),
        ("lanczos", Filter::Lanczos),
    ];
    named("resample", name, &filters)
}

fn damaged(name: &str) -> PyResult<Damaged> {
    named("damaged", name, &[("raise", Damaged::Error), ("accept", Damaged::Accept)])
}

/// The pixels of an image: height, width, and one or three channels.
#[pyfunction]
#[pyo3(signature = (
    payload, *,
    channels="RGB", background=Some([255; 3]), orientation=true, max_pixels=89_478_485,
    damaged="raise", page=0,
))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
fn decode<'py>(
    py: Python<'py>,
    payload: &[u8],
    channels: &str,
    background: Option<[u8; 3]>,
    orientation: bool,
    max_pixels: u64,
    damaged: &str,
    page: usize,
) -> PyResult<Bound<'py, PyArray3<u8>>> {
    let options = DecodeOptions {
        channels: named("channels", channels, &[("RGB", Channels::Rgb), ("L", Channels::Gray)])?,
        background,
        orientation,
        max_pixels,
        damaged: self::damaged(damaged)?,
        page,
    };
    let decoded = py.detach(|| {
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(payload, &options, |_, _| Part::WHOLE)?;
        Ok::<_, shardmill_pixels::Error>((
            decoded.pixels.to_vec(),
            [decoded.height as usize, decoded.width as usize, decoded.channels],
        ))
    });
    let (pixels, shape) = decoded.map_err(PyShardmillError::from)?;
    numpy::PyArray1::from_vec(py, pixels).reshape(shape)
}

/// An image of another size.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn resize<'py>(
    py: Python<'py>,
    image: PyReadonlyArray3<'py, u8>,
    height: usize,
    width: usize,
    filter: &str,
) -> PyResult<Bound<'py, PyArray3<u8>>> {
    let filter = self::filter(filter)?;
    let [rows, columns, channels] = sides_of(&image);
    let pixels = raster(&image);
    let (target, mut resizer) = (Sides { height, width }, Resizer::new());
    let resized =
        Raster::new(&pixels, Sides { height: rows, width: columns }, channels).and_then(|source| {
            resizer
                .resize(source, target, target.whole(), filter)
                .map(|raster| raster.rows().flatten().copied().collect::<Vec<u8>>())
        });
    let resized = resized.map_err(|error| PyValueError::new_err(error.to_string()))?;
    numpy::PyArray1::from_vec(py, resized).reshape([height, width, channels])
}

fn raster(image: &PyReadonlyArray3<'_, u8>) -> Vec<u8> {
    image.as_array().iter().copied().collect()
}

/// The variance of the 3 x 3 Laplacian over all channels.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn laplacian_variance(image: PyReadonlyArray3<'_, u8>) -> PyResult<f64> {
    let [height, width, channels] = sides_of(&image);
    let pixels = raster(&image);
    let raster = Raster::new(&pixels, Sides { height, width }, channels)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(shardmill_pixels::laplacian_variance(raster))
}

/// The perceptual hash of an image, as `imagehash.phash` computes it, the first bit as the highest.
#[pyfunction]
fn phash(py: Python<'_>, payload: &[u8]) -> PyShardmillResult<u64> {
    let hash = py.detach(|| {
        // Pillow turns a TIFF upright when it loads it, and no other format.
        let orientation = sniff(payload) == Some(ImageFormat::Tiff);
        let options = DecodeOptions {
            channels: Channels::Gray,
            background: None,
            orientation,
            ..DecodeOptions::default()
        };
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(payload, &options, |_, _| Part::WHOLE)?;
        let sides = Sides { height: decoded.height as usize, width: decoded.width as usize };
        let raster = Raster::new(decoded.pixels, sides, decoded.channels)?;
        Ok::<_, shardmill_pixels::Error>(shardmill_pixels::phash(raster, &mut Resizer::new())?)
    });
    Ok(hash?)
}

/// The version of libjpeg-turbo, whether it has SIMD code, and what resizes.
#[pyfunction]
fn build_info() -> (&'static str, Option<bool>, &'static str) {
    let info = shardmill_pixels::build_info();
    (info.jpeg_version, info.jpeg_simd, info.resize)
}

/// Height, width, channels.
fn sides_of(image: &PyReadonlyArray3<'_, u8>) -> [usize; 3] {
    std::array::from_fn(|axis| image.shape().get(axis).copied().unwrap_or_default())
}

/// Decodes all images, JPEG at one part of `denominator` of its size, and keeps none: the limit of
/// a benchmark.
#[pyfunction]
#[pyo3(signature = (payloads, *, threads, denominator = 1))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn decode_all(
    py: Python<'_>,
    payloads: Vec<pyo3::pybacked::PyBackedBytes>,
    threads: usize,
    denominator: u32,
) -> PyShardmillResult<u64> {
    let share = payloads.len().div_ceil(threads.max(1)).max(1);
    let pixels = py.detach(|| {
        std::thread::scope(|scope| {
            let workers: Vec<_> = payloads
                .chunks(share)
                .map(|part| scope.spawn(move || decode_part(part, denominator)))
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or(Ok(0)))
                .sum::<shardmill_pixels::Result<u64>>()
        })
    })?;
    Ok(pixels)
}

fn decode_part(
    payloads: &[pyo3::pybacked::PyBackedBytes],
    denominator: u32,
) -> shardmill_pixels::Result<u64> {
    let (mut decoder, options) = (Decoder::new(), DecodeOptions::default());
    payloads
        .iter()
        .map(|payload| {
            decoder
                .decode(payload, &options, |_, _| Part { denominator, ..Part::WHOLE })
                .map(|decoded| decoded.pixels.len() as u64)
        })
        .sum()
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "pixels")?;
    module.add("AUGMENT_VERSION", AUGMENT_VERSION)?;
    module.add_class::<PyImages>()?;
    module.add_function(wrap_pyfunction!(build_info, &module)?)?;
    module.add_function(wrap_pyfunction!(decode, &module)?)?;
    module.add_function(wrap_pyfunction!(decode_all, &module)?)?;
    module.add_function(wrap_pyfunction!(laplacian_variance, &module)?)?;
    module.add_function(wrap_pyfunction!(phash, &module)?)?;
    module.add_function(wrap_pyfunction!(resize, &module)?)
}
