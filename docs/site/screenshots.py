"""Take the picture of the home page: ``make screenshots``.

It shows the report of the demo, and the viewer over what the demo wrote, side by side.
"""

import io
import os
import sys
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "tests" / name) for name in ("browser", "python")]
from chromium import Window, chromium  # noqa: E402
from view_client import serving  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "report-and-viewer.png"
#: A page in CSS pixels, and those of the picture for each.
WIDTH, HEIGHT, SCALE = 640, 600, 1.1
COLOURS = 96


def main() -> None:
    """Take both pictures, and join them."""
    # The viewer shows the path as a user in the checkout writes it.
    os.chdir(ROOT)
    with chromium() as driver:
        metrics = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": SCALE, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        light = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", light)
        driver.get(Path("demo_output/report.html").absolute().as_uri())
        report = taken(driver)
        with serving("demo_output/webdataset_to_parquet") as client:
            window = Window(driver, client.server.address)
            window.open("view=columns")
            window.run("document.documentElement.style.scrollbarGutter = 'auto'")
            viewer = taken(driver)
    gap = 16
    joined = Image.new("RGB", (report.width + gap + viewer.width, report.height), "white")
    joined.paste(report, (0, 0))
    joined.paste(viewer, (report.width + gap, 0))
    joined.quantize(COLOURS).save(PICTURE, optimize=True)


def taken(driver: Any) -> Image.Image:
    """The page as it is seen, in a thin frame."""
    page = Image.open(io.BytesIO(driver.get_screenshot_as_png())).convert("RGB")
    framed = Image.new("RGB", (page.width + 2, page.height + 2), "#d0d7de")
    framed.paste(page, (1, 1))
    return framed


if __name__ == "__main__":
    main()
