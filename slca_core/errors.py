"""The exceptions a person at the keyboard may meet. Each message says what was expected, what was found, where, and what to do."""


class SlcaError(Exception):
    """Anything the user can mend; the command line prints its message without a traceback and exits with code 2."""


class ConfigError(SlcaError):
    """A study file, an override or the machine does not fit what was asked for."""


class DataError(SlcaError):
    """Input data is missing, unreadable, or bad beyond the study's threshold."""


class ServiceError(SlcaError):
    """A server (mocker, judge, policy, MLflow, Ray) did not come up, went away or failed too often."""


class PromptTooLong(ServiceError):
    """A frozen model's context cannot hold what it is asked; asked again, it could not either."""


class AnswerCut(ServiceError):
    """A frozen model's answer ended at its limit of tokens.

    Attributes:
        text: of it, as far as it goes.
    """

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text
