"""Images whose paths or URLs are in a column."""

import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shardmill as sm
from pictures import batches_of, cropped, encoded, images_of, picture
from PIL import Image


class TestPaths:
    @pytest.fixture
    def photos(self, tmp_path):
        """Four images as files below the data set, by a column of strings."""
        (tmp_path / "photos").mkdir()
        for number in range(4):
            (tmp_path / "photos" / f"{number}.jpg").write_bytes(encoded(picture(number)))
        return tmp_path

    def data_of(self, directory, paths, *, as_struct, **options):
        cells = [{"bytes": None, "path": path} for path in paths] if as_struct else paths
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()}) if as_struct else pa.string()
        pq.write_table(pa.table({"image": pa.array(cells, kind)}), directory / "x.parquet")
        return sm.Dataset(directory / "x.parquet", images=sm.Images("image", size=16, **options))

    @pytest.mark.parametrize("as_struct", [False, True], ids=["strings", "structs"])
    def test_files_are_read_below_the_root(self, photos, as_struct):
        paths = [f"photos/{number}.jpg" for number in (2, 0, 3)]
        images = images_of(self.data_of(photos, paths, as_struct=as_struct, source="path"))
        expected = [
            np.asarray(cropped(Image.open(photos / path), 16)).transpose(2, 0, 1) for path in paths
        ]
        np.testing.assert_array_equal(images, expected)
        named = self.data_of(
            photos, ["1.jpg"], as_struct=as_struct, source=sm.ImagePaths(photos / "photos")
        )
        assert images_of(named).shape == (1, 3, 16, 16)

    def test_sources_of_a_mixture_have_roots_of_their_own(self, photos, tmp_path_factory):
        other = tmp_path_factory.mktemp("other")
        (other / "photos").mkdir()
        (other / "photos" / "0.jpg").write_bytes(encoded(picture(9)))
        sources = [
            self.data_of(root, ["photos/0.jpg"], as_struct=False, source="path")
            for root in (photos, other)
        ]
        # A name may be that of the directory.
        mixed = images_of(sm.Mixture({photos.name: sources[0], "other": sources[1]}))
        alone = [images_of(source)[0].tolist() for source in sources]
        assert sorted(image.tolist() for image in mixed) == sorted(alone)

    @pytest.mark.parametrize(
        "path", ["../../etc/passwd", "/etc/passwd", "photos/../../x.jpg", "file:///etc/passwd"]
    )
    def test_path_that_leads_out_of_the_root_is_refused_by_name(self, photos, path):
        data = self.data_of(photos, [path], as_struct=True, source="path")
        with pytest.raises(sm.FormatError) as refused:
            batches_of(data)
        assert path in str(refused.value) and "leads out of the root" in str(refused.value)

    @pytest.mark.parametrize(
        ("path", "cause"),
        [
            ("", "its path is empty"),
            ("photos", 'the path "photos" is a directory'),
            ("photos/", 'the path "photos/" is a directory'),
            ("photos/0\0.jpg", r'the path "photos/0\0.jpg" contains the character NUL'),
        ],
    )
    def test_path_that_names_no_file_is_a_bad_image_with_its_cause(self, photos, path, cause):
        loader = sm.Loader(
            self.data_of(photos, ["photos/0.jpg", path], as_struct=False, source="path"),
            errors=sm.ErrorPolicy(rows="skip"),
            output="numpy",
        )
        assert [len(batch["image"]) for batch in loader] == [1]
        assert cause in loader.bad_rows[0].cause

    def test_link_that_leads_out_of_the_root_is_refused(self, photos, tmp_path_factory):
        outside = tmp_path_factory.mktemp("outside") / "secret.jpg"
        outside.write_bytes(encoded(picture(1)))
        (photos / "photos" / "link.jpg").symlink_to(outside)
        with pytest.raises(sm.FormatError, match="link.jpg"):
            batches_of(self.data_of(photos, ["photos/link.jpg"], as_struct=False, source="path"))

    def test_null_bytes_beside_a_path_say_what_to_do(self, photos):
        with pytest.raises(
            sm.FormatError, match='names the file "photos/1.jpg"; source="path" reads it'
        ):
            batches_of(self.data_of(photos, ["photos/1.jpg"], as_struct=True))

    def test_root_that_does_not_exist_is_an_error_at_once(self, photos):
        with pytest.raises(FileNotFoundError, match="is not a directory"):
            sm.ImagePaths(root=photos / "none")

    @pytest.mark.parametrize("on_error", [None, "null"])
    def test_store_that_is_out_of_reach_makes_no_row_bad(self, photos, on_error):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            server = f"http://127.0.0.1:{unused.getsockname()[1]}"
            sm.storage.configure(server, {"retry_timeout": 1})
            data = self.data_of(
                photos, [f"{server}/photo.jpg"], as_struct=False, source="url", on_error=on_error
            )
            with pytest.raises(OSError):
                batches_of(data, errors=sm.ErrorPolicy(rows="skip"))

    @pytest.mark.parametrize("slash", ["", "/"])
    def test_root_in_a_store_may_end_with_a_slash(self, photos, slash):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            server = f"http://127.0.0.1:{unused.getsockname()[1]}"
            sm.storage.configure(server, {"retry_timeout": 1})
            data = self.data_of(
                photos, ["1.jpg"], as_struct=False, source=sm.ImagePaths(f"{server}/photos{slash}")
            )
            # The store is asked for the image, and is out of reach.
            with pytest.raises(OSError):
                batches_of(data, errors=sm.ErrorPolicy(rows="skip"))

    def test_options_beside_local_data_say_where_those_of_urls_are_set(self, photos):
        self.data_of(photos, ["https://host/1.jpg"], as_struct=False, source="url")
        with pytest.raises(
            sm.OptionError,
            match=r"hint: sm\.storage\.configure\(url, …\) sets the options for URLs",
        ):
            sm.Dataset(photos / "x.parquet", storage_options={"retry_timeout": 1})

    def test_missing_file_is_a_bad_image(self, photos):
        loader = sm.Loader(
            self.data_of(
                photos, ["photos/0.jpg", "photos/none.jpg"], as_struct=False, source="path"
            ),
            errors=sm.ErrorPolicy(rows="skip"),
            output="numpy",
        )
        assert [len(batch["image"]) for batch in loader] == [1]
        assert "none.jpg" in loader.bad_rows[0].cause
