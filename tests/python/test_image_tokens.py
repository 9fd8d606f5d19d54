"""Rules of image tokens: counts are those of the pixels that image processors return."""

import pickle
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import shardmill as sm
from breadth import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from image_processors import image_processor, processed, replaced, sizes
from shardmill.data._image_counts import ImageCounts


def counted(rule, height, width):
    """The numbers of one image, or `None` if it cannot be planned."""
    counts = rule.count(height, width)
    refusal = rule.refusal(height, width)
    assert (refusal is None) == bool(counts.tokens), (height, width, refusal)
    if refusal is not None:
        assert not any(counts)
        return None
    return ImageCounts(*map(int, counts))


def text_of(rule, height, width):
    return "".join(text * count for text, count in rule.expansion(height, width))


@pytest.mark.parametrize(
    "options",
    [
        {"min_pixels": 56 * 56, "max_pixels": 28 * 28 * 16},
        {"patch_size": 16, "min_pixels": 2000, "max_pixels": 90_000},
        {"patch_size": 7, "merge_size": 3, "min_pixels": 50_000, "max_pixels": 60_000},
    ],
    ids=["small", "qwen3", "narrow"],
)
def test_qwen2_vl_has_the_patches_and_tokens_of_its_processor(options):
    rule = sm.ImageTokens.qwen2_vl(**options)
    processor = image_processor("qwen2_vl", "Qwen2VL", **options)
    refused = 0
    for height, width in sizes(1):
        counts, inputs = counted(rule, height, width), processed(processor, height, width)
        if inputs is None:
            assert counts is None, (height, width)
            refused += 1
            continue
        [[_, rows, cols]] = inputs["image_grid_thw"].tolist()
        assert (counts.rows, counts.cols) == (rows, cols), (height, width)
        assert counts.patches == len(inputs["pixel_values"])
        assert inputs["targets"] == [(counts.height, counts.width)]
        own = SimpleNamespace(image_processor=processor, image_token="<|image_pad|>")
        assert text_of(rule, height, width) == replaced("qwen2_vl", "Qwen2VL", own, inputs)
        assert text_of(rule, height, width) == "<|image_pad|>" * counts.tokens
    assert refused


@pytest.mark.parametrize("thumbnail_only", [False, True])
@pytest.mark.parametrize(("least", "most"), [(1, 12), (4, 7), (1, 1), (3, 3)])
def test_tiles_are_those_of_the_processor(least, most, thumbnail_only):
    size = 64 if thumbnail_only else 20
    rule = sm.ImageTokens.tiles(size=size, min_tiles=least, max_tiles=most, tokens_a_tile=5)
    options = {"min_patches": least, "max_patches": most, "size": {"height": size, "width": size}}
    processor = image_processor("got_ocr2", "GotOcr2", crop_to_patches=True, **options)
    own = SimpleNamespace(
        start_image_token="<img>",
        end_image_token="</img>",
        image_token="<IMG_CONTEXT>",
        image_seq_length=5,
    )
    for height, width in sizes(2):
        counts, inputs = counted(rule, height, width), processed(processor, height, width)
        assert counts.patches == len(inputs["pixel_values"]), (height, width)
        assert inputs["targets"][0] == (counts.height, counts.width)
        assert (counts.rows * size, counts.cols * size) == (counts.height, counts.width)
        text = replaced("internvl", "InternVL", own, inputs)
        assert text_of(rule, height, width) == text
        assert counts.tokens == text.count("<")


