"""``fedseg prepare segmentation`` as a script (see --help)."""

from fedseg.commands.main import run

if __name__ == "__main__":
    run("prepare", "segmentation")
