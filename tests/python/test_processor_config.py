"""`ImageTokens.from_pretrained`: the rule that the processor of a directory follows."""

import json
import subprocess
import sys

import numpy as np
import pytest
import shardmill as sm
from breadth import examples, in_one
from byte_tokenizer import write_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from image_processors import image_processor, processed

CONFIG, PROCESSOR, TOKENIZER = (
    "preprocessor_config.json",
    "processor_config.json",
    "tokenizer_config.json",
)

#: Keys that published files have and that change no size.
COMMON = {
    "do_resize": True,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "do_convert_rgb": True,
    "resample": 3,
    "device": None,
    "crop_size": None,
    "do_center_crop": None,
}


def image(kind, **options):
    return COMMON | {"image_processor_type": f"{kind}ImageProcessor"} | options


def directory(path, config=None, processor=None, tokenizer=None):
    """A directory with those files that are given."""
    contents = {CONFIG: config, PROCESSOR: processor, TOKENIZER: tokenizer}
    for name, content in contents.items():
        if content is not None:
            (path / name).write_text(json.dumps(content))
    return path


QWEN = image("Qwen2VL", patch_size=14, merge_size=2, processor_class="Qwen2VLProcessor")
PIXTRAL = image("Pixtral", patch_size={"height": 16, "width": 16}, size={"longest_edge": 128})
IDEFICS = {"size": {"longest_edge": 120}, "max_image_size": {"longest_edge": 36}, "do_pad": True}
CLIP = image("CLIP", size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
CLIP = CLIP | {"do_center_crop": True}
LLAVA = {"processor_class": "LlavaProcessor", "patch_size": 7}


@in_one(
    "model, files, expected, placeholder",
    [
        (
            "qwen2_vl/Qwen2VL",
            [QWEN | {"min_pixels": 3000, "max_pixels": 9000}],
            {"patch_size": 14, "merge_size": 2, "min_pixels": 3000, "max_pixels": 9000},
            "<|image_pad|>",
        ),
        (
            "qwen2_vl/Qwen2VL",
            # Both forms at once, as in files that an old version saved.
            [
                QWEN
                | {"size": {"min_pixels": 5, "max_pixels": 6}}
                | {"min_pixels": 3000, "max_pixels": 9000}
            ],
            {"patch_size": 14, "merge_size": 2, "min_pixels": 3000, "max_pixels": 9000},
            "<|image_pad|>",
        ),
        (
            "qwen2_vl/Qwen2VL",
            [
                image(
                    "Qwen2VL",
                    image_processor_type="Qwen2VLImageProcessorFast",
                    patch_size=16,
                    size={"shortest_edge": 3000, "longest_edge": 9000},
                    processor_class="Qwen3VLProcessor",
                ),
                None,
                {"image_token": "<picture>"},
            ],
            {"patch_size": 16, "merge_size": 2, "min_pixels": 3000, "max_pixels": 9000},
            "<picture>",
        ),
        (
            "clip/CLIP",
            [
                CLIP,
                LLAVA
                | {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1},
            ],
            {"size": [28, 28], "tokens": 16, "fit": "crop"},
            "<image>",
        ),
        (
            "clip/CLIP",
            [
                {"feature_extractor_type": "CLIPFeatureExtractor", "size": 28, "crop_size": 28},
                LLAVA | {"vision_feature_select_strategy": "full", "image_token": "<i>"},
            ],
            {"size": [28, 28], "tokens": 16, "fit": "crop"},
            "<i>",
        ),
        (
            "siglip/Siglip",
            [image("Siglip", size={"height": 28, "width": 21}), LLAVA],
            {"size": [28, 21], "tokens": 12, "fit": "stretch"},
            "<image>",
        ),
        (
            "got_ocr2/GotOcr2",
            [
                image(
                    "GotOcr2",
                    size={"height": 20, "width": 20},
                    crop_to_patches=True,
                    min_patches=2,
                    max_patches=9,
                    processor_class="InternVLProcessor",
                ),
                {"image_seq_length": 64},
                {"extra_special_tokens": {"context_image_token": {"content": "<ctx>"}}},
            ],
            {
                "size": 20,
                "min_tiles": 2,
                "max_tiles": 9,
                "tokens_a_tile": 64,
                "thumbnail": True,
            },
            "<ctx>",
        ),
        (
            "pixtral/Pixtral",
            [PIXTRAL, {"processor_class": "PixtralProcessor", "patch_size": 16}],
            {"patch_size": 16, "longest": 128, "merge_size": 1},
            "[IMG]",
        ),
        (
            "pixtral/Pixtral",
            [
                PIXTRAL | {"patch_size": 14, "size": {"height": 140, "width": 140}},
                {
                    "processor_class": "PixtralProcessor",
                    "patch_size": 7,
                    "spatial_merge_size": 2,
                    "image_token": "[I]",
                },
            ],
            {"patch_size": 7, "longest": 140, "merge_size": 2},
            "[I]",
        ),
        (
            "idefics3/Idefics3",
            [
                image("Idefics3", **IDEFICS),
                {"processor_class": "Idefics3Processor"},
                {"image_token": "<ignored>"},
            ],
            {
                "longest": 120,
                "tile": 36,
                "tokens_a_tile": 169,
                "splitting": True,
                "blank_line_tokens": 1,
            },
            "<image>",
        ),
        (
            "smolvlm/SmolVLM",
            [
                None,
                {
                    "image_processor": image("SmolVLM", **IDEFICS, do_image_splitting=False),
                    "processor_class": "SmolVLMProcessor",
                    "image_seq_len": 64,
                },
                {"image_token": "<picture>"},
            ],
            {
                "longest": 120,
                "tile": 36,
                "tokens_a_tile": 64,
                "splitting": False,
                "blank_line_tokens": 1,
            },
            "<picture>",
        ),
        (
            "siglip2/Siglip2",
            [image("Siglip2", patch_size=8, max_num_patches=64)],
            {"patch_size": 8, "max_patches": 64, "tokens": None},
            "<image>",
        ),
    ],
)
def test_the_rule_is_that_of_the_processor(tmp_path, model, files, expected, placeholder):
    rule = sm.ImageTokens.from_pretrained(directory(tmp_path, *files))
    assert (rule.parameters, rule.placeholder) == (expected, placeholder)
    processor = type(image_processor(*model.split("/"))).from_pretrained(tmp_path)
    # PixtralProcessor passes the size of merged patches.
    options = (
        {"patch_size": 14} if expected.get("merge_size") == 2 and "longest" in expected else {}
    )
    for height, width in [(37, 90), (200, 130), (64, 64), (301, 40)]:
        counts = rule.count(height, width)
        shape = np.shape(processed(processor, height, width, **options)["pixel_values"])
        assert shape == pixels_of(rule, counts), (height, width)


def pixels_of(rule, counts):
    """The shape of the pixels of an image."""
    options = rule.parameters
    if rule.rule == "qwen2_vl":
        return (counts.patches, 3 * 2 * options["patch_size"] ** 2)
    if rule.rule == "siglip2":
        return (1, options["max_patches"], 3 * options["patch_size"] ** 2)
    if rule.rule == "tiles":
        return (counts.patches, 3, options["size"], options["size"])
    if rule.rule == "idefics3":
        return (1, counts.patches, 3, options["tile"], options["tile"])
    return (1, 3, counts.height, counts.width)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([image("Blip")], r"preprocessor_config.json` has the image_processor_type 'BlipImage"),
        ([QWEN | {"processor_class": "ColQwen2Processor"}], "processor_class 'ColQwen2Processor'"),
        ([CLIP], "image_processor_type 'CLIPImageProcessor' with the processor_class None"),
        ([{"size": 3}], "has no image_processor_type"),
        ([QWEN | {"do_resize": False}], "has do_resize false"),
        ([QWEN | {"do_resize": None}], "has do_resize false or null"),
        ([QWEN | {"patch_size": None}], "patch_size of .* must be a positive integer, not None"),
        ([QWEN | {"max_pixel": 5}], r"has the key max_pixel \(5\)"),
        ([QWEN | {"do_center_crop": True}], "has do_center_crop true"),
        ([QWEN | {"size": {"shortest_edge": 5, "height": 6}}], "size of .* has no longest_edge"),
        (
            [QWEN | {"size": {"shortest_edge": 5, "longest_edge": 9, "height": 6}}],
            "size of .* has the key height",
        ),
        ([QWEN | {"size": [5, 6]}], "size of .* must be a JSON object"),
        ([QWEN | {"patch_size": "14"}], "patch_size of .* must be a positive integer, not '14'"),
        ([QWEN | {"patch_size": 0}], "patch_size must be an integer from 1"),
        ([QWEN | {"do_resize": 1}], "do_resize of .* must be true or false"),
        ([CLIP, {"processor_class": "LlavaProcessor"}], "processor_config.json` has no patch_size"),
        ([CLIP, LLAVA | {"patch_size": 0}], "processor_config.json` has patch_size 0"),
        ([CLIP | {"do_pad": True}, LLAVA], "has do_pad true"),
        ([CLIP | {"crop_size": 20}, LLAVA], "crop_size .20, 20. that differs from size .28, 28."),
        ([CLIP | {"do_center_crop": None}, LLAVA], "a shortest_edge without do_center_crop"),
        ([CLIP | {"use_square_size": True}, LLAVA], "has the key use_square_size"),
        ([image("Siglip", size=28), LLAVA], "a shortest_edge without do_center_crop"),
        ([PIXTRAL | {"size": {"height": 3, "width": 4}}], "size 3 x 4, which is not a square"),
        ([PIXTRAL | {"max_pixels": 100}], "has the key max_pixels"),
        ([[1, 2]], "must be a JSON object"),
        ([QWEN, [1]], "processor_config.json` must be a JSON object"),
    ],
)
def test_what_would_change_sizes_is_refused_by_name(tmp_path, files, message):
    with pytest.raises(sm.OptionError, match=message):
        sm.ImageTokens.from_pretrained(directory(tmp_path, *files))


