"""What can be wrong with a benchmark configuration."""


class ConfigurationError(ValueError):
    """The YAML files cannot be run as they are; the message names the place."""


class UnknownNameError(KeyError):
    """A template names a dataset or a format that the configuration does not define."""

    def __str__(self) -> str:
        return str(self.args[0])
