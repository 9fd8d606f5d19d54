use super::*;
use proptest::prelude::*;
use serde_json::json;

fn rule(options: serde_json::Value) -> Rule {
    serde_json::from_value(options).unwrap()
}

fn qwen2_vl() -> Rule {
    rule(json!({
        "rule": "qwen2_vl", "patch_size": 14, "merge_size": 2,
        "min_pixels": 3136, "max_pixels": 1_003_520
    }))
}

fn tiles() -> Rule {
    rule(json!({
        "rule": "tiles", "size": 448, "min_tiles": 1, "max_tiles": 12,
        "tokens_a_tile": 256, "thumbnail": true
    }))
}

fn pixtral(patch: u16, longest: u16, merge: u16) -> Rule {
    rule(json!({
        "rule": "pixtral", "patch_size": patch, "longest": longest, "merge_size": merge
    }))
}

fn idefics3(longest: u16, tile: u16, blank_line_tokens: u32) -> Rule {
    rule(json!({
        "rule": "idefics3", "longest": longest, "tile": tile, "tokens_a_tile": 169,
        "splitting": true, "blank_line_tokens": blank_line_tokens
    }))
}

fn siglip2(max_patches: u32) -> Rule {
    rule(json!({"rule": "siglip2", "patch_size": 16, "max_patches": max_patches, "tokens": null}))
}

fn tokens(rule: &Rule, height: i32, width: i32) -> u64 {
    rule.plan(height, width).unwrap().tokens
}

#[test]
fn documented_sizes_have_the_documented_tokens() {
    let rule = qwen2_vl();
    let found = [(375, 500), (1080, 1920), (28, 28), (1, 200)].map(|(h, w)| tokens(&rule, h, w));
    assert_eq!(found, [234, 1222, 4, 29]);
    assert_eq!(rule.plan(1, 201), Err(Refusal::Ratio(201.0)));

    let rule = tiles();
    let found = [(375, 500), (448, 448), (300, 600), (2000, 2000)].map(|(height, width)| {
        let image = rule.plan(height, width).unwrap();
        (image.patches, image.tokens)
    });
    assert_eq!(found, [(13, 3330), (1, 258), (3, 770), (10, 2562)]);

    let rule = pixtral(16, 1024, 1);
    assert_eq!([(375, 500), (1025, 1024)].map(|(h, w)| tokens(&rule, h, w)), [792, 4160]);
    assert_eq!(rule.plan(4000, 3), Err(Refusal::NoTarget));
}

#[test]
fn idefics3_counts_the_tiles_of_the_pixels() {
    let image = idefics3(1000, 364, 1).plan(949, 2617).unwrap();
    assert_eq!((image.rows, image.cols, image.patches), (2, 3, 7));
    assert_eq!(image.tokens + 1, tokens(&idefics3(1000, 364, 2), 949, 2617));
}

#[test]
fn merging_reduces_tokens_and_keeps_patches() {
    let image = pixtral(14, 1540, 2).plan(375, 500).unwrap();
    assert_eq!(image.tokens, tokens(&pixtral(28, 1540, 1), 375, 500));
    assert_eq!(image.patches * 14 * 14, image.height * image.width);
}

