"""Who holds which samples: split files and partitions of a data set into clients."""

from fedseg.partition.dirichlet import (
    DirichletClassPartition,
    DirichletPartition,
    HomogeneousPartition,
)
from fedseg.partition.natural import (
    FixedPartition,
    NaturalPartition,
    SinglePartition,
    check_clients,
)
from fedseg.partition.pachinko import PachinkoPartition
from fedseg.partition.released import ReleasedPartition
from fedseg.partition.split_files import Split, check_path, read_split, split_paths, write_split
