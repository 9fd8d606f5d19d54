use super::*;
use proptest::prelude::*;

fn verdict_of_page(bytes: &[u8]) -> Verdict {
    judge_page_header(bytes).0
}

#[test]
fn list_of_two_thousand_million_booleans_is_refused_wherever_it_hides() {
    let booleans = [0xf1, 0xff, 0xff, 0xff, 0xff, 0x07];
    let in_field = [&[0xf9][..], &booleans, &[0]].concat();
    let in_list_in_structure = [&[0xfc, 0x19, 0x29][..], &booleans, &booleans, &[0, 0]].concat();
    let in_map = [0xfb, 0xff, 0xff, 0x03, 0x12, 0];
    // The decoder reads a one-byte number here, and then the text of this list.
    let in_text = [&[0x18, 8, 0xf9][..], &booleans, &[0, 0]].concat();
    for bytes in [in_field, in_list_in_structure, in_map.to_vec(), in_text] {
        assert_eq!(judge_footer(&bytes).0, Verdict::UnsupportedField, "{bytes:x?}");
    }
}

#[test]
fn schema_and_pairs_of_a_footer_are_found_once_it_is_whole() {
    // Version, a schema of one element without fields, rows, no row groups, one key-value pair.
    let whole = [0x15, 2, 0x19, 0x1c, 0, 0x16, 0, 0x19, 0x0c, 0x19, 0x1c, 0x18, 1, b'k', 0, 0];
    let parts = FooterParts {
        schema: &whole[3..5],
        pairs: &whole[10..15],
        before_row_groups: &whole[..8],
        row_groups: &whole[8..9],
        after_row_groups: &whole[9..],
        has_encryption: false,
    };
    assert_eq!(judge_footer(&whole), (Verdict::Harmless, Some(parts)));
    assert!((0..whole.len()).all(|len| judge_footer(&whole[..len]).1.is_none()));
    let groups_before_schema = [0x49, 0x0c, 0x09, 4, 0x1c, 0, 0];
    assert_eq!(judge_footer(&groups_before_schema), (Verdict::Harmless, None));
    let two_schemas = [0x29, 0x1c, 0, 0x09, 4, 0x1c, 0, 0];
    assert_eq!(judge_footer(&two_schemas), (Verdict::Harmless, None));
}

/// The decoder would find another schema in the footer than this walk.
#[test]
fn field_that_has_another_number_for_the_decoder_is_refused() {
    // Minus one and then plus three; and two, after truncation to 16 bits.
    for bytes in [&[0x03, 1, 0, 0x39, 0x1c, 0, 0][..], &[0x09, 0x84, 0x80, 0x08, 0x1c, 0, 0]] {
        assert_eq!(judge_footer(bytes), (Verdict::UnsupportedField, None), "{bytes:x?}");
    }
}

#[test]
fn structure_that_is_cut_is_unfinished_at_every_byte() {
    // All unknown fields: a number, a text, a list of two structures, a boolean, a double.
    let whole = [
        0xf5, 0x80, 0x01, 0x18, 2, b'h', b'i', 0x19, 0x2c, 0x15, 2, 0, 0, 0x11, 0x17, 0, 0, 0, 0,
        0, 0, 0, 0, 0,
    ];
    assert_eq!(judge_footer(&whole).0, Verdict::Harmless);
    assert!((0..whole.len()).all(|len| judge_footer(&whole[..len]).0 == Verdict::Unfinished));
}

#[test]
fn list_that_claims_more_than_there_is_ends_with_the_bytes() {
    assert_eq!(
        judge_footer(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0, 0, 0]).0,
        Verdict::Unfinished
    );
    assert_eq!(judge_footer(&[0xfc; 60]).0, Verdict::Unfinished);
    assert_eq!(judge_footer(&[0xfc; 1000]).0, Verdict::UnsupportedField);
}