#[test]
fn sides_that_no_decoder_takes_are_refused_by_every_rule() {
    for rule in [qwen2_vl(), tiles(), pixtral(16, 1024, 1), idefics3(1456, 364, 1), siglip2(256)] {
        for (height, width) in [(0, 5), (5, 0), (-1, 5), (5, 65_536), (i32::MIN, i32::MAX)] {
            assert_eq!(rule.plan(height, width), Err(Refusal::Side), "{height} {width}");
        }
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let rule = rule(json!({
        "rule": "tiles", "size": 65_535, "min_tiles": 12, "max_tiles": 12,
        "tokens_a_tile": u32::MAX, "thumbnail": true
    }));
    assert_eq!(rule.plan(10, 10), Err(Refusal::TooLarge));
    let rule = serde_json::from_value::<Rule>(json!({"rule": "siglip2", "patch_size": 0}));
    assert!(rule.is_err());
}

fn any_rule() -> impl Strategy<Value = Rule> {
    prop_oneof![
        (1..40u16, 1..4u16, 1..u32::MAX, 1..u32::MAX).prop_map(|(patch, merge, min, max)| {
            rule(json!({
                "rule": "qwen2_vl", "patch_size": patch, "merge_size": merge,
                "min_pixels": min, "max_pixels": max
            }))
        }),
        (1..u16::MAX, 1..9u16, 0..9u16).prop_map(|(size, least, more)| rule(json!({
            "rule": "tiles", "size": size, "min_tiles": least, "max_tiles": least + more,
            "tokens_a_tile": size, "thumbnail": more % 2 == 0
        }))),
        (1..u16::MAX, 1..u16::MAX, 1..4u16)
            .prop_map(|(patch, long, merge)| { pixtral(patch, long, merge) }),
        (1..u16::MAX, 99..u16::MAX).prop_map(|(longest, tile)| idefics3(longest, tile, 1)),
        (1..100_000u32).prop_map(siglip2),
    ]
}

proptest! {
    #[test]
    fn all_numbers_agree_with_one_another(
        rule in any_rule(),
        sizes in prop::collection::vec((-1..70_000i32, prop_oneof![1..70_000, 1..300]), 1..20),
    ) {
        let (heights, widths): (Vec<i32>, Vec<i32>) = sizes.iter().copied().unzip();
        let all = rule.plan_all(&heights, &widths);
        for (index, &(height, width)) in sizes.iter().enumerate() {
            let of_one = rule.plan(height, width);
            let numbers: Vec<i32> = all.iter().skip(index).step_by(sizes.len()).copied().collect();
            let expected = of_one.and_then(|image| image.numbers()).unwrap_or_default();
            prop_assert_eq!(&numbers, &expected);
            let Ok(image) = of_one else { continue };
            prop_assert_eq!(image.height % image.rows, 0);
            prop_assert_eq!(image.width % image.cols, 0);
            prop_assert!(rule.most_patches(image.tokens) >= image.patches);
            let (tokens, patches) = rule.most().unwrap_or((u64::MAX, u64::MAX));
            prop_assert!(image.tokens <= tokens && image.patches <= patches);
            if image.tokens < 100_000 {
                let expansion = rule.expansion(&image);
                let length: u64 = expansion.iter().map(|(_, count)| count).sum();
                prop_assert_eq!(length, image.tokens);
                let order: Vec<Piece> = expansion.iter().map(|(piece, _)| *piece).collect();
                let is_other = |piece: &&Piece| **piece != Piece::Placeholder;
                let before: Vec<Piece> = order.iter().take_while(is_other).copied().collect();
                let mut after: Vec<Piece> =
                    order.iter().rev().take_while(is_other).copied().collect();
                after.reverse();
                let (starts, end) = rule.around();
                prop_assert!(starts.contains(&before) && after == end);
                let pieces = rule.pieces();
                let mut others = expansion.iter().filter(|(piece, _)| *piece != Piece::Placeholder);
                prop_assert!(others.all(|(piece, count)| *count == 1 && pieces.contains(piece)));
            }
        }
    }

    #[test]
    fn limits_of_patches_are_kept(height in 1..9000i32, width in 1..9000i32, max in 1..5000u32) {
        let image = siglip2(max).plan(height, width).unwrap();
        prop_assert!(image.patches <= u64::from(max));
        let qwen = rule(json!({
            "rule": "qwen2_vl", "patch_size": 14, "merge_size": 2,
            "min_pixels": 1, "max_pixels": max * 784
        }));
        if let Ok(image) = qwen.plan(height, width) {
            let is_narrow = image.rows == 2 || image.cols == 2;
            prop_assert!(image.tokens <= u64::from(max) || is_narrow);
        }
    }
}
