//! What each column of a schema becomes, and what is refused.
//!
//! A schema and the policies enter, one [`Plan`] a column leaves. Decided once, before a row is read, so that no batch ever looks different.

use super::error::{Error, Result};
use super::fill::FillValue;
use super::numbers::{Numbers, is_number};
use super::{Form, Kind, Nulls, Output};
use arrow_schema::{DataType, Field};

/// Rows of deeper types would need as much of the stack.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// One number a row.
    Scalar,
    /// As many numbers in each row.
    Fixed(usize),
    /// Any count of numbers a row.
    List,
    Objects,
}

/// How one column is converted.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) shape: Shape,
    /// Type of one number, decoded; of the column where it stays objects.
    pub(super) element: DataType,
    /// One number that takes the place of nulls. Without it a null is an error.
    pub(super) replacement: Option<Numbers>,
    /// Whether a row of a list may be null.
    pub(super) accepts_missing_lists: bool,
    /// A mask of the rows follows the column.
    pub(super) has_row_mask: bool,
    /// A mask of the numbers inside of the rows follows as well.
    pub(super) has_item_mask: bool,
}

impl Plan {
    pub(super) fn new(field: &Field, kind: Kind, nulls: Nulls, fill: Option<&FillValue>) -> Result<Self> {
        let name = field.name().clone();
        check_type(&name, field.data_type(), MAX_DEPTH)?;
        let (shape, element) = if kind == Kind::Dict { (Shape::Objects, field.data_type().clone()) } else { form_of(field.data_type()) };
        let mut plan = Self { name, shape, element, replacement: None, accepts_missing_lists: false, has_row_mask: false, has_item_mask: false };
        if shape == Shape::Objects {
            return match fill {
                Some(_) => Err(Error::FillObjects { column: plan.name, data_type: plan.element }),
                None => Ok(plan),
            };
        }
        let nan = Numbers::nan(&plan.element);
        let has_nan = nan.is_some();
        plan.replacement = match (fill, nulls) {
            (Some(_), Nulls::Error | Nulls::Mask) => return Err(Error::FillWithoutPolicy { column: plan.name }),
            (Some(fill), Nulls::Fill) => match fill.to_number(&plan.element) {
                Some(number) => Some(number),
                None => return Err(Error::FillType { column: plan.name, data_type: plan.element, value: fill.to_string() }),
            },
            (None, Nulls::Mask) => nan.or_else(|| zero(&plan.element)),
            (None, _) => nan,
        };
        plan.accepts_missing_lists = nulls == Nulls::Mask || fill.is_some();
        plan.has_row_mask = nulls == Nulls::Mask && (!has_nan || shape == Shape::List);
        plan.has_item_mask = nulls == Nulls::Mask && !has_nan && shape != Shape::Scalar;
        Ok(plan)
    }

    /// What a batch has because of this column, in the order of [`super::Converter::convert`].
    pub(super) fn outputs(&self) -> Vec<Output> {
        let element = self.element.clone();
        let width = match self.shape {
            Shape::Fixed(width) => Some(width),
            _ => None,
        };
        let form = match self.shape {
            Shape::Scalar | Shape::Fixed(_) => Form::Values { element, width },
            Shape::List => Form::Ragged { element, has_mask: self.has_item_mask },
            Shape::Objects => Form::Objects,
        };
        let mut outputs = vec![Output { name: self.name.clone(), form }];
        if self.has_row_mask {
            let form = Form::Values { element: DataType::Boolean, width: None };
            outputs.push(Output { name: format!("{}__valid", self.name), form });
        }
        if self.has_item_mask && width.is_some() {
            let form = Form::Values { element: DataType::Boolean, width };
            outputs.push(Output { name: format!("{}__valid_items", self.name), form });
        }
        outputs
    }
}

fn zero(element: &DataType) -> Option<Numbers> {
    let zero = if *element == DataType::Boolean { FillValue::Boolean(false) } else { FillValue::Integer(0) };
    zero.to_number(element)
}

fn form_of(data_type: &DataType) -> (Shape, DataType) {
    let fixed_width = |width: i32| usize::try_from(width).ok();
    let form = match data_type {
        DataType::FixedSizeList(item, width) => decoded(item.data_type()).zip(fixed_width(*width)).map(|(item, width)| (Shape::Fixed(width), item)),
        DataType::List(item) | DataType::LargeList(item) => decoded(item.data_type()).map(|item| (Shape::List, item)),
        other => decoded(other).map(|element| (Shape::Scalar, element)),
    };
    form.unwrap_or_else(|| (Shape::Objects, data_type.clone()))
}

/// The type of the numbers that an array of this type holds, directly or in a dictionary.
fn decoded(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Dictionary(_, value) if is_number(value) => Some(value.as_ref().clone()),
        other if is_number(other) => Some(other.clone()),
        _ => None,
    }
}

fn check_type(column: &str, data_type: &DataType, depth: usize) -> Result<()> {
    use DataType::{Dictionary, FixedSizeList, Interval, LargeList, LargeListView, List, ListView, Map, RunEndEncoded, Struct, Union};
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::Depth { column: column.to_owned(), limit: MAX_DEPTH });
    };
    match data_type {
        Interval(_) | Union(..) | RunEndEncoded(..) | ListView(_) | LargeListView(_) => {
            Err(Error::Unsupported { column: column.to_owned(), data_type: data_type.clone() })
        }
        List(item) | LargeList(item) | FixedSizeList(item, _) | Map(item, _) => check_type(column, item.data_type(), depth),
        Dictionary(_, value) => check_type(column, value, depth),
        Struct(fields) => {
            for (index, field) in fields.iter().enumerate() {
                if fields.iter().take(index).any(|earlier| earlier.name() == field.name()) {
                    return Err(Error::DuplicateField { column: column.to_owned(), field: field.name().clone() });
                }
                check_type(column, field.data_type(), depth)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
