"""The check of OpenCV, imported before anything that uses it.

Two wheels, opencv-python and opencv-python-headless, unpack into one folder: where one of them was
removed, was updated alone, or wants a display's libraries that are missing, neither works.
"""

from fedseg.errors import ResourceError

try:
    import cv2

    version = cv2.imread and cv2.__version__  # a folder that was emptied has neither
except (ImportError, AttributeError) as error:
    raise ResourceError(
        f"OpenCV (cv2) cannot be used: {error}; the wheels opencv-python and "
        "opencv-python-headless share a folder, reinstall the second one last: pip install "
        "--force-reinstall --no-deps opencv-python-headless"
    ) from error

cv2.utils.logging.setLogLevel(0)  # what it cannot read is told by a message of ours
