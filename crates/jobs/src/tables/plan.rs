//! Decides the schema of a table job, and divides its files into splits.
//!
//! The invariant: files and parts of files are in the order of the data set, each block occurs
//! once, and the same files give the same schema and the same splits.

use super::TableOptions;
use super::columns::{check_fits, filtered, nullable, read_roots, selected, with_planned_types};
use super::passes::{PassedFiles, PlannedFile};
use crate::Result;
use crate::input_files::InputFiles;
use crate::stage::Stage;
use arrow_schema::{Schema, SchemaRef};
use shardmill_documents::schema::SchemaChoice;
use shardmill_engine::Cancel;
use shardmill_formats::records::Declared;
use shardmill_formats::table::Block;
use shardmill_load::{
    DatasetOptions, Error as LoadError, FileOpener, Format, MdsShards, TableReader, TextOptions,
    column_of, files_of_one_format, open_files,
};
use shardmill_plan::schema::{FileColumns, unify};
use shardmill_plan::{Error as PlanError, FilePart, InputFile, Partitioning, Split, partition};
use shardmill_resume::{FooterCheck, KnownTypes};
use shardmill_storage::{AnyStore, Store};
use std::collections::HashSet;
use std::sync::Arc;

/// The files of a job.
///
/// # Errors
/// When a path is missing or contains no input, and for files of several formats.
pub(crate) fn files(paths: &[String], options: &TableOptions) -> Result<InputFiles> {
    let (_format, files, left_out) = files_of_one_format(paths, options.format()?)?;
    if files.is_empty() {
        let wanted = options.format.clone().unwrap_or_else(|| "data".to_owned());
        return Err(PlanError::NoInput { paths: paths.join(", "), wanted }.into());
    }
    let left_out =
        left_out.into_iter().filter(|file| !file.is_side_car).map(|file| file.path).collect();
    Ok(InputFiles { files: files.into_iter().map(|file| file.path).collect(), left_out })
}

/// What a job decides about its files before it reads their rows.
#[derive(Debug, Clone)]
pub(crate) struct TablePlan {
    pub splits: Vec<Split>,
    pub schema: SchemaRef,
    /// If footers state them.
    pub id_types: Option<KnownTypes>,
}

/// On what a job with a checkpoint has agreed in earlier runs.
#[derive(Debug, Clone, Default)]
pub struct Agreed {
    /// `None` before anything is committed: new files may still change it.
    pub schema: Option<SchemaRef>,
    pub id_types: Option<KnownTypes>,
    /// Files that are planned and take part in a schema that may still change.
    pub pending: Vec<InputFile>,
}

/// How a job reads its files.
#[derive(Clone, Copy)]
pub(crate) struct TableInput<'a> {
    pub paths: &'a [String],
    pub options: &'a TableOptions,
    pub stages: &'a [Stage],
    pub ids: &'a FooterCheck,
    /// The columns that the user declares: of text files all of them, and of any files some.
    pub choice: &'a SchemaChoice,
    /// Passes that ran on other machines.
    pub passed: Option<&'a PassedFiles>,
}

