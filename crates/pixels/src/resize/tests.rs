use proptest::prelude::*;

use super::*;

const FILTERS: [Filter; 6] = [
    Filter::Nearest,
    Filter::Box,
    Filter::Bilinear,
    Filter::Hamming,
    Filter::Bicubic,
    Filter::Lanczos,
];

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // Every fourth value is an extreme one, so that sums leave 0..=255.
            let [.., value, kind] =
                state.to_be_bytes().map(|byte| byte ^ (state >> 56).to_be_bytes()[7]);
            [value, 0, 255, value][usize::from(kind >> 6)]
        })
        .collect()
}

fn resized(
    resizer: &mut Resizer,
    source: Raster<'_>,
    target: Sides,
    window: Region,
    filter: Filter,
) -> Vec<u8> {
    resizer.resize(source, target, window, filter).unwrap().rows().flatten().copied().collect()
}

/// Lengths from one pixel to more than two vectors, so that each of a kernel's edges is met.
fn side() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..8, 1_usize..40, 1_usize..140]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_kernel_is_equal_to_the_scalar_passes(
        (height, width, to_height, to_width) in (side(), side(), side(), side()),
        (gray, filter, seed) in (any::<bool>(), 1_usize..6, any::<u64>()),
        (right, below) in (0_usize..3, 0_usize..3),
    ) {
        let channels = if gray { 1 } else { 3 };
        // A part of a larger image, so that bytes follow the rows, or not.
        let outer = Sides { height: height + below, width: width + right };
        let pixels = noise(outer.height * outer.width * channels, seed);
        let source = Raster::new(&pixels, outer, channels)
            .unwrap()
            .crop(Region { top: 0, left: 0, height, width })
            .unwrap();
        let target = Sides { height: to_height, width: to_width };
        let kernel = resized(&mut Resizer::new(), source, target, target.whole(), FILTERS[filter]);
        let scalar =
            resized(&mut Resizer::scalar(), source, target, target.whole(), FILTERS[filter]);
        prop_assert_eq!(kernel, scalar);
    }

    #[test]
    fn a_window_is_a_crop_of_the_whole(
        (height, width, to_height, to_width) in
            (1_usize..60, 1_usize..60, 1_usize..60, 1_usize..60),
        corner in (0_usize..60, 0_usize..60, 0_usize..60, 0_usize..60),
        (gray, filter, seed) in (any::<bool>(), 0_usize..6, any::<u64>()),
    ) {
        let channels = if gray { 1 } else { 3 };
        let pixels = noise(height * width * channels, seed);
        let source = Raster::new(&pixels, Sides { height, width }, channels).unwrap();
        let target = Sides { height: to_height, width: to_width };
        let (top, left) = (corner.0 % to_height, corner.1 % to_width);
        let window = Region {
            top,
            left,
            height: 1 + corner.2 % (to_height - top),
            width: 1 + corner.3 % (to_width - left),
        };
        let mut resizer = Resizer::new();
        let whole = resized(&mut resizer, source, target, target.whole(), FILTERS[filter]);
        let cropped: Vec<u8> = Raster::new(&whole, target, channels)
            .unwrap()
            .crop(window)
            .unwrap()
            .rows()
            .flatten()
            .copied()
            .collect();
        prop_assert_eq!(resized(&mut resizer, source, target, window, FILTERS[filter]), cropped);
    }
}

#[test]
fn windows_outside_of_the_target_are_errors() {
    let pixels = [0; 4];
    let source = Raster::new(&pixels, Sides { height: 2, width: 2 }, 1).unwrap();
    let target = Sides { height: 3, width: 3 };
    for window in [
        Region { top: 0, left: 0, height: 0, width: 1 },
        Region { top: 1, left: 0, height: 3, width: 1 },
        Region { top: usize::MAX, left: 0, height: 2, width: 1 },
    ] {
        assert!(matches!(
            Resizer::new().resize(source, target, window, Filter::Box),
            Err(ShapeError::Region { .. })
        ));
    }
    let empty = Sides { height: 0, width: 3 };
    assert!(matches!(
        Resizer::new().resize(source, empty, target.whole(), Filter::Box),
        Err(ShapeError::Sides { .. })
    ));
}

