"""Secrets by reference: a setting says where a value is kept, and whoever needs the value looks there at that moment.

`${env:NAME}` is an environment variable and `${secret:BLOCK}` a Prefect Secret block, anywhere in a text. A reference is what
records, databases, logs and job files hold. Where a study gives a private value directly, they hold a reference to a variable of
the run's own.
"""

from __future__ import annotations

import os
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, cast
from urllib.parse import quote, unquote, urlsplit

from slca_core.errors import ConfigError

MASK = "***"
HOW = "Name it as ${env:NAME}, an environment variable, or ${secret:BLOCK}, a Prefect Secret block."
# Variables of a run's own: what a study gives directly, by its digest, and what Prefect keeps, by the block's name.
_GIVEN, _BLOCK = "SLCA_GIVEN_", "SLCA_SECRET_"
_REFERENCE = re.compile(r"\$\{(env|secret):([^{}]*)\}")
_NAMES = {"env": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), "secret": re.compile(r"[a-z0-9][a-z0-9-]*")}

# Fields of a request whose texts say how to answer, and belong in every record. Any other text may be a secret.
_OPTIONS = frozenset(
    {
        *("chat_template", "chat_template_kwargs", "reasoning", "reasoning_effort", "thinking", "verbosity", "effort"),
        *("response_format", "structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
        *("stop", "bad_words", "service_tier", "modalities", "tool_choice", "tools", "provider", "models", "route", "transforms"),
        *("truncation", "include", "mm_processor_kwargs", "plugins"),
    }
)
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:api[_-]?key|apikey|key|token|secret|passw(?:or)?d|authorization|auth|credentials?|cookie)$", re.I
)
_FLAG = re.compile(r"-\w|--[\w-]+")
# What may stand around references, as \0 here, and tells nothing: a flag, a header's name, a scheme, a host.
_FRAME = re.compile(
    r"(?:--[\w-]+=)?(?:[A-Z][A-Za-z-]*: )?(?:(?:Bearer|Basic|Token) )?\0(?:[:/]?\0)*"
    r"|https?://(?:\0(?::\0)?@)?(?:[\w.-]+|\0)(?::(?:\d+|\0))?(?:/+\0)*/?"
)
_LOGIN_BY_REFERENCE = re.compile(r"\0(?::\0)?")


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a value is kept."""

    kind: Literal["env", "secret"]
    name: str

    @property
    def variable(self) -> str:
        """The environment variable that has the value while a run goes on."""
        return self.name if self.kind == "env" else _BLOCK + self.name.upper().replace("-", "_")

    @property
    def given(self) -> bool:
        """Whether it stands for what a study gave directly."""
        return self.name.startswith(_GIVEN)

    def where(self) -> str:
        """The place in words."""
        return f"environment variable {self.name}" if self.kind == "env" else f"Prefect Secret block {self.name}"

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.name}}}"


def references(value: Any) -> list[Reference]:
    """The references in a text, or in all texts of nested mappings and lists, each once."""
    found = (match.groups() for text in _texts(value) for match in _REFERENCE.finditer(text))
    return list(dict.fromkeys(Reference(cast(Literal["env", "secret"], kind), name) for kind, name in found))


def require_well_formed(value: Any) -> Any:
    """`value`; ValueError if a reference in it cannot be one."""
    for one in references(value):
        if not _NAMES[one.kind].fullmatch(one.name):
            kind = "an environment variable" if one.kind == "env" else "a Prefect block (lower-case letters, digits and dashes)"
            raise ValueError(f"{one} was expected to name {kind}")
    return value


def reference_to(text: str) -> Reference:
    """Stands in records for a private text that a study gives directly: by its digest, so that another text is another setting."""
    return Reference("env", _GIVEN + sha256(text.encode()).hexdigest()[:12])


def filled(text: str, part: str) -> str:
    """`text` with `part` in place of each reference."""
    return _REFERENCE.sub(lambda _: part, text)


def is_reference(text: str) -> bool:
    """Whether the text is one reference and nothing else."""
    return _REFERENCE.fullmatch(text) is not None


def is_by_reference(text: str) -> bool:
    """Whether all that may be a secret in it is kept elsewhere: what is left around its references tells nothing."""
    return bool(references(text)) and "\0" not in text and _FRAME.fullmatch(filled(text, "\0")) is not None


def is_login_by_reference(login: str) -> bool:
    """Whether user and password, or both as one, are each a reference."""
    return "\0" not in login and _LOGIN_BY_REFERENCE.fullmatch(filled(login, "\0")) is not None


def opened(value: Any) -> Any:
    """`value` with each text that a study gave directly and that has references of its own, in the place of the one to it."""

    def text_of(found: re.Match[str]) -> str:
        (one,) = references(found[0])
        text = os.environ.get(one.variable, "") if one.given else ""
        return text if references(text) else found[0]

    return _change(value, lambda text: _REFERENCE.sub(text_of, text))


def missing(value: Any) -> list[Reference]:
    """The references in `value` that this process cannot look up."""
    return [one for one in references(opened(value)) if not os.environ.get(one.variable)]


def resolve(value: Any, whose: str) -> Any:
    """`value` with what its references stand for, in a text or in the texts of nested mappings and lists.

    Args:
        whose: what needs it, for the message.

    Raises:
        ConfigError: something is not there.
    """
    require_present(value, whose)
    return _change(opened(value), _looked_up)


def require_present(value: Any, whose: str) -> None:
    """ConfigError if this process lacks what a reference in `value` stands for."""
    for one in missing(value):
        if one.given:
            raise ConfigError(
                f"A value for {whose} was given directly where this run was asked for, and does not travel from there. {HOW}"
            )
        if one.kind == "secret":
            raise ConfigError(
                f"The {one.where()} was expected for the {whose} in the variable {one.variable}, which is not set. A run reads the "
                "block from the server at PREFECT_API_URL; a job elsewhere needs the variable in its nodes' environment."
            )
        raise ConfigError(f"The key of the {whose} was expected in the environment variable {one.name}, which is not set.")


def without_references(value: Any) -> Any:
    """Nested settings less what is kept elsewhere, for an identity; what was given directly stays, as its reference."""
    if isinstance(value, Mapping):
        kept = {key: without_references(part) for key, part in value.items() if not _is_elsewhere(part)}
        return {key: part for key, part in kept.items() if part != {} or value[key] == {}}
    if isinstance(value, list | tuple):
        return [without_references(part) for part in value if not _is_elsewhere(part)]
    return value


def as_variables(value: Any) -> Any:
    """`value` with every reference to the variable that has it, for a process that knows nothing of Prefect."""
    return _change(value, lambda text: _REFERENCE.sub(lambda match: f"${{env:{references(match.group())[0].variable}}}", text))


def values_of(value: Any) -> set[str]:
    """What the references in `value` stand for, and each form in which a server may repeat it."""
    value = opened(value)
    found = {os.environ[one.variable] for one in references(value) if os.environ.get(one.variable)}
    for text in _texts(value):
        if not references(text):
            continue
        whole = _looked_up(text)
        found |= {whole}
        if "://" in text and (login := credentials(whole)):
            found |= {b64encode(":".join(login).encode()).decode()}
    return found | {quote(one, safe="") for one in found}


def hide(text: str, secrets: Iterable[str]) -> str:
    """`text` without the secrets, however long; the longest go first, since one may hold another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK) if secret else text
    return text