impl TableInput<'_> {
    /// Divides `files` into splits. Unless the job has agreed on a schema before, the files agree
    /// on one.
    ///
    /// # Errors
    /// For files without a common schema, and a file that cannot be opened or does not fit
    /// `agreed`.
    pub(crate) fn plan(
        &self,
        files: Vec<InputFile>,
        by: &Partitioning,
        agreed: &Agreed,
        threads: usize,
        cancel: &Cancel,
    ) -> Result<TablePlan> {
        if let (true, Some(schema)) = (files.is_empty(), &agreed.schema) {
            return Ok(TablePlan {
                splits: Vec::new(),
                schema: Arc::clone(schema),
                id_types: None,
            });
        }
        let format = self.format_of(files.first())?;
        self.options.text.check(format)?;
        let declared = self.declared_schema(format);
        let found = if declared.is_some() {
            Vec::new()
        } else {
            let all = || files.iter().chain(&agreed.pending);
            match self.passed.filter(|passed| passed.is_of(all())) {
                Some(passed) => self.planned(passed)?,
                None => {
                    let paths: Vec<String> = all().map(|file| file.path.clone()).collect();
                    let options = self.dataset_options(format, threads);
                    let tables = open_files(format, &paths, &options, cancel)?;
                    tables.into_iter().map(PlannedFile::Open).collect()
                }
            }
        };
        let tables: Vec<_> = found.iter().filter_map(PlannedFile::table).cloned().collect();
        let id_types = self.ids.run(format, &tables, agreed.id_types.as_ref())?;
        let schema = match declared {
            Some(declared) => declared,
            None => self.agree(format, &found, agreed.schema.clone())?,
        };
        self.check_names(&schema, &found)?;
        let splits = match by.blocksize_bytes {
            Some(limit) if by.files_per_partition.is_none() && limit > 0 => {
                pack(files, &found, format, limit)
            }
            _ => partition(files, by)?,
        };
        Ok(TablePlan { splits, schema, id_types })
    }

    /// The columns of the files, if the user declares all of them.
    pub(super) fn declared_schema(&self, format: Format) -> Option<SchemaRef> {
        self.choice.schema.clone().filter(|_| is_text(format))
    }

    /// How the files are opened for planning.
    pub(super) fn dataset_options(&self, format: Format, threads: usize) -> DatasetOptions {
        DatasetOptions {
            limit: self.options.limit(),
            threads,
            text: self.text(None),
            ..DatasetOptions::new(self.paths.to_vec(), Some(format))
        }
    }

    /// The schema of the columns that the job reads.
    fn agree(
        &self,
        format: Format,
        found: &[PlannedFile],
        agreed: Option<SchemaRef>,
    ) -> Result<SchemaRef> {
        let roots = read_roots(self.options, &self.ids.columns, self.stages);
        let is_read = |name: &str| roots.as_ref().is_none_or(|roots| roots.contains(name));
        let texts = agreed.as_ref().filter(|_| format == Format::Csv);
        let read = |file: &PlannedFile| {
            let own = self.choice.retyped(&match roots {
                Some(_) => selected(file.schema(), is_read),
                None => file.shown(),
            });
            match texts {
                Some(agreed) => with_planned_types(&own, agreed),
                None => own,
            }
        };
        let schemas: Vec<SchemaRef> = found.iter().map(read).collect();
        // `unify` itself skips files without rows, but only if they are open.
        let is_filled = found.iter().any(PlannedFile::has_rows);
        let takes_part = |(file, _): &(&PlannedFile, _)| !is_filled || file.has_rows();
        let files = found.iter().zip(&schemas).filter(takes_part);
        let files = files.map(|(file, schema)| FileColumns {
            path: file.path(),
            schema,
            table: file.table().map(AsRef::as_ref),
        });
        let Some(agreed) = agreed else {
            let unified = nullable(&unify(&files.collect::<Vec<_>>())?);
            // Declared columns that only files have that are added later.
            let declared =
                self.choice.overrides.as_ref().map(|overrides| selected(overrides, is_read));
            return Ok(SchemaChoice { schema: None, overrides: declared }.apply(&unified));
        };
        for file in files {
            check_fits(&agreed, &file)?;
        }
        Ok(agreed)
    }

    /// Checks that the columns exist which the options name, and the filters
    /// before the first function.
    fn check_names(&self, schema: &Schema, found: &[PlannedFile]) -> Result<()> {
        let names = self
            .options
            .columns
            .iter()
            .flatten()
            .map(String::as_str)
            .chain(filtered(self.options, self.stages));
        for name in names {
            if let Err(error) = column_of(schema, name) {
                // The error lists the columns of the files; the schema has those that are read.
                let mut seen = HashSet::new();
                let all = found
                    .iter()
                    .flat_map(|file| file.schema().fields())
                    .filter(|field| seen.insert(field.name()));
                let all = Schema::new(all.cloned().collect::<Vec<_>>());
                return Err(if found.is_empty() {
                    error
                } else {
                    column_of(&all, name).err().unwrap_or(error)
                }
                .into());
            }
        }
        Ok(())
    }

    /// Opens the files of `split` with the schema of the job.
    ///
    /// # Errors
    /// For a format that cannot be determined.
    pub(crate) fn reader(&self, split: &Split, schema: SchemaRef) -> Result<TableReader> {
        let format = self.format_of(split.files.first())?;
        let limit = self.options.limit();
        let opener = if format == Format::Mds {
            // The first samples of the whole job determine array types, as in a data set.
            let files = files_of_one_format(self.paths, Some(format))?.1;
            let objects = files
                .iter()
                .take(FIRST_SHARDS)
                .map(|file| AnyStore.open(&file.path))
                .collect::<std::result::Result<Vec<_>, _>>()?;
            FileOpener::of_mds(MdsShards::below(self.paths)?, false, limit, &objects)
        } else {
            FileOpener::new(format, &self.text(Some(Arc::clone(&schema))), limit, &[])?
        };
        Ok(TableReader::new(opener, schema, self.declared()))
    }

    /// The columns whose types the user has given in place of those of the files.
    fn declared(&self) -> Declared {
        let fields = self.choice.overrides.iter().flat_map(|overrides| overrides.fields());
        Declared::Columns(Arc::new(fields.map(|field| field.name().clone()).collect()))
    }

    /// How text files are read with `schema`, or their types inferred if `None`.
    pub(super) fn text(&self, schema: Option<SchemaRef>) -> TextOptions {
        let declared = if self.choice.schema.is_some() { Declared::All } else { self.declared() };
        let (form, is_selection) = (self.options.text.clone(), self.options.columns.is_some());
        TextOptions { schema, declared, is_selection, form, ..TextOptions::default() }
    }

    /// The common format of all files of a job.
    pub(super) fn format_of(&self, file: Option<&InputFile>) -> Result<Format> {
        let format = match self.options.format()? {
            Some(format) => Some(format),
            None => file.map_or(Ok(None), |file| Format::of_file(&file.path))?,
        };
        Ok(format.ok_or_else(|| LoadError::UnknownFormat { paths: self.paths.join(", ") })?)
    }
}

