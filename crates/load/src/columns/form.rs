//! Plans the conversion of each column of a schema, and rejects unsupported columns.
//!
//! The [`Plan`] of a column depends on the schema and the options. It is created once, before a row
//! is read, so that all batches look the same.

use super::error::{Error, Result};
use super::fill::FillValue;
use super::layout::{RowLength, Side};
use super::numbers::{Numbers, is_number};
use super::pad::Pad;
use super::{ColumnOptions, Form, Kind, Nulls, Output};
use arrow_schema::{DataType, Field};
use std::collections::HashSet;

/// Rows of deeper types would need a deep stack as well.
const MAX_DEPTH: usize = 64;

/// How one column, or one field of a struct, is converted.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) name: String,
    /// With the names of the structs around it, such as `meta.lang`.
    pub(super) path: String,
    pub(super) node: Node,
}

#[derive(Debug, Clone)]
pub(super) enum Node {
    Numbers(NumberPlan),
    Struct(Vec<Plan>),
    /// The Arrow array itself.
    Objects(Form),
}

/// A column of numbers, or of lists of numbers.
#[derive(Debug, Clone)]
pub(super) struct NumberPlan {
    pub(super) path: String,
    /// Type of one decoded number.
    pub(super) element: DataType,
    /// Number of nested variable-length lists around the numbers.
    pub(super) levels: usize,
    /// Lengths of the fixed-size lists within those.
    pub(super) widths: Vec<usize>,
    pub(super) lists: Lists,
    /// A number that replaces nulls. Without it a null is an error.
    pub(super) replacement: Option<Numbers>,
    /// Whether a list may be null.
    pub(super) accepts_missing_lists: bool,
    /// A mask of the rows follows the column.
    pub(super) has_row_mask: bool,
    /// A mask of the numbers inside of the rows follows as well.
    pub(super) has_item_mask: bool,
    /// The mask policy, which also marks null lists in lists.
    pub(super) is_masked: bool,
    /// The numbers are in memory of the consumer.
    pub(super) is_lent: bool,
}

/// What variable-length lists become.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Lists {
    Ragged,
    /// Every row has this length.
    Matrix(usize),
    Padded {
        length: RowLength,
        value: Numbers,
        side: Side,
        has_lengths: bool,
    },
}

impl Plan {
    pub(super) fn new(field: &Field, outer: Option<&str>, options: &ColumnOptions) -> Result<Self> {
        let name = field.name().clone();
        let path = outer.map_or_else(|| name.clone(), |outer| format!("{outer}.{name}"));
        if outer.is_none() {
            check_type(&name, field.data_type(), MAX_DEPTH)?;
        }
        let data_type = field.data_type();
        let node = match (data_type, nested_numbers(data_type)) {
            _ if options.kind == Kind::Dict => Node::Objects(Form::Objects),
            (_, Some(nested)) => {
                let row = RowOf { is_column: outer.is_none(), is_nullable: field.is_nullable() };
                Node::Numbers(NumberPlan::new(&path, nested, row, options)?)
            }
            (DataType::Struct(fields), None) => Node::Struct(
                fields
                    .iter()
                    .map(|field| Self::new(field, Some(&path), options))
                    .collect::<Result<_>>()?,
            ),
            _ => Node::Objects(form_of_objects(data_type)),
        };
        if !matches!(node, Node::Numbers(_)) && options.fill_values.contains_key(&path) {
            return Err(Error::FillObjects { column: path, data_type: data_type.clone() });
        }
        let is_padded =
            matches!(&node, Node::Numbers(plan) if matches!(plan.lists, Lists::Padded { .. }));
        if let Some(pad) = options.pad.as_ref().filter(|_| !is_padded) {
            if pad.columns.is_some() && pad.is_of(&path) {
                return Err(Error::NotLists { column: path, data_type: data_type.clone() });
            }
            if pad.values.contains_key(&path) {
                return Err(Error::PadOther { column: path, data_type: data_type.clone() });
            }
        }
        Ok(Self { name, path, node })
    }

    /// The entries for this column, in the order of [`super::Converter::convert`].
    pub(super) fn outputs(&self) -> Result<Vec<Output>> {
        let form = match &self.node {
            Node::Numbers(plan) => return Ok(plan.outputs(&self.name)),
            Node::Struct(fields) => Form::Struct(outputs_of(fields)?),
            Node::Objects(form) => form.clone(),
        };
        Ok(vec![Output { name: self.name.clone(), form }])
    }

