"""Units as people read them."""

from command_line import python

from fedseg.units import ceil_share, floor_share, format_bytes, format_duration


def test_bytes_and_durations():
    assert [format_bytes(n) for n in (0, 1023, 1536, 2**30, 2**50)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "1.0 GiB",
        "1,024.0 TiB",
    ]
    assert [format_duration(s) for s in (9.4, 245, 12_000)] == ["0:00:09", "0:04:05", "3:20:00"]


def test_shares_of_a_number_are_exact():
    """The products are 28.999999999999996, 7.000000000000001 and 33.3."""
    assert floor_share(0.29, 100) == ceil_share(0.29, 100) == 29
    assert floor_share(0.07, 100) == ceil_share(0.07, 100) == 7
    assert (floor_share(1 / 3, 100), ceil_share(1 / 3, 100)) == (33, 34)
    assert floor_share(1 / 3, 3) == 1


def test_peak_memory_grows_with_what_is_held():
    program = (
        "from fedseg.units import peak_memory; before = peak_memory();"
        "held = b'1' * (before + 2**24); print(len(held), peak_memory() - before)"
    )  # a process of its own: one that has imported torch would have to hold gigabytes
    held, grown = map(int, python(program).split())
    assert held > 2**24 < grown