@pytest.mark.parametrize("content", [b"", b"{", b'{"size": \xff}', b"[" * 100_000])
@pytest.mark.parametrize("name", [CONFIG, PROCESSOR, TOKENIZER])
def test_a_file_that_is_not_json_is_named(tmp_path, name, content):
    directory(tmp_path, QWEN)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(sm.FormatError, match=f"{name}` is not valid JSON"):
        sm.ImageTokens.from_pretrained(tmp_path)


def test_a_directory_without_the_files_is_named(tmp_path):
    directory(tmp_path, tokenizer={}, processor={})
    for path, reason in (
        (tmp_path, "No preprocessor_config.json in"),
        (tmp_path / "missing", "There is no directory `.*missing`"),
        (tmp_path / TOKENIZER, "There is no directory"),
    ):
        with pytest.raises(FileNotFoundError, match=reason):
            sm.ImageTokens.from_pretrained(path)
    with pytest.raises(sm.OptionError, match="must be the path of a directory, not 3"):
        sm.ImageTokens.from_pretrained(3)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**40) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
COMPLETE = [
    (QWEN | {"size": {"shortest_edge": 3000, "longest_edge": 9000}}, {}),
    (CLIP, LLAVA),
    (image("GotOcr2", processor_class="InternVLProcessor", size=20), {"image_seq_length": 5}),
    (PIXTRAL | {"processor_class": "PixtralProcessor"}, {"patch_size": 7, "image_token": "[I]"}),
    (image("SmolVLM", **IDEFICS, processor_class="SmolVLMProcessor"), {"image_seq_len": 5}),
    (image("Siglip2", patch_size=8, max_num_patches=64), {}),
]