    /// The columns of numbers in it, depth first.
    pub(super) fn number_plans(&self) -> Vec<&NumberPlan> {
        match &self.node {
            Node::Numbers(plan) => vec![plan],
            Node::Struct(fields) => fields.iter().flat_map(Self::number_plans).collect(),
            Node::Objects(_) => Vec::new(),
        }
    }

    /// Its path, and those of the fields in it.
    pub(super) fn paths(&self) -> Vec<&str> {
        let fields = match &self.node {
            Node::Struct(fields) => fields.as_slice(),
            _ => &[],
        };
        std::iter::once(self.path.as_str()).chain(fields.iter().flat_map(Self::paths)).collect()
    }
}

/// The entries of a batch, or of a struct in it.
pub(super) fn outputs_of(plans: &[Plan]) -> Result<Vec<Output>> {
    let mut names = HashSet::new();
    if let Some(twice) = plans.iter().find(|plan| !names.insert(plan.name.as_str())) {
        return Err(Error::DuplicateName { column: twice.path.clone() });
    }
    let mut outputs = Vec::with_capacity(plans.len());
    for plan in plans {
        let more = plan.outputs()?;
        if let Some(taken) = more.iter().skip(1).find(|added| names.contains(added.name.as_str())) {
            return Err(Error::AddedName { column: plan.path.clone(), added: taken.name.clone() });
        }
        outputs.extend(more);
    }
    Ok(outputs)
}

/// What a row of numbers belongs to: a column, or a field of a struct.
#[derive(Debug, Clone, Copy)]
struct RowOf {
    is_column: bool,
    is_nullable: bool,
}

impl NumberPlan {
    fn new(path: &str, nested: NestedNumbers, row: RowOf, options: &ColumnOptions) -> Result<Self> {
        let NestedNumbers { levels, widths, element, has_nullable_items } = nested;
        let fill = options.fill_values.get(path);
        let nan = Numbers::nan(&element);
        let (has_nan, is_masked) = (nan.is_some(), options.nulls == Nulls::Mask);
        let replacement = match (fill, options.nulls) {
            (Some(_), Nulls::Error | Nulls::Mask) => {
                return Err(Error::FillWithoutPolicy { column: path.to_owned() });
            }
            (Some(fill), Nulls::Fill) => match fill.to_number(&element) {
                Some(number) => Some(number),
                None => {
                    return Err(Error::FillType {
                        column: path.to_owned(),
                        data_type: element,
                        value: fill.to_string(),
                    });
                }
            },
            (None, Nulls::Mask) => nan.or_else(|| zero(&element)),
            (None, _) => nan,
        };
        let lists = match (&options.pad, options.list_lengths.get(path)) {
            _ if levels == 0 => Lists::Ragged,
            (Some(pad), _) if pad.is_of(path) => Lists::Padded {
                length: pad.row_length(),
                value: pad_value(path, &element, pad)?,
                side: pad.side,
                has_lengths: pad.has_lengths,
            },
            (_, Some(length)) if levels == 1 && row.is_column => Lists::Matrix(*length),
            _ => Lists::Ragged,
        };
        Ok(Self {
            path: path.to_owned(),
            replacement,
            accepts_missing_lists: is_masked || fill.is_some(),
            // A field is null where its struct is.
            has_row_mask: is_masked
                && (!has_nan || levels > 0 || !widths.is_empty())
                && (!row.is_column || row.is_nullable),
            has_item_mask: is_masked && !has_nan && has_nullable_items,
            is_masked,
            is_lent: options.lent.iter().any(|lent| lent == path),
            element,
            levels,
            widths,
            lists,
        })
    }

    /// Size of a row that is padded to a fixed length; of lists in lists, if each had one item.
    pub(super) fn padded_bytes(&self) -> u64 {
        let Lists::Padded { length, value, .. } = &self.lists else { return 0 };
        let Some(length) = length.fixed else { return 0 };
        let sizes = self.widths.iter().chain([&length]).map(|size| *size as u64);
        sizes.fold(value.bytes() as u64, u64::saturating_mul)
    }