def credentials(url: str) -> tuple[str, str] | None:
    """User and password of a URL, if it has them."""
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    name, _, password = user.partition(":")
    return (unquote(name), unquote(password)) if at else None


def public_url(url: str) -> str:
    """A URL as records and messages have it: without user and password, query and fragment."""
    head, separator, rest = url.partition("://")
    place = re.split(r"[?#]", rest, maxsplit=1)[0] if separator else url
    host, slash, path = place.partition("/")
    return f"{head}{separator}{host.rpartition('@')[2]}{slash}{path}" if separator else url


def map_options(options: Mapping[str, Any], change: Callable[[str, str], str]) -> dict[str, Any]:
    """Fields of a request with each text changed that may be a secret and is given directly; `change` gets its place and itself."""
    return {key: _map_option(value, change, key, key in _OPTIONS) for key, value in options.items()}


def is_private_argument(text: str) -> bool:
    """Whether a command's argument may be a secret: it is neither a flag nor by reference."""
    return not _FLAG.fullmatch(text) and not is_by_reference(text)


def hide_arguments(argv: Sequence[str]) -> tuple[str, ...]:
    """A command line as records have it: private settings and what URLs carry are masked, references stay."""
    return tuple(_hide_argument(argument) for argument in argv)


_PRIVATE_KEY = re.compile(r"(?:^|\.)(?:notify|extra_body|api_key|setup)(?:\.|$)")
_PRIVATE_WORD = re.compile(r"\b(?:notify|extra_body|api_key|setup)\b['\"]?\s*:")
_LOGIN = re.compile(r"(://)([^\s'\"]*)@")
_QUERY = re.compile(r"(://[^\s?#'\"]*)[?#]([^\s'\"]*)")
_QUERY_BY_REFERENCE = re.compile(r"[\w-]+=\0(?:&[\w-]+=\0)*")


def _hide_argument(argument: str) -> str:
    key, separator, value = argument.removeprefix("--set=").removeprefix("--with=").partition("=")
    if separator and (_PRIVATE_KEY.search(key) or _PRIVATE_WORD.search(value)):
        return f"{argument.removesuffix(value)}{value if is_by_reference(value) else MASK}"
    return _QUERY.sub(_hide_query, _LOGIN.sub(_hide_login, argument))


def _hide_login(found: re.Match[str]) -> str:
    return found[0] if is_login_by_reference(found[2]) else f"{found[1]}{MASK}@"


def _hide_query(found: re.Match[str]) -> str:
    return found[0] if _QUERY_BY_REFERENCE.fullmatch(filled(found[2], "\0")) else f"{found[1]}?{MASK}"


def _looked_up(text: str) -> str:
    return _REFERENCE.sub(lambda found: os.environ.get(references(found[0])[0].variable, ""), text)


def _map_option(value: Any, change: Callable[[str, str], str], place: str, public: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _map_option(part, change, f"{place}.{key}", public and not _SECRET_NAME.search(str(key)))
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [_map_option(part, change, f"{place}.{at}", public) for at, part in enumerate(value)]
    return change(place, value) if isinstance(value, str) and value and not public and not is_by_reference(value) else value


def _is_elsewhere(value: Any) -> bool:
    return isinstance(value, str) and any(not one.given for one in references(value))


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


def _change(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _change(part, change) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_change(part, change) for part in value]
    return value