@pytest.mark.parametrize(("patch_size", "merge_size", "longest"), [(16, 1, 100), (7, 2, 310)])
def test_pixtral_has_the_sizes_of_its_processor(patch_size, merge_size, longest):
    rule = sm.ImageTokens.pixtral(patch_size=patch_size, merge_size=merge_size, longest=longest)
    processor = image_processor(
        "pixtral", "Pixtral", patch_size=patch_size * merge_size, size={"longest_edge": longest}
    )
    refused = 0
    for height, width in [*sizes(3), (1200, 3)]:
        counts, inputs = counted(rule, height, width), processed(processor, height, width)
        if inputs is None:
            assert counts is None, (height, width)
            refused += 1
            continue
        assert [tuple(map(int, size)) for size in inputs["image_sizes"]] == [counts[:2]]
        assert counts.patches == counts.height * counts.width // patch_size**2
        row = "[IMG]" * (counts.width // patch_size // merge_size)
        rows = [row] * (counts.height // patch_size // merge_size)
        assert text_of(rule, height, width) == "[IMG_BREAK]".join(rows) + "[IMG_END]"
        assert counts.tokens == text_of(rule, height, width).count("[")
    assert refused


@pytest.mark.parametrize("model", ["idefics3", "smolvlm"])
@pytest.mark.parametrize(
    ("longest", "tile", "splitting"), [(100, 25, True), (100, 36, True), (90, 45, False)]
)
def test_idefics3_has_the_tiles_of_its_processor(model, longest, tile, splitting):
    rule = sm.ImageTokens.idefics3(longest=longest, tile=tile, tokens_a_tile=3, splitting=splitting)
    name = {"idefics3": "Idefics3", "smolvlm": "SmolVLM"}[model]
    processor = image_processor(
        model,
        name,
        size={"longest_edge": longest},
        max_image_size={"longest_edge": tile},
        do_image_splitting=splitting,
    )
    own = SimpleNamespace(
        fake_image_token="<fake_token_around_image>",
        global_image_tag="<global-img>",
        image_token="<image>",
        image_seq_len=3,
    )
    for height, width in sizes(4):
        counts = counted(rule, height, width)
        inputs = processed(processor, height, width, return_row_col_info=True)
        assert counts.patches == np.shape(inputs["pixel_values"])[1], (height, width)
        shape = inputs["rows"][0][0], inputs["cols"][0][0]
        assert shape == ((counts.rows, counts.cols) if counts.patches > 1 else (0, 0))
        text = text_of(rule, height, width)
        assert text == replaced("idefics3", "Idefics3", own, inputs)
        assert counts.tokens == text.count("<") + text.replace("\n\n", "\n").count("\n")


def test_the_cap_of_idefics3_is_that_of_its_processor():
    rule = sm.ImageTokens.idefics3(longest=5000, tile=820)
    processor = image_processor(
        "idefics3",
        "Idefics3",
        size={"longest_edge": 5000},
        max_image_size={"longest_edge": 820},
        do_normalize=False,
        do_pad=False,
    )
    counts = counted(rule, 2, 90)
    inputs = processed(processor, 2, 90, return_row_col_info=True)
    assert (counts.rows, counts.cols) == (inputs["rows"][0][0], inputs["cols"][0][0]) == (1, 5)


@pytest.mark.parametrize(("patch_size", "max_patches"), [(16, 64), (4, 256), (14, 1)])
def test_siglip2_has_the_shapes_of_its_processor(patch_size, max_patches):
    rule = sm.ImageTokens.siglip2(patch_size=patch_size, max_patches=max_patches)
    processor = image_processor(
        "siglip2", "Siglip2", patch_size=patch_size, max_num_patches=max_patches
    )
    for height, width in sizes(5):
        counts, inputs = counted(rule, height, width), processed(processor, height, width)
        assert inputs["spatial_shapes"] == [(counts.rows, counts.cols)], (height, width)
        assert inputs["targets"] == [(counts.height, counts.width)]
        assert counts.patches == int(inputs["pixel_attention_mask"][0].sum()) == counts.tokens
    fixed = sm.ImageTokens.siglip2(patch_size=patch_size, max_patches=max_patches, tokens=7)
    assert fixed.count(300, 200).tokens == 7


@pytest.mark.parametrize(
    ("model", "name", "size"),
    [
        ("clip", "CLIP", {"shortest_edge": 28}),
        ("llava", "Llava", {"shortest_edge": 28}),
        ("siglip", "Siglip", {"height": 28, "width": 28}),
    ],
)
def test_fixed_has_the_size_of_the_processors_and_the_tokens_of_llava(model, name, size):
    rule = sm.ImageTokens.fixed(28, tokens=(28 // 7) ** 2)
    options = {} if model == "siglip" else {"crop_size": {"height": 28, "width": 28}}
    processor = image_processor(model, name, size=size, **options)
    own = SimpleNamespace(
        patch_size=7,
        num_additional_image_tokens=1,
        vision_feature_select_strategy="default",
        image_token="<image>",
    )
    for height, width in sizes(6):
        counts, inputs = counted(rule, height, width), processed(processor, height, width)
        assert np.shape(inputs["pixel_values"]) == (1, 3, counts.height, counts.width)
        assert text_of(rule, height, width) == replaced("llava", "Llava", own, inputs)
        assert counts == (28, 28, 16, 1, 1, 1)


def test_documented_sizes_have_the_documented_tokens():
    qwen = sm.ImageTokens.qwen2_vl().count([375, 1080, 28, 1, 1], [500, 1920, 28, 200, 201])
    assert qwen.tokens.tolist() == [234, 1222, 4, 29, 0]
    tiles = sm.ImageTokens.tiles().count([375, 448, 300, 2000], [500, 448, 600, 2000])
    assert tiles.patches.tolist() == [13, 1, 3, 10]
    assert tiles.tokens.tolist() == [3330, 258, 770, 2562]
    pixtral = sm.ImageTokens.pixtral().count([375, 1025, 4000], [500, 1024, 3])
    assert pixtral.tokens.tolist() == [792, 4160, 0]
    merged = sm.ImageTokens.pixtral(patch_size=14, merge_size=2, longest=1540).count(375, 500)
    assert merged.tokens == (18 + 1) * 14


RULES = [
    sm.ImageTokens.qwen2_vl(),
    sm.ImageTokens.fixed((336, 224), 576),
    sm.ImageTokens.tiles(),
    sm.ImageTokens.pixtral(),
    sm.ImageTokens.idefics3(),
    sm.ImageTokens.siglip2(),
]
SIDES = st.integers(-2, 70_000)


@settings(max_examples=examples(500, 60), deadline=None)
@given(
    st.sampled_from(RULES), st.lists(st.tuples(SIDES, SIDES), max_size=6), st.sampled_from("hlqHLQ")
)
def test_each_image_has_the_numbers_that_it_has_alone(rule, images, kind):
    least = np.iinfo(kind).min
    sides = np.array(images, "q").reshape(-1, 2).clip(least, np.iinfo("h").max).astype(kind)
    counts = rule.count(sides[:, 0], sides[:, 1])
    assert {column.dtype for column in counts} == {np.dtype("int32")}
    for index, (height, width) in enumerate(sides.tolist()):
        alone = counted(rule, height, width)
        assert alone == (None if not counts.tokens[index] else tuple(c[index] for c in counts))
        if alone is not None:
            assert sum(count for _, count in rule.expansion(height, width)) == alone.tokens


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rule)
def test_an_image_without_a_size_cannot_be_planned(rule):
    for sides in [(0, 10), (10, 0), (-1, 10), (10, 65_536), (2**31 - 1, -(2**31))]:
        assert counted(rule, *sides) is None
        with pytest.raises(ValueError, match="a side is not from 1 to 65535 pixels"):
            rule.expansion(*sides)
    assert counted(rule, 65_535, 65_535) is not None


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.rule)
def test_the_shape_of_the_result_is_that_of_the_heights(rule):
    assert rule.count([], []).tokens.shape == (0,)
    assert rule.count([[30, 40]], [[50, 60]]).width.shape == (1, 2)
    assert rule.count(np.int8(100), 100).tokens == rule.count(100, 100).tokens
    assert pickle.loads(pickle.dumps(rule)) == rule


def halves(heights, widths, unit=32):
    assert heights.dtype == widths.dtype == np.int32
    rows, cols = heights // unit, widths // unit
    tokens = rows * cols
    return {
        "height": rows * unit,
        "width": cols * unit,
        "tokens": tokens,
        "rows": rows,
        "cols": cols,
    }


def test_a_function_counts_images_and_refuses_those_without_tokens():
    rule = sm.ImageTokens(halves, version="1", pixels="patches", prefix="<a>")
    counts = rule.count([100, 0, 31, 64], [70, 5, 500, 64])
    assert counts.tokens.tolist() == counts.patches.tolist() == [6, 0, 0, 4]
    assert counts.height.tolist() == [96, 0, 0, 64]
    assert rule.expansion(64, 64) == [("<image>", 4)]
    assert rule.refusal(31, 500).endswith("halves returns 0 tokens")
    assert rule.refusal(0, 500) == "a side is not from 1 to 65535 pixels"
    assert sm.ImageTokens(halves, version="1").count(100, 70).patches == 1
    assert pickle.loads(pickle.dumps(rule)) == rule


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "must return a dict with height, width, tokens, rows, cols, not NoneType"),
        ({"height": [1]}, r"must return a dict .*, not \['height'\]"),
        (
            {"tokens": [1]},
            r"tokens of .* with the shape \(2,\), not of int64 with the shape \(1,\)",
        ),
        ({"tokens": [1.0, 1.0]}, "array of integers .* not of float64"),
        ({"width": [-1, 4]}, "width of .* must be from 0 to 2147483647, not from -1 to 4"),
        ({"cols": [2**31, 1]}, "cols of .* not from 1 to 2147483648"),
        ({"rows": [1, 0]}, "returns .*'rows': 0.* for an image of 20 x 40 pixels"),
        ({"rows": [2**20, 1], "cols": [2**20, 1]}, "for an image of 10 x 30 pixels"),
    ],
)
def test_a_function_that_returns_something_else_is_named(result, message):
    if result and "height" not in result:
        whole = {name: [1, 1] for name in ("height", "width", "tokens", "rows", "cols")}
        result = whole | result
    rule = sm.ImageTokens(lambda heights, widths: result, version="1", pixels="tiles")
    with pytest.raises(sm.OptionError, match=message) as raised:
        rule.count([10, 20], [30, 40])
    assert "<lambda>" in str(raised.value)