#[test]
fn header_of_a_page_is_harmless_and_one_with_a_text_for_its_length_is_not() {
    let page = [
        0x15, 0, 0x15, 20, 0x15, 20, 0x2c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x36, 0, 0x28,
        1, b'x', 0x21, 0x11, 0, 0, 0,
    ];
    assert_eq!(verdict_of_page(&page), Verdict::Harmless);
    assert_eq!(verdict_of_page(&[0x15, 0, 0x18, 1, b'x', 0]), Verdict::UnsupportedField);
}

#[test]
fn levels_of_version_2_and_pages_that_are_not_compressed_are_known() {
    let page = |fields: &[u8]| {
        [
            &[
                0x15, 6, 0x15, 20, 0x15, 20, 0x5c, 0x15, 4, 0x15, 0, 0x15, 4, 0x15, 0, 0x15, 6,
                0x15, 4,
            ][..],
            fields,
            &[0],
        ]
        .concat()
    };
    let plain_len = |bytes: &[u8]| {
        let (verdict, facts) = judge_page_header(bytes);
        assert_eq!((verdict, facts.page_len, facts.values), (Verdict::Harmless, 10, 2));
        facts.plain_len
    };
    assert_eq!(plain_len(&page(&[0])), 5);
    assert_eq!(plain_len(&page(&[0x11, 0])), 5);
    assert_eq!(plain_len(&page(&[0x12, 0])), u64::MAX);
    // Described once more: two values, nothing else.
    assert_eq!(plain_len(&page(&[0x12, 0, 0x0c, 0x10, 0x15, 4, 0])), 0);
}

/// Found by fuzzing: eight gigabytes for a dictionary of a few bytes.
#[test]
fn dictionary_that_claims_more_entries_than_it_has_bytes_is_refused() {
    let entries = [0x1c, 0x15, 0x80, 0x80, 0x80, 0x40, 0x15, 0, 0, 0];
    let header = |page: &[u8], stored: &[u8]| {
        [&[0x15, 4, 0x15], page, &[0x15], stored, &[0x4c], &entries[1..]].concat()
    };
    let large = [0xfe, 0xff, 0xff, 0xff, 0x0f];
    assert_eq!(verdict_of_page(&header(&[20], &[20])), Verdict::UnsupportedField);
    assert_eq!(verdict_of_page(&header(&large, &[20])), Verdict::UnsupportedField);
    assert_eq!(verdict_of_page(&header(&large, &large)), Verdict::Harmless);
    // Negative, but a large positive number after truncation to 32 bits.
    let cut = [0xcf, 0xce, 0xce, 0xce, 0xde, 0x01];
    assert_eq!(
        verdict_of_page(
            &[&[0x15, 4, 0x15, 40, 0x15, 40, 0x4c, 0x15][..], &cut, &[0x15, 0, 0, 0]].concat()
        ),
        Verdict::UnsupportedField
    );
    assert_eq!(
        verdict_of_page(&[0x15, 4, 0x15, 40, 0x15, 40, 0x4c, 0x15, 10, 0x15, 0, 0, 0]),
        Verdict::Harmless
    );
}

#[test]
fn page_of_two_thousand_million_values_is_refused() {
    let page = |count: &[u8]| {
        [&[0x15, 0, 0x15, 20, 0x15, 20, 0x2c, 0x15][..], count, &[0x15, 0, 0, 0]].concat()
    };
    assert_eq!(verdict_of_page(&page(&[0x80, 0x80, 0x80, 0x40])), Verdict::Harmless);
    assert_eq!(verdict_of_page(&page(&[0xfe, 0xff, 0xff, 0xff, 0x0f])), Verdict::UnsupportedField);
    assert_eq!(verdict_of_page(&page(&[0x03])), Verdict::UnsupportedField);
}

proptest! {
    #[test]
    fn any_bytes_get_a_verdict(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _verdicts = [judge_footer(&bytes).0, verdict_of_page(&bytes)];
    }
}
