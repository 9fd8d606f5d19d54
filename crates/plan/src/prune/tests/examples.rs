use super::*;

fn blocks_of(array: ArrayRef, nulls: Option<u64>) -> Statistics {
    let row_counts = vec![10; array.len()];
    Statistics {
        min: Arc::clone(&array),
        max: array,
        null_counts: vec![nulls; row_counts.len()],
        row_counts,
    }
}

fn pruned(column: &Statistics, expression: &Expression) -> Vec<bool> {
    let schema = arrow_schema::Schema::new(vec![arrow_schema::Field::new(
        "x",
        column.min.data_type().clone(),
        true,
    )]);
    prune(&expression.bind(&schema).unwrap(), &column.row_counts, &|_: &str| Some(column.clone()))
}

fn compare(op: Comparison, value: Literal) -> Expression {
    Expression::Compare { operand: "x".into(), op, value }
}

#[test]
fn blocks_without_the_value_are_pruned() {
    let days = blocks_of(Arc::new(Int32Array::from(vec![1, 2, 3])), Some(0));
    let is_two = compare(Comparison::Equal, Literal::Integer(2));
    assert_eq!(pruned(&days, &is_two), [false, true, false]);
    assert_eq!(pruned(&days, &Expression::Not(Box::new(is_two))), [true, false, true]);
    let is_in = Expression::IsIn {
        operand: "x".into(),
        values: vec![Literal::Integer(1), Literal::Float(3.0)],
        matches_null: false,
        null_is_unknown: false,
    };
    assert_eq!(pruned(&days, &is_in), [true, false, true]);
    assert_eq!(pruned(&days, &Expression::Not(Box::new(is_in))), [false, true, false]);
}

#[test]
fn missing_null_count_is_not_zero() {
    let unknown = blocks_of(Arc::new(Int32Array::from(vec![1])), None);
    assert_eq!(
        pruned(&unknown, &Expression::IsNull { operand: "x".into(), nan_is_null: false }),
        [true]
    );
    let known = blocks_of(Arc::new(Int32Array::from(vec![1])), Some(0));
    assert_eq!(
        pruned(&known, &Expression::IsNull { operand: "x".into(), nan_is_null: false }),
        [false]
    );
}

#[test]
fn block_of_nulls_is_kept_only_for_what_holds_of_nulls() {
    let nulls = Statistics::constant(&new_null_array(&DataType::Int32, 1), vec![5, 5]).unwrap();
    let is_one = compare(Comparison::Equal, Literal::Integer(1));
    assert_eq!(pruned(&nulls, &is_one), [false, false]);
    assert_eq!(pruned(&nulls, &Expression::Not(Box::new(is_one))), [false, false]);
    assert_eq!(
        pruned(&nulls, &Expression::IsNull { operand: "x".into(), nan_is_null: false }),
        [true, true]
    );
}

#[test]
fn nan_may_hide_behind_any_bounds() {
    let zeros = blocks_of(Arc::new(Float64Array::from(vec![0.0])), Some(0));
    assert_eq!(pruned(&zeros, &compare(Comparison::NotEqual, Literal::Float(-0.0))), [true]);
    assert_eq!(
        pruned(
            &zeros,
            &Expression::Not(Box::new(compare(Comparison::LessOrEqual, Literal::Float(1.0))))
        ),
        [true]
    );
    assert_eq!(pruned(&zeros, &compare(Comparison::Greater, Literal::Float(0.0))), [false]);
    assert_eq!(
        pruned(
            &zeros,
            &Expression::IsIn {
                operand: "x".into(),
                values: vec![Literal::Float(-0.0)],
                matches_null: false,
                null_is_unknown: false
            }
        ),
        [true]
    );
}

#[test]
fn no_integer_compares_with_nan() {
    let days = blocks_of(Arc::new(Int32Array::from(vec![1])), Some(0));
    for op in OPERATORS {
        let is_nan = compare(op, Literal::Float(f64::NAN));
        let is_true = op == Comparison::NotEqual;
        assert_eq!(pruned(&days, &is_nan), [is_true], "{op:?}");
        assert_eq!(pruned(&days, &Expression::Not(Box::new(is_nan))), [!is_true], "{op:?}");
    }
}

#[test]
fn floats_prune_decimals_by_all_that_equal_them() {
    let values = [
        99_999_999_999_999_990,
        100_000_000_000_000_000,
        100_000_000_000_000_005,
        200_000_000_000_000_000,
    ];
    let tenths =
        Decimal128Array::from_iter_values(values).with_precision_and_scale(38, 18).unwrap();
    let blocks = blocks_of(Arc::new(tenths), Some(0));
    let is_in = Expression::IsIn {
        operand: "x".into(),
        values: vec![Literal::Float(0.1)],
        matches_null: false,
        null_is_unknown: false,
    };
    assert_eq!(pruned(&blocks, &is_in), [false, true, true, false]);
    assert_eq!(pruned(&blocks, &Expression::Not(Box::new(is_in))), [true; 4]);
}