def test_the_fingerprint_changes_with_rule_version_parameters_and_tokens():
    rules = [
        *RULES,
        sm.ImageTokens.qwen2_vl(max_pixels=1_003_521),
        sm.ImageTokens.qwen2_vl(prefix=""),
        sm.ImageTokens.qwen2_vl(suffix=[3, 4]),
        sm.ImageTokens.fixed((336, 224), 576, fit="stretch"),
        sm.ImageTokens.tiles(end="<end>"),
        sm.ImageTokens(halves, version="1"),
        sm.ImageTokens(halves, version="2"),
        sm.ImageTokens(partial(counted, None), version="1"),
        sm.ImageTokens(halves, version="1", pixels="tiles"),
    ]
    assert len({rule.fingerprint for rule in rules}) == len(rules)
    assert sm.ImageTokens.qwen2_vl().fingerprint == RULES[0].fingerprint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sm.ImageTokens(3, version="1"), "takes a function, not 3"),
        (lambda: sm.ImageTokens(halves, version=1), "version must be a string"),
        (lambda: sm.ImageTokens(halves, version="1", pixels="rows"), "pixels must be one of"),
        (lambda: sm.ImageTokens.qwen2_vl(patch_size=0), "patch_size must be .* not 0"),
        (lambda: sm.ImageTokens.qwen2_vl(min_pixels=9, max_pixels=8), "max_pixels .* from 9"),
        (lambda: sm.ImageTokens.fixed(1, tokens=0), "tokens must be an integer from 1"),
        (lambda: sm.ImageTokens.fixed("1", 5), "size must be an integer or"),
        (lambda: sm.ImageTokens.fixed((1, 2, 3), 5), "size must be an integer or"),
        (lambda: sm.ImageTokens.fixed(8, 5, fit="pad"), "fit must be one of"),
        (lambda: sm.ImageTokens.tiles(min_tiles=3, max_tiles=2), "max_tiles .* from 3 to 1000"),
        (lambda: sm.ImageTokens.tiles(thumbnail=1), "thumbnail must be True or False"),
        (lambda: sm.ImageTokens.pixtral(row_break=""), "row_break must be the text or the id"),
        (lambda: sm.ImageTokens.idefics3(blank_line_tokens=3), "blank_line_tokens must"),
        (lambda: sm.ImageTokens.siglip2(placeholder=-1), "placeholder must be .* not -1"),
        (lambda: sm.ImageTokens.siglip2(prefix=[1, True]), "prefix must be a text or a list"),
        (lambda: sm.ImageTokens.siglip2().count([1.5], [2]), "heights must be integers"),
        (lambda: sm.ImageTokens.siglip2().count([1, 2], [2]), "must have the same shape"),
        (lambda: sm.ImageTokens.siglip2().refusal(1, "2"), "width must be an integer"),
    ],
)
def test_an_option_that_is_not_valid_is_named(make, message):
    with pytest.raises(sm.OptionError, match=message):
        make()
