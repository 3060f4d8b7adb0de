"""Units as people read them."""

from fedseg.units import format_bytes, format_duration, peak_memory


def test_bytes_and_durations():
    assert [format_bytes(n) for n in (0, 1023, 1536, 2**30, 2**50)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "1.0 GiB",
        "1,024.0 TiB",
    ]
    assert [format_duration(s) for s in (9.4, 245, 12_000)] == ["0:00:09", "0:04:05", "3:20:00"]


def test_peak_memory_grows_with_what_is_held():
    before = peak_memory()
    held = bytearray(before + 2**24)
    assert peak_memory() > before
    assert held