/// What Pillow 13 computes of `test_pixels`.
#[test]
fn golden_values_are_those_of_pillow() {
    let check = |(height, width, channels): (usize, usize, usize),
                 (to_height, to_width): (usize, usize),
                 filter,
                 expected: &[u8]| {
        let pixels = crate::test_pixels(height * width * channels);
        let source = Raster::new(&pixels, Sides { height, width }, channels).unwrap();
        let target = Sides { height: to_height, width: to_width };
        for mut resizer in [Resizer::new(), Resizer::scalar()] {
            assert_eq!(
                resized(&mut resizer, source, target, target.whole(), filter),
                expected,
                "{filter:?} {height}x{width}"
            );
        }
    };
    check(
        (5, 7, 3),
        (2, 3),
        Filter::Nearest,
        &[56, 120, 206, 2, 198, 160, 228, 44, 138, 182, 146, 132, 40, 136, 254, 178, 150, 144],
    );
    check(
        (5, 7, 3),
        (2, 3),
        Filter::Box,
        &[145, 134, 144, 116, 142, 161, 190, 124, 80, 160, 130, 122, 96, 125, 218, 164, 144, 146],
    );
    check(
        (5, 7, 3),
        (2, 3),
        Filter::Bilinear,
        &[138, 128, 148, 113, 146, 163, 187, 118, 107, 155, 144, 152, 94, 133, 189, 160, 145, 136],
    );
    check(
        (5, 7, 3),
        (2, 3),
        Filter::Hamming,
        &[134, 130, 145, 104, 156, 161, 198, 106, 106, 160, 138, 145, 82, 127, 201, 161, 146, 133],
    );
    check(
        (5, 7, 3),
        (2, 3),
        Filter::Bicubic,
        &[137, 125, 149, 112, 146, 168, 190, 118, 100, 157, 148, 147, 87, 131, 198, 160, 148, 134],
    );
    check(
        (5, 7, 3),
        (2, 3),
        Filter::Lanczos,
        &[138, 123, 149, 113, 145, 174, 191, 122, 94, 159, 154, 143, 83, 132, 200, 160, 149, 133],
    );
    check(
        (3, 4, 1),
        (5, 6),
        Filter::Nearest,
        &[
            0, 48, 48, 118, 118, 210, 0, 48, 48, 118, 118, 210, 68, 204, 204, 106, 106, 30, 232,
            200, 200, 190, 190, 202, 232, 200, 200, 190, 190, 202,
        ],
    );
    check(
        (3, 4, 1),
        (5, 6),
        Filter::Box,
        &[
            0, 48, 48, 118, 210, 210, 0, 48, 48, 118, 210, 210, 68, 204, 204, 106, 30, 30, 232,
            200, 200, 190, 202, 202, 232, 200, 200, 190, 202, 202,
        ],
    );
    check(
        (3, 4, 1),
        (5, 6),
        Filter::Bilinear,
        &[
            0, 24, 60, 106, 164, 210, 27, 69, 111, 112, 126, 138, 68, 136, 188, 122, 68, 30, 166,
            184, 194, 164, 145, 133, 232, 216, 198, 192, 196, 202,
        ],
    );
    check(
        (3, 4, 1),
        (5, 6),
        Filter::Hamming,
        &[
            0, 24, 50, 116, 164, 210, 19, 55, 92, 114, 137, 160, 68, 136, 201, 109, 68, 30, 186,
            194, 200, 167, 160, 154, 232, 216, 200, 190, 196, 202,
        ],
    );
    check(
        (3, 4, 1),
        (5, 6),
        Filter::Bicubic,
        &[
            0, 9, 47, 104, 179, 230, 13, 57, 108, 109, 126, 141, 59, 138, 201, 124, 60, 25, 175,
            195, 205, 168, 143, 132, 247, 224, 197, 195, 206, 216,
        ],
    );
    check(
        (3, 4, 1),
        (5, 6),
        Filter::Lanczos,
        &[
            0, 7, 41, 99, 193, 242, 0, 48, 109, 106, 119, 135, 53, 137, 209, 133, 51, 26, 181, 204,
            215, 174, 136, 125, 253, 224, 189, 194, 216, 228,
        ],
    );
    // More than twice as many rows as columns go, so the vertical pass comes first.
    check(
        (40, 6, 1),
        (3, 5),
        Filter::Nearest,
        &[228, 44, 254, 136, 40, 24, 152, 218, 156, 116, 42, 94, 8, 126, 10],
    );
    check(
        (40, 6, 1),
        (3, 5),
        Filter::Box,
        &[120, 114, 157, 146, 149, 136, 143, 152, 114, 99, 112, 124, 108, 77, 99],
    );
    check(
        (40, 6, 1),
        (3, 5),
        Filter::Bilinear,
        &[127, 133, 155, 150, 135, 127, 145, 150, 121, 109, 116, 124, 112, 91, 90],
    );
    check(
        (40, 6, 1),
        (3, 5),
        Filter::Hamming,
        &[129, 128, 154, 154, 132, 133, 142, 154, 119, 109, 115, 126, 108, 85, 87],
    );
    check(
        (40, 6, 1),
        (3, 5),
        Filter::Bicubic,
        &[126, 131, 158, 152, 136, 126, 146, 154, 118, 106, 114, 124, 110, 87, 89],
    );
    check(
        (40, 6, 1),
        (3, 5),
        Filter::Lanczos,
        &[127, 132, 160, 152, 137, 124, 149, 155, 116, 102, 112, 122, 110, 87, 89],
    );
}
