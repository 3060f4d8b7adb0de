"""Who holds which samples: split files and partitions of a data set into clients."""

from fedseg.partition.dirichlet import (
    DirichletClassPartition,
    DirichletPartition,
    HomogeneousPartition,
    PachinkoPartition,
    SizePartition,
)
from fedseg.partition.natural import (
    FixedPartition,
    NaturalPartition,
    ReleasedPartition,
    SinglePartition,
    check_clients,
    divide,
)
from fedseg.partition.pixels import ClassHeterogeneous
from fedseg.partition.split_files import Split, check_path, read_split, split_paths, write_split