/// One of the first shards of a job, up to this number, is expected to have a sample.
const FIRST_SHARDS: usize = 16;

/// The blocks of a text file are only known after a scan of the whole file, which each of its parts
/// would repeat.
fn is_text(format: Format) -> bool {
    matches!(format, Format::Csv | Format::Jsonl)
}

/// The key from which output names are derived: the path, and the part of it.
#[must_use]
pub(crate) fn source_name(file: &InputFile) -> String {
    match file.part {
        Some(part) => format!("{}#{}-{}", file.path, part.first_block, part.end_block),
        None => file.path.clone(),
    }
}

fn pack(files: Vec<InputFile>, found: &[PlannedFile], format: Format, limit: u64) -> Vec<Split> {
    let mut groups: Vec<Vec<InputFile>> = Vec::new();
    let mut filled = u64::MAX;
    for (number, file) in files.into_iter().enumerate() {
        if file.size > limit {
            let blocks =
                found.get(number).filter(|_| !is_text(format)).map_or(&[][..], PlannedFile::blocks);
            groups.extend(parts(file, blocks, limit).into_iter().map(|part| vec![part]));
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
    groups.into_iter().enumerate().map(|(index, files)| Split::new(index, files)).collect()
}

fn parts(file: InputFile, blocks: &[Block], limit: u64) -> Vec<InputFile> {
    let mut parts: Vec<FilePart> = Vec::new();
    let mut filled = u64::MAX;
    for (block, about) in blocks.iter().enumerate() {
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
        return vec![file];
    }
    parts.into_iter().map(|part| InputFile { part: Some(part), ..file.clone() }).collect()
}
