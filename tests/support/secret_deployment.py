"""The reproduction as a deployment names it, with scripted training: what a worker loads."""

from flows.reproduce import reproduce as reproduce
from tests.support.secret_run import install

install()