#[test]
fn contradicting_and_foreign_bounds_say_nothing() {
    let inverted = Statistics {
        min: Arc::new(Int32Array::from(vec![9])),
        max: Arc::new(Int32Array::from(vec![1])),
        null_counts: vec![Some(99)],
        row_counts: vec![10],
    };
    assert_eq!(pruned(&inverted, &compare(Comparison::Equal, Literal::Integer(20))), [true]);
    assert_eq!(inverted.of_parts(&[0], vec![10]).unwrap().null_counts, [None]);
    let schema =
        arrow_schema::Schema::new(vec![arrow_schema::Field::new("x", DataType::Int32, true)]);
    let predicate = compare(Comparison::Equal, Literal::Integer(5)).bind(&schema).unwrap();
    let foreign = |_: &str| Some(blocks_of(Arc::new(BooleanArray::from(vec![true])), Some(0)));
    assert_eq!(prune(&predicate, &[10], &foreign), [true]);
    let short = |_: &str| Some(blocks_of(Arc::new(Int32Array::from(vec![1])), Some(0)));
    assert_eq!(prune(&predicate, &[10, 10], &short), [true, true]);
}

fn arithmetic(op: Arithmetic, left: impl Into<Operand>, right: impl Into<Operand>) -> Operand {
    Computed::Arithmetic(op, left.into(), right.into()).into()
}

#[test]
fn bounds_of_computed_values_prune() {
    let days = blocks_of(Arc::new(Int32Array::from(vec![1, 2, 3])), Some(0));
    let number = |value| Computed::Literal(Literal::Integer(value));
    let is =
        |operand, op, value| Expression::Compare { operand, op, value: Literal::Integer(value) };
    let cases = [
        (
            is(arithmetic(Arithmetic::Add, "x", number(10)), Comparison::Equal, 12),
            [false, true, false],
        ),
        (
            is(arithmetic(Arithmetic::Subtract, number(10), "x"), Comparison::Less, 8),
            [false, false, true],
        ),
        (
            is(arithmetic(Arithmetic::Multiply, number(-2), "x"), Comparison::LessOrEqual, -4),
            [false, true, true],
        ),
        (
            is(arithmetic(Arithmetic::Divide, "x", number(-2)), Comparison::Greater, -1),
            [true, false, false],
        ),
        (is(arithmetic(Arithmetic::Remainder, "x", number(2)), Comparison::Equal, 5), [true; 3]),
        (is(arithmetic(Arithmetic::Add, "x", number(i64::MAX)), Comparison::Equal, 5), [true; 3]),
        (
            Expression::IsNull {
                operand: arithmetic(Arithmetic::Add, "x", "x"),
                nan_is_null: false,
            },
            [false; 3],
        ),
        (
            Expression::IsNull {
                operand: arithmetic(Arithmetic::Divide, "x", "x"),
                nan_is_null: false,
            },
            [true; 3],
        ),
    ];
    for (expression, kept) in cases {
        assert_eq!(pruned(&days, &expression), kept, "{expression:?}");
    }
    let double = arithmetic(Arithmetic::Multiply, "x", number(2));
    let below = |left, right| Expression::CompareColumns { left, op: Comparison::Less, right };
    assert_eq!(pruned(&days, &below(double.clone(), "x".into())), [false; 3]);
    assert_eq!(pruned(&days, &below("x".into(), double)), [true; 3]);
}

#[test]
fn truncated_bounds_prune_prefixes_and_single_values_prune_functions() {
    let bounds = |min: [&str; 3], max: [&str; 3]| Statistics {
        min: Arc::new(StringArray::from(min.to_vec())),
        max: Arc::new(StringArray::from(max.to_vec())),
        null_counts: vec![Some(0); 3],
        row_counts: vec![10; 3],
    };
    // Cut to two bytes: the last byte of a maximum is one higher.
    let names = bounds(["aa", "ab", "b"], ["ab", "ac", "c"]);
    let starts_with = |prefix: &str| Expression::StartsWith {
        operand: "x".into(),
        prefix: Literal::Text(prefix.to_owned()),
    };
    assert_eq!(pruned(&names, &starts_with("abz")), [false, true, false]);
    assert_eq!(pruned(&names, &Expression::Not(Box::new(starts_with("a")))), [false, false, true]);
    assert_eq!(pruned(&names, &starts_with("\u{10ffff}")), [false; 3]);
    let single = bounds(["Ab", "c", "Ab"], ["Ab", "c", "b"]);
    let contains = |part: &str| Expression::Contains {
        operand: "x".into(),
        part: Literal::Text(part.to_owned()),
    };
    assert_eq!(pruned(&single, &contains("b")), [true, false, true]);
    let lower = Computed::Lower("x".into()).into();
    let is_ab = Expression::Compare {
        operand: lower,
        op: Comparison::Equal,
        value: Literal::Text("ab".to_owned()),
    };
    assert_eq!(pruned(&single, &is_ab), [true, false, true]);
}