@settings(max_examples=examples(500, 60), deadline=None)
@given(st.data(), st.sampled_from(COMPLETE), VALUES)
def test_any_value_is_a_rule_or_an_error_of_an_option(tmp_path_factory, data, files, value):
    files = [dict(content) for content in files]
    changed = data.draw(st.sampled_from([content for content in files if content]))
    changed[data.draw(st.sampled_from(sorted(changed)))] = value
    path = directory(tmp_path_factory.mktemp("model"), *files)
    try:
        rule = sm.ImageTokens.from_pretrained(path)
    except sm.OptionError:
        return
    assert rule.count(100, 100).tokens.shape == ()


def test_transformers_is_not_imported(tmp_path):
    directory(tmp_path, QWEN)
    code = (
        "import sys, shardmill as sm; sm.ImageTokens.from_pretrained(sys.argv[1]); "
        "assert not {'transformers', 'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_pixels_are_those_of_the_model(tmp_path):
    config = PIXTRAL | {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.7, 0.8, 0.9]}
    sequences = sequences_of(tmp_path, config)
    assert sequences.normalization == ((0.1, 0.2, 0.3), (0.7, 0.8, 0.9))
    own = sequences_of(tmp_path, config, image_output=sm.ImageOutput(normalize="clip"))
    assert own.normalization != sequences.normalization
    plain = sequences_of(tmp_path, config | {"do_normalize": False})
    assert plain.normalization == ((0.0,) * 3, (1.0,) * 3)


@pytest.mark.parametrize(
    "setting",
    [
        {"do_rescale": False},
        {"rescale_factor": 1 / 127.5},
        {"resample": 9},
        {"image_std": None},
    ],
)
def test_pixels_that_cannot_be_made_are_refused(tmp_path, setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        sm.ImageTokens.from_pretrained(directory(tmp_path, PIXTRAL | setting))


def sequences_of(path, config, **options):
    texts = ["[IMG]", "[IMG_BREAK]", "[IMG_END]"]
    write_tokenizer(path, merges=[], special=texts)
    images = sm.ImageTokens.from_pretrained(directory(path, config))
    return sm.Sequences(tokenizer=path, images=images, **options)
