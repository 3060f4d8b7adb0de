"""What a user did wrong, said so that the user can fix it.

The command lines print these as one message without a traceback. A message names the file or the
config field, what is wrong with it, and what to do.
"""

DEBUG = "FEDSEG_DEBUG"  # environment variable: command lines show tracebacks of user errors too


class UserError(Exception):
    """Base of every error that is the user's to fix."""

    exit_code = 2  # of a command line that ends with it


class ConfigError(UserError):
    """A config asks for something unknown, impossible or contradictory."""


class DataError(UserError):
    """A data set, split file or checkpoint on disk is missing, damaged or inconsistent."""


class MissingDataError(DataError):
    """A file or folder of a data set is not there."""


class TrainingError(UserError):
    """A run cannot go on: every update was rejected, or the global model is not finite."""


class WorkersLost(TrainingError):
    """Clients cannot be trained: a worker dies on them again and again, or none is left."""


class Interrupted(UserError):
    """The user asked the run to stop; everything up to the last finished round is saved."""

    exit_code = 130
