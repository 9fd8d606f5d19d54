//! Divides the files of a table job into splits.
//!
//! The invariant: files and parts of files are in the order of the data set, each block occurs once, and the same files give the same splits. Footers
//! are only read for files larger than a split.

use super::TableOptions;
use crate::Result;
use crate::file_format::InputFiles;
use arrow_schema::SchemaRef;
use shardmill_formats::limit::DecodeLimit;
use shardmill_load::{Error as LoadError, FileOpener, Format, MdsShards, TextOptions, files_of_one_format};
use shardmill_plan::{Error as PlanError, FilePart, InputFile, Partitioning, Split, partition};
use shardmill_storage::{OpenFiles, store_of};

/// The files of a job.
///
/// # Errors
/// When a path is missing or contains no input, and for files of several formats.
pub fn files(paths: &[String], options: &TableOptions) -> Result<InputFiles> {
    let (_format, files, left_out) = files_of_one_format(paths, options.format()?)?;
    if files.is_empty() {
        let wanted = options.format.clone().unwrap_or_else(|| "data".to_owned());
        return Err(PlanError::NoInput { paths: paths.join(", "), wanted }.into());
    }
    let left_out = left_out.into_iter().filter(|file| !file.is_side_car).map(|file| file.path).collect();
    Ok(InputFiles { files: files.into_iter().map(|file| file.path).collect(), left_out })
}

/// Divides files into splits.
///
/// # Errors
/// For a large file that cannot be opened.
pub fn cut(files: Vec<InputFile>, options: &TableOptions, by: &Partitioning) -> Result<Vec<Split>> {
    let Some(first) = files.first() else { return Ok(Vec::new()) };
    match by.blocksize_bytes {
        Some(limit) if by.files_per_partition.is_none() && limit > 0 => {
            let format = format_of(options, Some(first), &first.path)?;
            pack(files, format, options.limit(), limit)
        }
        _ => Ok(partition(files, by)?),
    }
}

/// One of the first shards of a job, up to this number, is expected to have a sample.
const FIRST_SHARDS: usize = 16;

/// Opens the files of a job. Text files use the types of `text_schema`, or those inferred from the starts of all files of the job, so that splits
/// agree.
///
/// # Errors
/// For a format that cannot be determined, and when the start of a text file cannot be read.
pub fn opener(split: &Split, paths: &[String], options: &TableOptions, text_schema: Option<SchemaRef>) -> Result<FileOpener> {
    let format = format_of(options, split.files.first(), &paths.join(", "))?;
    options.text.check(format)?;
    if format == Format::Mds {
        // The first samples of the whole job determine array types, as in a data set.
        let files = files_of_one_format(paths, Some(format))?.1;
        let objects =
            files.iter().take(FIRST_SHARDS).map(|file| store_of(&file.path)?.open(&file.path)).collect::<std::result::Result<Vec<_>, _>>()?;
        return Ok(FileOpener::of_mds(MdsShards::below(paths)?, false, options.limit(), &objects));
    }
    let is_inferred = matches!(format, Format::Csv | Format::Jsonl) && text_schema.is_none();
    let files = if is_inferred { files_of_one_format(paths, Some(format))?.1 } else { Vec::new() };
    let open = OpenFiles::default();
    let objects = files.iter().map(|file| open.open(&file.path)).collect::<std::result::Result<Vec<_>, _>>()?;
    let text = TextOptions { schema: text_schema, form: options.text.clone(), ..TextOptions::default() };
    Ok(FileOpener::new(format, &text, options.limit(), &objects)?)
}

/// The common format of all files of a job.
fn format_of(options: &TableOptions, file: Option<&InputFile>, paths: &str) -> Result<Format> {
    let format = match options.format()? {
        Some(format) => Some(format),
        None => file.map_or(Ok(None), |file| Format::of_file(&file.path))?,
    };
    Ok(format.ok_or_else(|| LoadError::UnknownFormat { paths: paths.to_owned() })?)
}

/// The key from which output names are derived: the path, and the part of it.
#[must_use]
pub fn source_name(file: &InputFile) -> String {
    match file.part {
        Some(part) => format!("{}#{}-{}", file.path, part.first_block, part.end_block),
        None => file.path.clone(),
    }
}

fn pack(files: Vec<InputFile>, format: Format, decoded: DecodeLimit, limit: u64) -> Result<Vec<Split>> {
    let mut groups: Vec<Vec<InputFile>> = Vec::new();
    let mut filled = u64::MAX;
    for file in files {
        if file.size > limit {
            groups.extend(parts(file, format, decoded, limit)?.into_iter().map(|part| vec![part]));
            filled = u64::MAX;
            continue;
        }
        match groups.last_mut() {
            Some(group) if filled.saturating_add(file.size) <= limit => {
                filled += file.size;
                group.push(file);
            }
            _ => {
                filled = file.size;
                groups.push(vec![file]);
            }
        }
    }
    Ok(groups.into_iter().enumerate().map(|(index, files)| Split::new(index, files)).collect())
}

fn parts(file: InputFile, format: Format, decoded: DecodeLimit, limit: u64) -> Result<Vec<InputFile>> {
    // The blocks of a text file are only known after a scan of the whole file, which each of its parts would repeat.
    if matches!(format, Format::Csv | Format::Jsonl) {
        return Ok(vec![file]);
    }
    let table = FileOpener::new(format, &TextOptions::default(), decoded, &[])?.open(store_of(&file.path)?.open(&file.path)?)?;
    let mut parts: Vec<FilePart> = Vec::new();
    let mut filled = u64::MAX;
    for (block, about) in table.blocks().iter().enumerate() {
        match parts.last_mut() {
            Some(part) if filled.saturating_add(about.stored_bytes) <= limit => {
                filled += about.stored_bytes;
                part.end_block = block + 1;
            }
            _ => {
                filled = about.stored_bytes;
                parts.push(FilePart { first_block: block, end_block: block + 1 });
            }
        }
    }
    if parts.len() < 2 {
        return Ok(vec![file]);
    }
    Ok(parts.into_iter().map(|part| InputFile { part: Some(part), ..file.clone() }).collect())
}