    fn outputs(&self, name: &str) -> Vec<Output> {
        let values = |element: DataType| Form::Values { element, shape: self.widths.clone() };
        let dense = |element: DataType| match &self.lists {
            _ if self.levels == 0 => values(element),
            Lists::Matrix(length) => Form::Values {
                element,
                shape: std::iter::once(*length).chain(self.widths.iter().copied()).collect(),
            },
            _ => Form::Padded { element },
        };
        let is_ragged = self.levels > 0 && self.lists == Lists::Ragged;
        let form = if is_ragged {
            let innermost = Form::Ragged {
                values: Box::new(values(self.element.clone())),
                has_mask: self.has_item_mask,
            };
            (1..self.levels).fold(innermost, |inner, _| Form::Ragged {
                values: Box::new(inner),
                has_mask: self.is_masked,
            })
        } else {
            dense(self.element.clone())
        };
        let mut outputs = vec![Output { name: name.to_owned(), form }];
        let mut add = |suffix: &str, form: Form| {
            outputs.push(Output { name: format!("{name}{suffix}"), form });
        };
        if let Lists::Padded { has_lengths, .. } = self.lists {
            if has_lengths {
                add("__length", Form::Values { element: DataType::Int32, shape: Vec::new() });
            }
            (1..self.levels).for_each(|level| {
                add(&format!("__length_{level}"), Form::Padded { element: DataType::Int32 });
            });
        }
        if self.has_row_mask {
            add("__valid", Form::Values { element: DataType::Boolean, shape: Vec::new() });
        }
        if self.has_item_mask && !is_ragged {
            add("__valid_items", dense(DataType::Boolean));
        }
        outputs
    }
}

fn pad_value(path: &str, element: &DataType, pad: &Pad) -> Result<Numbers> {
    match pad.value_of(path) {
        // Every type has a zero, including booleans.
        FillValue::Integer(0) => zero(element).ok_or_else(|| Error::Unsupported {
            column: path.to_owned(),
            data_type: element.clone(),
        }),
        value => value.to_number(element).ok_or_else(|| Error::PadType {
            column: path.to_owned(),
            data_type: element.clone(),
            value: value.to_string(),
        }),
    }
}

pub(super) fn zero(element: &DataType) -> Option<Numbers> {
    FillValue::zero(element).to_number(element)
}

/// Numbers in fixed-size lists in variable-length lists.
struct NestedNumbers {
    levels: usize,
    widths: Vec<usize>,
    element: DataType,
    has_nullable_items: bool,
}

fn nested_numbers(data_type: &DataType) -> Option<NestedNumbers> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            let inner = nested_numbers(item.data_type())?;
            let has_nullable_items = inner.has_nullable_items || item.is_nullable();
            Some(NestedNumbers { levels: inner.levels + 1, has_nullable_items, ..inner })
        }
        DataType::FixedSizeList(item, width) => {
            let mut inner = nested_numbers(item.data_type()).filter(|inner| inner.levels == 0)?;
            inner.widths.insert(0, usize::try_from(*width).ok()?);
            inner.has_nullable_items |= item.is_nullable();
            Some(inner)
        }
        other => decoded(other).map(|element| NestedNumbers {
            levels: 0,
            widths: Vec::new(),
            element,
            has_nullable_items: false,
        }),
    }
}

/// Whether rows are variable-length lists of numbers.
pub(crate) fn is_list_of_numbers(data_type: &DataType) -> bool {
    nested_numbers(data_type).is_some_and(|nested| nested.levels == 1 && nested.widths.is_empty())
}

fn form_of_objects(data_type: &DataType) -> Form {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Form::Strings,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Form::Binaries,
        DataType::Dictionary(_, value) => form_of_objects(value),
        _ => Form::Objects,
    }
}

/// The type of the numbers in an array of this type, directly or in a dictionary.
fn decoded(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Dictionary(_, value) if is_number(value) => Some(value.as_ref().clone()),
        other if is_number(other) => Some(other.clone()),
        _ => None,
    }
}

fn check_type(column: &str, data_type: &DataType, depth: usize) -> Result<()> {
    use DataType::{
        Dictionary, FixedSizeList, Interval, LargeList, LargeListView, List, ListView, Map,
        RunEndEncoded, Struct, Union,
    };
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::Depth { column: column.to_owned(), limit: MAX_DEPTH });
    };
    match data_type {
        Interval(_) | Union(..) | RunEndEncoded(..) | ListView(_) | LargeListView(_) => {
            Err(Error::Unsupported { column: column.to_owned(), data_type: data_type.clone() })
        }
        List(item) | LargeList(item) | FixedSizeList(item, _) | Map(item, _) => {
            check_type(column, item.data_type(), depth)
        }
        Dictionary(_, value) => check_type(column, value, depth),
        Struct(fields) => {
            for (index, field) in fields.iter().enumerate() {
                if fields.iter().take(index).any(|earlier| earlier.name() == field.name()) {
                    return Err(Error::DuplicateField {
                        column: column.to_owned(),
                        field: field.name().clone(),
                    });
                }
                check_type(column, field.data_type(), depth)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
