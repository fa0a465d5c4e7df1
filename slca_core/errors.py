"""The exceptions a person at the keyboard may meet. Each message says what was expected, what was found, where, and what to do."""


class SlcaError(Exception):
    """Anything the user can mend; the command line prints its message without a traceback and exits with code 2."""


class ConfigError(SlcaError):
    """A study file, an override or the machine does not fit what was asked for."""


class DataError(SlcaError):
    """Input data is missing, unreadable, or bad beyond the study's threshold."""


class ServiceError(SlcaError):
    """A server (mocker, judge, policy, MLflow, Ray) did not come up, went away or failed too often."""
